"""``rpsim matrix --schemes`` as a user calls it: vectors, counterexamples that replay, seeds side by side."""

import json

import pytest

from rpsim.app.main import main

CELL = ["matrix", "--platforms", "optane-adr", "--quick", "--jobs", "1"]


def document(capsys, status, *arguments):
    assert main([*CELL, *arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_a_counterexample_of_each_seed_is_small_and_replays(capsys, tmp_path):
    faults = ["--faults", "server[0] power in recovery", "--seed", "1,2", "--out", str(tmp_path)]
    found = document(capsys, 0, "--schemes", "client-active", *faults)
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
    (row,) = document(capsys, 0, "--schemes", "forca", "--faults", "no fault", "--out", str(tmp_path))["rows"]
    assert row["claimed"] == {"committed": "holds", "linearizable": "holds"} == row["found"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--schemes", "saw", "--seed", "1,x"], "'x', expected whole numbers, each once, as in 1 or 1,2,3"),
        (["--schemes", "saw", "--seed", "2,2"], "one of them twice"),
        (["--primitives", "no-flush", "--seed", "1,2"], "one seed; several go with --schemes"),
        (["--schemes", "saw", "--faults", "server[0] powr"], "did you mean 'power'"),
        (["--schemes", "saw", "--faults", "nofault"], "or 'no fault'"),
    ],
)
def test_wrong_seeds_and_faults_are_told(arguments, words, capsys, tmp_path):
    assert main([*CELL, *arguments, "--out", str(tmp_path)]) == 2
    assert words in " ".join(capsys.readouterr().err.split()) and not list(tmp_path.iterdir())
