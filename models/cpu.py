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

import simpy

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import HOLD, Clock
from ..sim.trace import Chunk, Stage
from ..sim.units import parse_duration_ps
from . import wqe
from .core import Core
from .hostmemory import HostMemory
from .opcodes import Opcode
from .ordering import Event, Ordering
from .platform import Platform
from .rules import Target
from .verbs import CompletionQueue, QueuePair, SharedReceiveQueue
from .work import INLINE, RecvWR, SendWR, Span, WorkCompletion

Code = Generator[Any, Any, Any]
_RECV, _RECV_IMM = Opcode.IBV_WC_RECV, Opcode.IBV_WC_RECV_RDMA_WITH_IMM


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
        self._ask(cost_ps)
        yield HOLD

    def _ask(self, cost_ps: int, process: simpy.Process | None = None) -> None:
        """Let ``process`` (None: that which runs now), which is on HOLD, go on when this work is done."""
        clock, core = self.clock, self.core
        if core.held:
            core.queue(process or clock.running, cost_ps)
        else:
            clock.resume(core.work(clock.now_ps, cost_ps), core.agent, process)

    def _turn(self) -> Code:
        """Until the core comes to an instruction that has to look at caches or queues to know its cost."""
        if not self.core.undivided and not self.core.enter(self.clock, self.clock.running):
            yield HOLD

    def _copy_ps(self, length: int) -> int:
        return length * 8 * 10**12 // self._cpu.memcpy_bits_per_s

    def _writer(self, what: str) -> str:
        return f"{what} by {self.name}" + (f", {self.span.label}" if self.span else "")

    # memory ---------------------------------------------------------------------------------------------
    def load(self, address: int, length: int) -> Code:
        """Load ``length`` bytes; returns them."""
        if not self.core.undivided:
            yield from self._turn()
        start_ps = self.clock.now_ps
        self._ask(self.host.access_ps(address, length, dirty=False))
        yield HOLD
        return self._loaded(self.clock.now_ps, address, length, start_ps)

    def _loaded(self, at_ps: int, address: int, length: int, issued_ps: int) -> bytes:
        """What a load that is done at ``at_ps`` has found."""
        data, seen = self.host.load(at_ps, address, length)
        if seen or self.host.peers:
            self._looked(Event.LOAD, at_ps, address, issued_ps, seen)
        return data

    def _looked(self, event: Event, at_ps: int, address: int, issued_ps: int, seen: Sequence[Chunk] = ()) -> None:
        """A read has come back: of a peer device it has pushed this core's posted stores before it.

        An uncached read empties write-combining buffers too (Intel SDM, volume 3, section 12.3.1).
        """
        to, stores = self.host.destination(address), self.core.stores
        self._ordering.happened(
            event,
            at_ps,
            here=self.host.circumstances(address),
            core=(*self.host.mmio_stores(stores, address), *self.host.mmio_stores(self.core.ntstores, address)),
            returned=seen,
            reader=stores,
            device=None if to.target is Target.MEMORY else to.number,
            issued_ps=issued_ps,
        )

    def read_pmrsts(self, address: int) -> Code:
        """Read the register PMRSTS of the device in whose persistent memory region ``address`` is."""
        yield from self._turn()
        start_ps = self.now_ps
        yield from self._work(self.host.status_read_ps(address, start_ps))
        self._looked(Event.STATUS_READ, self.now_ps, address, start_ps)

    def store(self, address: int, data: bytes) -> Code:
        """Store ``data``, in program order, word after word."""
        yield from self._turn()
        yield from self._work(self.host.access_ps(address, len(data), dirty=True) + self._copy_ps(len(data)))
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

    def crc32_matches(self, address: int, length: int, expected: int) -> Code:
        """Whether a range has this CRC32; returns that. Who explores what may be there answers (``Core.deciding``)."""
        if self.core.deciding is not None:
            yield from self._turn()
            yield from self._work(self.host.access_ps(address, length, dirty=False))
            found = self.core.deciding(address, length, expected)
            if found is not None:
                yield from self._work(self._cpu.crc32_ps_per_byte * length)
                return found
        return (yield from self.crc32(address, length)) == expected

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
        for line in lines(offset, length):
            yield from self._turn()
            core.flushes.append(self._ordering.trace.flush(device.number, line, core.stores, self.now_ps))
            yield from self._work(cost_ps)  # then the line is on its way, and the next one's turn has come
            core.queued_ps = max(core.queued_ps, self.host.flush_line(device, line, self.now_ps, keep))

    def clflush(self, address: int, length: int) -> Code:
        """Write the lines of a range back and drop them, one after the other, each before any later store."""
        device, offset = self.host.memory.locate(address)
        for line in lines(offset, length):
            yield from self._turn()
            issued_ps = self.now_ps
            flush = self._ordering.trace.flush(device.number, line, self.core.stores, issued_ps)
            queued_ps = self.host.flush_line(device, line, issued_ps, keep=False)
            yield from self._work(max(self._cpu.clflush_ps, queued_ps - issued_ps))
            self._ordering.happened(Event.CLFLUSH, self.now_ps, flushes=[flush])

    def sfence(self) -> Code:
        """Wait until this core's stores are visible and its flushes and non-temporal stores are queued.

        It knows nothing of DMA in flight.
        """
        trace, core = self._ordering.trace, self.core
        yield from self._turn()
        stores, ntstores = trace.count(core.stores), trace.count(core.ntstores)
        flushes, core.flushes = core.flushes, []
        yield from self._work(max(0, core.queued_ps - self.now_ps) + self._cpu.sfence_ps)
        self._ordering.happened(
            Event.SFENCE,
            self.now_ps,
            core=((core.stores, stores),),
            core_nt=((core.ntstores, ntstores),),
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

        Raises ValueError for an inline payload beyond ``max_inline_data``, and what :meth:`QueuePair.check` raises.
        """
        qp.check(work)
        length, core, clock = work.length, self.core, self.clock
        inline = int.__and__(work.send_flags, INLINE)
        if inline and length > self._nic.inline_max_bytes:
            raise ValueError(f"inline data of {length} bytes, the adapter takes {self._nic.inline_max_bytes}")
        qp.posted += 1
        span = work.span = self.span
        cost_ps = self._nic.post_wqe_ps
        if inline or not qp.reliable:
            units = wqe.further_units(self._nic, qp.qp_type, length if inline else 0)
            cost_ps += units * self._nic.post_line_ps
        if inline and core.undivided:
            start_ps = clock.now_ps
            access_ps = self.host.access_ps(work.local_address, length, False)
            clock.resume(core.work(start_ps, access_ps + cost_ps), core.agent)
            yield HOLD
            work.payload = self._loaded(start_ps + access_ps, work.local_address, length, start_ps)
        else:
            if inline:
                work.payload = yield from self.load(work.local_address, length)
            self._ask(cost_ps)
            yield HOLD
        if span is not None:
            span.mark(f"CPU of {self.name.split('[')[0]}", clock.now_ps)
        buffer = core.store_buffer
        if len(buffer.chunks) > buffer.settled[Stage.VISIBLE]:  # else there is nothing to force
            self._ordering.happened(Event.DOORBELL, clock.now_ps, core=((core.stores, len(buffer.chunks)),))
        qp.nic.ring(qp, work)
        if core.pauses is not None:
            core.may_pause(clock.now_ps)

    def post_list(self, qp: QueuePair, works: Sequence[SendWR]) -> Code:
        """``ibv_post_send`` of several linked work requests: built in memory, with one doorbell for all of them.

        The adapter fetches two or more by DMA; one alone is as :meth:`post_send`. Raises ValueError for no work
        request, an inline payload beyond ``max_inline_data``, and what :meth:`QueuePair.check` raises; then none is
        posted.
        """
        if not works:
            raise ValueError("a list of no work requests")
        if len(works) == 1:
            yield from self.post_send(qp, works[0])
            return
        nic, core, clock, before = self._nic, self.core, self.clock, qp.posted
        inline = [bool(int.__and__(work.send_flags, INLINE)) for work in works]
        try:
            for work, copied in zip(works, inline, strict=True):
                qp.check(work)
                if copied and work.length > nic.inline_max_bytes:
                    raise ValueError(f"inline data of {work.length} bytes, the adapter takes {nic.inline_max_bytes}")
                qp.posted += 1
        except (ValueError, OSError):
            qp.posted = before
            raise
        for work, copied in zip(works, inline, strict=True):
            work.span = self.span
            if copied:
                work.payload = yield from self.load(work.local_address, work.length)
        units = sum(
            wqe.further_units(nic, qp.qp_type, work.length if copied else 0)
            for work, copied in zip(works, inline, strict=True)
        )
        yield from self._work(nic.post_wqe_ps + (len(works) - 1) * nic.post_next_wqe_ps + units * nic.post_line_ps)
        if self.span is not None:
            self.span.mark(f"CPU of {self.name.split('[')[0]}", clock.now_ps)
        self._ordering.happened(Event.DOORBELL, clock.now_ps, core=((core.stores, len(core.store_buffer.chunks)),))
        qp.nic.ring_list(qp, works)
        core.may_pause(clock.now_ps)

    def post_recv(self, qp: QueuePair | SharedReceiveQueue, work: RecvWR) -> None:
        """``ibv_post_recv``, or ``ibv_post_srq_recv``; its cost is part of ``compute``."""
        qp.post_recv(work)

    def poll(self, queue: CompletionQueue) -> Code:
        """Poll until there is a completion; returns the :class:`WorkCompletion`."""
        completion, clock = queue.pop(), self.clock
        if completion is None:
            waiting = _Waiting(self, clock.running)
            queue.wait(waiting)
            yield HOLD
            assert waiting.completion is not None
            completion = waiting.completion
        else:
            self._takes(completion)
            self._ask(self._nic.poll_ps)
            yield HOLD
        if completion.observe is not None:
            completion.observe(clock.now_ps)
        span = completion.span
        if completion.opcode is _RECV or completion.opcode is _RECV_IMM:
            self.span = span
        if span is not None and span is self.span:
            span.mark(f"CPU of {self.name.split('[')[0]}", clock.now_ps)
        return completion

    def _takes(self, completion: WorkCompletion) -> None:
        """If it is of a receive, it has waited until now for somebody who takes it."""
        if completion.span is not None and (completion.opcode is _RECV or completion.opcode is _RECV_IMM):
            completion.span.mark(f"wait for {self.name.split('[')[0]}", self.clock.now_ps)


class _Waiting:
    """A thread whose poll has found nothing yet: it goes on a poll's time after the completion has shown."""

    __slots__ = ("_process", "_thread", "completion")

    def __init__(self, thread: Thread, process: simpy.Process) -> None:
        self._thread = thread
        self._process = process
        self.completion: WorkCompletion | None = None

    @property
    def alive(self) -> bool:
        """Whether it still waits: its process may have been stopped."""
        return self._process.is_alive

    def found(self, completion: WorkCompletion) -> None:
        """Here it is."""
        thread, self.completion = self._thread, completion
        thread._takes(completion)
        thread._ask(thread._nic.poll_ps, self._process)
