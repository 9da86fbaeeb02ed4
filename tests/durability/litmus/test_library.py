"""The shipped litmus library: the model agrees with it, each rule is rested on, and none can go without its notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

import pytest

from rpsim.models.durability.places import Domain
from rpsim.models.durability.rules import (
    EXECUTION,
    FENCE_WAITS_FOR,
    RULES,
    ExecutionRule,
    Order,
    Placement,
    RequestKind,
    Rule,
    Scope,
    Switches,
    Target,
)
from rpsim.validation.litmus.language.format import LIBRARY, read_tests
from rpsim.validation.litmus.language.program import OutcomeFinding, Test
from rpsim.validation.litmus.machine.explorer import explore
from rpsim.validation.litmus.machine.plan import Table

TESTS = read_tests([LIBRARY])
RESTED_ON = {name for test in TESTS for name in test.rules}
UNSEEN = {(RequestKind.FLUSH, RequestKind.FLUSH)}
"""Completions come in order, and whatever the table lets wait for one FLUSH waits for an earlier one as well."""


def resting_on(name: str) -> list[Test]:
    """The tests that rest on a rule."""
    return [test for test in TESTS if name in test.rules]


def noticed(table: Table, tests: Iterable[Test] = TESTS) -> bool:
    """Whether a case comes out otherwise than stated, under another table."""
    return any(not answer.agrees for test in tests for answer in explore(test, table=table))


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.id)
def test_the_model_agrees(test):
    for answer in explore(test):
        assert answer.agrees and not answer.vacuous, (answer.case.profile.name, answer.case.outcome.text)
        assert bool(answer.schedule) == (answer.found is OutcomeFinding.ALLOWED)
        assert answer.case.source, "each verdict has a source"


def test_every_rule_pair_switch_domain_and_placement_is_rested_on():
    assert {rule.name for rule in RULES} <= RESTED_ON
    assert {f"execution {first}/{second}" for first, second in EXECUTION} <= RESTED_ON
    assert {f"switch {field.name}" for field in fields(Switches)} <= RESTED_ON
    assert {f"nic {placement}" for placement in Placement} <= RESTED_ON
    of_memory = set(Domain) - {Domain.NONE, Domain.FLASH, Domain.PLP}  # drives: test_storage.py
    assert {f"domain {domain}" for domain in of_memory} | {"domain pmr"} <= RESTED_ON
    assert {"fence", "line word", "line whole", "store buffer", "nothing forces it"} <= RESTED_ON
    assert all(test.rules for test in TESTS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_without_a_rule_a_verdict_changes(rule):
    assert noticed(Table(rules=[other for other in RULES if other is not rule]), resting_on(rule.name))


@pytest.mark.long
@pytest.mark.parametrize("pair", EXECUTION, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_with_a_field_of_the_execution_table_turned_around_a_verdict_changes(pair):
    turned = Order.NONE if EXECUTION[pair].order is Order.ALWAYS else Order.ALWAYS
    table = Table(execution={**EXECUTION, pair: ExecutionRule(turned, "turned around")})
    assert noticed(table, resting_on(f"execution {pair[0]}/{pair[1]}")) == (pair not in UNSEEN)
    assert pair not in UNSEEN or not noticed(table)


@pytest.mark.parametrize("kind", [RequestKind.READ, RequestKind.ATOMIC, RequestKind.ATOMIC_WRITE, RequestKind.FLUSH])
def test_with_a_fence_that_waits_for_more_or_less_a_verdict_changes(kind):
    assert noticed(Table(fence_waits_for=FENCE_WAITS_FOR ^ {kind}), resting_on("fence"))


@pytest.mark.parametrize("name", [field.name for field in fields(Switches)])
def test_a_switch_turned_around_changes_a_verdict_that_is_stated_both_ways(name):
    mine = resting_on(f"switch {name}")
    both = {(case.expected, getattr(case.profile.switches, name)) for test in mine for case in test.cases}
    assert len({verdict for verdict, _ in both}) == 2 and len({setting for _, setting in both}) == 2
    turned = []
    for test in mine:
        for case in test.cases:
            switches = replace(case.profile.switches, **{name: not getattr(case.profile.switches, name)})
            other = replace(test, cases=(replace(case, profile=replace(case.profile, switches=switches)),))
            turned += [answer for answer in explore(other) if not answer.agrees]
    assert turned


def variants(rule: Rule) -> Iterator[Rule]:
    """The rule reaching further than it does, or less far: one limit, kind of update or switch changed."""
    for name in ("only_ddio", "not_placement"):
        if getattr(rule, name) is not None:
            yield replace(rule, **{name: None})
    if rule.only_target is Target.MEMORY:  # beside a PMR there is no other persistent memory in these tests
        yield replace(rule, only_target=None)
    if rule.needs_pmrwbm:
        yield replace(rule, needs_pmrwbm=0)
    if not rule.shows:
        yield replace(rule, shows=True)
    for switch in rule.switches:
        yield replace(rule, switches=tuple(other for other in rule.switches if other != switch))
    if rule.scope in (Scope.QP_EARLIER, Scope.FLUSH_TARGET) and not rule.name.endswith("-sends"):
        for kind in (RequestKind.WRITE, RequestKind.SEND, RequestKind.ATOMIC, RequestKind.ATOMIC_WRITE):
            yield replace(rule, covers=rule.covers ^ {kind})


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_that_reaches_further_or_less_far_changes_a_verdict(rule):
    for other in variants(rule):
        table = Table(rules=[other if one is rule else one for one in RULES])
        assert noticed(table, [*resting_on(rule.name), *TESTS]), other
