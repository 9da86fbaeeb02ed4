"""What `rpsim litmus` says: its answers, its JSON, and what is wrong with a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rpsim.app.main import main
from rpsim.app.terminal.litmus import document, text
from rpsim.sim.errors import InputError
from rpsim.validation.litmus.language.format import LIBRARY, read_file, read_tests
from rpsim.validation.litmus.language.operations import FORMS_OF_A, FORMS_OF_B, FORMS_OF_RELAY
from rpsim.validation.litmus.language.profiles import KEYS, SWITCHES
from rpsim.validation.litmus.language.program import OutcomeFinding
from rpsim.validation.litmus.machine.explorer import explore
from rpsim.validation.litmus.shipped import FAMILIES, names

from ..answers import result_of
from .pages import ROOT
from .test_docs_outcomes import printed

EXAMPLE = "docs/examples/commit-flag.yaml"
GOOD = {
    "profiles": {"P": {"domain": "adr", "ddio": "off"}},
    "tests": [
        {
            "id": "t",
            "A": ["W q1 x 1", "R q1 x r", "poll q1"],
            "B": ["ld x b"],
            "cases": [{"p": "P", "crash": "end_A", "outcome": "pm.x==0", "verdict": "forbidden", "source": "s"}],
        }
    ],
}


def test_the_example_prints_what_the_page_shows(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", EXAMPLE]) == 1
    out = capsys.readouterr().out
    assert out == printed("commit-flag.txt", out)


def test_the_example_of_primitives_prints_what_the_page_shows(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", "docs/examples/primitive-commit.yaml"]) == 1
    out = capsys.readouterr().out
    assert out == printed("primitive-commit.txt", out)


def test_the_example_of_work_requests_prints_what_the_page_shows(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", "docs/examples/filled-in.yaml"]) == 1
    out = capsys.readouterr().out
    assert out == printed("filled-in.txt", out)


def test_the_witnesses_print_what_the_page_shows(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", EXAMPLE, "--witness"]) == 1
    out = capsys.readouterr().out
    out = out[out.index("\n\n", out.index("not as expected")) + 2 :]
    assert out == printed("witness.txt", out)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.long
def test_many_witnesses_are_counted_and_reasons_told(capsys):
    assert main(["litmus", "atomics", "placement", "--witness"]) == 0
    out = capsys.readouterr().out
    assert "file" in out and "with a witness" in out and max(map(len, out.splitlines())) <= 80
    assert "outcomes without a witness: a TLP becomes visible at once in the simulator" in " ".join(out.split())


@pytest.mark.long
def test_witnesses_as_json(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", EXAMPLE, "--witness", "--json"]) == 1
    answer = result_of(capsys.readouterr().out)
    assert [one["witnessed"] for one in answer["witnesses"]] == [True, True]
    first = answer["witnesses"][0]
    assert first["id"] == "flush-then-write" and first["timeline"][-1]["time_ps"] == first["instant_ps"]


def test_without_reduction_the_answers_are_the_same(capsys):
    assert main(["litmus", "payload", "--json"]) == 0
    reduced = result_of(capsys.readouterr().out)
    assert main(["litmus", "payload", "--json", "--no-reduction"]) == 0
    full = result_of(capsys.readouterr().out)
    assert [one["found"] for one in reduced["cases"]] == [one["found"] for one in full["cases"]]
    assert sum(one["states"] for one in reduced["cases"]) < sum(one["states"] for one in full["cases"])


def test_names_of_shipped_tests(capsys):
    assert main(["litmus", "tears"]) == 0
    assert "tears (generated)" in capsys.readouterr().out
    assert main(["litmus", "tear"]) == 2
    said = capsys.readouterr().err
    assert "found 'tear', expected a file, a folder, or a name: atomics, " in said and "did you mean 'tears'?" in said


def test_the_page_counts_the_families():
    page = (ROOT / "docs" / "litmus.md").read_text(encoding="utf-8")
    for name, make in FAMILIES.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.endswith(f"| {len(list(make()))} |"), row


@pytest.mark.long
def test_the_library_agrees_and_fits_a_terminal(capsys):
    assert main(["litmus", *(name for name in names() if name not in FAMILIES), "tears"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1].endswith(": all as expected")
    assert max(map(len, out.splitlines())) <= 80
    assert "order.yaml (shipped)" in out and "/" not in out


@pytest.mark.long
def test_every_answer_fits_a_terminal(tmp_path):
    for test in read_tests([LIBRARY]):
        answers = [
            replace(answer, case=replace(answer.case, expected=OutcomeFinding.UNDECIDED)) for answer in explore(test)
        ]
        assert max(map(len, text([test], answers, 1))) <= 80
    long = {
        **GOOD["tests"][0],
        "id": "t" * 200,
        "cases": [{**GOOD["tests"][0]["cases"][0], "outcome": "pm.x==0" + " or pm.x==2" * 30}],
    }
    (test,) = read_file(written(tmp_path, {**GOOD, "tests": [long]}))
    assert max(map(len, text([test], explore(test), 1))) <= 80


def test_json_has_the_fields_that_scripts_lean_on(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", EXAMPLE, "--json"]) == 1
    answer = result_of(capsys.readouterr().out)
    assert (answer["agree"], answer["disagree"]) == (2, 1)
    first = answer["cases"][0]
    assert {"id", "profile", "outcome", "expected", "found", "states"} <= first.keys()
    assert (first["id"], first["profile"]) == ("flush-then-write", "SERVER")
    assert (first["expected"], first["found"]) == ("forbidden", "allowed")
    assert first["file"] == EXAMPLE and first["line"] == 8 and not first["agrees"]
    assert (
        first["schedule"][0] == "A: W q1 record 1" and first["schedule"][-1] == "B loses power: pm.flag=1, pm.record=0"
    )
    assert answer["cases"][1]["schedule"] is None


def test_an_undecided_case_says_so_and_is_no_agreement(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["litmus", EXAMPLE, "--budget", "2"]) == 1
    out = capsys.readouterr().out
    assert "found undecided" in out and "not among the first 2 states; --budget allows more" in out


def test_what_is_forbidden_against_expectation_names_the_rules(tmp_path):
    wrong = json.loads(json.dumps(GOOD))
    wrong["tests"][0]["cases"][0]["verdict"] = "allowed"
    wrong["tests"][0]["rule"] = "appliance-read"
    (test,) = read_file(written(tmp_path, wrong))
    said = "\n".join(text([test], explore(test), 100))
    assert "expected allowed, found forbidden" in said
    assert "it is in none of all" in said and "the test rests on: appliance-read" in said


def test_a_test_without_an_end_is_reported(tmp_path, capsys):
    stuck = json.loads(json.dumps(GOOD))
    stuck["tests"][0]["B"] = ["spin x 7"]
    stuck["tests"][0]["cases"][0] |= {"crash": "none", "outcome": "r==0"}
    path = written(tmp_path, stuck)
    assert main(["litmus", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "no execution reaches the end of both programs, so it says nothing" in said
    assert "expected forbidden, found forbidden" not in said and said.endswith("1 not as expected")
    (test,) = read_file(path)
    assert document(explore(test))["cases"][0]["vacuous"] is True


def test_folders_and_several_paths(tmp_path, capsys):
    written(tmp_path, GOOD)
    assert main(["litmus", str(tmp_path), str(ROOT / EXAMPLE)]) == 1
    assert "3 tests, 4 cases" in capsys.readouterr().out


# what is wrong with a file -----------------------------------------------------------------------------------


def written(folder: Path, data: object) -> Path:
    path = folder / "t.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def changed(place: str, value: object) -> dict[str, object]:
    """The good file with one thing in it replaced (``GONE``: taken out)."""
    data = json.loads(json.dumps(GOOD))
    *way, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    at = data
    for part in way:
        at = at[part]
    if value == "GONE":
        del at[last]
    else:
        at[last] = value
    return data


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("tests.0.A.0", "X q1 x 1", "tests[0].A[0]: found 'X', expected an operation of A: W, WIMM, R"),
        ("tests.0.A.0", "pol q1", "did you mean 'poll'?"),
        ("tests.0.A.0", "W q1 x", "found no value in 'W q1 x', expected 'W q x v [F] [I]'"),
        ("tests.0.A.0", "W q1 x y", "found 'y' for value in 'W q1 x y'"),
        ("tests.0.A.0", "W q1 x 1 2", "found '2' too much in 'W q1 x 1 2'"),
        ("tests.0.A.0", "W q1 x+x 1", "found 'x+x' for variable"),
        ("tests.0.A.0", "R q1 x+y r0", "found 1 registers for 2 variables"),
        ("tests.0.A.0", "AW q1 x+y 1", "found an ATOMIC WRITE of 2 words, expected one aligned word of 8 bytes"),
        ("tests.0.A.0", "W q1 x 99999999999", "'99999999999' for value"),
        ("tests.0.A.0", "FLUSH q1 x durable", "found 'durable' for guarantee"),
        ("tests.0.A.0", "P q1 read-after-wirte x 1", "did you mean 'read-after-write'?"),
        ("tests.0.A.0", "P q1 rflush-write x", "acts when its update arrives, without a value"),
        ("tests.0.A.0", "wait", "found no word 'reply' in 'wait', expected 'wait reply'"),
        ("tests.0.A.0", "P q1", "found no primitive in 'P q1', expected 'P q primitive x [v]'"),
        ("primitives", [], "primitives: found an empty list, expected a map from names to files or primitives"),
        ("primitives", {"m": 3}, "primitives.m: found 3, expected a file, a primitive, or a map"),
        ("primitives", {"m": "absent.yaml"}, "absent.yaml: found no such file"),
        ("primitives", {"m": {"use": "gflush", "adapter": "perhaps"}}, "perhaps"),
        ("tests.0.A.2", "poll q2", "found the queue pair 'q2', expected one that A posts on (q1)"),
        ("tests.0.A.2", "", "found no operation"),
        ("tests.0.B.0", "W q1 x 1", "expected an operation of B: recv, ld, st"),
        ("tests.0.B.0", "ld x r", "found register r again, expected each set once ('R q1 x r')"),
        ("tests.0.B", "ld x r", "tests[0].B: found 'ld x r', expected a list of at most 16 operations"),
        ("tests.0.A", "GONE", "tests[0]: found no A, expected a test with id, A, cases"),
        ("tests.0.grain", 16, "tests[0].grain: found 16, expected one of 4, 8, 64, tlp"),
        ("tests.0.rule", "apliance-read", "did you mean 'appliance-read'?"),
        ("tests.0.casse", [], "found the unknown key 'casse', expected one of id, about, rule"),
        ("tests.0.cases", [], "tests[0].cases: found an empty list, expected a list of cases"),
        ("tests.0.cases.0.p", "Q", "t.yaml:14: tests[0].cases[0].p: found 'Q', expected a profile: P, "),
        ("tests.0.cases.0.p", "optane-ard", "did you mean 'optane-adr'?"),
        ("tests.0.cases.0.p", "optane-adr, dido off", "expected a setting of optane-adr"),
        ("tests.0.cases.0.p", "optane-adr, ddio maybe", "found 'maybe' for the setting ddio"),
        ("tests.0.cases.0.crash", "end_B", "expected one of none, end_A, any, A; did you mean 'end_A'?"),
        ("tests.0.cases.0.verdict", "forbiden", "expected allowed or forbidden; did you mean 'forbidden'?"),
        ("tests.0.cases.0.verdict", "GONE", "tests[0].cases[0]: found no verdict"),
        ("tests.0.cases.0.outcome", "pm.x=0", "found 'pm.x=0', which cannot be read"),
        ("tests.0.cases.0.outcome", "pm.z==0", "found 'pm.z', expected a variable of B (x)"),
        ("tests.0.cases.0.outcome", "mem.x==0", "found mem.x, expected pm.x, the medium after the crash"),
        ("tests.0.cases.0.outcome", "q==0", "found 'q', expected a register of the programs (r, b)"),
        ("tests.0.cases.0.crash", "none", "found pm.x, expected mem.x: nothing crashes"),
        ("profiles.P.domain", "adrr", "profiles.P.domain: found 'adrr', expected one of media, adr, eadr, wsp, pmr"),
        ("profiles.P.ddio", "maybe", "profiles.P.ddio: found 'maybe', expected on or off"),
        ("profiles.P.flush_order_writes", True, "did you mean 'flush_orders_writes'?"),
        ("profiles.P.nic", "ordered", "expected one of strict, ro, ooo"),
        ("profiles.P.pmrwbm", 1, "found pmrwbm on a domain that is no PMR, expected domain: pmr"),
        ("profiles.P.platform", "optane", "did you mean 'optane-adr'?"),
        ("profiles.P", 3, "profiles.P: found 3, expected a map with"),
        ("profiles", [], "profiles: found an empty list, expected a map from names to settings"),
        ("tests", {}, "tests: found an empty map, expected a list of tests"),
        ("test", [], "found the unknown key 'test', expected one of about, profiles, primitives, tests"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_its_line(place, value, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, changed(place, value))
    assert main(["litmus", "t.yaml"]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == ""


def test_each_id_once(tmp_path):
    with pytest.raises(InputError, match="found 't' a second time, expected each id once"):
        read_file(written(tmp_path, {**GOOD, "tests": GOOD["tests"] * 2}))


def test_all_mistakes_of_all_files_are_told(tmp_path, capsys):
    written(tmp_path, changed("tests.0.A.0", "X"))
    assert main(["litmus", str(tmp_path / "t.yaml"), str(tmp_path / "absent.yaml")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 2 and "no such file" in said


def test_a_folder_without_tests(tmp_path, capsys):
    assert main(["litmus", str(tmp_path)]) == 2
    assert "found a directory without .yaml files" in capsys.readouterr().err


PIECES = st.sampled_from(["W", "R", "q1", "x", "x+y", "1", "r", "F", "@s", "poll", "dram.x", "+", "0x", "FLUSH", "*"])


@pytest.mark.long
@given(st.lists(st.lists(PIECES, max_size=5).map(" ".join), max_size=4), st.text(max_size=12))
def test_whatever_a_file_holds_the_answer_is_tests_or_a_mistake(tmp_path_factory, operations, outcome):
    data = json.loads(json.dumps(GOOD))
    data["tests"][0] |= {"A": operations}
    data["tests"][0]["cases"][0]["outcome"] = outcome
    path = written(tmp_path_factory.mktemp("any"), data)
    try:
        read_file(path)
    except InputError as error:
        assert all(mistake.found and mistake.expected for mistake in error.mistakes)


def test_the_page_explains_every_operation_and_key():
    page = (ROOT / "docs" / "litmus.md").read_text(encoding="utf-8")
    for form in (*FORMS_OF_A.values(), *FORMS_OF_B.values(), *FORMS_OF_RELAY.values()):
        bare = form.replace(" [F]", "").replace(" [I]", "").replace("x|* global|persist", "x global")
        bare = bare.replace("|", "\\|")  # in a table
        assert f"`{bare}`" in page, form
    assert all(f"`{key}`" in page for key in KEYS if key not in SWITCHES)
