"""No option is ignored in silence: alone and in every pair, it is read by the command's code, or refused."""

from __future__ import annotations

import argparse
import importlib
from itertools import combinations
from pathlib import Path

import pytest

from rpsim.app.commands.list import KINDS
from rpsim.app.main import COMMANDS, main, parse
from rpsim.app.options import Option
from rpsim.sim.errors import InputError

from .reads import reads

SUBJECTS = {"list": tuple(KINDS), "reproduce": ("hardware", "efactory", "efactory/9a"), "new": ("primitive",)}
"""Subjects that decide which options mean something; of the other commands any name will do."""

CALLS = [
    (name, subject)
    for name, command in COMMANDS.items()
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
    for name in COMMANDS:
        reads(importlib.import_module(f"rpsim.app.commands.{name}").main, ())


@pytest.mark.long
@pytest.mark.parametrize(("name", "subject"), CALLS, ids=[" ".join(call).strip() for call in CALLS])
def test_every_option_and_pair_of_options_is_read_or_refused(name, subject):
    command = COMMANDS[name]
    doing = importlib.import_module(f"rpsim.app.commands.{name}").main
    options = [JSON, *command.options]
    needed = {option.flag: [other for other in options if other.flag == option.needs] for option in options}
    always = [option for option in options if option.flag == "--platform"]  # without it nothing begins
    for chosen in [[option] for option in options] + [list(pair) for pair in combinations(options, 2)]:
        together = {option.flag: option for one in [*chosen, *always] for option in (one, *needed[one.flag])}.values()
        said = [name, *filter(None, [subject]), *(word for option in together for word in words(option))]
        try:
            parse(said)
        except InputError as error:
            assert {mistake.field for mistake in error.mistakes} & {option.flag for option in options}, said
            continue
        given = {option.attribute for option in together}
        found = reads(doing, given | ({"subject"} if subject else set()), subject or None)
        assert given <= found, f"rpsim {' '.join(said)}: nothing reads {sorted(given - found)}"


def test_an_option_that_goes_with_another_is_refused_alone():
    for name, command in COMMANDS.items():
        known = {option.flag for option in command.options} | {"--json"}
        for option in command.options:
            assert {*option.without, *filter(None, [option.needs])} <= known, f"{name} {option.flag}"
            if option.needs:
                with pytest.raises(InputError, match=f"^{option.flag}: found no {option.needs}"):
                    parse([name, *(["some"] if command.argument else []), *words(option)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "--components", "--oracle"], "--components: found it together with --oracle"),
        (["matrix", "--schemes", "saw", "--sizes", "64 B"], "--sizes: found it together with --schemes"),
        (["matrix", "--schemes", "saw", "--no-report"], "--no-report: found it together with --schemes"),
        (["matrix", "--methods", "--faults", "every"], "--faults: found no --schemes, expected --schemes as well"),
        (["matrix", "--methods", "--quick"], "--quick: found it together with --methods"),
        (["reproduce", "hardware", "--fit", "--sweep"], "--fit: found it together with --sweep"),
        (["reproduce", "efactory", "--fit"], "--fit: found 'efactory', expected hardware: --fit is for nothing else"),
        (["reproduce", "hardwar", "--fit"], "did you mean 'hardware'?"),
        (["list", "primitives", "--pages", "there"], "--pages: found 'primitives', expected schemes"),
        (["list", "schemes", "--schema"], "--schema: found 'schemes', expected primitives"),
        (["measure", "quick", "--platform", "optane-adr", "--force"], "--force: found no --out"),
        (["calibrate", "a.json", "--compare", "--hold-out", "0"], "--compare: found it together with --hold-out"),
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


def test_seed_0_is_seed_0():
    assert parse(["design", "--platform", "adr", "--seed", "0"]).seed == 0
    assert parse(["design", "--platform", "adr"]).seed == 1


def test_pages_are_listed_as_json_too(capsys, monkeypatch, tmp_path):
    from rpsim.app.pages import schemes

    monkeypatch.setattr(schemes, "write", lambda folder, workers: [Path("pages/saw.md")])
    assert main(["list", "schemes", "--pages", "pages", "--json"]) == 0
    assert capsys.readouterr().out == '{\n "pages": [\n  "pages/saw.md"\n ]\n}\n'


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
