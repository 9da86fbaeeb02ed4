"""Whatever is lost, late or repeated: every request is executed exactly once, in order, its bytes as written."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.fabric.disturbance import Disturbance, PacketFault
from rpsim.models.nic.lossy.psn import TransportEnd
from rpsim.models.nic.lossy.transport import GoBackN
from rpsim.models.verbs import Opcode, RecvWR, Status
from rpsim.sim.trace import NEVER

from ...rig import LINE, Client, Rig
from ...verbs import flushable, post_add, post_atomic_write, post_flush, returned, word

PATHS = [("client[0]", "server[0]"), ("server[0]", "client[0]")]
COUNTER, FLAG, DATA = 0, 1, 64
"""Lines of a connection's own part of the pool."""
PART = 1024
SIZES = [1, 64, 300, 1024, 2500, 5000]
VERBS = ["write", "write", "send", "add", "set", "flush", "read"]


@dataclass(frozen=True)
class Storm:
    """What two connections post, in this order, and what happens to which packet."""

    posts: tuple[tuple[int, str, int], ...]
    """(connection, verb, size)."""
    packets: tuple[PacketFault, ...]
    mtu_bytes: int
    ack_interval: int


@st.composite
def storms(draw: st.DrawFn) -> Storm:
    numbers = st.integers(1, 60)
    paths = st.sampled_from(PATHS)
    posts = st.tuples(st.integers(0, 1), st.sampled_from(VERBS), st.sampled_from(SIZES))
    lost = st.builds(lambda path, number: PacketFault(*path, number, lost=True), paths, numbers)
    late = st.builds(
        lambda path, number, ps: PacketFault(*path, number, delay_ps=ps), paths, numbers, st.integers(1, 200_000_000)
    )
    twice = st.builds(
        lambda path, number, ps: PacketFault(*path, number, repeated_after_ps=ps),
        paths,
        numbers,
        st.integers(0, 50_000_000),
    )
    return Storm(
        tuple(draw(st.lists(posts, min_size=1, max_size=14))),
        tuple(draw(st.lists(st.one_of(lost, lost, lost, late, twice), max_size=25))),
        draw(st.sampled_from([4096, 1024, 256])),
        draw(st.sampled_from([1, 1, 3])),
    )


def some_storm(seed: int) -> Storm:
    """One that hypothesis might have drawn."""
    draw = random.Random(seed)
    faults = [PacketFault(*draw.choice(PATHS), draw.randint(1, 40), lost=True) for _ in range(12)]
    faults += [PacketFault(*draw.choice(PATHS), draw.randint(1, 40), delay_ps=draw.randint(1, 10**8)) for _ in range(5)]
    posts = tuple((draw.randint(0, 1), draw.choice(VERBS), draw.choice(SIZES)) for _ in range(14))
    return Storm(posts, tuple(faults), draw.choice([4096, 1024]), 1)


class Played:
    """A storm's program on a rig, and what must come of it."""

    def __init__(self, storm: Storm) -> None:
        self.rig = Rig(
            connections=2,
            disturbance=Disturbance(packets=storm.packets),
            nic={"mtu_bytes": storm.mtu_bytes},
            transport={"ack_interval": storm.ack_interval},
        )
        self.memory = bytearray(2 * PART * LINE)
        self.placed = 0
        self.region = flushable(self.rig, 2 * PART)
        self.posted: list[list[int]] = [[], []]
        self.added: list[list[tuple[int, object]]] = [[], []]
        self.sent: list[list[bytes]] = [[], []]
        self.buffers: dict[int, int] = {}
        for client in self.rig.clients:
            client.qp.timeout, client.qp.retry_cnt = 3, 1000
            for _ in range(len(storm.posts)):
                self._post_recv(client)
        for turn, (number, verb, size) in enumerate(storm.posts):
            self._post(number, verb, bytes((turn * 37 + at) % 251 for at in range(size)))
        self.rig.run()

    def _post_recv(self, client: Client) -> None:
        number = self.rig.next_number()
        self.buffers[number] = self.rig.server.node.memory["dram"].allocate(max(SIZES), "receive buffer")
        client.peer.post_recv(RecvWR(number, self.buffers[number], max(SIZES)))

    def _put(self, first: int, data: bytes) -> None:
        self.memory[first * LINE : first * LINE + len(data)] = data
        self.placed += len(data)

    def _post(self, number: int, verb: str, data: bytes) -> None:
        client, first = self.rig.clients[number], number * PART
        if verb == "write":
            made = client.post_write(data=data, line=first + DATA)
            self._put(first + DATA, data)
        elif verb == "send":
            made = client.post_send(data=data)
            self.sent[number].append(data)
        elif verb == "add":
            made = post_add(client, 1, line=first + COUNTER)
            self.added[number].append((len(self.added[number]), made))
            self._put(first + COUNTER, word(len(self.added[number])))
        elif verb == "set":
            made = post_atomic_write(client, data[:8].ljust(8, b"\0"), line=first + FLAG)
            self._put(first + FLAG, data[:8].ljust(8, b"\0"))
        elif verb == "flush":
            made = post_flush(client, self.region, line=first, length=PART * LINE)
        else:
            made = client.post_read(length=len(data), line=first + DATA)
            start = (first + DATA) * LINE
            assert client.wait(made).data == self.memory[start : start + len(data)]
        self.posted[number].append(made.wr_id)

    def check(self) -> None:
        """All is as if nothing had happened to any packet."""
        rig = self.rig
        assert {done.status for done in rig.completions} <= {Status.IBV_WC_SUCCESS}
        for number, client in enumerate(rig.clients):
            done = [found.wr_id for found in rig.completions if found.wr_id in client.posted]
            assert done == self.posted[number], "completions in the order of the posts"
            for before, made in self.added[number]:
                assert returned(client, made) == before, "each atomic once, in order"
        assert rig.memory(0, 2 * PART) == bytes(self.memory)
        written = [chunk for chunk in rig.trace.chunks if chunk.device == rig.pm.number]
        assert sum(len(chunk.data) for chunk in written) == self.placed, "no byte is placed twice"
        found: dict[object, list[bytes]] = {client.peer: [] for client in rig.clients}
        memory = rig.server.node.memory["dram"]
        while (completion := rig.server.received.pop()) is not None:
            at = self.buffers[completion.wr_id] - memory.base
            found[completion.qp].append(memory.space.read(NEVER, at, completion.byte_len))
        assert [found[client.peer] for client in rig.clients] == self.sent, "each message once, in order"


@pytest.mark.long
@settings(max_examples=60)
@given(storms())
def test_every_request_is_executed_exactly_once_and_in_order(storm):
    Played(storm).check()


@pytest.mark.slow
@settings(max_examples=3000)
@given(storms())
def test_every_request_is_executed_exactly_once_and_in_order_in_thousands(storm):
    Played(storm).check()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "how", [{"loss": 0.1}, {"delay_ps": 3_000_000}, {"reorder": 0.2, "delay_ps": 9_000_000}, {"repeat": 0.3}]
)
def test_random_loss_and_delay(how, seed):
    rig = Rig(disturbance=Disturbance(**how), seed=seed, nic={"mtu_bytes": 1024})
    rig.client.qp.timeout, rig.client.qp.retry_cnt = 4, 1000
    for turn in range(40):
        rig.client.post_write(data=bytes([turn]) * 3000, line=64 * turn)
    rig.run()
    assert [done.status for done in rig.completions] == [Status.IBV_WC_SUCCESS] * 40
    for turn in range(40):
        assert rig.memory(64 * turn, 46) == bytes([turn]) * 46 * LINE
    counters = rig.client.node.nic.reliability.total()
    assert (counters.retransmitted > 0) == ("loss" in how or "reorder" in how)


# broken transports are caught ------------------------------------------------------------------------------------


def executes_duplicates(patch: pytest.MonkeyPatch) -> None:
    def duplicate(back, end, kept, packet):
        posted = packet[0].opcode in (Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_SEND)
        responder = back._nic.responder
        (responder.take_in_now if posted else responder.serve_now)(packet)

    patch.setattr(GoBackN, "_duplicate", duplicate)


def skips_a_retransmission(patch: pytest.MonkeyPatch) -> None:
    """What a NAK names counts as taken in."""
    acknowledges = GoBackN._acknowledges

    def one_more(back, end, kept, psn, attempt):
        return acknowledges(back, end, kept, psn + 1, attempt)

    patch.setattr(GoBackN, "_acknowledges", one_more)


def takes_in_what_comes_too_early(patch: pytest.MonkeyPatch) -> None:
    expected = GoBackN.expects

    def lenient(back, packet):
        return expected(back, packet) or packet[0].psn > back.kept(packet[0].to).expected

    patch.setattr(GoBackN, "expects", lenient)


def forgets_what_it_answered(patch: pytest.MonkeyPatch) -> None:
    """Atomics are executed again."""
    duplicate = GoBackN._duplicate

    def anew(back, end, kept, packet):
        if packet[0].opcode is Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD:
            back._nic.responder.serve_now(packet)
        else:
            duplicate(back, end, kept, packet)

    patch.setattr(GoBackN, "_duplicate", anew)


def never_goes_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GoBackN, "_go_back", lambda back, end, kept: None)


def counts_nothing(patch: pytest.MonkeyPatch) -> None:
    """Every packet is the one that is expected."""

    def always(back, packet):
        kept: TransportEnd = back.kept(packet[0].to)
        kept.expected = packet[0].psn
        return True

    patch.setattr(GoBackN, "expects", always)


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [
        executes_duplicates,
        skips_a_retransmission,
        takes_in_what_comes_too_early,
        forgets_what_it_answered,
        never_goes_back,
        counts_nothing,
    ],
)
def test_a_broken_transport_is_caught(broken, monkeypatch):
    for seed in range(12):
        Played(some_storm(seed)).check()
    broken(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017  # its own assertions may come first
        for seed in range(12):
            Played(some_storm(seed)).check()
