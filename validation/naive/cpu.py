"""Cores and threads of the naive model: a core is a resource, an instruction holds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from ...models.host.cacheset import line_key
from ...models.host.fillbuffers import RUN_AHEAD, WINDOW_PS
from ...models.profiles.platform import Platform
from ...models.verbs import Span
from ...sim.bytespace import LINE_BYTES
from ...sim.units import PS_PER_S
from .adapter import Adapter, Message, Pair
from .engine import THREAD, Process, Simulation, Station
from .host import Host, Line, Touch

Load = Generator[simpy.Event, Any, bytes]


class Core:
    """A server that threads queue for, and what its flushes wait for."""

    def __init__(self, sim: Simulation, number: int, fill_buffers: int, prefetch_lines: int = 0) -> None:
        self.number = number
        self.station = Station(sim, level=THREAD)
        self.pending: list[simpy.Event] = []
        """The lines that a fence waits for: those on their way to write pending queues."""
        self.late: deque[simpy.Event] = deque()
        """Flushes of lines that the core did not have yet: when write pending queues have them."""
        self.fenced = -1, 0
        """When its last fence was over, and for how long it had waited."""
        self.fills = simpy.Resource(sim, fill_buffers)
        """Lines on their way to the core or from it."""
        self.streams = simpy.Resource(sim, prefetch_lines) if prefetch_lines else None
        """Lines of streams on their way to the core."""
        self._sim = sim

    def is_over(self, issued_ps: int) -> None:
        """A fence is over that was issued then: how far the core has run ahead."""
        now_ps, (over_ps, ahead_ps) = self._sim.now_ps, self.fenced
        since_ps = issued_ps - over_ps
        before_ps = ahead_ps + since_ps if since_ps < min(ahead_ps, WINDOW_PS) else 0
        self.fenced = now_ps, min(now_ps - issued_ps + before_ps, RUN_AHEAD * (now_ps - issued_ps))

    def buffer(self, streamed: bool = False) -> Generator[simpy.Event, Any, simpy.resources.resource.Request]:
        """Until it has a fill buffer for one more line, or one of those for lines of streams."""
        request = (self.streams if streamed and self.streams is not None else self.fills).request()
        yield request
        return request

    def leaves(self, buffer: simpy.resources.resource.Request, waits: list[simpy.Event]) -> None:
        """A line takes that buffer until all of this has happened."""
        self._sim.process(self._leaves(buffer, waits))

    def _leaves(self, buffer: simpy.resources.resource.Request, waits: list[simpy.Event]) -> Process:
        yield self._sim.all_of(waits)
        buffer.resource.release(buffer)


class Thread:
    """A thread on a core. At an instant it runs after all hardware, and after threads with smaller numbers."""

    def __init__(self, sim: Simulation, platform: Platform, host: Host, core: Core, name: str, number: int) -> None:
        self.sim = sim
        self.host = host
        self.core = core
        self.name = name
        self.span: Span | None = None
        self._cpu, self._nic = platform.cpu, platform.nic
        self._buffers = platform.private.fill_buffers
        self._poll_ps = platform.poll_ps
        self._cpu_waits = platform.private.read_for_ownership == "waited"
        self._number = number

    def _wait(self, event: simpy.Event) -> Process:
        """Wait for the event, and then for this thread's turn within the instant."""
        value = yield event
        yield self.sim.late(THREAD + 1 + self._number)
        return value

    def _take(self, cost_ps: int) -> Process:
        with self.core.station.join((self._number,)) as turn:
            yield turn
            yield from self._wait(self.sim.timeout(cost_ps))

    def _touch(self, touched: list[Touch], wait: bool = True) -> Process:
        coming: list[simpy.Event] = []
        for touch in touched:
            if touch.coming is not None and not touch.coming.processed and wait:
                coming.append(touch.coming)
            if touch.dirty and touch.fetched:
                if touch.left is not None:
                    yield touch.left
                buffer = yield from self.core.buffer(touch.streamed)
                cost_ps = touch.begin()
                assert touch.owned is not None
                self.sim.process(self._own(self._fetch(touch.behind, cost_ps, touch.victims, buffer), touch.owned))
                self.core.pending.append(touch.owned)
                yield self.sim.timeout(cost_ps // self._buffers + self._cpu.store_ps)
                continue
            if touch.dirty:
                if touch.behind is not None:
                    yield touch.behind
                cost_ps = 0
                if touch.cost_ps or touch.reading is not None:
                    buffer = yield from self.core.buffer(touch.streamed)
                    cost_ps = touch.begin()
                    self.core.leaves(buffer, [self.sim.timeout(cost_ps), *touch.victims])
                yield self.sim.timeout(cost_ps // self._buffers + self._cpu.store_ps)
                continue
            if touch.fetched:
                buffer = yield from self.core.buffer(touch.streamed)
                fetch = self.sim.process(self._fetch(touch.behind, touch.begin(), touch.victims, buffer))
                if wait:
                    coming.append(fetch)
                else:
                    self.host.coming[touch.key] = fetch
                yield self.sim.timeout(self._cpu.load_ps)
                continue
            if touch.behind is not None:
                yield touch.behind
            yield self.sim.timeout(touch.cost_ps)
        yield self.sim.all_of(coming)

    def _own(self, fetch: Process, owned: simpy.Event) -> Process:
        yield from fetch
        owned.succeed()

    def _fetch(
        self,
        behind: simpy.Event | None,
        cost_ps: int,
        victims: Sequence[simpy.Event],
        buffer: simpy.resources.resource.Request,
    ) -> Process:
        if behind is not None:
            yield behind
        yield self.sim.timeout(cost_ps)
        yield self.sim.all_of(list(victims))
        buffer.resource.release(buffer)

    # memory ---------------------------------------------------------------------------------------------------
    def load(self, address: int, length: int) -> Load:
        """Load a range; returns its bytes as they are at the end."""
        with self.core.station.join((self._number,)) as turn:
            yield from self._wait(turn)
            yield from self._touch(self.host.touch(self.core.number, address, length, dirty=False))
            yield from self._wait(self.sim.timeout(0))
            return self.host.peek(address, length)

    def prefetch(self, address: int, length: int) -> Process:
        """Request line after line, each behind a free fill buffer; no instruction waits until they come."""
        while length:
            take = min(LINE_BYTES - address % LINE_BYTES, length)
            with self.core.station.join((self._number,)) as turn:
                yield from self._wait(turn)
                self.core.fills.release((yield from self.core.buffer()))
                yield from self._wait(self.sim.timeout(0))
                touched = self.host.touch(self.core.number, address, take, dirty=False)
                yield from self._touch(touched, wait=False)
                yield from self._wait(self.sim.timeout(0))
            address, length = address + take, length - take

    def store(self, address: int, data: bytes) -> Process:
        """Store; the bytes appear at the end."""
        with self.core.station.join((self._number,)) as turn:
            yield from self._wait(turn)
            yield from self._touch(self.host.touch(self.core.number, address, len(data), True, self._ahead_ps()))
            yield from self._wait(self.sim.timeout(len(data) * 8 * PS_PER_S // self._cpu.memcpy_bits_per_s))
            self.host.poke(address, data)

    def ntstore(self, address: int, data: bytes) -> Process:
        """Line after line past the caches; the bytes appear when the line is in a write pending queue."""
        while data:
            take = min(LINE_BYTES - address % LINE_BYTES, len(data))
            with self.core.station.join((self._number,)) as turn:
                yield turn
                buffer = yield from self.core.buffer()
                yield from self._wait(self.sim.timeout(self._cpu.ntstore_ps))
                line = self.host.lines(address, take)[0]
                merged = self.host.caches.flush(line_key(*line), keep=False)
                device, _ = self.host.memory.locate(address)
                way_ps = self.host.platform.media[device.kind].ntstore_to_wpq_ps
                if take < LINE_BYTES and not merged and self.host.platform.imc.partial_ntstore == "read":
                    way_ps += self.host.from_memory([line], 1, 0)[0]
                queued = self.host.send(line, way_ps, flush=True)
                self.core.pending += [queued, *self._drained(line)]
                self.core.leaves(buffer, [queued, self.sim.timeout(self._cpu.ntstore_hold_ps)])
                self.sim.process(self._appear(queued, address, data[:take]))
            address, data = address + take, data[take:]

    def _appear(self, queued: simpy.Event, address: int, data: bytes) -> Process:
        yield queued
        self.host.poke(address, data)

    def clwb(self, address: int, length: int) -> Process:
        """Line after line leaves for memory."""
        yield from self._write_back(address, length, self._cpu.clwb_ps, keep=not self._cpu.clwb_invalidates)

    def clflushopt(self, address: int, length: int) -> Process:
        """Line after line leaves for memory, and the caches."""
        yield from self._write_back(address, length, self._cpu.clflushopt_ps, keep=False)

    def _write_back(self, address: int, length: int, cost_ps: int, keep: bool) -> Process:
        for line in self.host.lines(address, length):
            with self.core.station.join((self._number,)) as turn:
                yield turn
                buffer = yield from self.core.buffer()
                yield from self._wait(self.sim.timeout(cost_ps))
                owned = self.host.owned.get(line_key(*line))
                if owned is not None and not owned.processed:
                    while len(self.core.late) >= self._buffers and not owned.processed:
                        yield from self._wait(self.core.late.popleft())
                    if not owned.processed:
                        self.core.fills.release(buffer)
                        queued = self.sim.event()
                        self.core.late.append(queued)
                        self.core.pending += [owned, self.sim.process(self._flush_late(owned, queued, line, keep))]
                        continue
                waits = self.host.flush(line, keep)
                self.core.pending += [*waits, *self._drained(line)]
                self.core.leaves(buffer, waits)

    def _ahead_ps(self) -> int:
        """How far the core has run ahead of its last fences, if it is still within that."""
        over_ps, ahead_ps = self.core.fenced
        if self._cpu_waits and self.sim.now_ps - over_ps < min(ahead_ps, WINDOW_PS):
            return ahead_ps
        return 0

    def _flush_late(self, owned: simpy.Event, queued: simpy.Event, line: Line, keep: bool) -> Process:
        """The line leaves when the core has it."""
        yield from self._wait(owned)
        waits = self.host.flush(line, keep)
        yield self.sim.all_of(waits)
        queued.succeed()
        yield self.sim.all_of(self._drained(line))

    def _drained(self, line: Line) -> list[simpy.Event]:
        drained = self.host.before_fence(line)
        return [] if drained is None else [drained]

    def clflush(self, address: int, length: int) -> Process:
        """Line after line leaves for memory, the next when this one is in a write pending queue."""
        for line in self.host.lines(address, length):
            with self.core.station.join((self._number,)) as turn:
                yield from self._wait(turn)
                owned = self.host.owned.get(line_key(*line))
                if owned is not None and not owned.processed:
                    yield from self._wait(owned)
                waits = self.host.flush(line, keep=False)
                cost_ps = self._cpu.clflush_ps if waits else self._cpu.clflush_clean_ps
                yield from self._wait(self.sim.all_of([*waits, self.sim.timeout(cost_ps)]))

    def sfence(self) -> Process:
        """Wait until all that this core has flushed is in write pending queues."""
        with self.core.station.join((self._number,)) as turn:
            yield turn
            issued_ps = self.sim.now_ps
            waits, self.core.pending = self.core.pending, []
            yield self.sim.all_of(waits)
            yield from self._wait(self.sim.timeout(self._cpu.sfence_ps))
            self.core.is_over(issued_ps)

    def compute(self) -> Process:
        """A server's software for one request."""
        yield from self._take(self._cpu.request_ps)

    # verbs ----------------------------------------------------------------------------------------------------
    def post(self, adapter: Adapter, pair: Pair, message: Message) -> Process:
        """Build the request, with its payload if inline, and ring the doorbell."""
        request = message.request
        if request.inline and request.verb != "READ":
            message.payload = yield from self.load(message.local, request.length)
        further = (
            max(0, request.length - self._nic.wqe_inline_bytes) if request.inline and request.verb != "READ" else 0
        )
        yield from self._take(self._nic.post_wqe_ps + -(-further // self._nic.wqe_bytes) * self._nic.post_line_ps)
        message.span.mark(f"CPU of {self.name}", self.sim.now_ps)
        adapter.post(pair, message)

    def poll(self, queue: simpy.Store) -> Generator[simpy.Event, Any, Any]:
        """Poll until there is a completion; returns it."""
        completion = yield from self._wait(queue.get())
        yield from self._take(self._poll_ps)
        return completion
