"""The root complex of a host: the order of posted writes, the caches and the home agent, which all DIMMs share.

Inbound writes are visible at instants that are known at once. The caches take them later, in order of time, before
the next look at the caches (:meth:`RootComplex.catch_up`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import itemgetter

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.clock import Clock
from ...sim.streams import Streams
from ...sim.trace import Trace
from ..memory.devices import AddressSpace
from ..memory.xpbuffer import service_ps
from ..pcie.credits import UNIT_BYTES, PostedCredits
from ..profiles.platform import Platform
from .access import CacheAccess
from .cacheset import LINE_BITS
from .homeagent import HomeAgent
from .llc import CacheCounters, IoWrite
from .privatecaches import Caches, victims_from

INBOX_WRITES = 4096


class RootComplex:
    """The root complex of one host. Calls come in order of time."""

    port = 0
    """The number of the root port among those whose lines keep their order before a DIMM: one a socket."""

    def __init__(self, clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams) -> None:
        self.clock = clock
        self.trace = trace
        self.platform = platform
        self.ddio = platform.llc.ddio
        self.takes_at_once = self.ddio and not platform.llc.victims_hold
        """An inbound write gives its credits back as soon as it is visible."""
        self.caches = Caches(platform.llc, platform.private, partial(victims_from, streams, memory.by_index[0].number))
        self.home = HomeAgent(clock, trace, platform, memory, streams)
        self.access = CacheAccess(platform, self.caches, self.home)
        self.inbox: deque[IoWrite] = deque()
        """Inbound writes that caches and queues do not know yet, in order of time."""
        self.inbox_ps = 0
        """When the last of all that ever came into it is visible."""
        self.owed: dict[int, tuple[PostedCredits, int]] = {}
        """By the ``id`` of an inbound write in the inbox: the credits to give back when it is taken, and its bytes."""
        self.held: deque[tuple[int, PostedCredits, int]] = deque()
        """The same with DDIO on, for each TLP of the inbox: when it is visible, its credits and its bytes."""
        self.when_crowded: list[Callable[[], None]] = []
        """With DDIO on: calls to make when the first dirty line has to go for an inbound write."""
        self._io_tlps = platform.llc.io_bytes // platform.pcie.mps_bytes
        self.most_writes = INBOX_WRITES
        """With so many inbound writes waiting the caches take the visible ones even if nothing looks at them, ..."""
        self.most_tlps = INBOX_WRITES * self._io_tlps
        """... and with so many TLPs of writes that have several, where somebody may have to wait for victims."""
        if self.ddio and not self.takes_at_once:
            self.most_tlps, self.most_writes = _look_after(self._io_tlps // 2)
        self._crowding = _look_after(self._io_tlps // 8)
        """Both once the caches have taken the first writes, until the first dirty line has had to go."""
        self.last_visible_ps = 0
        """When all posted writes that came to the root port so far are visible, completions included; they keep
        their order, except late ones."""
        self.ordered_ps = 0
        """No posted write shows before this instant, whichever memory it goes to: one at another socket takes longer.
        """
        self.memory_ready_ps = 0
        """When memory can serve the DMA read that was looked at last."""
        self.line_ps = service_ps(LINE_BYTES, platform.pcie.tlp_bits_per_s)
        self._devices = {device.number: device for device in memory.devices.values()}
        self._last_queued_ps = 0
        """With DDIO off: when all inbound writes that are visible so far are in a write pending queue."""
        trace.unsettled.append(self.catch_up)

    @property
    def counters(self) -> CacheCounters:
        """The counters of the caches so far."""
        return self.caches.counters

    @property
    def next_taken_ps(self) -> int | None:
        """When the next write with credits to give back is taken; None without one. Comes after :meth:`catch_up`."""
        if self.owed:
            return self.inbox[0][0]
        return self.held[0][0] if self.held else None

    def catch_up(self, now_ps: int) -> None:
        """Hand the inbound writes until ``now_ps`` to the caches, and with DDIO off to the write pending queues.

        To be called before any look at caches or queues, so that they are used in order of time.
        """
        inbox = self.inbox
        if not inbox or inbox[0][0] > now_ps:
            return
        if self.ddio:
            self._allocate(now_ps)
            return
        keep, drain_ps = self.platform.llc.non_allocating_hit == "update", self.platform.llc.iio_wc_drain_ps
        caches, counters = self.caches, self.caches.counters
        while inbox and inbox[0][0] <= now_ps:
            entry = inbox.popleft()
            visible_ps, number, start, end = entry[:4]
            taken_ps, base = visible_ps, number << LINE_BITS
            for line in lines(start, end - start):
                # The dirty bytes of a copy, if there is one, go along: then the line is whole.
                key, way_ps = base | line, drain_ps
                merged = caches.flush(key, keep)
                counters.io_passed += 1
                if not merged and (start > line * LINE_BYTES or end < (line + 1) * LINE_BYTES):
                    counters.io_fills += 1  # memory writes whole lines: it reads this one before
                    way_ps += self.home.read_line(key, visible_ps, visible_ps)[0]
                queued_ps, stored_ps = self.home.queue(key, visible_ps, way_ps, port=self.port)
                self._last_queued_ps = max(self._last_queued_ps, queued_ps)
                taken_ps = max(taken_ps, queued_ps)
                if self._devices[number].traced:
                    self.trace.wrote_back(number, line, visible_ps, queued_ps, stored_ps)
            if self.owed:
                credits, size = self.owed.pop(id(entry), (None, 0))
                if credits is not None:
                    credits.give(taken_ps, size)

    def hold(self, at_ps: int, credits: PostedCredits, n_bytes: int) -> None:
        """A TLP that is visible at ``at_ps`` keeps its credits until the caches have made room for it."""
        held, one = self.held, (at_ps, *credits.owner(n_bytes))
        if held and held[-1][0] > at_ps:
            held.insert(bisect_right(held, at_ps, key=itemgetter(0)), one)
        else:
            held.append(one)

    def _allocate(self, now_ps: int) -> None:
        """With DDIO on: the inbound writes until now are in the cache; what has to go leaves, what is missing comes.

        TLPs that are visible at one instant keep their credits until the last of them has its room.
        """
        home, held = self.home, self.held
        taken: dict[int, int] = {}
        for at_ps, key, reads in self.caches.io_writes(self.inbox, now_ps):
            if reads:
                home.read_line(key, at_ps, at_ps)
                continue
            queued_ps = home.write_back(key, at_ps, port=self.port)
            if held and queued_ps > taken.get(at_ps, 0):
                taken[at_ps] = queued_ps
        if self.when_crowded:
            self.most_tlps, self.most_writes = self._crowding
            if self.caches.counters.leaked:
                calls, self.when_crowded = self.when_crowded, []
                for call in calls:
                    call()
        while held and held[0][0] <= now_ps:
            at_ps, credits, n_bytes = held.popleft()
            if at_ps in taken:
                credits.give(taken[at_ps], n_bytes)
            else:  # they are back already
                credits.headers += 1
                credits.data += -(-n_bytes // UNIT_BYTES)

    def looked_at_ps(self, at_root_ps: int) -> int:
        """When a read request, at the root complex at ``at_root_ps``, is looked at: behind all posted writes."""
        return max(at_root_ps, self.last_visible_ps)

    def read_ready_ps(self, at_root_ps: int, latency_ps: int) -> int:
        """When a read of host memory that is looked at now is served.

        With DDIO off it also waits until the writes before it are in the write pending queues (Intel's appliance
        persistency method); and a read after persist until its line can be read.
        """
        now_ps = self.clock._now
        ready_ps = max(at_root_ps + latency_ps // 2, now_ps, self.memory_ready_ps)
        if self.ddio:
            return ready_ps
        self.catch_up(now_ps)
        return max(ready_ps, self._last_queued_ps)

    def flush_all(self) -> int:
        """All lines of all caches are written back and dropped from now on; returns when memory has them."""
        self.catch_up(self.clock.now_ps)
        return self.access.flush_all(self.clock.now_ps)


def _look_after(tlps: int) -> tuple[int, int]:
    """The most TLPs, of several or one a write, and the most writes, for victims to be looked for after so many."""
    most_tlps = max(1, tlps)
    return most_tlps, min(INBOX_WRITES, most_tlps)
