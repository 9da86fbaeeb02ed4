"""No option is ignored in silence: alone and in every pair, it is read by the command's code, or refused."""

from __future__ import annotations

import argparse
import shlex
from itertools import combinations
from pathlib import Path

import pytest

from rpsim.app.commands import forms
from rpsim.app.grammar import COMMANDS, parse, work_of
from rpsim.app.main import main
from rpsim.app.options import Option
from rpsim.sim.errors import InputError
from rpsim.validation.matrix.configurations import SETS

from ...answers import answer_of
from .reads import reads

FORMS = forms()
SUBJECTS = {"reproduce": ("efactory", "efactory/9a"), "new": ("primitive",)}
"""Subjects that decide which options mean something; of the other commands any name will do."""

CALLS = [
    (name, subject)
    for name, command in FORMS.items()
    for subject in (SUBJECTS.get(name, ("some",)) if command.argument else ("",))
]
JSON = Option("--json", "")


def words(option: Option) -> list[str]:
    """The option as one writes it, with a value where it takes one."""
    value = "1" if option.least is not None else option.like or "some"
    return [option.flag, value] if option.value else [option.flag]


@pytest.fixture(scope="module", autouse=True)
def _modules_are_imported():
    """All that commands import, so that no single test takes the time of it."""
    for name in FORMS:
        reads(work_of(name), ())


@pytest.mark.long
@pytest.mark.parametrize(("name", "subject"), CALLS, ids=[" ".join(call).strip() for call in CALLS])
def test_every_option_and_pair_of_options_is_read_or_refused(name, subject):
    command, doing = FORMS[name], work_of(name)
    options = [JSON, *command.options]
    needed = {option.flag: [other for other in options if other.flag == option.needs] for option in options}
    always = [option for option in options if option.flag in ("--platform", "--all")]  # without it nothing begins
    for chosen in [[option] for option in options] + [list(pair) for pair in combinations(options, 2)]:
        together = {option.flag: option for one in [*chosen, *always] for option in (one, *needed[one.flag])}.values()
        said = [*name.split(), *filter(None, [subject]), *(word for option in together for word in words(option))]
        try:
            parse(said)
        except InputError as error:
            assert {mistake.field for mistake in error.mistakes} & {option.flag for option in options}, said
            continue
        given = {option.attribute for option in together}
        found = reads(doing, given | ({"subject"} if subject else set()), subject or None)
        assert given <= found, f"rpsim {' '.join(said)}: nothing reads {sorted(given - found)}"


def test_an_option_that_goes_with_another_is_refused_alone():
    for name, command in FORMS.items():
        known = {option.flag for option in command.options} | {"--json"}
        for option in command.options:
            assert {*option.without, *filter(None, [option.needs])} <= known, f"{name} {option.flag}"
            if option.needs:
                with pytest.raises(InputError, match=f"^{option.flag}: found no {option.needs}"):
                    parse([*name.split(), *(["some"] if command.argument else []), *words(option)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "efactory", "--without", "every"], "--without: found it with rpsim reproduce, expected"),
        (["list", "primitives", "--pages", "there"], "--pages: found it with rpsim list primitives, expected"),
        (
            ["list", "schemes", "--schema"],
            "expected rpsim list primitives or rpsim list commands: it goes",
        ),
        (["matrix", "methods", "--faults", "every"], "expected rpsim matrix schemes or rpsim matrix groups"),
        (["sweep", "merge", "a", "--crash"], "--crash: found it with rpsim sweep merge, expected rpsim sweep"),
        (["calibrate", "compare", "a", "--hold-out", "0"], "--hold-out: found it with rpsim calibrate compare"),
        (["check", "a", "--seed", "1"], "found '--seed', expected an option of rpsim check"),
        (["matrix", "schemes", "saw", "--seed", "1,2"], "--seed: found '1,2', expected a whole number"),
        (
            ["run", "quickstart", "--seed", str(1 << 64)],
            "--seed: found '18446744073709551616', expected a whole number, at most",
        ),
        (["crash", "quickstart", "--nested", "99"], "--nested: found '99', expected a whole number, at most 9"),
        (["--json", "run", "quickstart"], "found '--json' before the command 'run', expected options behind it: rpsim"),
        (["--seed", "3", "run", "quickstart"], "found '--seed' before the command 'run', expected options behind it"),
        (["crash", "quickstart", "--jobs", "2", "--dask", "tcp://a:1"], "--dask: found it together with --jobs"),
        (["measure", "quick", "--platform", "optane-adr", "--force"], "--force: found no --write"),
        (["calibrate", "a.json", "--bounds", "a=1..2"], "--bounds: found no --fit, expected --fit as well"),
        (["mutate", "no-flush", "--shared"], "--shared: found the primitive 'no-flush', expected a scheme"),
        (["check", "HISTORY", "--condition", "durable", "--loss", "1s"], "--loss: found no bounded_loss among"),
    ],
)
def test_what_means_nothing_is_one_clear_error(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1 and said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_help_names_every_set_of_platforms(capsys):
    with pytest.raises(SystemExit):
        main(["matrix", "--help"])
    shown = capsys.readouterr().out.partition("--platforms")[2].partition("--shapes")[0]
    assert all(name in shown for name in SETS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_fits_a_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


OLD = {
    "matrix --schemes saw,erda --quick": "rpsim matrix schemes saw,erda",
    "matrix --quick --schemes=saw": "rpsim matrix schemes saw",
    "matrix --schemes 'a over b'": "rpsim matrix schemes 'a over b'",
    "matrix --primitives no-flush": "rpsim matrix primitives no-flush",
    "matrix --groups chain": "rpsim matrix groups chain",
    "matrix --methods": "rpsim matrix methods",
    "bench --oracle": "rpsim bench oracle",
    "bench --operations --quick": "rpsim bench operations",
    "bench --components": "rpsim bench components",
    "bench --sweep": "rpsim bench sweep",
    "reproduce hardware --fit": "rpsim calibrate hops",
    "calibrate a.json --platform p --compare": "rpsim calibrate compare",
    "calibrate a.json --platform p --out b.yaml": "--write b.yaml",
    "measure quick --platform p --set ddio=off": "--setting ddio=off",
    "replay case-1.json --trace t.json": "--perfetto t.json",
}
"""Calls of earlier versions, and the answers to them."""


@pytest.mark.parametrize("call", OLD)
def test_an_old_spelling_is_answered_with_the_new_one(call, capsys):
    assert main(shlex.split(call)) == 2
    said = capsys.readouterr()
    flag = next(word.partition("=")[0] for word in call.split() if word.partition("=")[0] in MOVED[call.split()[0]])
    assert said.err == f"rpsim: {flag}: found an old spelling, expected {OLD[call]}\n" and said.out == ""


MOVED = {name: command.moved for name, command in COMMANDS.items()}


def test_every_option_that_was_moved_has_its_answer():
    asked = {(call.split()[0], word.partition("=")[0]) for call in OLD for word in call.split() if "--" in word}
    named = {(name, flag) for name, moved in MOVED.items() for flag in moved}
    assert named - asked == {("calibrate", "--set"), ("measure", "--out")}, "the same as --set and --out of the other"
    for name, moved in MOVED.items():
        for new in moved.values():
            words = new.replace("{}", "some").split()
            assert words[0].startswith("--") or parse([*words[1:], *(["x"] if "compare" in new else [])]), name


def test_an_option_means_one_thing_everywhere():
    """The same flag has the same sort of value in every command; its help may say more."""
    meanings = {}
    for name, command in FORMS.items():
        for option in command.options:
            meaning = option.value, option.least is None, option.several
            assert meanings.setdefault(option.flag, meaning) == meaning, f"rpsim {name} {option.flag}"


def test_a_command_without_a_part_is_its_plain_part():
    assert parse(["matrix"]).form == "matrix primitives"
    assert parse(["bench", "--quick"]).form == "bench speed"
    assert parse(["list"]).form == "list kinds"
    for words in (["matrix", "scheme"], ["bench", "spede"], ["list", "pages"]):
        with pytest.raises(InputError, match=f"^rpsim {words[0]}: found '{words[1]}', expected one of"):
            parse(words)


@pytest.mark.parametrize("form", FORMS)
def test_every_command_and_every_part_has_help(form, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*form.split(), "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: rpsim {form}") and "--json" in said
    assert all(f"{option.flag}" in said for option in FORMS[form].options)


def test_seed_0_is_seed_0():
    assert parse(["design", "--platform", "adr", "--seed", "0"]).seed == 0
    assert parse(["design", "--platform", "adr"]).seed == 1


def test_pages_are_listed_as_json_too(capsys, monkeypatch, tmp_path):
    from rpsim.app.pages import schemes

    monkeypatch.setattr(schemes, "write", lambda folder, workers: [Path("pages/saw.md")])
    assert main(["list", "schemes", "--pages", "pages", "--json"]) == 0
    answer = answer_of(capsys.readouterr().out)
    assert answer["command"] == "list schemes" and answer["result"] == {"pages": ["pages/saw.md"]}


# that the test can fail --------------------------------------------------------------------------------------


def branching(options: argparse.Namespace) -> int:
    if options.oracle:
        return handed(options)
    if options.json and options.subject != "some":
        return options.quick
    return options.out if options.pages is not None else options.jobs


def handed(options: argparse.Namespace) -> int:
    return options.steps


@pytest.mark.parametrize(
    ("given", "subject", "found"),
    [
        ({"oracle"}, "some", {"oracle", "steps"}),
        ({"json"}, "some", {"oracle", "json", "subject", "pages", "jobs"}),
        ({"json"}, "other", {"oracle", "json", "subject", "quick"}),
        ({"pages"}, "some", {"oracle", "json", "pages", "out"}),
    ],
)
def test_an_option_that_a_branch_leaves_out_is_not_read(given, subject, found):
    assert reads(branching, given, subject) == found
