"""Finding the newest version of a key: along its chain, and from its shortcut, side by side.

Source: Tsai et al., ATC'20, section 5.1: a client READs the version that its cursor points to and at the same time the
shortcut, then what that points to; who comes to a NULL pointer first has the newest version. Every version is compared
with the GC version of the pointer to it (section 5.2).

What the paper leaves open is read so. Section 5.2 aborts a READ after two round trips and does not say of what length.
It is the machine's smoothed one, not that of an idle network, which every READ of a busy data node would exceed. A READ
that is aborted counts in it with the time for which it was waited for. What speaks for that, and for the other way:

- TCP does not sample a segment that was sent again (Karn's rule), since nobody knows which of the two is acknowledged,
  and doubles its timer instead; with time stamps, which tell the two apart, it samples both (RFC 6298, section 3). A
  READ's completion names its READ, so there is nothing to confuse; and a doubled timer is four round trips, where the
  text has two.
- Without either, the estimate knows of the quick READs alone: where trips have lengthened to more than twice of it,
  each READ is aborted, for ever.
- Section 5.2 counts two trips to the metadata server, before which no buffer can be used again. The smoothed trip of a
  busy data node may exceed these; so it may with READs that are counted only when they succeed.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ....models.cpu import Deadline
from ....models.cpu.smoothing import SmoothedTime
from ....sim.onlooker import Fetched
from ...parts.onesided import Posted
from ..data import Code, Links
from .header import DELETED, GENERATIONS, UNCOMMITTED, ChainCursor, Header, Pointer, Version, unpack_shortcut
from .pool import Geometry

LONGEST_TRIPS = 2
"""A READ is aborted after two round trips (section 5.2): for so long no buffer that was in use can be written again."""


class NewestVersion(NamedTuple):
    """The newest version: how many pointers the way along the chain had, if that was the quicker one."""

    version: Version
    pointer: Pointer
    """The copy of it that was read."""
    value: bytes
    hops: int | None


class StaleCursor(Exception):
    """Neither way led anywhere: the buffers have been used again since."""


class KeyDeleted(Exception):
    """The key ends with this version."""

    def __init__(self, version: Version) -> None:
        super().__init__(version)
        self.version = version


class Aborted(Exception):
    """A READ took too long: its buffer may have been used again meanwhile."""


class CopyChoice(Protocol):
    """How a copy is chosen for a READ."""

    def __call__(self, links: Links, version: Version) -> int:
        """Which copy of a version is read."""


class _Step(NamedTuple):
    """A READ under way: of a copy of a version, ``along`` the chain or behind the shortcut; None: of the shortcut."""

    along: bool
    version: Version | None
    pointer: Pointer | None
    begun: Deadline | None = None
    until: Deadline | None = None


class Walk:
    """One walk for the newest version of a key; ``value_bytes`` of each version are read with its header."""

    def __init__(
        self,
        links: Links,
        geometry: Geometry,
        key: int,
        value_bytes: int,
        choose: CopyChoice,
        trip: SmoothedTime | None,
        *,
        checks: bool = True,
    ) -> None:
        """``trip``: how long the machine's READs take, of which none may take ``LONGEST_TRIPS`` times as long; None:
        they may take any time. ``checks``: GC versions are compared.
        """
        self._links = links
        self._geometry = geometry
        self._key = key
        self._copies = geometry.pool.copies
        self._length = geometry.pool.header_bytes + value_bytes
        self._choose = choose
        self._trip = trip
        self._checks = checks
        self._under_way: dict[Posted, _Step] = {}
        self._seen: set[Version] = set()

    def from_cursor(self, start: ChainCursor) -> Code:
        """Walk from a cursor on; returns the newest one (:class:`NewestVersion`).

        Raises :class:`StaleCursor`, :class:`KeyDeleted` and :class:`Aborted`.
        """
        self._generation = start.generation % GENERATIONS
        yield from self._look_at(start.version, along=True)
        shortcut = self._geometry.shortcut(self._key)
        if not self._links.is_lost(shortcut.node):
            posted = yield from self._links.read(shortcut, self._geometry.pool.header_bytes)
            self._under_way[posted] = _Step(False, None, None)
        try:
            return (yield from self._first())
        finally:
            self._links.poster.drop(list(self._under_way))

    def _look_at(self, version: Version, *, along: bool) -> Code:
        self._seen.add(version)
        pointer = version[self._choose(self._links, version)]
        posted = yield from self._links.read(self._geometry.buffer(pointer), self._length)
        begun = until = None
        if self._trip is not None:
            thread = self._links.thread
            begun, until = self._trip.begin(thread), self._trip.deadline(thread, LONGEST_TRIPS)
        self._under_way[posted] = _Step(along, version, pointer, begun, until)

    def _first(self) -> Code:
        hops = 0
        while self._under_way:
            oldest = next((step for step in self._under_way.values() if step.until is not None), None)
            done = yield from self._links.first(list(self._under_way), oldest.until if oldest else None)
            if done is None:
                assert oldest is not None
                self._time(oldest)
                raise Aborted
            step = self._under_way.pop(done)
            data: Fetched = yield from self._links.poster.looked_at(done)
            if step.version is None or step.pointer is None:
                shortcut = unpack_shortcut(data, self._copies)
                if shortcut and shortcut.generation == self._generation and shortcut.version not in self._seen:
                    yield from self._look_at(shortcut.version, along=False)
                continue
            self._time(step)
            header = Header(data, self._copies)
            if not self.is_meant(header, step.pointer):
                continue
            if header.flags & DELETED:
                raise KeyDeleted(step.version)
            following = None if header.flags & UNCOMMITTED else header.next
            if following is None:
                value = data[self._geometry.pool.header_bytes :]
                return NewestVersion(step.version, step.pointer, value, hops if step.along else None)
            if following not in self._seen:
                hops += step.along
                yield from self._look_at(following, along=step.along)
        raise StaleCursor

    def _time(self, step: _Step) -> None:
        """A READ ends here, complete or aborted: so long do the machine's READs take."""
        if self._trip is not None and step.begun is not None:
            self._trip.end(self._links.thread, step.begun)

    def is_meant(self, header: Header, pointer: Pointer) -> bool:
        """Whether a buffer holds the version that a pointer means."""
        return header.own == pointer.version or not self._checks
