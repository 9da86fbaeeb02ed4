"""``rpsim matrix schemes`` as a user calls it: vectors, counterexamples that replay, seeds side by side."""

from types import SimpleNamespace

import pytest

from rpsim.app.commands.matrix.schemes import unshown
from rpsim.app.main import main
from rpsim.app.terminal.work import Job
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.crash import explore
from rpsim.validation.crash.shrink import shrink

from ...answers import result_of

CELL = ["--platforms", "optane-adr", "--quick", "--jobs", "1"]


def document(capsys, status, *arguments):
    assert main(["matrix", "schemes", *arguments, *CELL, "--json"]) == status
    return result_of(capsys.readouterr().out)


@pytest.mark.long
def test_a_counterexample_of_the_first_seed_is_small_and_replays(capsys, tmp_path, monkeypatch):
    shrunk = []
    monkeypatch.setattr(explore, "shrink", lambda *args, **more: shrunk.append(args[1].seed) or shrink(*args, **more))
    faults = ["--faults", "server[0] power in recovery", "--seeds", "2", "--out", str(tmp_path)]
    assert main(["matrix", "schemes", "client-active", *CELL[:2], *CELL[3:], *faults, "--json"]) == 0
    found = result_of(capsys.readouterr().out)
    row, _ = found["rows"]
    assert (row["subject"], row["platform"]) == ("client-active", "optane-adr, ddio on")
    assert row["fault"] == "server[0] power in recovery" and row["claimed"] == {} and row["exhaustive"]
    assert set(row["found"]) == {"committed", "monotonic", "no_lost_ack", "durable"}
    assert found["seeds"] == [1, 2] and found["same_on_every_seed"] and row["by_seed"] == {}
    assert set(shrunk) == {1}
    for condition in ("committed", "no_lost_ack", "durable"):
        example = row["counterexample"][condition]
        assert row["found"][condition] == "violated" and example["operations"] <= 2
        assert main(["replay", f"{found['results']}/{example['case']}"]) == 0
        assert example["explanation"].split(", but ")[0] in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_a_quick_look_shows_counterexamples_of_refuted_claims_alone(capsys, tmp_path):
    (row,) = document(capsys, 0, "client-active", "--out", str(tmp_path))["rows"]
    assert row["found"]["committed"] == "violated" and row["counterexample"] is None
    (row,) = document(capsys, 1, "hotpot-public", "--faults", "all power", "--out", str(tmp_path))["rows"]
    assert set(row["counterexample"]) == set(row["refuted"]) and row["refuted"]


@pytest.mark.long
def test_a_structure_is_explored_with_a_small_log_and_named_as_it_was_asked_for(capsys, tmp_path):
    rows = document(capsys, 0, "stack on rnvm-r,saw", "--faults", "no fault", "--out", str(tmp_path))["rows"]
    assert [(row["subject"], row["explored"]) for row in rows] == [
        ("stack on rnvm-r", "stack on rnvm-r[log=2048 B]"), ("saw", "saw"),
    ]  # fmt: skip


def test_a_later_seed_shows_what_the_first_does_not():
    def outcome(*violated):
        verdicts = dict.fromkeys(violated, Verdict.VIOLATED) | {Condition.MONOTONIC: Verdict.HOLDS}
        return SimpleNamespace(crash=SimpleNamespace(verdicts=verdicts))

    def job(seed, examples):
        return Job("", (), seed, 0, True, examples=examples)

    committed, lost = Condition.COMMITTED, Condition.NO_LOST_ACK
    jobs = [job(1, None), job(2, ()), job(3, ()), job(1, (lost,)), job(2, ()), job(3, ())]
    outcomes = [
        outcome(committed),
        outcome(committed, lost),
        outcome(lost),
        outcome(),
        outcome(committed),
        outcome(lost),
    ]
    late = unshown(jobs, outcomes, 3)
    assert {number: one.examples for number, one in late.items()} == {1: (lost,), 5: (lost,)}


@pytest.mark.long
def test_no_fault_at_all_is_judged_too_and_claimed(capsys, tmp_path):
    (row,) = document(capsys, 0, "forca", "--faults", "no fault", "--out", str(tmp_path))["rows"]
    assert row["claimed"] == {"committed": "holds", "linearizable": "holds"} == row["found"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["saw", "--seed", "1,x"], "'1,x', expected a whole number, at least 0"),
        (["saw", "--seeds", "0"], "'0', expected a whole number, at least 1"),
        (["saw", "--faults", "server[0] powr"], "rpsim: --faults: found 'powr', expected"),
        (["saw", "--faults", "server[0] powr"], "did you mean 'power'"),
        (["hotpot", "--faults", "node[3] lost"], "--faults: found 'node[3] lost', expected an index below 3"),
        (["saw", "--faults", "nofault"], "or 'no fault'"),
        (["saw", "--sizes", "8 X"], "rpsim: --sizes: found '8 X'"),
        (["saw", "--platforms", "optane-adr, ddio zz"], "rpsim: --platforms: found 'zz', expected a position of ddio"),
        (["saw", "--writers", "shard"], "did you mean 'shared'"),
        (["saw", "--platforms", "optane-adrr, ddio on"], "found 'optane-adrr, ddio on', expected a platform"),
        (["saw", "--platforms", "optane-adr, ddio"], "--platforms: found 'ddio', expected a platform"),
        (["saw", "--platforms", "optane-adr, ddio of"], "'of', expected a position of ddio: on, off"),
        (["bst on rnvm-rcb", "--writers", "shared"], "one: an object of bst on rnvm-rcb has one writer"),
    ],
)
def test_wrong_seeds_and_faults_are_told(arguments, words, capsys, tmp_path):
    assert main(["matrix", "schemes", *CELL, *arguments, "--out", str(tmp_path)]) == 2
    assert words in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())


def test_a_platform_as_its_row_has_it_is_explored_alone(capsys, tmp_path):
    asked = ["forca", "--faults", "no fault", "--platforms", "optane-eadr, ddio off;optane-adr", "--quick", "--json"]
    main(["matrix", "schemes", *asked, "--jobs", "1", "--out", str(tmp_path)])
    rows = result_of(capsys.readouterr().out)["rows"]
    assert [row["platform"] for row in rows] == ["optane-adr, ddio on", "optane-eadr, ddio off"]


@pytest.mark.long
def test_sizes_and_writers_have_a_row_each(capsys, tmp_path):
    """Durable calls on one object by two connections lose an acknowledged one; the claim is of one connection."""
    asked = ["wflush-rpc", "--faults", "no fault", "--sizes", "4 KiB", "--writers", "one,shared"]
    rows = document(capsys, 0, *asked, "--out", str(tmp_path))["rows"]
    assert [(row["value"], row["writers"]) for row in rows] == [("4 KiB", "one"), ("4 KiB", "shared")]
    assert [row["found"]["linearizable"] for row in rows] == ["holds", "violated"]
