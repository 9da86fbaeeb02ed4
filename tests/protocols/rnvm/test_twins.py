"""Each twin of rNVM loses something that the mode itself keeps under the same circumstances."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer

from ...small import only_variant, run, scenario
from .chain import Chain
from .test_modes import LATE
from .twins import (
    AnyLap,
    LogNotDurable,
    LpnByItself,
    LpnFirst,
    OverHoles,
    Unfenced,
    UnfencedNaive,
    Unflushed,
    Unverified,
)

COMMITTED, LOST, DURABLE, ONCE = (
    Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE, Condition.EXACTLY_ONCE,
)  # fmt: skip
CHAIN = Chain.name
FLUSHED = "over ibta-flush-persistent"
WORK = [{"process": 0, "f": "insert", "object": f"k{turn % 2}"} for turn in range(3)]

NEW = {"kind": "schedule", "loaded": 1, "operations": [
    {"process": 0, "f": "insert", "object": f"k{turn}"} for turn in (1, 2, 3)
]}  # fmt: skip
"""Each goes before the one that was inserted last."""


def refuted(name, work=WORK, domain="adr", ddio="off", whole_lines=False, **more):
    """What every crash point of a run refutes."""
    vary = {"platform": ["any-server"], "ddio": [ddio], "domain": [domain]}
    vary |= {"line_atomicity": ["whole"]} if whole_lines else {}
    found = Explorer(run(name, work, vary=vary, **({"keys": 2} | more))).walk()
    assert found.exhaustive
    return found.first.keys() & {COMMITTED, LOST, DURABLE, ONCE}


@pytest.mark.long
@pytest.mark.parametrize(
    "twin, more",
    [
        (Unverified, {"value": "64 B"}),
        (Unflushed, {}),
        (LpnFirst, {}),
        (LogNotDurable, {"value": "64 B"}),
        (AnyLap, {"log": True}),
    ],
)
def test_a_twin_of_the_logs_is_caught(twin, more):
    more = dict(more)
    log = "[log=256 B]" if more.pop("log", False) else ""
    over = "" if twin is LogNotDurable else FLUSHED
    own = {"work": WORK * 3} if log else {}
    found = refuted(f"{CHAIN} on {twin.name}{log} {over}".strip(), **own, **more)
    assert found, found
    if over:
        assert refuted(f"{CHAIN} on rnvm-r{log} {over}", **own, **more) == set()
    else:
        assert COMMITTED in found and COMMITTED not in refuted(f"{CHAIN} on rnvm-r", **more)


@pytest.mark.long
def test_operations_that_are_done_are_not_done_again():
    work = [{"process": 0, "f": "enqueue", "object": "k0"} for _ in range(3)]
    vary = {"platform": ["any-server"], "ddio": ["on"], "domain": ["wsp"]}

    def violated(mode):
        made = scenario(
            f"queue on {mode}[batch=2, oplog=awaited]", work, vary=vary, crash={"fault": "client[0] process"}
        )
        report = explore(
            run(made.schemes[0], work, vary=vary, crash={"fault": "client[0] process"}), made, only_variant(made)
        )
        assert report.exhaustive
        return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"}

    assert ONCE in violated(LpnByItself.name) and violated("rnvm-rcb") == set()


@pytest.mark.long
def test_recovery_stops_at_a_hole():
    """Three transactions are in the log of a machine whose threads are away, and the first may not be there."""
    name = f"{CHAIN} on {{}}"
    assert COMMITTED in refuted(name.format(OverHoles.name), NEW, ddio="on", keys=4, outages=LATE[1:], whole_lines=True)
    assert refuted(name.format("rnvm-r"), NEW, ddio="on", keys=4, outages=LATE[1:], whole_lines=True) == {LOST, DURABLE}


@pytest.mark.long
@pytest.mark.parametrize(
    "mode, lost",
    [(Unfenced.name, {LOST}), ("rnvm-r", set()), (UnfencedNaive.name, {LOST}), ("naive", set())],
)
def test_a_front_end_that_takes_over_waits_for_what_the_one_before_had_sent(mode, lost):
    """The adapter has acknowledged a WRITE and holds it up; its front-end dies, and another looks at the log."""
    vary = {"platform": ["any-server"], "ddio": ["on"], "domain": ["wsp"]}
    more = {"vary": vary, "keys": 2, "crash": {"fault": "client[0] process"}}
    more["held"] = [{"machine": "server[0]", "queue_pair": 1, "for": "20 us"}]
    made = scenario(f"{CHAIN} on {mode}", WORK[:1], **more)
    report = explore(run(made.schemes[0], WORK[:1], **more), made, only_variant(made))
    assert report.exhaustive
    found = {condition for condition, verdict in report.verdicts.items() if verdict == "violated"}
    assert found & {LOST, COMMITTED} == lost
