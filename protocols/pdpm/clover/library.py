"""What the threads of a client machine share: cursors, free buffers, versions to retire, how much went to which node.

Source: Tsai et al., ATC'20, sections 5.1, 5.2 and 5.5. One cursor for each key of which metadata are cached; a bucket
of free buffers for each data node. Cached metadata are evicted first in, first out, or the least recently used first.

What the paper leaves open is read so. All threads of a machine have one such state. The caches are warm: a machine
knows every key's version of time zero, as far as its cache has room, and used it last then. A cursor that was not used
for as long as a buffer of an overflowed version waits is not used any more, by the machine's own clock. Nor are free
buffers, where the metadata server has not been heard of for so long, and turns out to have begun again: it takes them
for free. A put that is under way takes others then, if its version is in no chain yet; where it has asked for a key to
be created, and has no answer, nobody knows of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....models.cpu import Deadline, Signal, Thread
from .header import ChainCursor, Pointer, Version
from .pool import padded

FirstCursor = Callable[[int], ChainCursor | None]


class Retired(NamedTuple):
    """A version that has been superseded, in a generation of a key's chains."""

    key: int
    generation: int
    old: Version
    new: Version


class Cursors:
    """The metadata that a machine caches: by key the version that it has seen last."""

    def __init__(self, capacity: int | None, first: FirstCursor, *, recent: bool) -> None:
        """``capacity``: how many keys there is room for, None for all of them; then ``first`` says of a key that was
        not used yet which version it had when the machine came to know it. ``recent``: a use makes it the last to go.
        """
        self._capacity = capacity
        self._first = first
        self.first_until: Deadline | None = None
        """Until when a cursor of time zero may be used; None before the run has begun."""
        self._recent = recent
        self._cached: OrderedDict[int, ChainCursor | None] = OrderedDict()
        self._until: dict[int, Deadline] = {}
        """Until when a cursor may be used that has been used in the run."""

    def find(self, key: int) -> ChainCursor | None:
        """A key's cursor; None if there is none."""
        until = self._until.get(key, self.first_until)
        if until is not None and until.passed:
            self.drop(key)
        if key in self._cached:
            if self._recent:
                self._cached.move_to_end(key)
            return self._cached[key]
        return self._first(key) if self._capacity is None else None

    def move(self, key: int, cursor: ChainCursor, until: Deadline | None = None) -> None:
        """A key's cursor is this one from now on, and may be used ``until`` then; None: it is one of time zero."""
        if self._capacity == 0:
            return
        known = key in self._cached
        self._cached[key] = cursor
        if until is not None:
            self._until[key] = until
        if known and self._recent:
            self._cached.move_to_end(key)
        elif not known and self._capacity is not None and len(self._cached) > self._capacity:
            gone, _ = self._cached.popitem(last=False)
            self._until.pop(gone, None)

    def drop(self, key: int) -> None:
        """A key's cursor is not valid."""
        self._until.pop(key, None)
        if self._capacity is None:
            self._cached[key] = None
        else:
            self._cached.pop(key, None)


class Library:
    """The state of one machine."""

    def __init__(self, nodes: int, copies: int, cursors: Cursors, batch: int) -> None:
        self.cursors = cursors
        self.buckets: list[deque[Pointer]] = [deque() for _ in range(nodes)]
        self.retired: deque[Retired] = deque()
        self.writing: set[Pointer] = set()
        """Buffers that are taken and not linked, as far as this machine knows."""
        self.loads = [0] * nodes
        """Bytes to and from each node, since time zero."""
        self.told = [0] * nodes
        """Of these, what the metadata server has been told."""
        self.wanted: Signal | None = None
        """The thread that fetches buffers and retires versions waits for this."""
        self.contact: Deadline | None = None
        """Until when the metadata server certainly keeps buffers for this machine, if it has to begin again."""
        self.served = True
        """Whether there may be a metadata server that gives buffers."""
        self.leaving = False
        """A process has done its work: versions are retired without waiting for more."""
        self._copies = copies
        self._batch = batch
        self._turn = 0
        self._waiting: list[Signal] = []

    def in_contact(self) -> bool:
        """Whether the metadata server keeps the buffers in this machine's hands, whichever server that is by now."""
        return self.contact is not None and not self.contact.passed

    def forget_buffers(self) -> None:
        """Buffers in hand may be others' by now, and those of puts that are under way."""
        for bucket in self.buckets:
            bucket.clear()
        self.writing.clear()

    def holds(self, version: Version) -> bool:
        """Whether the buffers of a version that is not linked are still this machine's."""
        return self.writing.issuperset(version)

    def fill(self, pointers: Sequence[Pointer]) -> None:
        """Free buffers have come, or nobody is left to give any: let those look who wait."""
        for pointer in pointers:
            self.buckets[pointer.node].append(pointer)
        waiting, self._waiting = self._waiting, []
        for signal in waiting:
            signal.set()

    def is_low(self) -> bool:
        """Whether buffers, or versions to retire, are enough for a message to the metadata server."""
        enough = 1 if self.leaving else self._batch
        return self.needed() >= self._batch or len(self.retired) >= enough

    def needed(self) -> int:
        """How many buffers are missing, of all nodes."""
        return sum(self.missing())

    def missing(self) -> list[int]:
        """How many buffers of each node are missing."""
        return [max(0, self._batch - len(bucket)) for bucket in self.buckets]

    def take(self, copies: int, *, balanced: bool, lost: Callable[[int], bool]) -> Version | None:
        """A buffer for each of so many copies, on different nodes; None if there are not enough.

        From the buckets in turn, or (``balanced``) from those of the least used nodes.
        """
        nodes = range(len(self.buckets))
        having = [node for node in nodes if self.buckets[node] and not lost(node)]
        copies = min(copies, sum(not lost(node) for node in nodes))
        if not having or len(having) < copies:
            return None
        if balanced:
            having.sort(key=lambda node: (self.loads[node], node))
        else:
            having.sort(key=lambda node: (node - self._turn) % len(self.buckets))
            self._turn = (having[0] + 1) % len(self.buckets)
        chosen = tuple(self.buckets[node].popleft() for node in having[:copies])
        self.writing.update(chosen)
        return padded(chosen, self._copies)

    def wait(self, thread: Thread) -> Signal:
        """A signal that is raised when buffers have come."""
        signal = Signal(thread.clock)
        self._waiting.append(signal)
        return signal

    def held(self) -> list[Pointer]:
        """All buffers that are this machine's."""
        return [*(pointer for bucket in self.buckets for pointer in bucket), *sorted(self.writing)]
