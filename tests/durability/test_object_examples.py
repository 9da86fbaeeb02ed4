"""The examples of objects that are no registers: a counter, a queue and a bank, each with the twins that it refutes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rpsim.protocols.scheme import Request, Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.testing.checks import crash_report, scenario_of

DOCS = Path(__file__).parents[2] / "docs" / "examples"


def operation(process, f, object="k0", **more):
    return {"process": process, "f": f, "object": object, **more}


@pytest.fixture
def example():
    """Loads an example as if its file lay in ``protocols/``."""
    loaded = []

    def load(name):
        known = set(Scheme.registry)
        spec = importlib.util.spec_from_file_location(f"rpsim.protocols.{name}", DOCS / f"{name}.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded.append((spec.name, set(Scheme.registry) - known))
        return module

    yield load
    for name, schemes in loaded:
        del sys.modules[name]
        for scheme in schemes:
            del Scheme.registry[scheme]


def listed(operations, keys=1, value="8 B"):
    return {"kind": "schedule", "keys": keys, "value": value, "operations": operations}


ADDS = [
    operation(0, "fetch_add", argument=1), operation(1, "fetch_add", argument=1), operation(0, "read"),
    operation(1, "read"), operation(0, "fetch_add", argument=1),
]  # fmt: skip
LOOKS = [operation(0, "fetch_add", argument=1), operation(1, "read", at="0.8 us")]
ITEMS = [
    operation(0, "enqueue"), operation(1, "enqueue"), operation(0, "dequeue"), operation(1, "enqueue"),
    operation(1, "dequeue"),
]  # fmt: skip
MOVE = [["r", "k0"], ["r", "k1"], ["w", "k0"], ["w", "k1"]]
MOVES = [
    {"process": 0, "f": "txn", "steps": MOVE}, {"process": 1, "f": "txn", "steps": MOVE},
    {"process": 0, "f": "txn", "steps": [["r", "k0"], ["r", "k1"]]},
    {"process": 1, "f": "txn", "steps": [["w", "k2"], ["w", "k3"]]},
]  # fmt: skip
AT = {"ddio": "on"}


@pytest.mark.parametrize("operations", [ADDS, LOOKS])
@pytest.mark.parametrize("fault", ["server[0] power", "server[0] power in recovery", "all power"])
def test_the_flushed_counter_keeps_what_it_counts(example, fault, operations):
    report = crash_report(example("counter").FlushedCounter, workload=listed(operations), fault=fault, **AT)
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"}


@pytest.mark.parametrize(
    ("twin", "operations", "story"),
    [
        ("HastyCounter", ADDS, "read k0 -> 0 (after recovery)"),
        ("LookingCounter", LOOKS, "read k0 -> 0 (after recovery)"),
    ],
)
def test_a_counter_that_does_not_flush_is_caught(example, twin, operations, story):
    report = crash_report(getattr(example("counter"), twin), workload=listed(operations), **AT)
    (durable,) = [one for one in report.counterexamples if one.condition == "durable"]
    assert story in durable.explanation and any(row.mark == "LOST" for row in durable.timeline)


@pytest.mark.parametrize(("at", "seen", "verdict"), [
    ("0.4 us", 0, "holds"), ("0.8 us", 1, "violated"), ("1.2 us", 1, "violated"), ("1.6 us", 1, "violated"),
    ("2.0 us", 1, "violated"), ("2.4 us", 1, "holds"),
])  # fmt: skip
def test_a_reader_that_flushes_nothing_is_wrong_just_where_it_sees_what_is_not_flushed(example, at, seen, verdict):
    """It reads before the addition is there, or when its adder has flushed it already: nothing is taken back then."""
    kind, adds = example("counter").LookingCounter, operation(0, "fetch_add", argument=1)
    workload = listed([adds, operation(1, "read", at=at)])
    made = scenario_of(kind, workload=workload, **AT)
    (variant,) = made.variants()
    added, read = run_variant(made, variant).history.operations
    assert read.result == seen
    assert (verdict == "violated") == (seen == 1 and read.return_ps < added.return_ps)
    assert crash_report(kind, workload=workload, **AT).verdicts["durable"] == verdict


@pytest.mark.parametrize("fault", ["server[0] power", "server[0] power in recovery", "all power", "server[0] process"])
def test_the_persistent_queue_keeps_its_items(example, fault):
    workload = listed(ITEMS, value="64 B")
    report = crash_report(example("persistent_queue").PersistentQueue, workload=workload, fault=fault, **AT)
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("twin", "condition", "story"),
    [
        ("CountsFirst", "committed", "but nobody had put torn (never written: zeros) there"),
        ("Forgetful", "durable", "had taken: it was put in once"),
    ],
)
def test_a_queue_in_the_wrong_order_is_caught(example, twin, condition, story):
    report = crash_report(getattr(example("persistent_queue"), twin), workload=listed(ITEMS, value="64 B"), **AT)
    (found,) = [one for one in report.counterexamples if one.condition == condition]
    assert story in found.explanation and found.timeline


@pytest.mark.long
@pytest.mark.parametrize("fault", ["office[0] power", "all power", "all power in recovery"])
def test_the_bank_does_a_transfer_whole_or_not_at_all(example, fault):
    report = crash_report(example("transfers").Bank, workload=listed(MOVES, keys=4), fault=fault, **AT)
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"} and report.states > 30


@pytest.mark.parametrize("twin", ["Hasty", "Late"])
def test_a_bank_that_forgets_what_it_had_begun_is_caught(example, twin):
    workload = listed(MOVES, keys=4)
    report = crash_report(getattr(example("transfers"), twin), workload=workload, fault="all power", **AT)
    (half,) = [one for one in report.counterexamples if one.condition == "durable"]
    assert half.operations == 1 and half.object == ("k0", "k1")
    assert half.timeline[-1].text in ("recovery: k0, k1 -> v0, v1", "recovery: k0, k1 -> v1, v0")


def mixed(shares, operations=8, keys=2, value="8 B", **more):
    """Operations that are drawn by their shares."""
    return {"kind": "mix", "keys": keys, "value": value, "operations": operations, "shares": shares, **more}


ITEMS_DRAWN = mixed({"enqueue": 0.6, "dequeue": 0.4}, value="64 B")
ADDS_DRAWN = mixed({"fetch_add": 0.7, "read": 0.3}, amount=3)
MOVES_DRAWN = mixed({"txn": 1.0}, keys=3, operations=5, steps=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "kind", "fault", "workload"),
    [
        ("persistent_queue", "PersistentQueue", "server[0] power", ITEMS_DRAWN),
        ("persistent_queue", "PersistentQueue", "server[0] process", ITEMS_DRAWN),
        ("persistent_queue", "PersistentQueue", "client[0] process", ITEMS_DRAWN),
        ("counter", "FlushedCounter", "server[0] power", ADDS_DRAWN),
        ("transfers", "Bank", "all power", MOVES_DRAWN),
        ("transfers", "Bank", "no fault", MOVES_DRAWN),
    ],
)
def test_operations_that_are_drawn_are_judged_as_listed_ones(example, file, kind, fault, workload):
    report = crash_report(getattr(example(file), kind), workload=workload, fault=fault, **AT)
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"}, report.verdicts


@pytest.mark.parametrize(
    ("file", "kind", "fault", "workload"),
    [
        ("persistent_queue", "Forgetful", "server[0] power", ITEMS_DRAWN),
        ("counter", "HastyCounter", "server[0] power", ADDS_DRAWN),
        ("transfers", "Hasty", "all power", MOVES_DRAWN),
    ],
)
def test_twins_are_caught_by_operations_that_are_drawn(example, file, kind, fault, workload):
    report = crash_report(getattr(example(file), kind), workload=workload, fault=fault, **AT)
    assert report.verdicts["durable"] == "violated" and report.counterexamples[0].timeline


@pytest.mark.parametrize(
    ("file", "kind", "workload"),
    [
        ("persistent_queue", "PersistentQueue", ITEMS_DRAWN),
        ("counter", "FlushedCounter", ADDS_DRAWN),
        ("transfers", "Bank", MOVES_DRAWN),
    ],
)
def test_a_run_of_drawn_operations_has_the_history_that_check_reads(example, file, kind, workload):
    made = scenario_of(getattr(example(file), kind), workload=workload | {"operations": 30}, **AT)
    (variant,) = made.variants()
    history = run_variant(made, variant).history
    assert len(history.operations) == 30 and {o.f for o in history.operations} == set(workload["shares"])
    assert {o.process for o in history.operations} == {0, 1} and all(o.outcome == "ok" for o in history.operations)
    model = "kv" if history.model == "register" else history.model
    loaded = [f"k{number}" for number in range(workload["keys"])]
    report = check_history(parse_history("\n".join(history.lines(loaded)), "the run"), model)
    assert str(report.verdicts["linearizable"].verdict) == "holds"


SCANS = {
    "kind": "ycsb", "mix": None, "keys": 4, "value": "8 B", "operations": 6, "scans": 0.5, "inserts": 0.2,
    "scan_length": 2,
}  # fmt: skip


@pytest.fixture
def scanning(example):
    """The bank with scans: its accounts are keys that follow each other."""
    bank = example("transfers").Bank
    made = []

    def make(**body):
        made.append(type("Scanning", (bank,), {"scans": True, "inserts": "txn", **body}, name=f"scanning-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        del Scheme.registry[one.name]


def test_a_scan_is_one_transaction_of_reads(scanning):
    made = scenario_of(scanning(), workload=SCANS | {"operations": 40}, **AT)
    (variant,) = made.variants()
    history = run_variant(made, variant).history
    kinds = {tuple(kind for kind, *_ in o.argument) for o in history.operations}
    assert kinds == {("r",), ("r", "r"), ("w",)}
    new = {name for o in history.operations for kind, name, _ in o.argument if name not in ("k0", "k1", "k2", "k3")}
    assert new and all(o.outcome == "ok" for o in history.operations)
    report = check_history(parse_history("\n".join(history.lines(["k0", "k1", "k2", "k3"])), "the run"), "txn")
    assert str(report.verdicts["linearizable"].verdict) == "holds"


@pytest.mark.long
def test_scans_are_judged_whole_after_a_power_failure(scanning):
    report = crash_report(scanning(), workload=SCANS, fault="all power", **AT)
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"}


def test_a_scan_that_mixes_two_instants_is_caught(scanning):
    """Its client asks for one account after the other, and has something else to do in between."""
    whole_scans = scanning()

    class Client(whole_scans.Client):
        def perform(self, session, request):
            if any(step.f == "w" for step in request.steps):
                return (yield from super().perform(session, request))
            found = ()
            for step in request.steps:
                found += yield from super().perform(session, Request((step,)))
                yield from session.thread.work(5_000_000)
            return found

    writes, reads = [["w", "k0"], ["w", "k1"]], [["r", "k0"], ["r", "k1"]]
    work = [{"process": 0, "f": "txn", "steps": writes, "at": f"{turn} us"} for turn in range(0, 24, 2)]
    work += [{"process": 1, "f": "txn", "steps": reads, "at": f"{turn} us"} for turn in range(0, 24, 3)]
    whole, mixed = (
        crash_report(kind, workload=listed(work, keys=2), fault="no fault", **AT)
        for kind in (whole_scans, scanning(Client=Client))
    )
    assert whole.verdicts["linearizable"] == "holds" and mixed.verdicts["linearizable"] == "violated"
