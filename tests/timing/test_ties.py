"""Who comes first of those who come at one instant, whoever called first; and hot code against its plain form."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.nic.nic import Nic
from rpsim.models.nic.requester import Requester
from rpsim.models.nic.responder import Responder
from rpsim.models.nic.wire import ShortWire
from rpsim.models.pcie.link import PcieLink
from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode, Span, Status, ties
from rpsim.models.verbs.ties import tie
from rpsim.sim.clock import HOLD, Clock
from rpsim.sim.stations import Pipe

from ..rig import Rig, line

PLATFORM = load_platform("optane-adr")


def test_at_one_instant_hardware_comes_by_key_then_timers_then_threads_by_core():
    clock, seen = Clock(), []

    def thread(name):
        yield HOLD
        seen.append(name)

    threads = {agent: clock.start(thread(f"core {agent}")) for agent in (2, 0, 1)}
    clock.run_until()
    for agent in (2, 0, 1):
        clock.resume(10, agent, threads[agent])
    clock.call_at(10, seen.append, "timer")
    for key in (3 << 88, 1 << 88, 2 << 88):
        clock.hardware(10, key, seen.append, key >> 88)
    clock.run_until()
    assert seen == [1, 2, 3, "timer", "core 0", "core 1", "core 2"]


def test_code_goes_on_in_the_turn_that_was_taken_for_it():
    clock, seen = Clock(), []

    def code(name):
        seen.append(name)
        yield HOLD

    clock.start(code("before"))
    turn = clock.turn()
    for name in ("after", "later"):
        clock.start(code(name))
    clock.hardware(0, 1 << 88, seen.append, "hardware")
    clock.start_in(turn, code("in its turn"))
    clock.run_until()
    assert seen == ["before", "in its turn", "after", "later", "hardware"]


def test_a_run_that_ends_at_an_instant_leaves_that_instant_alone():
    clock, seen = Clock(), []
    clock.hardware(10, 1 << 88, seen.append, "hardware")
    clock.call_at(9, seen.append, "before")
    clock.run_until(10)
    assert seen == ["before"] and clock.now_ps == 10
    clock.run_until()
    assert seen == ["before", "hardware"]


def test_no_two_fields_of_a_key_have_a_bit_in_common():
    bits = [bit for shift, width in ties.FIELDS.values() for bit in range(shift, shift + width)]
    assert sorted(bits) == list(range(len(bits)))


FIELD_VALUES = st.fixed_dictionaries(
    {name: st.integers(0, (1 << width) - 1) for name, (_, width) in ties.FIELDS.items()}
)


@given(FIELD_VALUES, FIELD_VALUES)
def test_keys_are_ordered_by_their_fields_from_the_highest(one, other):
    names = list(reversed(ties.FIELDS))
    assert (tie(**one) < tie(**other)) == ([one[name] for name in names] < [other[name] for name in names])


@pytest.mark.parametrize("name", ties.FIELDS)
def test_a_value_that_reaches_into_the_next_field_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} .* of an event's key"):
        tie(**{name: 1 << ties.FIELDS[name].width})


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_of_calls_is_no_rule(order):
    """Two machines, two queue pairs each, all post at one instant: the lower machine and queue pair is served first."""
    rig = Rig(clients=2, connections=2)
    for client in order:
        rig.clients[client].post_write(at=1_000, data=line(client + 1), line=client)
    rig.run()
    accepted = [rig.story(at)[0][1] for at in range(4)]
    # At the switch's output the machines' first requests meet; then the second ones, which their engines delay.
    assert sorted(range(4), key=accepted.__getitem__) == [0, 2, 1, 3]
    assert len(set(accepted)) == 4


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 60_000), st.integers(1, 512)), max_size=30), st.integers(1, 10**12))
def test_a_posted_write_is_a_message_on_the_pipe(writes, rate):
    parameters = PLATFORM.pcie.__class__(
        **{name: getattr(PLATFORM.pcie, name) for name in PLATFORM.pcie.__slots__} | {"tlp_bits_per_s": rate}
    )
    link, pipe, now_ps = PcieLink(parameters), Pipe(rate), 0
    for wait_ps, n_bytes in writes:
        now_ps += wait_ps
        assert link.write(now_ps, n_bytes) == pipe.send(now_ps, parameters.tlp_header_write_bytes + n_bytes)


POSTS = st.lists(st.tuples(st.integers(0, 400_000), st.sampled_from([8, 64, 200, 600]), st.integers(0, 9)), max_size=12)


@settings(max_examples=20, deadline=None)
@given(st.lists(POSTS, min_size=1, max_size=4), st.sampled_from([256 * 1024, 700]), st.booleans())
def test_the_plain_way_is_the_general_way(programs, staging, ddio):
    """WRITEs of any size, READs and SENDs, with spans on half of the posts: completions, hops, trace and counters."""

    def run():
        rig = Rig(
            clients=2,
            connections=2,
            ddio="on" if ddio else "off",
            nic={"staging_bytes": staging},
            pcie={"tlp_bits_per_s": 9 * 10**9},
        )
        spans = []
        for client, program in zip(rig.clients, programs, strict=False):
            for turn, (at, size, number) in enumerate(program):
                spans.append(post(rig, client, turn, at, size, number))
        rig.run()
        chunks = [(c.address, c.data, c.writer, c.reached_ps, c.forced_ps) for c in rig.trace.chunks]
        counters = [client.node.nic.counters() for client in rig.clients]
        return rig.completions, [span.marks for span in spans], chunks, counters

    def post(rig, client, turn, at, size, number):
        span = Span(f"post {turn}")
        if number < 5:
            work = client.work(Opcode.IBV_WR_RDMA_WRITE, bytes([number + 1]) * size, line=number)
        elif number < 8:
            work = client.work(Opcode.IBV_WR_RDMA_READ, length=size, line=number - 5)
        else:
            rig.server.post_recv(client, 600)
            work = client.work(Opcode.IBV_WR_SEND, bytes([number]) * size)

        def code():
            yield rig.clock.until(at)
            client.thread.span = span if turn % 2 else None
            yield from client.thread.post_send(client.qp, work)

        rig.clock.start(code())
        return span

    plain = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nic, "takes_plain_way", False)
        assert run() == plain


def test_requests_take_the_plain_way(monkeypatch):
    """Else the comparison above compares the general code with itself."""
    rig = Rig()
    for turn in range(4):
        rig.client.write(line(turn), line=turn)
    rig.client.read(length=200)
    for one in (rig.client.peer.end.receive.routes, rig.client.peer.end.receive.read_routes):
        assert one, "no later request may take the plain way"
    rig.server.post_recv(rig.client, 600)
    rig.client.post_write(data=line(9), line=9)
    rig.client.post(rig.client.work(Opcode.IBV_WR_SEND, b"sent"))
    rig.client.post(rig.client.work(Opcode.IBV_WR_RDMA_READ, length=600, line=2))
    for part, general in (
        (ShortWire, ("request", "acknowledgement", "response")),
        (Responder, ("take_in_now", "serve_now", "stage")),
        (Requester, ("place", "done", "doorbell", "pump")),
    ):
        for name in general:
            monkeypatch.setattr(part, name, None)
    rig.run()
    rig.client.post_write(rig.clock.now_ps, line(8) * 20, line=10)  # its payload has to be fetched
    rig.run()
    assert rig.memory(9) == line(9) and rig.memory(29) == line(8)
    assert len(rig.completions) == 9 and {done.status for done in rig.completions} == {Status.IBV_WC_SUCCESS}


def test_a_step_is_a_turn_of_the_loop():
    def run(step):
        rig = Rig()
        for at in range(5):
            rig.client.post_write(at=at, data=line(at), line=at)
        if step:
            while rig.clock.peek() != float("inf"):
                rig.clock.step()
        rig.run()
        return rig.completions

    assert run(step=True) == run(step=False) != []
