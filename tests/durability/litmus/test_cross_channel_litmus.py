"""WAIT, ENABLE, work requests in memory and a dead machine's packets: each holds, and its absence is noticed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.nic.crosschannel import CrossChannel
from rpsim.models.nic.ends import SendEnd
from rpsim.models.nic.message import Message
from rpsim.models.verbs.cross_channel import CrossChannelWR
from rpsim.models.verbs.work import SendWR
from rpsim.sim.errors import InputError
from rpsim.validation.litmus.language.format import LIBRARY, read_file
from rpsim.validation.litmus.language.operations import NoOperation, parse_operation, parse_relayed
from rpsim.validation.litmus.language.program import CROSS_CHANNEL, CrashMoment, LitmusProfile, OutcomeFinding, Test
from rpsim.validation.litmus.machine.explorer import explore
from rpsim.validation.litmus.machine.plan import Table
from rpsim.validation.litmus.simulator.simulate import clashes, play, sights
from rpsim.validation.litmus.simulator.witness import SCHEDULES, search

from .litmus_programs import a_test
from .test_reduction import lost

TESTS = {test.id: test for test in read_file(LIBRARY / "cross-channel.yaml")}


@pytest.mark.parametrize("ignored", CROSS_CHANNEL)
def test_a_machine_that_ignores_one_of_them_shows_what_is_forbidden(ignored):
    table = Table(cross_channel=frozenset(CROSS_CHANNEL) - {ignored})
    noticed = set()
    for test in TESTS.values():
        for answer in explore(test, table=table):
            if answer.case.expected is OutcomeFinding.FORBIDDEN and answer.found is OutcomeFinding.ALLOWED:
                noticed.add(test.id)
    assert noticed == {test.id for test in TESTS.values() if ignored in test.rules}


def test_an_enable_that_is_ignored_is_told_as_a_schedule():
    test = TESTS["managed-request-enabled"]
    (answer, *_) = explore(test, table=Table(cross_channel=frozenset(CROSS_CHANNEL) - {"ENABLE"}))
    assert answer.found is OutcomeFinding.ALLOWED
    assert answer.schedule.index("B's adapter: W p flag 1") < answer.schedule.index("B's adapter: enable m p")


def test_the_schedule_of_a_death_says_when_and_what_is_lost():
    _, answer, last, _ = explore(TESTS["two-packets-of-a-dead-machine"])
    assert last.schedule[0] == "A is to lose power behind its list; what never arrives: W q1 x 1"
    assert answer.schedule[0] == "A is to lose power before W q2 c.y 1"
    assert answer.schedule[-1] == "the end: mem.c.y=0, mem.x=1"


ADR = LitmusProfile("P", "adr", True)
LOOSE = ("W q1 x {}", "W q1 s {}", "W q2 y {}", "SEND q1", "SEND q2", "R q2 x r{}", "W q2 z @l", "st l {}", "poll q1")
RELAYED = ("wait m q1", "wait n q2", "enable m p", "enable n p", "W m y 100", "W n z 101", "W p x 102 in s",
           "W p y 103 in t", "W n z @x")  # fmt: skip
OF_B = ("ld x b{}", "ld y b{}", "ld z b{}", "st x 20{}", "fence")


def made(a: list[str], relay: list[str], b: list[str], crash: CrashMoment) -> Test:
    """A test of these programs: without what has nothing that it could be about."""
    a = [text.format(i + 1) for i, text in enumerate(a)]
    posted = {text.split()[1] for text in a if text.startswith(("W", "SEND", "R"))}
    sent = {text.split()[1] for text in a if text.startswith("SEND")}
    a = [text for text in a if not text.startswith("poll") or text.split()[1] in posted]
    relay = list(dict.fromkeys(text for text in relay if not text.startswith("wait") or text.split()[2] in sent))
    if not any(text.startswith("W p") for text in relay):
        relay = [text for text in relay if not text.startswith("enable")]
    elif not any(text.startswith("enable") for text in relay):
        relay.append("enable m p")
    test = a_test(a or ["W q1 x 1"], [text.format(i) for i, text in enumerate(b)], ADR)
    test = replace(test, relay=tuple(parse_relayed(text) for text in relay))
    return replace(test, cases=(replace(test.cases[0], crash=crash),))


def lists(texts: tuple[str, ...], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(texts), max_size=most)


@given(lists(LOOSE, 3), lists(RELAYED, 3), lists(OF_B, 2), st.sampled_from(CrashMoment))
def test_the_reductions_lose_nothing(a, relay, b, crash):
    test = made(a, relay, b, crash)
    names = ["x", "y"] if crash in (CrashMoment.ANY, CrashMoment.END_A) else []
    known = {name for one in (*test.a, *test.relay, *test.b) for name in (*one.names, one.element, one.source)}
    assert not lost(test, ADR, crash, [name for name in names if name in known])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wiat m q", "found 'wiat'"),
        ("wait m", "no queue pair in 'wait m'"),
        ("wait m q 0", "0 for count"),
        ("W m x", "no value"),
        ("W m x 1 at s", "'at' for the word 'in'"),
        ("W m x @y in s", "'in s' too much"),
        ("enable m p 1 1", "'1' too much"),
    ],
)
def test_an_operation_that_is_none_is_refused(text, message):
    with pytest.raises(NoOperation) as found:
        parse_relayed(text)
    assert message in f"found {found.value.args[0]}"


GOOD = {
    "A": ["W q1 s 2", "SEND q1"],
    "relay": ["W p x 1 in s", "wait m q1", "enable m p"],
    "B": ["ld x r"],
    "crash": "none",
    "outcome": "mem.x==1",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"relay": ["wait m q2"]}, "relay[0]: found 'q2', expected one that A sends messages on (q1)"),
        ({"relay": ["W q1 x 1"]}, "found the queue pair 'q1' of A, expected one of B's own"),
        ({"relay": ["W p x 1", "enable p p"]}, "found 'p', expected another one of B's with requests (none)"),
        ({"relay": ["W p x 1 in s"]}, "found 'p' in 'W p x 1 in s', expected a queue pair that an ENABLE is for"),
        ({"relay": ["W p x 1 in c.s", "enable m p"]}, "expected a variable of B"),
        ({"relay": ["W p x 1 in s", "W p y 1 in s", "enable m p"]}, "expected a variable of its own for each request"),
        ({"A": ["W q1 s+x 2", "SEND q1"]}, "'W q1 s+x 2' at the work request s, expected a WRITE of one value"),
        ({"B": ["ld s r"]}, "'ld s r' at the work request s, expected a WRITE of one value"),
        ({"B": ["ld c.x r"]}, "found c.x of C, expected a variable of B"),
        ({"B": ["recv q1"]}, "found the completions of 'q1', expected one that no WAIT counts"),
        ({"A": ["W q1 s 2", "SEND q1", "W q1 c.x 1"]}, "found the queue pair 'q1', expected one that leads to one"),
        ({"A": ["W q1 x+c.x 2", "SEND q1"]}, "expected variables of one memory"),
        ({"A": ["W q1 s 2", "SEND q1", "P q2 read-after-write y 1"]}, "expected no primitive beside it"),
        ({"crash": "A", "outcome": "pm.x==1"}, "found pm.x, expected mem.x: B does not crash"),
        ({"A": ["R q1 x a", "SEND q1"], "crash": "A", "outcome": "a==1"}, "found 'a', expected a register"),
        ({"A": ["W q1 c.y 1", "SEND q2"], "relay": [], "crash": "any", "outcome": "pm.c.y==1"}, "a variable of B"),
    ],
)
def test_what_is_wrong_between_machines_is_told(change, message, tmp_path):
    good = GOOD | change
    case = {"p": "optane-adr", "verdict": "allowed", "source": "s"} | {key: good[key] for key in ("crash", "outcome")}
    test = {"id": "t", "cases": [case]} | {key: good[key] for key in ("A", "relay", "B")}
    path = tmp_path / "t.yaml"
    path.write_text(json.dumps({"tests": [test]}), encoding="utf-8")
    if not message:
        assert read_file(path)
        return
    with pytest.raises(InputError) as found:
        read_file(path)
    assert message in str(found.value)


@pytest.mark.parametrize("name", TESTS)
def test_the_simulator_shows_what_is_allowed_and_never_what_is_forbidden(name):
    test = TESTS[name]
    assert not clashes(test, range(4 * len(SCHEDULES)), schedules=SCHEDULES)
    assert all(found.witness for found in search(test))


def nothing_is_held(_self: CrossChannel, _message: Message) -> bool:
    return False


def every_wait_is_over(_self: CrossChannel, _end: SendEnd, _work: CrossChannelWR) -> bool:
    return True


def as_posted(data: bytes, posted: SendWR) -> SendWR:
    return posted


@pytest.mark.parametrize(
    ("broken", "by", "name"),
    [
        ("models.nic.crosschannel.CrossChannel.holds", nothing_is_held, "forwarded-data"),
        ("models.nic.crosschannel.CrossChannel._has_come", every_wait_is_over, "write-behind-a-wait"),
        ("models.nic.crosschannel.CrossChannel._has_come", every_wait_is_over, "forwarded-from-a-dead-machine"),
        ("models.nic.crosschannel.decode", as_posted, "work-request-filled-in"),
    ],
)
def test_an_adapter_that_is_wrong_shows_what_is_forbidden(monkeypatch, broken, by, name):
    monkeypatch.setattr(f"rpsim.{broken}", by)
    assert clashes(TESTS[name], range(len(SCHEDULES)), schedules=SCHEDULES)


def test_a_queue_pair_that_loses_its_first_packet_alone_shows_it():
    """What a dead machine has on its way arrives in order, or the checker says no."""
    test = TESTS["packets-of-a-dead-machine-in-order"]
    swapped = replace(test, a=(test.a[2], test.a[3], test.a[0], test.a[1]))
    shown = {
        case.outcome.text
        for seed in range(60)
        for run in [play(swapped, test.cases[0].profile, seed, dies=True)]
        for sight in sights(run, CrashMoment.A, [])
        for case in test.cases
        if case.expected is OutcomeFinding.FORBIDDEN and case.outcome.holds(sight.values)
    }
    assert len(shown) == 2


@pytest.mark.long
@given(lists(LOOSE, 3), lists(RELAYED, 3), lists(OF_B, 2), st.sampled_from(CrashMoment), st.integers(0, 1000))
def test_random_programs_in_the_simulator(a, relay, b, crash, seed):
    found = clashes(made(a, relay, b, crash), range(seed, seed + 2), schedules=SCHEDULES)
    assert not found, str(found[0])


def test_an_operation_of_a_is_none_of_the_adapter():
    assert parse_operation("wait reply", True).verb == "wait"
    with pytest.raises(NoOperation):
        parse_operation("wait m q1", True)
