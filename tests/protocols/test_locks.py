"""Locks that may be shared: who is inside together, who goes first, what giving back after an error does."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.cpu import Thread
from rpsim.protocols.parts.locks import Locks

from .stores import machines

Code = Generator[Any, Any, Any]


class Room:
    """A lock, and a record of who was inside when."""

    def __init__(self, threads: int) -> None:
        self.system = machines(server_cores=threads)
        node = self.system.nodes["server"][0]
        self.clock = self.system.clock
        self.threads = [node.thread(core, f"thread {core}") for core in range(threads)]
        self.locks = Locks(self.clock, threads)
        self.inside: list[bool] = []
        """Of each thread that is inside now: whether it shares."""
        self.order: list[int] = []
        self.most_together = 0

    def work(self, thread: Thread, number: int, shared: bool, for_ps: int, fails: bool = False) -> Code:
        self.order.append(number)
        self.inside.append(shared)
        assert all(self.inside) or len(self.inside) == 1, "an exclusive holder is alone"
        self.most_together = max(self.most_together, len(self.inside))
        yield from thread.work(for_ps)
        self.inside.remove(shared)
        if fails:
            raise LookupError(number)

    def visit(self, number: int, at_ps: int, shared: bool, for_ps: int = 10**6) -> Code:
        thread = self.threads[number]
        yield self.clock.until(at_ps)
        yield from self.locks.under(thread, "k", self.work(thread, number, shared, for_ps), shared=shared)

    def run(self, *codes: Code) -> None:
        self.clock.run_until(self.clock.all_of([self.clock.start(code) for code in codes]))


def test_readers_share_and_end_together():
    room = Room(3)
    room.run(*(room.visit(number, number * 1000, True) for number in range(3)))
    assert room.most_together == 3
    assert room.clock.now_ps < 2 * 10**6
    assert not room.locks._held


def test_a_writer_waits_for_all_readers_and_a_reader_behind_it_waits_too():
    room = Room(4)
    room.run(room.visit(0, 0, True), room.visit(1, 1000, True), room.visit(2, 2000, False), room.visit(3, 3000, True))
    assert room.order == [0, 1, 2, 3]
    assert room.most_together == 2
    assert room.clock.now_ps > 3 * 10**6  # three turns: both readers, the writer, the reader behind it


def test_readers_that_wait_behind_a_writer_go_on_together():
    room = Room(4)
    room.run(room.visit(0, 0, False), *(room.visit(number, number * 1000, True) for number in (1, 2, 3)))
    assert room.most_together == 3
    assert 2 * 10**6 < room.clock.now_ps < 3 * 10**6


def test_it_is_given_back_where_the_code_raises():
    room = Room(2)
    failing = room.threads[0]

    def fails() -> Code:
        with pytest.raises(LookupError):
            yield from room.locks.under(failing, "k", room.work(failing, 0, False, 10**6, fails=True))

    room.run(fails(), room.visit(1, 1000, False))
    assert room.order == [0, 1] and not room.locks._held


@given(visits=st.lists(st.tuples(st.integers(0, 4 * 10**6), st.booleans()), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_nobody_is_left_out_and_nobody_who_asks_later_alone_goes_first(visits):
    room = Room(len(visits) + 1)
    room.run(*(room.visit(number, at_ps, shared) for number, (at_ps, shared) in enumerate(visits)))
    assert sorted(room.order) == list(range(len(visits))) and not room.locks._held
    for turn, number in enumerate(room.order):
        for later in room.order[turn + 1 :]:
            both_share = visits[number][1] and visits[later][1]
            assert both_share or visits[number][0] <= visits[later][0]
