"""The CPU layer, as x86 names it: cores, and threads that queue for them.

A store retires into its core's store buffer and drains in program order; nothing proves that it has left before a
fence, a doorbell or another agent's read says so. ``clwb`` and ``clflushopt`` take effect with the next ``sfence``,
``clflush`` at once; ``ntstore`` goes through write-combining buffers until an ``sfence`` (Intel SDM; Yang et al.,
FAST'20).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import HOLD, Clock
from ..sim.stations import Fifo
from ..sim.trace import Flush, Stage
from ..sim.units import parse_duration_ps
from .hostmemory import HostMemory
from .ordering import Event, Ordering
from .platform import Platform
from .verbs import INLINE, CompletionQueue, Opcode, QueuePair, RecvWR, SendWR, Span, WorkCompletion

Code = Generator[Any, Any, Any]
_RECV = Opcode.IBV_WC_RECV


class Pauses:
    """Lets cores pause at random where it matters to others: a schedule that running code may meet as well.

    ``every`` is how many chances there are for one pause, 0 for none. ``offered`` collects the chances (core, at),
    ``taken`` the pauses, as outages (core, from, for how long) that replay the same schedule.
    """

    def __init__(self, random: np.random.Generator, every: int, shortest_ps: int, longest_ps: int) -> None:
        self.offered: list[tuple[str, int]] = []
        self.taken: list[tuple[str, int, int]] = []
        self._random = random
        self._every = every
        self._shortest_ps = shortest_ps
        self._longest_ps = longest_ps

    def draw(self, core: str, now_ps: int) -> int:
        """For how long ``core`` pauses now: most often not at all."""
        self.offered.append((core, now_ps))
        if not self._every or self._random.integers(self._every):
            return 0
        for_ps = int(self._random.integers(self._shortest_ps, self._longest_ps, endpoint=True))
        self.taken.append((core, now_ps, for_ps))
        return for_ps


class Core:
    """One core: a server that threads queue for, with its store buffer and write-combining buffers.

    ``outages`` are stretches (from, for how long, in order) in which it does nothing for its threads, as when an
    interrupt, system management mode or a hypervisor has it. What it has stored stays where it is meanwhile.
    """

    def __init__(self, ordering: Ordering, name: str, outages: Sequence[tuple[int, int]] = (), agent: int = 0) -> None:
        self.name = name
        self.agent = agent
        """Its place among all cores: at one instant threads go on in the order of their cores."""
        self.threads = 0
        """How many threads share it."""
        self._station = Fifo()
        self._outages = deque(outages)
        self.pauses: Pauses | None = None
        self.stores = ordering.trace.channel(f"stores of {name}")
        self.store_buffer = ordering.trace.channels[self.stores]
        self.ntstores = ordering.trace.channel(f"non-temporal stores of {name}", ordered=False)
        self.flushes: list[Flush] = []
        """Issued and not fenced yet."""
        self.queued_ps = 0
        """When all that was flushed or stored past the caches is in the write pending queues."""

    def start_ps(self, now_ps: int) -> int:
        """When an instruction that is issued now is executed: behind those of other threads, and behind an outage."""
        free_ps = self._station.free_ps
        start_ps = now_ps if now_ps > free_ps else free_ps
        for from_ps, for_ps in self._outages:
            if from_ps > start_ps:
                break
            start_ps = max(start_ps, from_ps + for_ps)
        return start_ps

    def work(self, now_ps: int, cost_ps: int) -> int:
        """When work of ``cost_ps`` that is asked for now is done: after what was asked before, outages on top."""
        if not self._outages:
            station = self._station  # ``Fifo.serve`` written out; time does not run backwards
            free_ps = station.free_ps
            done_ps = station.free_ps = (now_ps if now_ps > free_ps else free_ps) + cost_ps
            station.busy_ps += cost_ps
            station.served += 1
            return done_ps
        start_ps = self.start_ps(now_ps)
        away_ps = start_ps - max(now_ps, self._station.free_ps)
        while self._outages and self._outages[0][0] < start_ps + cost_ps:
            from_ps, for_ps = self._outages.popleft()
            if from_ps > start_ps:  # in the middle of the work
                away_ps += for_ps
                start_ps += for_ps
        return self._station.serve(now_ps, cost_ps + away_ps)

    @property
    def undivided(self) -> bool:
        """Whether two pieces of work, one behind the other, are as good as one: nothing can come between them."""
        return self.threads == 1 and not self._outages

    def may_pause(self, now_ps: int) -> None:
        """A store, a fence or a doorbell is done: a place at which it matters to others if the core pauses."""
        for_ps = self.pauses.draw(self.name, now_ps) if self.pauses is not None else 0
        if for_ps:
            self._outages.append((now_ps, for_ps))


class Signal:
    """A word in a node's memory by which one thread tells others of work; who waits for it spins on it in its cache.

    It stays raised until a waiter takes it; raising it twice is as good as once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._raised = False
        self._waiting: deque[simpy.Event] = deque()

    def set(self) -> None:
        """Raise it: the first who waits goes on."""
        self._raised = True
        if self._waiting:
            self._waiting.popleft().succeed()

    def take(self) -> bool:
        """Whether it was raised; it is not any more."""
        raised, self._raised = self._raised, False
        return raised

    def changed(self) -> simpy.Event:
        """An event for the next :meth:`set`."""
        event = simpy.Event(self._clock)
        self._waiting.append(event)
        return event


class Deadline:
    """An instant that code compares its clock with."""

    def __init__(self, clock: Clock, at_ps: int) -> None:
        self._clock = clock
        self.at_ps = at_ps

    @property
    def passed(self) -> bool:
        """Whether it lies behind."""
        return self._clock.now_ps > self.at_ps


class Thread:
    """A software thread pinned to a core: the API that a scheme's code is written against."""

    def __init__(
        self, clock: Clock, ordering: Ordering, platform: Platform, host: HostMemory, core: Core, name: str
    ) -> None:
        self.clock = clock
        self.name = name
        self.core = core
        self.host = host
        self.span: Span | None = None
        """What the thread is busy with; a request that it receives brings its own along."""
        core.threads += 1
        self._ordering = ordering
        self._cpu = platform.cpu
        self._nic = platform.nic

    @property
    def now_ps(self) -> int:
        """The present instant."""
        return self.clock.now_ps

    def _work(self, cost_ps: int) -> Code:
        """Hold the core for ``cost_ps``, after those who asked before."""
        clock = self.clock
        done_ps = self.core.work(clock.now_ps, cost_ps)
        clock.resume(done_ps, self.core.agent)
        yield HOLD

    def _copy_ps(self, length: int) -> int:
        return length * 8 * 10**12 // self._cpu.memcpy_bits_per_s

    def _writer(self, what: str) -> str:
        return f"{what} by {self.name}" + (f", {self.span.label}" if self.span else "")

    # memory ---------------------------------------------------------------------------------------------
    def load(self, address: int, length: int) -> Code:
        """Load ``length`` bytes; returns them."""
        start_ps = self.core.start_ps(self.now_ps)
        yield from self._work(self.host.access_ps(address, length, dirty=False, start_ps=start_ps))
        return self._loaded(self.now_ps, address, length)

    def _loaded(self, at_ps: int, address: int, length: int) -> bytes:
        """What a load that is done at ``at_ps`` has found."""
        data, seen = self.host.dma_read(at_ps, address, length)
        if seen:
            self._ordering.happened(Event.LOAD, at_ps, returned=seen, reader=self.core.stores)
        return data

    def store(self, address: int, data: bytes) -> Code:
        """Store ``data``, in program order, word after word."""
        access_ps = self.host.access_ps(address, len(data), dirty=True, start_ps=self.core.start_ps(self.now_ps))
        yield from self._work(access_ps + self._copy_ps(len(data)))
        self.host.store(address, data, self.core.stores, self._writer("store"), self.now_ps)
        self.core.may_pause(self.now_ps)

    def ntstore(self, address: int, data: bytes) -> Code:
        """Non-temporal stores: past the caches, unordered until an ``sfence``."""
        core, done = self.core, 0
        while done < len(data):  # each line leaves when it is full
            take = min(LINE_BYTES - (address + done) % LINE_BYTES, len(data) - done)
            piece = data[done : done + take]
            yield from self._work(self._cpu.ntstore_ps)
            queued_ps = self.host.ntstore(address + done, piece, core.ntstores, self._writer("ntstore"), self.now_ps)
            core.queued_ps = max(core.queued_ps, queued_ps)
            done += take

    def memcpy(self, destination: int, source: int, length: int) -> Code:
        """Copy by loads and stores."""
        data = yield from self.load(source, length)
        yield from self.store(destination, data)

    def crc32(self, address: int, length: int) -> Code:
        """The CRC32 of a range; returns it."""
        data = yield from self.load(address, length)
        return (yield from self.crc32_of(data))

    def crc32_of(self, data: bytes) -> Code:
        """The CRC32 of bytes that the code has at hand already; returns it."""
        yield from self._work(self._cpu.crc32_ps_per_byte * len(data))
        return zlib.crc32(data)

    def compute(self) -> Code:
        """What a server's software does for a request besides touching its data: parse, dispatch, look up."""
        yield from self._work(self._cpu.request_ps)

    # other threads, and time ------------------------------------------------------------------------------
    def notify(self, signal: Signal) -> Code:
        """Store to the word that another thread spins on."""
        yield from self._work(self._cpu.store_ps)
        signal.set()

    def wait(self, signal: Signal) -> Code:
        """Spin until the signal is raised, and take it: no event while it is not, one turn of the loop once it is."""
        while not signal.take():
            yield signal.changed()
        yield from self._work(self._cpu.spin_loop_ps)

    def deadline(self, duration: str) -> Deadline:
        """The instant that lies ``duration`` (``"10 s"``) ahead: the time stamp counter read, and added to."""
        return Deadline(self.clock, self.now_ps + parse_duration_ps(duration))

    # persistence ------------------------------------------------------------------------------------------
    def clwb(self, address: int, length: int) -> Code:
        """Write the lines of a range back; done with the next ``sfence``."""
        yield from self._write_back(address, length, self._cpu.clwb_ps, keep=not self._cpu.clwb_invalidates)

    def clflushopt(self, address: int, length: int) -> Code:
        """Write the lines of a range back and drop them; done with the next ``sfence``."""
        yield from self._write_back(address, length, self._cpu.clflushopt_ps, keep=False)

    def _write_back(self, address: int, length: int, cost_ps: int, keep: bool) -> Code:
        device, offset = self.host.memory.locate(address)
        core = self.core
        issued_ps = core.start_ps(self.now_ps)
        touched = lines(offset, length)
        for line in touched:
            core.flushes.append(self._ordering.trace.flush(device.number, line, core.stores, issued_ps))
            issued_ps += cost_ps  # then the line is on its way, and the next one's turn has come
            core.queued_ps = max(core.queued_ps, self.host.flush_line(device, line, issued_ps, keep))
        yield from self._work(cost_ps * len(touched))

    def clflush(self, address: int, length: int) -> Code:
        """Write the lines of a range back and drop them, one after the other, each before any later store."""
        device, offset = self.host.memory.locate(address)
        for line in lines(offset, length):
            issued_ps = self.core.start_ps(self.now_ps)
            flush = self._ordering.trace.flush(device.number, line, self.core.stores, issued_ps)
            queued_ps = self.host.flush_line(device, line, issued_ps, keep=False)
            yield from self._work(max(self._cpu.clflush_ps, queued_ps - issued_ps))
            self._ordering.happened(Event.CLFLUSH, self.now_ps, flushes=[flush])

    def sfence(self) -> Code:
        """Wait until this core's stores are visible and its flushes and non-temporal stores are queued.

        It knows nothing of DMA in flight.
        """
        trace, core = self._ordering.trace, self.core
        stores, ntstores = trace.count(core.stores), trace.count(core.ntstores)
        flushes, core.flushes = core.flushes, []
        yield from self._work(max(0, core.queued_ps - core.start_ps(self.now_ps)) + self._cpu.sfence_ps)
        self._ordering.happened(
            Event.SFENCE,
            self.now_ps,
            core=(core.stores, stores),
            core_nt=(core.ntstores, ntstores),
            flushes=flushes,
        )
        core.may_pause(self.now_ps)

    def flush(self, address: int, length: int) -> Code:
        """Every line with the best instruction of this processor, then ``sfence``: what ``pmem_persist`` does."""
        instruction = {"clwb": self.clwb, "clflushopt": self.clflushopt, "clflush": self.clflush}
        yield from instruction[self._cpu.flush_instruction](address, length)
        yield from self.sfence()

    # verbs --------------------------------------------------------------------------------------------------
    def post_send(self, qp: QueuePair, work: SendWR) -> Code:
        """``ibv_post_send``: build the WQE (with the payload, if inline) and ring the doorbell.

        Raises ValueError for an inline payload beyond ``max_inline_data``.
        """
        length, core, clock = work.length, self.core, self.clock
        inline = int.__and__(work.send_flags, INLINE)
        if inline and length > self._nic.inline_max_bytes:
            raise ValueError(f"inline data of {length} bytes, the adapter takes {self._nic.inline_max_bytes}")
        span = work.span = self.span
        cost_ps = self._nic.post_wqe_ps
        if inline and work.opcode is not Opcode.IBV_WR_RDMA_READ:
            if core.undivided:
                now_ps = clock.now_ps
                start_ps = core.start_ps(now_ps)
                access_ps = self.host.access_ps(work.local_address, length, False, start_ps)
                clock.resume(core.work(now_ps, access_ps + cost_ps), core.agent)
                yield HOLD
                work.payload = self._loaded(start_ps + access_ps, work.local_address, length)
            else:
                work.payload = yield from self.load(work.local_address, length)
                yield from self._work(cost_ps)
        else:
            yield from self._work(cost_ps)
        if span is not None:
            span.mark(f"CPU of {self.name.split('[')[0]}", clock.now_ps)
        buffer = core.store_buffer
        if len(buffer.chunks) > buffer.settled[Stage.VISIBLE]:  # else there is nothing to force
            self._ordering.happened(Event.DOORBELL, clock.now_ps, core=(core.stores, len(buffer.chunks)))
        qp.nic.ring(qp, work)
        if core.pauses is not None:
            core.may_pause(clock.now_ps)

    def post_recv(self, qp: QueuePair, work: RecvWR) -> None:
        """``ibv_post_recv``; its cost is part of ``compute``."""
        qp.post_recv(work)

    def poll(self, queue: CompletionQueue) -> Code:
        """Poll until there is a completion; returns the :class:`WorkCompletion`."""
        completion, clock = queue.pop(), self.clock
        if completion is None:
            assert clock.active_process is not None
            waiting = _Waiting(self, clock.active_process)
            queue.wait(waiting)
            yield HOLD
            assert waiting.completion is not None
            completion = waiting.completion
        else:
            if completion.opcode is _RECV:
                self._takes(completion)
            core = self.core
            clock.resume(core.work(clock.now_ps, self._nic.poll_ps), core.agent)
            yield HOLD
        if completion.observe is not None:
            completion.observe(self.clock.now_ps)
        span = completion.span
        if span is not None:
            if completion.opcode is _RECV:
                self.span = span
            if span is self.span:
                span.mark(f"CPU of {self.name.split('[')[0]}", self.clock.now_ps)
        elif completion.opcode is _RECV:
            self.span = None
        return completion

    def _takes(self, completion: WorkCompletion) -> None:
        """A receive completion has waited until now for somebody who takes it."""
        if completion.span is not None:
            completion.span.mark(f"wait for {self.name.split('[')[0]}", self.clock.now_ps)


class _Waiting:
    """A thread whose poll has found nothing yet: it goes on a poll's time after the completion has shown."""

    __slots__ = ("_process", "_thread", "completion")

    def __init__(self, thread: Thread, process: simpy.Process) -> None:
        self._thread = thread
        self._process = process
        self.completion: WorkCompletion | None = None

    def found(self, completion: WorkCompletion) -> None:
        """Here it is."""
        thread, self.completion = self._thread, completion
        if completion.opcode is _RECV:
            thread._takes(completion)
        clock, core = thread.clock, thread.core
        clock.resume(core.work(clock.now_ps, thread._nic.poll_ps), core.agent, self._process)
