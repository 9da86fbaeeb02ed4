"""Does ``Thread.spin`` find what the loop that it stands for would find, at the same instant, without its events?"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.cpu import Deadline, Thread
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode, QueuePair, SendFlags, SendWR
from rpsim.validation.rigs.pair import Pair
from rpsim.validation.speed.spinning import Spinners

PLATFORM = load_platform("optane-adr")
HIT_PS, PAUSE_PS = PLATFORM.cpu.load_ps, PLATFORM.cpu.spin_loop_ps
ROUND_PS = HIT_PS + PAUSE_PS
NEVER_PS = 10**15

Code = Generator[Any, Any, Any]
Loop = Callable[..., Code]


def in_full(
    thread: Thread,
    ranges: Sequence[tuple[int, bytes]],
    deadline: Deadline | None = None,
    queue_pairs: Iterable[QueuePair] = (),
) -> Code:
    """The loop as a program has it."""
    while True:
        for number, (address, seen) in enumerate(ranges):
            if (yield from thread.load(address, len(seen))) != seen:
                return number
        if (deadline is not None and deadline.passed) or any(qp.error for qp in queue_pairs):
            return None
        yield from thread.work(PAUSE_PS)


class World(Pair):
    """A server that looks at words of its memory, a client that WRITEs them, and a core of the server that stores."""

    def __init__(self, spots: list[tuple[int, int]], memory: str = "dram") -> None:
        super().__init__(PLATFORM, memory=memory, cores=2)
        self.spots = spots
        self.looker, self.storer = self.server_thread(0), self.server_thread(1)
        self.base = self.target - self.device.base
        self.began_ps = 0
        self.found: list[tuple[int | None, int]] = []
        """The number that each call of the loop has returned, and when."""

    def look(self, loop: Loop, deadline_ps: int, warm: bool = True) -> Code:
        """The server's code: from one find to the next, until the deadline has passed."""
        for at, length in self.spots if warm else ():
            yield from self.looker.load(self.target + at, length)
        self.began_ps, number = self.clock.now_ps, 0
        while number is not None:
            seen = [self.device.space.read(self.clock.now_ps, self.base + at, size) for at, size in self.spots]
            ranges = [(self.target + at, data) for (at, _), data in zip(self.spots, seen, strict=True)]
            number = yield from loop(self.looker, ranges, Deadline(self.clock, deadline_ps))
            self.found.append((number, self.clock.now_ps))

    def write(self, at_ps: int, at: int, data: bytes) -> Code:
        """A WRITE of the client, on its way by DMA."""
        yield self.clock.until(at_ps)
        dram = self.client.memory["dram"]
        dram.space.poke(self.source + at - dram.base, data)
        work = SendWR(
            0, Opcode.IBV_WR_RDMA_WRITE, self.source + at, len(data), self.target + at, self.rkey, SendFlags.NONE
        )
        yield from self.thread.post_send(self.queue_pairs[0], work)

    def store(self, at_ps: int, at: int, data: bytes) -> Code:
        """A store of the server's other core."""
        yield self.clock.until(at_ps)
        yield from self.storer.store(self.target + at, data)

    def happen(self, happens: Iterable[tuple[str, int, int, bytes]]) -> None:
        for how, at_ps, at, data in happens:
            self.clock.start(getattr(self, how)(at_ps, at, data))

    def events_until(self, at_ps: int) -> int:
        count = 0
        while self.clock.peek() <= at_ps:
            self.clock.step()
            count += 1
        return count


def test_a_line_that_arrives_by_dma_is_found_at_an_instant_that_can_be_computed():
    """A look that begins behind the write fetches the line from the last-level cache; one under way reads it."""
    under_way = set()
    for after_ps in range(0, ROUND_PS, 317):
        world, visible_ps = World([(0, 64)]), []
        world.device.space.watch(world.base, 64, visible_ps.append)
        world.happen([("write", 10**6 + after_ps, 0, b"x" * 64)])
        world.clock.start(world.look(Thread.spin, NEVER_PS))
        world.events_until(10**7)
        rounds = -(-(visible_ps[0] - world.began_ps - HIT_PS) // ROUND_PS)
        end_ps = world.began_ps + rounds * ROUND_PS + HIT_PS
        under_way.add(end_ps - HIT_PS < visible_ps[0])
        fetch_ps = 0 if end_ps - HIT_PS < visible_ps[0] else PLATFORM.llc.load_ps - HIT_PS
        assert world.found == [(0, end_ps + fetch_ps)]
    assert under_way == {True, False}


happening = st.tuples(
    st.sampled_from(["store", "write"]),
    st.integers(200_000, 30_000_000),
    st.integers(0, 300),
    st.sampled_from([b"a", b"b" * 8, b"c" * 100, b"d" * 64, bytes(8), b"e" * 1000]),
)


@given(
    spots=st.lists(st.tuples(st.integers(0, 300), st.sampled_from([1, 8, 64, 100])), min_size=1, max_size=5),
    happens=st.lists(happening, min_size=1, max_size=6),
    deadline_ps=st.integers(0, 40_000_000),
    memory=st.sampled_from(["dram", "pm"]),
    warm=st.booleans(),
)
@settings(max_examples=25, deadline=None)
@pytest.mark.long
def test_it_finds_what_the_loop_finds_at_the_same_instants(spots, happens, deadline_ps, memory, warm):
    """Neighbours in a line, bytes that do not change, several writes at once, lines that another core takes."""
    worlds = []
    for loop in (Thread.spin, in_full):
        world = World(spots, memory)
        world.happen(happens)
        world.clock.run_until(world.clock.start(world.look(loop, deadline_ps, warm)))
        worlds.append(world)
    spun, full = worlds
    assert spun.found == full.found
    short, long = spun.looker.account, full.looker.account
    assert short.polling_ps + short.memory_ps == long.memory_ps + long.software_ps
    assert short.memory_ps <= long.memory_ps


def test_what_has_changed_before_it_begins_is_found_in_the_first_round():
    world = World([])
    ranges = [(world.target, bytes(8)), (world.target + 8, b"not this")]

    def late() -> Code:
        yield from world.looker.load(world.target, 64)
        began_ps = world.clock.now_ps
        return (yield from world.looker.spin(ranges)), world.clock.now_ps - began_ps

    assert world.run(late()) == (1, 2 * HIT_PS)


@pytest.mark.parametrize("deadline_ps", [0, 10**6, 10**6 + 3_333, 10**9])
def test_a_deadline_ends_it_with_the_round_in_which_it_passes(deadline_ps):
    world = World([(0, 8), (64, 8)])
    world.run(world.look(Thread.spin, deadline_ps))
    ((number, end_ps),) = world.found
    round_ps = 2 * HIT_PS + PAUSE_PS
    rounds = max(0, -(-(deadline_ps + 1 - world.began_ps - 2 * HIT_PS) // round_ps))
    assert (number, end_ps) == (None, world.began_ps + rounds * round_ps + 2 * HIT_PS)


def test_it_costs_no_event_while_nothing_happens_and_leaves_no_watch():
    world = World([(64 * number, 8) for number in range(64)])
    world.clock.start(world.look(Thread.spin, NEVER_PS))
    world.events_until(10**7)
    assert world.events_until(10**12) == 0
    assert world.device.space._watches and world.server.host.caches.taken
    world.happen([("write", 10**12 + 10**6, 4032, b"x")])
    world.events_until(10**13)
    assert [number for number, _ in world.found] == [63]
    world.server.process("server 0").stop()
    assert world.looker.account.polling_ps == pytest.approx(10**12, rel=0.001)


@pytest.mark.parametrize("fails", ["fail", "destroy"])
def test_it_ends_when_its_queue_pair_is_in_the_error_state(fails):
    world = World([(0, 8)])
    qp = world.peers[0]

    def looks() -> Code:
        number = yield from world.looker.spin([(world.target, bytes(8))], queue_pairs=[qp])
        return number, world.clock.now_ps

    def fails_later() -> Code:
        yield world.clock.until(10**9)
        getattr(qp, fails)()

    world.clock.start(fails_later())
    number, end_ps = world.run(looks())
    assert number is None and 0 <= end_ps - 10**9 <= ROUND_PS
    assert not qp.watchers and not world.device.space._watches and not world.server.host.caches.taken
    assert world.run(looks())[1] - end_ps <= PLATFORM.llc.load_ps + HIT_PS  # broken from the start


def test_a_process_that_ends_while_it_looks_leaves_nothing_behind():
    world = World([(0, 8)])
    process = world.server.process("server")
    process.start(world.look(Thread.spin, NEVER_PS))
    world.events_until(10**7)
    process.stop()
    assert not world.device.space._watches and not world.server.host.caches.taken
    world.happen([("write", 2 * 10**7, 0, b"x")])
    world.events_until(10**9)
    assert world.found == []


def test_memory_that_no_core_caches_is_looked_at_in_full():
    system = System(load_platform("pmr"), {"server": [NodeSpec(2, ("dram", "pmr"))]}, 1)
    (node,) = system.nodes["server"]
    word = node.memory["pmr"].allocate(64, "word")
    looker, storer = node.thread(0, "looker"), node.thread(1, "storer")

    def stores() -> Code:
        yield system.clock.until(10**7)
        yield from storer.store(word, b"x" * 8)

    system.clock.start(stores())
    assert system.clock.run_until(system.clock.start(looker.spin([(word, bytes(8))]))) == 0
    assert 10**7 < system.clock.now_ps < 2 * 10**7
    assert looker.account.polling_ps > 5 * 10**6


@pytest.mark.parametrize("ranges", [[], [(0, b"")]])
def test_a_loop_over_nothing_is_refused(ranges):
    world = World([])
    with pytest.raises(ValueError, match="looks at no bytes"):
        world.looker.spin(ranges)


@pytest.mark.parametrize("away", [False, True])
def test_a_spinner_that_has_lost_its_core_finds_the_bytes_when_it_has_it_again(away):
    """Two threads in turn on one fair core: bytes that come in the other's slice wait for the end of that."""
    system = System(PLATFORM, {"server": [NodeSpec(1, ("dram",), fair=True, shared=True)]}, 1)
    (node,) = system.nodes["server"]
    word = node.memory["dram"].allocate(64, "word")
    looker, other = node.thread(0, "looker"), node.thread(0, "other")
    core: Any = looker.core
    system.clock.start(other.burn())
    spun = system.clock.start(looker.spin([(word, bytes(8))]))
    while system.clock.now_ps < 10**8 or (core.current.thread is looker) is away:
        system.clock.step()
    came_ps = system.clock.now_ps + 10**7  # behind the context switch, long before the end of the slice
    space, at = node.memory["dram"].space, word - node.memory["dram"].base
    space.write_at(came_ps, 0, 1, at, b"x" * 8)
    assert system.clock.run_until(spun) == 0
    late_ps = system.clock.now_ps - came_ps
    assert late_ps > 10**6 if away else late_ps <= ROUND_PS + PLATFORM.llc.load_ps
    assert looker.account.polling_ps > 0
    assert looker.account.polling_ps + other.account.polling_ps <= system.clock.now_ps


def test_the_simulated_platform_without_private_caches_agrees_too():
    platform = replace(PLATFORM, private=replace(PLATFORM.private, l1_bytes=0, l2_bytes=0))
    ends = []
    for loop in (Thread.spin, in_full):
        system = System(platform, {"server": [NodeSpec(2, ("dram",))]}, 1)
        (node,) = system.nodes["server"]
        word = node.memory["dram"].allocate(64, "word")
        storer = node.thread(1, "storer")

        def stores(storer: Thread = storer, word: int = word, system: System = system) -> Code:
            yield system.clock.until(10**6)
            yield from storer.store(word, b"x")

        system.clock.start(stores())
        system.clock.run_until(system.clock.start(loop(node.thread(0, "looker"), [(word, b"\0")])))
        ends.append(system.clock.now_ps)
    assert ends[0] == ends[1]


def test_64_spinning_pairs_take_no_event_while_they_wait():
    spinners = Spinners(64, 64, 64)
    spinners.exchange(64)
    clock = spinners.clock
    clock.run_until()
    before = clock.now_ps
    assert clock.peek() == float("inf"), "64 threads spin, and nothing is left to happen"
    spinners.exchange(64)
    assert clock.now_ps > before
