"""A machine of several sockets: each has caches, I/O ways, memory controllers and a root port of its own.

:class:`NumaSocket` is what a machine of one socket is as a whole. Lines cross the link (``interconnect.py``) if
their memory, or a copy of them, is at another one:

- A core's lines come into the caches of its own socket, whichever memory they are of (Intel 64 and IA-32 Architectures
  Optimization Reference Manual, non-inclusive shared cache: a caching agent for each slice, a home agent for each
  memory). Several sockets may hold a line to read; a store leaves it in one. Who has it dirty writes it back.
- DDIO is of the adapter's socket: an inbound write allocates in the I/O ways there, for far memory too (Napatech, QPI
  bypass and CPU socket load balancing: the near cache is polluted by data for the far node), once that socket owns the
  line, which takes a round trip on the link. Posted writes keep their order, so what comes behind waits as well.
- A line is durable where it was: in the write pending queue of its home. A core or a FLUSH that waits for that waits
  for the completion's way back, too.

With ``interconnect.directory`` a line's memory says whether another socket may have it, and is written again when that
changes (Intel 64 and IA-32 Architectures Optimization Reference Manual, 2.1.31: directory writes).

A flush is for all sockets (Intel SDM, CLWB and CLFLUSH: the cache coherence domain); so is ``wbinvd`` here, as Linux'
``wbinvd_on_all_cpus``. Devices beside the adapter are reached as if they were on the socket that asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from typing_extensions import Unpack, override

from ...sim.bytespace import lines
from ...sim.clock import Clock
from ...sim.streams import Streams
from ...sim.trace import Trace
from ..memory.devices import AddressSpace, MemoryDevice
from ..memory.imc import Traffic
from ..pcie.credits import PostedCredits
from ..pcie.link import Tlp
from ..profiles.parameters.memory import MediaParameters
from ..profiles.platform import Platform
from .access import CacheAccess
from .attached import AttachedMemory, WriteOrder
from .beside import BesideAdapter
from .cacheset import DIRTY, LINE_BITS, LINE_MASK, Key, line_key
from .dimms import Dimms
from .fillbuffers import FillBuffers
from .homeagent import HomeAgent
from .hostmemory import HostMemory
from .interconnect import Interconnect
from .llc import IoWrite
from .llc import Traffic as LineTraffic
from .privatecaches import Caches, Level, victims_from


def build_sockets(
    clock: Clock, trace: Trace, platform: Platform, memory: AddressSpace, streams: Streams
) -> dict[str, HostMemory]:
    """The sockets of a machine by name; of one without any, all of it under the empty name."""
    if len(platform.sockets) < 2:
        return {name: HostMemory(clock, trace, platform, memory, streams) for name in platform.sockets or ("",)}
    first, link = next(iter(platform.sockets)), Interconnect(platform.interconnect)
    homes = {device.number: platform.memory[device.name].socket or first for device in memory.by_index}
    sockets: dict[str, NumaSocket] = {}
    for name in platform.sockets:
        near = AddressSpace([device for device in memory.by_index if homes[device.number] == name])
        sockets[name] = NumaSocket(clock, trace, platform, memory, streams, near, len(sockets), link)
    by_number = {number: sockets[name] for number, name in homes.items()}
    for socket in sockets.values():
        socket.join(list(sockets.values()), by_number)
    return dict(sockets)


class NumaSocket(HostMemory):
    """One socket with the memory that its cores and root port address: its own, and that of the others."""

    def __init__(
        self,
        clock: Clock,
        trace: Trace,
        platform: Platform,
        memory: AddressSpace,
        streams: Streams,
        near: AddressSpace,
        index: int,
        link: Interconnect,
    ) -> None:
        super().__init__(clock, trace, platform, memory, streams)
        self.index = self.port = index
        self.link = link
        seed = partial(victims_from, streams, memory.by_index[0].number, index)
        self.caches: NumaCaches = NumaCaches(platform, seed)
        self.home: NumaHome = NumaHome(clock, trace, platform, near, streams, self)
        self.access = CacheAccess(platform, self.caches, self.home)
        self.all: Sequence[NumaSocket] = (self,)
        self.others: Sequence[NumaSocket] = ()
        self.homes: Mapping[int, NumaSocket] = {}
        """By number of a device: the socket that it is at."""

    def join(self, sockets: Sequence[NumaSocket], homes: Mapping[int, NumaSocket]) -> None:
        """All sockets are there: know them."""
        self.all, self.homes = sockets, homes
        self.others = [socket for socket in sockets if socket is not self]
        self.caches.others = [socket.caches for socket in self.others]
        for index, device in enumerate(self.memory.by_index):
            kind = self.platform.kind_of(device.kind)
            home = homes[device.number]
            if isinstance(kind, MediaParameters):
                self.attached[index] = NumaDimms(self, device, kind, home)
            else:
                self.attached[index] = home.attached[index]
        self.peers = [one for one in self.attached if isinstance(one, BesideAdapter)]

    @override
    def catch_up(self, now_ps: int) -> None:
        for socket in self.all:
            super(NumaSocket, socket).catch_up(now_ps)

    @override
    def flush_all(self) -> int:
        return max(super(NumaSocket, socket).flush_all() for socket in self.all)


class NumaCaches(Caches):
    """The caches of one socket, coherent with those of the others."""

    def __init__(self, platform: Platform, seed: Callable[[], int]) -> None:
        super().__init__(platform.llc, platform.private, seed)
        self.others: Sequence[NumaCaches] = ()
        self.came_from: int | None = None
        """Of the line that a core had to get last: which of the others had it; None: memory."""
        self.dirty_at: int | None = None
        """Of the line that was flushed last: which of the others had it dirty; None: these caches."""

    @override
    def access(self, core: int, key: Key, dirty: bool) -> Level:
        level, self.came_from = super().access(core, key, dirty), None
        if level is not Level.MEMORY and not dirty:
            return level
        for number, other in enumerate(self.others):
            if key not in other:
                continue
            self.came_from, level = number, Level.MEMORY  # or the right to store to it
            if dirty:
                other.give_up(key)
        return level

    def give_up(self, key: Key) -> int:
        """Another socket stores to the line: it is not here any more; returns 1 if it was dirty."""
        for call in tuple(self.taken.get(key, ())):
            call()
        return self._drop(key)

    def _drop(self, key: Key) -> int:
        return self._snoop(key) if key in self._holders else self.llc.tags.drop(key)

    @override
    def flush(self, key: Key, keep: bool) -> bool:
        dirty, self.dirty_at = super().flush(key, keep), None
        for number, other in enumerate(self.others):
            if key in other and super(NumaCaches, other).flush(key, keep):
                dirty, self.dirty_at = True, number
        return dirty

    @override
    def io_writes(self, inbox: deque[IoWrite], until_ps: int) -> list[LineTraffic]:
        """Copies elsewhere go before; one that is dirty comes here, since the write may bring a part of it only."""
        gone: list[LineTraffic] = []
        for at_ps, device, start, end, *_ in inbox:
            if at_ps > until_ps:
                break
            for line in lines(start, end - start):
                key = line_key(device, line)
                for other in self.others:
                    if key in other and other.give_up(key) and key not in self:
                        victim = self.llc.put(key, DIRTY)
                        if victim is not None:
                            gone.append((at_ps, victim, False))
        found = super().io_writes(inbox, until_ps)
        return sorted([*gone, *found], key=itemgetter(0)) if gone else found

    def has(self, device: int, wanted: range) -> bool:
        """Whether all these lines of a memory are here."""
        return all(line_key(device, line) in self for line in wanted)


class NumaHome(HomeAgent):
    """The home agent of one socket, and the way to the others': lines of their memory cross the link."""

    def __init__(
        self,
        clock: Clock,
        trace: Trace,
        platform: Platform,
        near: AddressSpace,
        streams: Streams,
        socket: NumaSocket,
    ) -> None:
        super().__init__(clock, trace, platform, near, streams)
        self._socket = socket
        self._directory = platform.interconnect.directory == "memory"
        self._elsewhere: set[Key] = set()
        """Lines of which memory says that another socket may have them."""
        self._loads_ps = platform.llc.load_ps or platform.cpu.load_ps

    def _of(self, number: int) -> NumaHome | None:
        """The home agent of a device at another socket."""
        home = self._socket.homes[number].home
        return None if home is self else home

    def goes_elsewhere(self, key: Key, at_ps: int) -> None:
        """Another socket gets the line: a directory in memory says so from now on, which writes the line again."""
        if self._directory and key not in self._elsewhere:
            self._elsewhere.add(key)
            self._controllers[key >> LINE_BITS].write_directory(key & LINE_MASK, at_ps)

    @override
    def left_ps(self, key: Key) -> int:
        home = self._of(key >> LINE_BITS)
        return super().left_ps(key) if home is None else home.left_ps(key)

    @override
    def read_line(self, key: Key, at_ps: int, issued_ps: int, lead_ps: int = 0) -> tuple[int, int]:
        socket, home = self._socket, self._of(key >> LINE_BITS)
        found, socket.caches.came_from = socket.caches.came_from, None
        if found is not None:
            there = socket.others[found].index
            return self._loads_ps + socket.link.fetch_ps(socket.index, there, at_ps, issued_ps), 0
        if home is None:
            return super().read_line(key, at_ps, issued_ps, lead_ps)
        took_ps, not_before_ps = home.read_line(key, at_ps, issued_ps, lead_ps)
        home.goes_elsewhere(key, at_ps)
        return took_ps + socket.link.fetch_ps(socket.index, home._socket.index, at_ps, issued_ps), not_before_ps

    @override
    def read_lines(self, number: int, first: int, last: int, at_ps: int, pace_ps: int) -> tuple[int, int]:
        home, socket = self._of(number), self._socket
        if home is None:
            return super().read_lines(number, first, last, at_ps, pace_ps)
        took_ps, not_before_ps = home.read_lines(number, first, last, at_ps, pace_ps)
        count = last - first + 1
        return took_ps + socket.link.fetch_ps(socket.index, home._socket.index, at_ps, at_ps, count), not_before_ps

    @override
    def write_back(self, key: Key, at_ps: int, flush: bool = False, port: int | None = None, later_ps: int = 0) -> int:
        """``later_ps``: how much later than ``at_ps`` it leaves, since another socket asks for it."""
        number, line = key >> LINE_BITS, key & LINE_MASK
        device = (self._of(number) or self)._devices[number]
        way_ps = self._platform.media[device.kind].clwb_to_wpq_ps + later_ps
        queued_ps, stored_ps = self.queue(key, at_ps, way_ps, flush, port)
        if device.traced:
            self._trace.wrote_back(number, line, at_ps, queued_ps, stored_ps)
        return queued_ps

    @override
    def queue(self, key: Key, at_ps: int, way_ps: int, flush: bool = False, port: int | None = None) -> tuple[int, int]:
        home, socket = self._of(key >> LINE_BITS), self._socket
        if home is None:
            self._elsewhere.discard(key)  # what is written says that no other socket has it
            return super().queue(key, at_ps, way_ps, flush, port)
        crossed_ps = socket.link.write_ps(socket.index, home._socket.index, at_ps)
        return home.queue(key, at_ps, way_ps + crossed_ps, flush, port)

    @override
    def drained_ps(self, number: int, line: int) -> int:
        home = self._of(number)
        if home is None:
            return super().drained_ps(number, line)
        drained_ps = home.drained_ps(number, line)
        return drained_ps + self._socket.link.crossing_ps if drained_ps else 0

    @override
    def stored_ps(self, number: int, line: int) -> int:
        home = self._of(number)
        return super().stored_ps(number, line) if home is None else home.stored_ps(number, line)

    @override
    def traffic(self, number: int) -> Traffic:
        home = self._of(number)
        return super().traffic(number) if home is None else home.traffic(number)


class NumaDimms(Dimms):
    """DIMMs as one socket sees them, which may be another one's."""

    def __init__(self, root: NumaSocket, device: MemoryDevice, parameters: MediaParameters, home: NumaSocket) -> None:
        super().__init__(root, device, parameters)
        self._socket = root
        self._home = home
        self._far = home is not root
        if self._far:  # ownership comes first
            link = root.link
            self._posted_write_ps += link.round_trip_ps
            self.write_hold_ps = 2 * link.round_trip_ps
            self._media = replace(parameters, ntstore_to_wpq_ps=parameters.ntstore_to_wpq_ps + link.round_trip_ps)

    @override
    def dma_write(
        self,
        offset: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        transit_ps: int,
        arrive_ps: int,
        **order: Unpack[WriteOrder],
    ) -> int:
        """Near and far writes take different times, and keep their order as posted writes do."""
        ordered_ps, late = self._socket.ordered_ps, order.get("late_ps", 0)
        if not late and ordered_ps > arrive_ps + self._posted_write_ps:
            order["not_before_ps"] = max(order.get("not_before_ps", 0), ordered_ps)
        self._ask(offset, len(data), accepted_ps)
        visible_ps = super().dma_write(offset, data, channel, writer, accepted_ps, transit_ps, arrive_ps, **order)
        if not late:
            self._ordered(visible_ps)
        return visible_ps

    @override
    def dma_writes(
        self,
        offset: int,
        data: bytes,
        channel: int,
        writer: str,
        accepted_ps: int,
        tlps: list[Tlp],
        credits: PostedCredits | None = None,
    ) -> int:
        if tlps[0][2] + self._posted_write_ps < self._socket.ordered_ps:
            return AttachedMemory.dma_writes(self, offset, data, channel, writer, accepted_ps, tlps, credits)
        self._ask(offset, len(data), accepted_ps)
        visible_ps = super().dma_writes(offset, data, channel, writer, accepted_ps, tlps, credits)
        self._ordered(visible_ps)
        return visible_ps

    def _ask(self, offset: int, length: int, at_ps: int) -> None:
        """Ask for ownership of the lines of a range."""
        if self._far:
            for line in lines(offset, length):
                self._socket.link.ask(self._socket.index, self._home.index, at_ps)
                self._home.home.goes_elsewhere(line_key(self._number, line), at_ps)

    def _ordered(self, visible_ps: int) -> None:
        root = self._socket
        root.ordered_ps = max(root.ordered_ps, visible_ps)
        root.last_visible_ps = max(root.last_visible_ps, visible_ps)

    @override
    def dma_read_ps(self, offset: int, length: int) -> int:
        root, wanted, now_ps = self._socket, lines(offset, length), self._socket.clock._now
        root.catch_up(now_ps)
        for other in root.others:
            if not root.caches.has(self._number, wanted) and other.caches.has(self._number, wanted):
                root.memory_ready_ps = 0
                took_ps = root.link.fetch_ps(root.index, other.index, now_ps, now_ps, len(wanted))
                return self._dma_read_ps - root.platform.llc.dma_read_hit_saving_ps + took_ps
        return super().dma_read_ps(offset, length)

    @override
    def access_ps(
        self, offset: int, length: int, dirty: bool, agent: int, fills: FillBuffers, wait: bool = True
    ) -> int:
        self._socket.catch_up(self._socket.clock._now)
        return super().access_ps(offset, length, dirty, agent, fills, wait)

    @override
    def ntstore(self, offset: int, data: bytes, channel: int, writer: str, at_ps: int) -> int:
        self._ask(offset, len(data), at_ps)
        queued_ps = super().ntstore(offset, data, channel, writer, at_ps)
        return queued_ps + self._socket.link.crossing_ps if self._far else queued_ps

    @override
    def write_back(self, line: int, issued_ps: int, keep: bool) -> int:
        """Whoever has the line dirty sends it to its home, which tells the one that asked."""
        root, key, crossing_ps = self._socket, line_key(self._number, line), self._socket.link.crossing_ps
        root.catch_up(root.clock._now)
        queued_ps = max(issued_ps, root.home.left_ps(key))
        if root.caches.flush(key, keep):
            at = root.caches.dirty_at
            owner, later_ps = (root, 0) if at is None else (root.others[at], crossing_ps)
            queued_ps = max(queued_ps, owner.home.write_back(key, issued_ps, True, later_ps=later_ps))
        return queued_ps + crossing_ps if self._far and queued_ps > issued_ps else queued_ps
