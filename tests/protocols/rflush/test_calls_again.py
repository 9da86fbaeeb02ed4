"""Calls that are sent again: over networks that lose packets, and after a failure of the server.

An append shows what a put hides: that a call was executed twice. The paper leaves open what a server does with a call
that comes again (Duan et al., SC'21, section 5.4), so both ways are here, and one convicts the other.
"""

from __future__ import annotations

import pytest

from rpsim.protocols.rflush.paths import flag_of
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.scenarios.run.failing import performed as with_failures
from rpsim.scenarios.run.inject import run_with_fault
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...small import get, only_variant, put, scenario, ycsb

LOSSY = ["herd-rpc", "herd-rpc[reply=datagram]", "fasst"]
PLACE = {"vary": {"platform": ["rflush-testbed"], "ddio": ["off"], "domain": ["adr"]}}
APPENDS = {"kind": "mix", "operations": 60, "shares": {"append": 0.7, "read": 0.3}}


def performed(name, work, loss=0.0, fault="no fault", **more):
    """A scenario, and its run, metered."""
    network = {"network": {"loss": loss}} if loss else {}
    made = scenario(name, work, **{**PLACE, "processes": 2, "crash": {"fault": fault}, **network, **more})
    return made, run_variant(made, only_variant(made), metered=True)


def judged(name, work, **more):
    """The verdicts by their conditions."""
    made, result = performed(name, work, **more)
    report = explore(result, made, only_variant(made))
    assert report.exhaustive
    return {str(condition): str(verdict) for condition, verdict in report.verdicts.items()}


def seen(name, work, **more):
    """The verdicts on what the clients of a run saw."""
    _, result = performed(name, work, **more)
    lines = "\n".join(result.history.lines(result.initial))
    report = check_history(parse_history(lines, "the run"), "append", ["committed", "exactly_once", "linearizable"])
    return {str(condition): str(one.verdict) for condition, one in report.verdicts.items()}


def sent_again(result):
    """How often an operation's call was sent again, on the average."""
    return sum(counts.get("calls sent again", {"mean": 0})["mean"] for counts in result.summary()["counts"].values())


@pytest.mark.parametrize("name", LOSSY)
def test_with_two_percent_of_the_packets_lost_every_call_ends(name):
    """After 100 ms without a reply a call is sent again, which no event is spent on."""
    _, result = performed(name, ycsb(150), loss=0.02, keys=20)
    assert {o.outcome for o in result.history.operations} == {"ok"}
    assert result.system.fabric.weather.lost > 2 and sent_again(result) > 0
    assert result.elapsed_ps > 100 * 10**9


@pytest.mark.parametrize("name", ["herd-rpc", "fasst"])
def test_a_call_that_is_executed_when_it_comes_again_is_executed_twice(name):
    """A fifth of the packets is lost: some replies, too. Told apart by its number, a call is executed once."""
    how = {"loss": 0.2, "keys": 4}
    twice = seen(f"{name}[resend=30 us, repeats=executed, model=append]", APPENDS, **how)
    assert twice["exactly_once"] == twice["linearizable"] == "violated" and twice["committed"] == "holds"
    once = seen(f"{name}[resend=30 us, model=append]", APPENDS, **how)
    assert set(once.values()) == {"holds"}


def test_a_reply_that_comes_late_is_not_that_of_the_next_call():
    """Calls are sent again although nothing is lost: each of them is answered twice."""
    made = scenario("fasst[resend=3 us]", [put(0, "k0"), get(0, "k0"), put(0, "k0"), get(0, "k0")], **PLACE)
    result = run_variant(made, only_variant(made), metered=True)
    assert [o.result for o in result.history.operations if o.f == "get"] == [1, 3] and sent_again(result) > 0


APPENDED = [{"process": 0, "f": "append", "object": "k0"}, {"process": 1, "f": "append", "object": "k0"}]


@pytest.mark.parametrize("name", ["farm", "darpc"])
def test_a_server_that_dies_between_execution_and_reply_executes_a_call_a_second_time(name):
    """Nothing that was acknowledged is lost by that, and without sending again nothing is executed twice."""
    found = judged(f"{name}[resend=100 ms, model=append]", APPENDED, fault="server[0] process")
    assert found["exactly_once"] == "violated" and found["no_lost_ack"] == found["committed"] == "holds"
    never = judged(f"{name}[model=append]", APPENDED, fault="server[0] process")
    assert set(never.values()) == {"holds"}


@pytest.mark.parametrize("name", ["farm[resend=100 ms]", "l5[resend=100 ms]", "rfp[resend=100 ms]", "fasst"])
def test_a_call_is_sent_to_the_next_server_when_its_time_is_over(name):
    fault = {"at": "2 us", "fault": "server[0] process"}
    made = scenario(name, [put(0, "k0"), put(0, "k0"), get(0, "k0")], **PLACE, failures=[fault])
    result = with_failures(made, only_variant(made), metered=True)
    assert [(o.outcome, o.result) for o in result.history.operations] == [("ok", None), ("ok", None), ("ok", 2)]
    first = result.history.operations[0]
    assert 100 * 10**9 < first.return_ps - first.invoke_ps < 101 * 10**9


def test_a_flag_is_never_that_of_the_message_before_and_never_zero():
    """Nor is it zero for any message, as a mailbox is where none has come: calls are counted on across servers."""

    def flag(number, attempt):
        return flag_of(number.to_bytes(4, "little") + attempt.to_bytes(4, "little"))

    assert flag_of(bytes(8)) == b"\0"
    for number in range(1, 600):
        own = {flag(number, attempt) for attempt in range(70)}
        assert b"\0" not in own and not own & {flag(number + 1, attempt) for attempt in range(70)}
        assert all(flag(number, attempt) != flag(number, attempt + 1) for attempt in range(70))


@pytest.mark.long
@pytest.mark.parametrize("calls", [255, 256])
def test_a_client_is_heard_by_the_next_server_whatever_the_number_of_its_call(calls):
    """The flag of call 256 was zero, as the successor's mailbox is."""
    work = [*[put(0, "k0")] * (calls - 1), get(0, "k0", at_ns=2_000_000), put(0, "k0")]
    made = scenario("l5", work, **PLACE, crash={"fault": "server[0] process"})
    struck = run_with_fault(made, only_variant(made), 1_900_000_000)
    assert struck.finished and {o.outcome for o in struck.result.history.operations} == {"ok"}


@pytest.mark.parametrize("name", ["farm", "darpc", "rfp"])
def test_nothing_of_a_broken_connection_lands_behind_the_one_that_replaces_it(name):
    """The client's end breaks, and the server's would go on placing what it has accepted: into the same slot."""
    made = scenario(name, [put(0, "k0"), get(0, "k0", at_ns=20_000), put(0, "k0"), get(0, "k0")], **PLACE)
    of = AssembledVariant(made, only_variant(made))
    clock, (end, *_) = of.system.clock, of.at_work.roles["server"][0].connections
    clock.run_until(clock.until(21_000_000))
    before = {end.requests.other, end.replies.qp}
    for qp in before:
        qp.peer.fail()
    clock.run_until(of.finished)
    assert [(o.outcome, o.result) for o in of.history.operations if o.f == "get"] == [("ok", 1), ("ok", 3)]
    assert all(qp.error for qp in before)


def test_a_time_of_nothing_is_refused():
    with pytest.raises(InputError, match="resend=0 ns"):
        scenario("farm[resend=0 ns]", [put(0, "k0")], **PLACE)
