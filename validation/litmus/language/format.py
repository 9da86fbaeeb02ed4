"""Litmus files: YAML read into tests, every mistake with file, line, field, found, expected and the nearest name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from ....models.durability.rules import EXECUTION, RULES, Placement
from ....models.primitives.language import Primitive
from ....protocols.primitives import primitive
from ....sim.errors import InputError, Mistake, nearest
from ....sim.yaml_source import FieldPath, Source, describe, dotted, read_yaml
from .expansion import Expanded, NoWords
from .expression import NoOutcome, OutcomeExpression, parse_outcome
from .operations import NoOperation, parse_operation
from .profiles import DOMAINS, SWITCHES, profile_named, read_primitives, read_profiles
from .program import CrashMoment, LitmusCase, LitmusOperation, LitmusProfile, OutcomeFinding, Test, groups

LIBRARY = FilePath(__file__).parents[1] / "library"
"""The shipped tests."""

TOP = ("about", "profiles", "primitives", "tests")
TEST_KEYS = ("id", "about", "rule", "grain", "A", "B", "cases")
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
    "fence",
    "line word",
    "line whole",
    "store buffer",
    "nothing forces it",
)
"""What a test may say that it rests on: rules and tables of models/durability/rules.py, places, or that there is no
rule.
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
    source = read_yaml(path)
    data = source.mapping("a map with profiles and tests")
    reader = _Reader(source)
    tests = reader.read(data)
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return tests


class _Reader:
    """One file's data, and what is wrong with it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.mistakes: list[Mistake] = []
        self.profiles: dict[str, LitmusProfile] = {}
        self.primitives: dict[str, Primitive] = {}

    def wrong(self, path: FieldPath, found: str, expected: str, close: str | None = None) -> None:
        """Note a mistake."""
        line = self.source.line(path)
        self.mistakes.append(Mistake(found, expected, self.source.file, line, dotted(path) or None, close))

    def _keys(self, path: FieldPath, data: Mapping[str, Any], known: Sequence[str], needed: Sequence[str]) -> None:
        misspelt = set()
        for key in data:
            if key not in known:
                close = nearest(key, known)
                misspelt.add(close)
                self.wrong((*path, key), f"the unknown key '{key}'", f"one of {', '.join(known)}", close)
        for key in needed:
            if key not in data and key not in misspelt:
                self.wrong(path, f"no {key}", f"a {'test' if 'A' in known else 'case'} with {', '.join(needed)}")

    def read(self, data: Mapping[str, Any]) -> list[Test]:
        """Everything."""
        self._keys((), data, TOP, ())
        self.profiles = read_profiles(self.source, data.get("profiles"), self.mistakes)
        self.primitives = read_primitives(self.source, data.get("primitives"), self.mistakes)
        listed = data.get("tests")
        if not isinstance(listed, list) or not listed:
            self.wrong(("tests",), describe(listed), "a list of tests")
            return []
        tests = [self._test(("tests", i), entry) for i, entry in enumerate(listed)]
        seen: dict[str, int] = {}
        for i, test in enumerate(tests):
            if test is not None and seen.setdefault(test.id, i) != i:
                first = self.source.line(("tests", seen[test.id]))
                self.wrong(("tests", i, "id"), f"'{test.id}' a second time", f"each id once (first in line {first})")
        return [test for test in tests if test is not None]

    def _test(self, path: FieldPath, data: Any) -> Test | None:
        if not isinstance(data, dict):
            self.wrong(path, describe(data), f"a map with {', '.join(TEST_KEYS)}")
            return None
        before = len(self.mistakes)
        self._keys(path, data, TEST_KEYS, ("id", "A", "cases"))
        identity = self._text((*path, "id"), data.get("id", ""), "a name")
        grain = str(data.get("grain", "8"))
        if grain not in GRAINS:
            self.wrong((*path, "grain"), describe(data["grain"]), f"one of {', '.join(GRAINS)}")
            grain = "8"
        a = self._program((*path, "A"), data.get("A", []), of_a=True)
        b = self._program((*path, "B"), data.get("B", []), of_a=False)
        so_far = len(self.mistakes)
        found = self._expanded(path, a)
        if len(self.mistakes) > so_far:  # what the outcomes may speak of is not known
            return None
        rules = self._rules((*path, "rule"), data.get("rule"))
        stems = "grain" in data
        test = Test(
            identity,
            tuple(found.a),
            (*found.b, *b),
            (),
            grain,
            rules,
            tuple(found.parts),
            len(found.b),
            stems,
            self.source.file,
            self.source.line(path),
        )
        self._consistent(path, test)
        listed = data.get("cases")
        if not isinstance(listed, list) or not listed:
            if "cases" in data:
                self.wrong((*path, "cases"), describe(listed), "a list of cases")
            return None
        cases = [case for i, entry in enumerate(listed) for case in self._case((*path, "cases", i), entry, test)]
        return replace(test, cases=tuple(cases)) if len(self.mistakes) == before else None

    def _text(self, path: FieldPath, value: Any, expected: str) -> str:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        self.wrong(path, describe(value), expected)
        return ""

    def _program(self, path: FieldPath, data: Any, of_a: bool) -> tuple[LitmusOperation, ...]:
        if not isinstance(data, list) or len(data) > MOST_OPERATIONS:
            self.wrong(path, describe(data), f"a list of at most {MOST_OPERATIONS} operations")
            return ()
        operations = []
        for i, text in enumerate(data):
            try:
                operations.append(parse_operation(self._text((*path, i), text, "an operation"), of_a))
            except NoOperation as error:
                found, expected, close = error.args
                self.wrong((*path, i), found, expected, close)
        return tuple(operations)

    def _expanded(self, path: FieldPath, a: tuple[LitmusOperation, ...]) -> Expanded:
        """A's operations with what primitives stand for, and what B does in them, before its own operations."""
        found = Expanded()
        for i, operation in enumerate(a):
            try:
                known = self.primitives.get(operation.primitive)
                if operation.verb == "P" and known is None:
                    known = primitive(operation.primitive)
                found.add(operation, known)
            except InputError as error:
                for one in error.mistakes:
                    self.wrong((*path, "A", i), one.found, one.expected, one.nearest)
            except NoWords as error:
                self.wrong((*path, "A", i), *error.args)
        return found

    def _rules(self, path: FieldPath, data: Any) -> tuple[str, ...]:
        names = [] if data is None else data if isinstance(data, list) else [data]
        for name in names:
            if name not in RULE_NAMES:
                close = nearest(str(name), RULE_NAMES)
                self.wrong(
                    path, describe(name), "a rule of models/durability/rules.py, a switch, a domain or a place", close
                )
        return tuple(str(name) for name in names)

    def _consistent(self, path: FieldPath, test: Test) -> None:
        """What no single operation can tell."""
        queue_pairs = {operation.qp for operation in test.a if operation.request}
        setters: dict[str, str] = {}
        for who, program in (("A", test.a), ("B", test.b)):
            for i, operation in enumerate(program):
                here = (*path, who, i)
                if operation.qp and operation.qp not in queue_pairs:
                    known = ", ".join(sorted(queue_pairs)) or "none: A posts nothing"
                    self.wrong(here, f"the queue pair '{operation.qp}'", f"one that A posts on ({known})")
                if operation.verb == "AW" and len(operation.names) > 1 and test.grain != "4":
                    self.wrong(here, f"an ATOMIC WRITE of {len(operation.names)} words", "one aligned word of 8 bytes")
                for register in operation.registers:
                    if register in setters:
                        self.wrong(here, f"register {register} again", f"each set once ('{setters[register]}')")
                    setters[register] = operation.text
        most = {"4": 2, "8": 8}.get(test.grain, MOST_OPERATIONS)
        for group in groups(test):
            if len(group) > most:
                where = "aligned word" if test.grain == "4" else "line"
                self.wrong(path, f"{len(group)} variables side by side", f"at most {most}, which fill the {where}")
            if len({name.startswith("dram.") for name in group}) > 1:
                self.wrong(path, f"{' and '.join(group)} side by side", "variables of one memory")

    def _case(self, path: FieldPath, data: Any, test: Test) -> list[LitmusCase]:
        if not isinstance(data, dict):
            self.wrong(path, describe(data), f"a map with {', '.join(CASE_KEYS)}")
            return []
        self._keys(path, data, CASE_KEYS, ("p", "outcome", "verdict"))
        crash = data.get("crash", "none")
        if crash not in list(CrashMoment):
            close = nearest(str(crash), list(CrashMoment))
            self.wrong((*path, "crash"), describe(crash), f"one of {', '.join(CrashMoment)}", close)
            crash = "none"
        verdict = data.get("verdict", "allowed")
        if verdict not in VERDICTS:
            close = nearest(str(verdict), VERDICTS)
            self.wrong((*path, "verdict"), describe(verdict), " or ".join(VERDICTS), close)
            verdict = "allowed"
        outcome = self._outcome((*path, "outcome"), data.get("outcome", "1==1"), test, CrashMoment(crash))
        texts = {key: str(data.get(key) or "") for key in ("source", "basis", "note", "unseen")}
        found = []
        names = data.get("p", [])
        for name in names if isinstance(names, list) else [names]:
            try:
                profile = profile_named(str(name), self.profiles)
            except InputError as error:
                for one in error.mistakes:
                    self.wrong((*path, "p"), one.found, one.expected, one.nearest)
                continue
            if profile.domain != "pmr" and any(operation.verb == "pmrsts" for operation in test.b):
                self.wrong((*path, "p"), f"pmrsts on the domain {profile.domain}", "a profile with domain: pmr")
            if outcome is not None:
                line = self.source.line(path)
                found.append(
                    LitmusCase(profile, CrashMoment(crash), outcome, OutcomeFinding(verdict), line=line, **texts)
                )
        return found

    def _outcome(self, path: FieldPath, text: Any, test: Test, crash: CrashMoment) -> OutcomeExpression | None:
        try:
            outcome = parse_outcome(self._text(path, text, "an outcome"))
        except NoOutcome as error:
            self.wrong(path, *error.args)
            return None
        registers = [register for operation in (*test.a, *test.b) for register in operation.registers]
        variables = sorted({name for operation in (*test.a, *test.b) for name in operation.names})
        for name in outcome.registers:
            if name not in registers:
                known = ", ".join(registers) or "none"
                self.wrong(path, f"'{name}'", f"a register of the programs ({known})", nearest(name, registers))
        for space in ("mem", "pm"):
            names = outcome.of(space)
            if names and (space == "mem") != (crash is CrashMoment.NONE):
                expected = "pm.x, the medium after the crash" if space == "mem" else "mem.x: nothing crashes"
                self.wrong(path, f"{space}.{names[0]}", expected)
            for name in names:
                if name not in variables:
                    close = nearest(name, variables)
                    self.wrong(path, f"'{space}.{name}'", f"a variable of B ({', '.join(variables)})", close)
                elif space == "pm" and name.startswith("dram."):
                    self.wrong(path, f"'{space}.{name}'", "a variable that is not in DRAM")
        return outcome
