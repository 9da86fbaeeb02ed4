"""Does a loop that looks at memory find what is written there when a loop without any omission would?"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rpsim.models.cpu import Deadline, Signal
from rpsim.models.cpu.looking import IN_FULL
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System


class World:
    """A watcher that loads a word until it is set, or a deadline has passed; and somebody who may set it."""

    def __init__(self, leaves_out: bool, thinks_ps: int = 0) -> None:
        self.system = System(load_platform("optane-adr"), {"server": [NodeSpec(2, ("dram",))]}, 1)
        (self.node,) = self.system.nodes["server"]
        self.word = self.node.memory["dram"].allocate(64, "word")
        self.leaves_out = leaves_out
        self.signal = Signal(self.system.clock)
        self.rounds = 0
        self.thinks_ps = thinks_ps
        """How long a round goes on behind its look."""

    def watch(self, deadline: Deadline) -> Generator[Any, Any, tuple[bytes, int]]:
        thread = self.node.thread(0, "watcher")
        looking = thread.looking()
        while True:
            found = yield from thread.load(self.word, 1)
            self.rounds += 1
            if found != b"\0" or deadline.passed:
                return found, thread.now_ps
            yield self.system.clock.timeout(self.thinks_ps)
            if self.leaves_out:
                yield from looking.again([(self.word, 1)], self.signal, [deadline])

    def store(self, at_ps: int, length: int = 1, offset: int = 0) -> Generator[Any, Any, None]:
        thread = self.node.thread(1, "writer")
        yield self.system.clock.until(at_ps)
        yield from thread.store(self.word + offset, b"x" * length)
        yield from thread.load(self.word, 64)  # its store is done for everybody, whoever looks next

    def run(self, at_ps: int | None, deadline_ps: int) -> tuple[bytes, int]:
        clock = self.system.clock
        done = clock.start(self.watch(Deadline(clock, deadline_ps)))
        if at_ps is not None:
            clock.start(self.store(at_ps))
        found: tuple[bytes, int] = clock.run_until(done)
        return found


@pytest.mark.parametrize("at_ps", [1_000, 333_333, 20_000_001, 51_234_567])
def test_what_is_written_is_found_in_step_with_the_rounds_that_were_left_out(at_ps: int) -> None:
    plain, short = World(leaves_out=False), World(leaves_out=True)
    (data, then_ps), (same, now_ps) = plain.run(at_ps, 1 << 60), short.run(at_ps, 1 << 60)
    assert data == same == b"x"
    round_ps = then_ps // plain.rounds
    assert abs(then_ps - now_ps) <= 2 * round_ps
    assert short.rounds <= min(plain.rounds, IN_FULL) + 3
    if plain.rounds > 2 * IN_FULL:
        assert short.rounds < plain.rounds / 2


def test_a_deadline_ends_a_wait_in_which_nothing_is_written() -> None:
    world = World(leaves_out=True)
    data, now_ps = world.run(None, 10**12)
    assert data == b"\0"
    assert 10**12 < now_ps < 10**12 + 10**6
    assert world.rounds < IN_FULL + 5


def test_a_signal_is_heard_and_nothing_is_watched_any_more() -> None:
    world = World(leaves_out=True)
    clock = world.system.clock
    space = world.node.memory["dram"].space

    def says() -> Generator[Any, Any, None]:
        yield clock.until(10**9)
        assert space._watches
        rounds = world.rounds
        world.signal.set()
        yield clock.until(10**9 + 10**6)
        assert rounds < world.rounds  # it goes round in full again
        yield from world.store(10**9 + 2 * 10**6)

    clock.start(says())
    assert clock.run_until(clock.start(world.watch(Deadline(clock, 1 << 60))))[0] == b"x"
    assert not space._watches


def test_a_write_beside_the_range_wakes_nobody() -> None:
    world = World(leaves_out=True)
    clock = world.system.clock
    clock.start(world.store(10**9, offset=8))
    data, now_ps = world.run(None, 10**10)
    assert (data, now_ps > 10**10) == (b"\0", True)
    assert world.rounds < IN_FULL + 5


def test_what_is_written_behind_a_round_s_look_is_found_by_the_next_one() -> None:
    """Around the instant at which the loop begins to wait; and another thread has looked since, so that it is there."""
    thinks_ps, until_ps = 1_000_000, 1_100 * 1_000_000
    counted = World(leaves_out=False, thinks_ps=thinks_ps)
    counted.run(None, until_ps)
    round_ps = until_ps // counted.rounds
    for quarters in range(4 * (IN_FULL - 1), 4 * (IN_FULL + 4)):
        at_ps = round_ps * quarters // 4
        data, then_ps = World(leaves_out=True, thinks_ps=thinks_ps).run(at_ps, 10**12)
        assert data == b"x"
        assert then_ps < at_ps + 3 * round_ps
