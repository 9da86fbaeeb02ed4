"""Litmus files: YAML read into tests, every mistake with file, line, field, found, expected and the nearest name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from ....models.durability.rules import EXECUTION, RULES, Placement
from ....models.primitives.language import Primitive
from ....protocols.primitives import primitive
from ....sim.cursor import Cursor
from ....sim.errors import InputError, Mistake, nearest
from ....sim.yaml_source import describe, read_yaml
from .expansion import Expanded, NoWords
from .expression import NoOutcome, OutcomeExpression, parse_outcome
from .machines import consistent_machines
from .operations import NoOperation, parse_operation, parse_relayed
from .profiles import DOMAINS, SWITCHES, profile_named, read_primitives, read_profiles
from .program import (
    CROSS_CHANNEL,
    DRAM,
    THIRD,
    CrashMoment,
    LitmusCase,
    LitmusOperation,
    LitmusProfile,
    OutcomeFinding,
    Test,
    groups,
)

LIBRARY = FilePath(__file__).parents[1] / "library"
"""The shipped tests."""

TOP = ("about", "profiles", "primitives", "tests")
TEST_KEYS = ("id", "about", "rule", "grain", "A", "B", "relay", "cases")
CASE_KEYS = ("p", "crash", "outcome", "verdict", "source", "basis", "conflict", "note", "unseen")
GRAINS = ("4", "8", "64", "tlp")
VERDICTS = (str(OutcomeFinding.ALLOWED), str(OutcomeFinding.FORBIDDEN))
MOST_OPERATIONS = 16

RULE_NAMES = (
    *(rule.name for rule in RULES),
    *(f"execution {first}/{second}" for first, second in EXECUTION),
    *(f"switch {name}" for name in SWITCHES),
    *(f"domain {name}" for name in DOMAINS),
    *(f"nic {placement}" for placement in Placement),
    "data_in_order",
    "fence",
    "line word",
    "line whole",
    "store buffer",
    "nothing forces it",
    *CROSS_CHANNEL,
)
"""The values of a test's ``basis``: rules and tables of models/durability/rules.py, places, or that there is no rule.
"""


def read_tests(paths: Sequence[FilePath]) -> list[Test]:
    """All tests of the files, and of the ``.yaml`` files of the folders; raises InputError with every mistake."""
    tests: list[Test] = []
    mistakes: list[Mistake] = []
    for path in paths:
        try:
            for file in _files(path):
                tests += read_file(file)
        except InputError as error:
            mistakes += error.mistakes
    if mistakes:
        raise InputError(mistakes)
    return tests


def _files(path: FilePath) -> list[FilePath]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.yaml"))
    if not files:
        raise InputError(Mistake("a directory without .yaml files", "litmus tests", str(path)))
    return files


def read_file(path: FilePath) -> list[Test]:
    """The tests of one file."""
    at = Cursor.over(read_yaml(path), "a map with profiles and tests")
    at.keys(TOP)
    tests = _FileReader(read_profiles(at["profiles"]), read_primitives(at["primitives"])).tests(at["tests"])
    at.finish()
    return tests


@dataclass(frozen=True)
class _FileReader:
    """The local names of one file, and what reads its tests."""

    profiles: Mapping[str, LitmusProfile]
    primitives: Mapping[str, Primitive]

    def tests(self, at: Cursor) -> list[Test]:
        """All tests that nothing is wrong with."""
        found: list[Test] = []
        lines: dict[str, int | None] = {}
        for one in at.items("a list of tests", least=1):
            for test in self._test(one):
                found.append(test)
                if test.id in lines:
                    one["id"].wrong(f"each id once (first in line {lines[test.id]})", f"'{test.id}' a second time")
                lines.setdefault(test.id, one.line)
        return found

    def _test(self, at: Cursor) -> list[Test]:
        if not at.is_map(f"a map with {', '.join(TEST_KEYS)}"):
            return []
        at.keys(TEST_KEYS, ("id", "A", "cases"), "a test")
        identity = at.get("id", "").word("a name")
        grain = _grain(at.get("grain", "8"))
        a, b, relay = (_program(at.get(key, []), key) for key in ("A", "B", "relay"))
        expanded = self._expanded(at["A"], a)
        if expanded is None:  # the variables of the outcomes are not known
            return []
        test = Test(
            identity,
            tuple(expanded.a),
            (*expanded.b, *b),
            (),
            grain,
            _rules(at["rule"]),
            tuple(expanded.parts),
            len(expanded.b),
            "grain" in at,
            at.source.file,
            at.line,
            tuple(relay),
        )
        _consistent(at, test)
        consistent_machines(at, test)
        listed = at["cases"].items("a list of cases", least=1) if "cases" in at else []
        cases = [case for one in listed for case in self._case(one, test)]
        return [replace(test, cases=tuple(cases))] if at.sound() else []

    def _expanded(self, at: Cursor, a: Sequence[LitmusOperation]) -> Expanded | None:
        """A's operations with what primitives stand for, and what B does in them, before its own operations."""
        found, whole = Expanded(), True
        for i, operation in enumerate(a):
            try:
                known = self.primitives.get(operation.primitive)
                if operation.verb == "P" and known is None:
                    known = primitive(operation.primitive)
                found.add(operation, known)
            except InputError as error:
                whole = False
                at[i].adopt(error)
            except NoWords as error:
                whole = False
                does, known_words = error.args
                at[i].wrong(known_words, does)
        return found if whole else None

    def _case(self, at: Cursor, test: Test) -> list[LitmusCase]:
        if not at.is_map(f"a map with {', '.join(CASE_KEYS)}"):
            return []
        at.keys(CASE_KEYS, ("p", "outcome", "verdict"), "a case")
        crash = at.get("crash", "none").choice(CrashMoment)
        verdict = at.get("verdict", "allowed").choice(VERDICTS, " or ".join(VERDICTS))
        outcome = _outcome(at.get("outcome", "1==1"), test, crash)
        texts = {key: str(at[key].data or "") for key in ("source", "basis", "note", "unseen")}
        names = at.get("p", []).data
        found = []
        for name in names if isinstance(names, list) else [names]:
            try:
                profile = profile_named(str(name), self.profiles)
            except InputError as error:
                at["p"].adopt(error)
                continue
            if profile.domain != "pmr" and any(operation.verb == "pmrsts" for operation in test.b):
                at["p"].wrong("a profile with domain: pmr", f"pmrsts on the domain {profile.domain}")
            if outcome is not None:
                found.append(LitmusCase(profile, crash, outcome, OutcomeFinding(verdict), line=at.line, **texts))
        return found


def _grain(at: Cursor) -> str:
    return replace(at, data=str(at.data)).choice(GRAINS, found=describe(at.data))


def _program(at: Cursor, key: str) -> list[LitmusOperation]:
    operations = []
    for one in at.items(f"a list of at most {MOST_OPERATIONS} operations", most=MOST_OPERATIONS):
        try:
            text = one.word("an operation")
            operations.append(parse_relayed(text) if key == "relay" else parse_operation(text, key == "A"))
        except NoOperation as error:
            found, expected, close = error.args
            one.wrong(expected, found, close)
    return operations


def _rules(at: Cursor) -> tuple[str, ...]:
    names = [] if at.data is None else at.data if isinstance(at.data, list) else [at.data]
    for name in names:
        replace(at, data=name).choice(RULE_NAMES, "a rule of models/durability/rules.py, a switch, a domain or a place")
    return tuple(str(name) for name in names)


def _consistent(at: Cursor, test: Test) -> None:
    """Report mistakes that only several operations together show."""
    queue_pairs = {operation.qp for operation in test.a if operation.request}
    setters: dict[str, str] = {}
    for who, program in (("A", test.a), ("B", test.b)):
        for i, operation in enumerate(program):
            here = at[who][i]
            if operation.qp and operation.qp not in queue_pairs:
                known = ", ".join(sorted(queue_pairs)) or "none: A posts nothing"
                here.wrong(f"one that A posts on ({known})", f"the queue pair '{operation.qp}'")
            if operation.verb == "AW" and len(operation.names) > 1 and test.grain != "4":
                here.wrong("one aligned word of 8 bytes", f"an ATOMIC WRITE of {len(operation.names)} words")
            for register in operation.registers:
                if register in setters:
                    here.wrong(f"each set once ('{setters[register]}')", f"register {register} again")
                setters[register] = operation.text
    most = {"4": 2, "8": 8}.get(test.grain, MOST_OPERATIONS)
    for group in groups(test):
        if len(group) > most:
            where = "aligned word" if test.grain == "4" else "line"
            at.wrong(f"at most {most}, which fill the {where}", f"{len(group)} variables side by side")
        if len({(name.startswith(DRAM), name.startswith(THIRD)) for name in group}) > 1:
            at.wrong("variables of one memory", f"{' and '.join(group)} side by side")


def _outcome(at: Cursor, test: Test, crash: CrashMoment) -> OutcomeExpression | None:
    try:
        outcome = parse_outcome(at.word("an outcome"))
    except NoOutcome as error:
        found, expected = error.args
        at.wrong(expected, found)
        return None
    programs = test.b if crash is CrashMoment.A else (*test.a, *test.b)
    registers = [register for operation in programs for register in operation.registers]
    variables = sorted(name for group in groups(test) for name in group)
    for name in outcome.registers:
        if name not in registers:
            known = ", ".join(registers) or "none"
            at.wrong(f"a register of the programs ({known})", f"'{name}'", nearest(name, registers))
    for space in ("mem", "pm"):
        names = outcome.of(space)
        runs_on = crash in (CrashMoment.NONE, CrashMoment.A)
        if names and (space == "mem") != runs_on:
            expected = "mem.x: B does not crash" if crash is CrashMoment.A else "mem.x: nothing crashes"
            expected = "pm.x, the medium after the crash" if space == "mem" else expected
            at.wrong(expected, f"{space}.{names[0]}")
        for name in names:
            if name not in variables:
                close = nearest(name, variables)
                at.wrong(f"a variable of B ({', '.join(variables)})", f"'{space}.{name}'", close)
            elif space == "pm" and name.startswith("dram."):
                at.wrong("a variable that is not in DRAM", f"'{space}.{name}'")
            elif space == "pm" and name.startswith(THIRD):
                at.wrong("a variable of B, which is the one that loses power", f"'{space}.{name}'")
    return outcome
