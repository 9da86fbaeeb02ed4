"""``rpsim matrix schemes`` as a user calls it: vectors, counterexamples that replay, seeds side by side."""

import pytest

from rpsim.app.main import main

from ...answers import result_of

CELL = ["--platforms", "optane-adr", "--quick", "--jobs", "1"]


def document(capsys, status, *arguments):
    assert main(["matrix", "schemes", *arguments, *CELL, "--json"]) == status
    return result_of(capsys.readouterr().out)


@pytest.mark.long
def test_a_counterexample_of_each_seed_is_small_and_replays(capsys, tmp_path):
    faults = ["--faults", "server[0] power in recovery", "--seeds", "2", "--out", str(tmp_path)]
    found = document(capsys, 0, "client-active", *faults)
    (row,) = found["rows"]
    assert (row["subject"], row["platform"]) == ("client-active", "optane-adr, ddio on")
    assert row["fault"] == "server[0] power in recovery" and row["claimed"] == {} and row["exhaustive"]
    assert set(row["found"]) == {"committed", "monotonic", "no_lost_ack", "durable"}
    assert found["seeds"] == [1, 2] and found["same_on_every_seed"] and row["by_seed"] == {}
    for condition in ("committed", "no_lost_ack", "durable"):
        example = row["counterexample"][condition]
        assert row["found"][condition] == "violated" and example["operations"] <= 2
        assert main(["replay", f"{found['results']}/{example['case']}"]) == 0
        assert example["explanation"].split(", but ")[0] in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_no_fault_at_all_is_judged_too_and_claimed(capsys, tmp_path):
    (row,) = document(capsys, 0, "forca", "--faults", "no fault", "--out", str(tmp_path))["rows"]
    assert row["claimed"] == {"committed": "holds", "linearizable": "holds"} == row["found"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["saw", "--seed", "1,x"], "'1,x', expected a whole number, at least 0"),
        (["saw", "--seeds", "0"], "'0', expected a whole number, at least 1"),
        (["saw", "--faults", "server[0] powr"], "did you mean 'power'"),
        (["saw", "--faults", "nofault"], "or 'no fault'"),
        (["saw", "--sizes", "8 X"], "'8 X'"),
        (["saw", "--writers", "shard"], "did you mean 'shared'"),
        (["bst on rnvm-rcb", "--writers", "shared"], "one: an object of bst on rnvm-rcb has one writer"),
    ],
)
def test_wrong_seeds_and_faults_are_told(arguments, words, capsys, tmp_path):
    assert main(["matrix", "schemes", *arguments, *CELL, "--out", str(tmp_path)]) == 2
    assert words in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())


@pytest.mark.long
def test_sizes_and_writers_have_a_row_each(capsys, tmp_path):
    """Durable calls on one object by two connections lose an acknowledged one; the claim is of one connection."""
    asked = ["wflush-rpc", "--faults", "no fault", "--sizes", "4 KiB", "--writers", "one,shared"]
    rows = document(capsys, 0, *asked, "--out", str(tmp_path))["rows"]
    assert [(row["value"], row["writers"]) for row in rows] == [("4 KiB", "one"), ("4 KiB", "shared")]
    assert [row["found"]["linearizable"] for row in rows] == ["holds", "violated"]
