"""The generated litmus tests: tables that know no rules, and rules that know no tables, come to the same verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.rules import RULES, RequestKind
from rpsim.validation.litmus.families import families, promises
from rpsim.validation.litmus.language.program import OutcomeFinding
from rpsim.validation.litmus.machine.explorer import explore
from rpsim.validation.litmus.machine.plan import Table
from rpsim.validation.litmus.shipped import FAMILIES, chosen
from rpsim.validation.litmus.simulator.setting import CannotRun, check
from rpsim.validation.litmus.simulator.simulate import clashes

TESTS = {name: list(make()) for name, make in FAMILIES.items()}


@pytest.mark.long
@pytest.mark.parametrize("family", TESTS)
def test_the_rules_come_to_what_the_tables_say(family):
    for test in TESTS[family]:
        for answer in explore(test):
            assert answer.agrees and not answer.vacuous, (test.id, answer.case.profile.name, answer.case.outcome.text)
            assert answer.case.source


@pytest.mark.long
def test_there_are_hundreds_each_once_and_always_the_same():
    everyone = [test for tests in TESTS.values() for test in tests]
    assert len({test.id for test in everyone}) == len(everyone) > 600
    assert everyone == [test for make in FAMILIES.values() for test in make()]
    programs = {(tuple(o.text for o in test.a), tuple(o.text for o in test.b), test.grain) for test in everyone}
    assert len(programs) > 550
    for tests in TESTS.values():
        assert {case.expected for test in tests for case in test.cases} == {
            OutcomeFinding.ALLOWED,
            OutcomeFinding.FORBIDDEN,
        }
    assert len(chosen([])) > len(everyone)


SPOKEN_OF = {
    "read-pushes-writes": "covers",
    "appliance-read": "covers",
    "receive-publishes": "covers",
    "flush-publishes": "covers",
    "flush-persists": "covers",
    "atomic-publishes": "sequences",
    "atomic-write-releases": "sequences",
    "fence-completes-flushes": "stores",
    "clflush-completes": "stores",
    "fence-drains-wc": "stores",
    "status-read-is-barrier": "devices",
    "doorbell-drains-stores": None,
}
"""Rules that a family alone would miss (and one that none of them speaks of)."""


@pytest.mark.long
@pytest.mark.parametrize("name", SPOKEN_OF)
def test_the_tables_miss_a_rule_that_is_taken_out(name):
    table = Table(rules=[rule for rule in RULES if rule.name != name])
    family = SPOKEN_OF[name]
    tests = TESTS[family] if family else [test for tests in TESTS.values() for test in tests[::10]]
    noticed = any(not answer.agrees for test in tests for answer in explore(test, table=table))
    assert noticed == (family is not None)


@pytest.mark.parametrize("row", promises.PROMISES)
def test_a_promise_turned_around_is_refuted(row, monkeypatch):
    for platform, (durable, source) in promises.PROMISES[row].durable.items():
        told = replace(promises.PROMISES[row], durable={platform: (not durable, source)})
        monkeypatch.setitem(promises.PROMISES, row, told)
        of_row = [test for test in families.covers() if test.id.endswith(f"; {row}")]
        of_row = of_row or [t for t in families.covers() if families.ROW.get(t.id.partition("; ")[2]) == row]
        if not of_row:
            names = [name for name, mine in promises.PRIMITIVES.items() if mine == row]
            of_row = [test for test in FAMILIES["primitives"]() if test.id.split()[1].rstrip(",") in names]
        assert of_row and any(not answer.agrees for test in of_row for answer in explore(test))
        monkeypatch.undo()


@pytest.mark.parametrize("pair", promises.ORDER, ids="-".join)
def test_a_field_of_the_order_table_turned_around_is_refuted(pair, monkeypatch):
    monkeypatch.setitem(promises.ORDER, pair, "-" if promises.ORDER[pair] == "#" else "#")
    tests = [test for test in families.sequences() if [one.verb for one in test.a] == [*pair, "poll"]]
    assert tests and any(not answer.agrees for test in tests for answer in explore(test))


def runs(family: str) -> list:
    """Each test on the profiles that the simulator has."""
    found = []
    for test in TESTS[family]:
        for profile in dict.fromkeys(case.profile for case in test.cases):
            try:
                check(test, profile)
            except CannotRun:
                assert profile.domain == "pmr" and any(o.request is RequestKind.FLUSH for o in test.a)
                continue
            found.append(replace(test, cases=tuple(case for case in test.cases if case.profile == profile)))
    return found


@pytest.mark.long
@pytest.mark.parametrize("family", TESTS)
def test_the_simulator_never_shows_what_is_forbidden(family):
    """One of the profiles and one timing of each test; all of them are in the slow test below."""
    for turn, test in enumerate(runs(family)):
        if turn % 7 == 0:
            found = clashes(test, [turn])
            assert not found, str(found[0])


@pytest.mark.slow
@pytest.mark.parametrize("family", TESTS)
def test_the_simulator_never_shows_what_is_forbidden_in_any_timing(family):
    for test in runs(family):
        found = clashes(test, range(4))
        assert not found, str(found[0])
