"""The order in which a responder executes the requests of one queue pair: that of the table in
``models.durability.rules``.

Only READ, ATOMIC, ATOMIC WRITE and FLUSH take time to execute; a WRITE or SEND is executed as it is accepted. A request
starts at once unless an earlier one that the table puts before it has not finished yet; if the end of that one is known
already, it starts at once too, with that end as the earliest instant of its effect. So does a READ behind READs of the
same memory: they are under way together, and look at it one after the other.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from ...durability.rules import RequestKind, Switches, executed_before


@functools.cache
def predecessors(switches: Switches) -> Mapping[RequestKind, frozenset[RequestKind]]:
    """By request: the kinds of earlier requests that are executed before it.

    A fence is the requester's business: it holds a request back until all requests that the fence waits for are done.
    """
    return {
        second: frozenset(first for first in RequestKind if executed_before(first, second, False, switches))
        for second in RequestKind
    }


class Running:
    """A request that has arrived and is not known to have been executed; ``end_ps`` is None until that is known.

    ``reads`` is the destination that it reads, which is looked at in the order of its READs; None if it does not.
    """

    __slots__ = ("buffered", "end_ps", "holds", "kind", "reads")

    def __init__(self, kind: RequestKind, reads: int | None) -> None:
        self.kind = kind
        self.reads = reads
        self.end_ps: int | None = None
        self.holds: frozenset[RequestKind] = frozenset()
        """Further kinds of later requests that it holds, beside those of the table."""
        self.buffered = False
        """It has an entry of the persist buffer: what may be accepted behind an epoch need not wait for it."""


Start = Callable[[Callable[[], int], Running], None]
"""Starts a request, which has to call :meth:`ExecutionOrder.end`. The first argument returns the instant before which
the request may have no effect: known from the start on; for a READ behind others, when it looks at memory.
"""


class ExecutionOrder:
    """The requests of one queue pair at its responder."""

    __slots__ = ("_before", "_entering", "_parked", "_reads", "running")

    def __init__(self, switches: Switches) -> None:
        self._before = predecessors(switches)
        self.running: list[Running] = []
        """Requests in order of arrival; those whose end has passed are removed at the next look."""
        self._reads: int | None = None
        """The destination that all of them read; None if there is another request among them."""
        self._parked: list[tuple[Running, list[Running], Start, int | None, bool]] = []
        self._entering: deque[tuple[Running, int, Callable[[], None]]] = deque()
        """Epochs that wait for an entry of the persist buffer, in order."""

    def idle(self, now_ps: int) -> bool:
        """Whether a request of any kind that arrives now has nothing to wait for."""
        if self.running:
            self.running = [entry for entry in self.running if entry.end_ps is None or entry.end_ps > now_ps]
        return not self.running

    def begin(self, kind: RequestKind, reads: int | None = None) -> Running:
        """A request of ``kind`` starts to execute; :meth:`end` sets its end."""
        entry = Running(kind, reads)
        self._reads = reads if not self.running or self._reads == reads else None
        self.running.append(entry)
        return entry

    def only_reads(self, now_ps: int, reads: int) -> bool:
        """Whether a READ that arrives now has nothing to wait for but READs of the same memory."""
        running = self.running
        while running and (end_ps := running[0].end_ps) is not None and end_ps <= now_ps:
            del running[0]
        return not self._parked and (not running or self._reads == reads)

    def arrive(
        self,
        kind: RequestKind,
        now_ps: int,
        start: Start,
        reads: int | None = None,
        *,
        holds: frozenset[RequestKind] = frozenset(),
        follows: bool = False,
    ) -> None:
        """A request arrives: start it now, or as soon as those before it are done; or, if it ``follows`` epochs into
        the persist buffer, as soon as they have their entries there. ``holds`` are further kinds that wait for it.
        """
        before = self._before[kind]
        waits = [
            entry
            for entry in self.running
            if (entry.kind in before or kind in entry.holds) and not (follows and entry.buffered)
        ]
        parked = any(other.end_ps is None and (reads is None or other.reads != reads) for other in waits)
        entry = self.begin(kind, None if parked else reads)
        entry.holds = holds
        if parked:
            self._parked.append((entry, waits, start, reads, follows))
        else:
            start(partial(_last_end_ps, waits, now_ps), entry)

    def end(self, entry: Running, end_ps: int) -> None:
        """Set the end of ``entry``, and start the requests that waited for it."""
        entry.end_ps = end_ps
        if entry.buffered:
            self._let_in()
        self._start_parked()

    def enter(self, entry: Running, entries: int, entered: Callable[[], None]) -> None:
        """An epoch asks for one of so many entries of the persist buffer; ``entered`` is called when it has it."""
        self._entering.append((entry, entries, entered))
        self._let_in()
        self._start_parked()

    def _let_in(self) -> None:
        """Give entries to the epochs that wait for them, as far as there are free ones."""
        while self._entering:
            entry, entries, entered = self._entering[0]
            if sum(one.buffered and one.end_ps is None for one in self.running) >= entries:
                return
            self._entering.popleft()
            entry.buffered = True
            entered()

    def _start_parked(self) -> None:
        while self._parked:  # each start may end at once, and let others start
            turn = next((one for one in self._parked if all(_over(e, one[4]) for e in one[1])), None)
            if turn is None:
                return
            self._parked.remove(turn)
            turn[0].reads = turn[3]
            turn[2](partial(_last_end_ps, turn[1], 0), turn[0])


def _over(entry: Running, follows: bool) -> bool:
    """Whether a request need not wait for an earlier one any more."""
    return entry.end_ps is not None or (follows and entry.buffered)


def _last_end_ps(waits: list[Running], least_ps: int) -> int:
    return max((entry.end_ps for entry in waits if entry.end_ps is not None), default=least_ps)
