"""``rpsim matrix`` and ``rpsim design`` as a user calls them."""

import pytest

from rpsim.app.main import main

from ...answers import result_of

CELL = ["primitives", "read-after-write", "--platforms", "adr, ddio on", "--shapes", "word", "--sizes", "64 B"]


def printed(capsys, *arguments, status):
    assert main([*arguments]) == status
    return capsys.readouterr().out


@pytest.mark.long
def test_a_row_its_case_and_its_page(capsys, tmp_path):
    arguments = ["matrix", *CELL, "--quick", "--json", "--jobs", "1", "--out", str(tmp_path)]
    document = result_of(printed(capsys, *arguments, status=0))
    assert result_of(printed(capsys, *arguments, "--no-report", status=0)) == document
    [row] = document["rows"]
    assert (row["subject"], row["platform"], row["fault"]) == ("read-after-write", "adr, ddio on", "server[0] power")
    assert row["found"] == {"committed": "holds", "no_lost_ack": "violated", "durable": "violated"}
    assert row["claimed"] == {} and row["latency_ns"]["64"]["p50"] > 1000 and row["wire_bytes"]["64"] > 64
    case = f"{document['results']}/{row['counterexample']['case']}"
    assert "may still be in the LLC" in " ".join(printed(capsys, "replay", case, status=0).split())


@pytest.mark.long
def test_the_legend_names_the_size_that_was_timed(capsys, tmp_path):
    said = printed(capsys, "matrix", *CELL[:-1], "65 B", "--quick", "--jobs", "1", "--out", str(tmp_path), status=0)
    assert "for an update of 65 B;" in " ".join(said.split())


@pytest.mark.long
def test_the_page_has_everything_in_it(capsys, tmp_path):
    printed(capsys, "matrix", *CELL, "--quick", "--jobs", "1", "--out", str(tmp_path), status=0)
    [page] = tmp_path.glob("*/matrix.html")
    text = page.read_text()
    assert "{{" not in text and "http" not in text.replace("http-equiv", "") and "hops_ns" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["matrix", "primitives", "read-after-writ"], "read-after-write"),
        (["matrix", "--platforms", "optane-ard"], "optane-adr"),
        (["matrix", "--shapes", "words"], "'word'"),
        (["matrix", "--sizes", "7 B"], "8 B to 1 MiB"),
        (["matrix", "schemes", "sawn"], "saw"),
        (["matrix", "groups", "chain", "--faults", "replica[7] lost"], "--faults: found 'replica[7] lost', expected"),
        (["matrix", "primitives", "no-flush,wflush", "no-flush"], "found 'no-flush' twice, expected each name once"),
        (["design"], "no --platform"),
        (
            ["design", "--platform", "quick"],
            "found 'quick', which is 4 platforms, expected 'adr, ddio on' or 'adr, ddio",
        ),
        (["design", "--platform", "adr, ddio offf"], "adr, ddio off"),
        (
            ["matrix", "primitives", "no-flsh"],
            "primitive: found 'no-flsh', expected a file, or a shipped primitive (rpsim",
        ),
        (["matrix", "--primitives", "x"], "rpsim matrix primitives x"),
    ],
)
def test_wrong_input_is_told_with_the_nearest(arguments, words, capsys, tmp_path):
    out = [] if "--primitives" in arguments else ["--out", str(tmp_path)]
    assert main([*arguments, *out]) == 2
    assert words in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_claim_that_no_shape_asks_about_is_not_met(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["primitives", "read-after-write", "--platforms", "eadr, ddio on", "--shapes", "other-qp", "--quick"]
    assert main(["matrix", *words, "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "no claim was decided; 2 claims left open" in printed
    assert "as claimed" not in printed and "why not" not in printed
    costs = printed.partition("what it costs")[2]
    assert "n/a" not in costs
