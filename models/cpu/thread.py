"""A thread of a program: memory as x86 names it (``instructions.py``), adapters as libibverbs does.

The verbs here post work requests and poll completions; waiting for a completion without a busy loop is in
``channel.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ...sim.clock import HOLD, Clock
from ...sim.trace import Stage
from ..durability.ordering import Event, Ordering
from ..host.hostmemory import HostMemory
from ..memory.devices import DEVICE_SPAN_BITS, OFFSET_MASK
from ..profiles.parameters.cpu import CpuParameters
from ..profiles.platform import Platform
from ..verbs import wqe
from ..verbs.cross_channel import encode
from ..verbs.files import FileRegion
from ..verbs.objects import CompletionQueue, ProtectionDomain, QueuePair, SharedReceiveQueue, WorkCompletion
from ..verbs.opcodes import Opcode
from ..verbs.work import INLINE, MemoryRegion, RecvWR, SendWR
from .channel import CompletionEvents, WaitingThread
from .core import Core
from .software import Code, Deadline, Signal
from .spinning import SpinningThread

__all__ = ["Code", "Deadline", "Signal", "Thread"]

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_VISIBLE = int(Stage.VISIBLE)
_RECV, _RECV_IMM = Opcode.IBV_WC_RECV, Opcode.IBV_WC_RECV_RDMA_WITH_IMM


class Thread(SpinningThread, CompletionEvents):
    """A software thread pinned to a core: the API that a scheme's code is written against."""

    def __init__(
        self,
        clock: Clock,
        ordering: Ordering,
        platform: Platform,
        host: HostMemory,
        core: Core,
        name: str,
        *,
        hand_over: tuple[int, int],
        cpu: CpuParameters | None = None,
        pinned: bool = True,
        waits: str = "poll",
    ) -> None:
        """``hand_over`` has the costs of posting and polling, ``cpu`` the parameters of its kind of core."""
        super().__init__(clock, ordering, cpu or platform.cpu, host, core, name, pinned)
        role = name.split("[", maxsplit=1)[0]
        self._hop, self._wait_hop = f"CPU of {role}", f"wait for {role}"
        self._nic = platform.nic
        self._post_ps, self._poll_ps = hand_over
        self._interrupt_way_ps = platform.pcie.posted_write_ps
        self._waits = waits
        self._further_ps: dict[int, int] = {}
        """By bytes of inline data, on a reliable connection: the time for further units of the work request."""

    def post_send(self, qp: QueuePair, work: SendWR) -> Code:
        """``ibv_post_send``: build the WQE (with the payload, if inline) and ring the doorbell.

        Raises ValueError for an inline payload beyond ``max_inline_data``, and what :meth:`QueuePair.check` raises.
        """
        if not qp.unchecked or work.opcode is not _WRITE:
            qp.check(work)
            if qp.managed is not None:
                yield from self.store(qp.managed.place(qp.managed.posted), encode(work, qp.managed.posted))
                qp.managed.posted += 1
        length, core, clock, account = work.length, self.core, self.clock, self.account
        inline = work.send_flags in INLINE
        if inline and length > self._nic.inline_max_bytes:
            raise ValueError(f"inline data of {length} bytes, the adapter takes {self._nic.inline_max_bytes}")
        qp.posted += 1
        span = work.span = self.span
        cost_ps = self._post_ps
        if inline or not qp.reliable:
            further_ps = self._further_ps.get(length) if inline and qp.reliable else None
            if further_ps is None:
                units = wqe.further_units(self._nic, qp.qp_type, length if inline else 0)
                further_ps = units * self._nic.post_line_ps
                if inline and qp.reliable:
                    self._further_ps[length] = further_ps
            cost_ps += further_ps
        account.posts += 1
        account.under_way = 1
        account.verbs_ps += cost_ps
        if inline and core.undivided:
            start_ps = clock._now
            device, offset = self._attached[work.local_address >> DEVICE_SPAN_BITS], work.local_address & OFFSET_MASK
            access_ps = device.access_ps(offset, length, False, core.agent, core.fills)
            account.memory_ps += access_ps
            yield core.run(self, access_ps + cost_ps)
            loaded_ps = start_ps + access_ps
            payload, seen = device.load(loaded_ps, offset, length)
            if seen or self.host.peers:
                self._looked(Event.LOAD, loaded_ps, work.local_address, start_ps, seen)
        else:
            payload = (yield from self.load(work.local_address, length)) if inline else b""
            yield self.core.run(self, cost_ps)
            core = self.core
        if span is not None:
            span.marks.append((self._hop, clock._now))
        buffer = core.store_buffer
        if len(buffer.chunks) > buffer.settled[_VISIBLE]:  # else there is nothing to force
            self._ordering.happened(Event.DOORBELL, clock.now_ps, core=((core.stores, len(buffer.chunks)),))
        qp.device.ring(qp, work, payload)
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
        nic, clock, account, before = self._nic, self.clock, self.account, qp.posted
        inline = [work.send_flags in INLINE for work in works]
        try:
            for work, copied in zip(works, inline, strict=True):
                qp.check(work)
                if copied and work.length > nic.inline_max_bytes:
                    raise ValueError(f"inline data of {work.length} bytes, the adapter takes {nic.inline_max_bytes}")
                qp.posted += 1
        except (ValueError, OSError):
            qp.posted = before
            raise
        payloads = []
        for work, copied in zip(works, inline, strict=True):
            work.span = self.span
            payloads.append((yield from self.load(work.local_address, work.length)) if copied else b"")
        units = sum(
            wqe.further_units(nic, qp.qp_type, work.length if copied else 0)
            for work, copied in zip(works, inline, strict=True)
        )
        cost_ps = self._post_ps + (len(works) - 1) * nic.post_next_wqe_ps + units * nic.post_line_ps
        account.posts += len(works)
        account.under_way = 1
        account.verbs_ps += cost_ps
        yield self.core.run(self, cost_ps)
        core = self.core
        if self.span is not None:
            self.span.marks.append((self._hop, clock._now))
        self._ordering.happened(Event.DOORBELL, clock.now_ps, core=((core.stores, len(core.store_buffer.chunks)),))
        qp.device.ring_list(qp, works, payloads)
        core.may_pause(clock.now_ps)

    def post_recv(self, qp: QueuePair | SharedReceiveQueue, work: RecvWR) -> None:
        """``ibv_post_recv``, or ``ibv_post_srq_recv``; its cost is part of ``compute``."""
        qp.post_recv(work)

    def reg_mr(self, domain: ProtectionDomain, address: int, length: int, **access: Any) -> Code:
        """``ibv_reg_mr`` while the program runs: the time to pin and translate its pages; returns the region."""
        system = self._cpu.os
        pages = (address + length - 1) // system.page_bytes - address // system.page_bytes + 1
        yield from self.kernel(system.reg_mr_ps + pages * system.reg_mr_page_ps)
        return domain.reg_mr(address, length, **access)

    def reg_file_mr(self, domain: ProtectionDomain, extents: Sequence[tuple[int, int]], **access: Any) -> Code:
        """``reg_file_mr`` while the program runs; returns the region.

        Assumption: an entry of an extent takes what one of a page takes; the file system, not the call, keeps its
        blocks where they are.
        """
        system = self._cpu.os
        yield from self.kernel(system.reg_mr_ps + len(extents) * system.reg_mr_page_ps)
        return domain.reg_file_mr(extents, **access)

    def append_extent(self, domain: ProtectionDomain, region: FileRegion, address: int, length: int) -> Code:
        """A registered file grows, in the file system's own call: an entry more, and no registration; returns the
        region as it is now.
        """
        yield from self.kernel(self._cpu.os.reg_mr_page_ps)
        return domain.append_extent(region, address, length)

    def remap(self, domain: ProtectionDomain, region: FileRegion, offset: int, address: int, length: int) -> Code:
        """A range of a registered file is moved, in the file system's own call: the time of the entries that are new;
        returns the region as it is now.
        """
        found = domain.remap(region, offset, address, length)
        new = sum(extent.number >= region.numbered for extent in found.extents)
        yield from self.kernel(new * self._cpu.os.reg_mr_page_ps)
        return found

    def dereg_mr(self, domain: ProtectionDomain, region: MemoryRegion) -> Code:
        """``ibv_dereg_mr``: the adapter forgets the region, then its pages are unpinned."""
        system = self._cpu.os
        domain.dereg_mr(region)
        yield from self.kernel(system.reg_mr_ps + -(-region.length // system.page_bytes) * system.dereg_mr_page_ps)

    def poll(self, queue: CompletionQueue, deadline: Deadline | None = None, *, busy: bool = False) -> Code:
        """Poll until there is a completion; returns the :class:`WorkCompletion`.

        Returns None where ``deadline`` has passed before. ``busy``: in a loop, even if the thread sleeps otherwise.
        """
        completion, clock = queue.pop(), self.clock
        if completion is None:
            if deadline is not None:
                return (yield from self.poll_until(queue, deadline, "poll" if busy else self._waits))
            if self._waits != "poll" and not busy:
                return (
                    yield from self.next_completion(queue, self._cpu.os.spin_ps if self._waits == "adaptive" else 0)
                )
            waiting = WaitingThread(self, clock.running)
            queue.wait(waiting)
            if self.core.fair:
                self.core.spin(self, clock.running)
            yield HOLD
            assert waiting.completion is not None
            completion = waiting.completion
        else:
            if completion.span is not None:
                self._takes(completion)
            yield self.core.run(self, self._poll_ps)
        self._seen(completion)
        return completion

    def poll_some(self, queue: CompletionQueue, most: int) -> Code:
        """``ibv_poll_cq`` with room for ``most``: wait for a completion as :meth:`poll`, and take those behind it."""
        found = [(yield from self.poll(queue))]
        while len(found) < most and (completion := queue.pop()) is not None:
            self._takes(completion)
            yield self.core.run(self, self._nic.poll_next_ps)
            self._seen(completion)
            found.append(completion)
        return found

    @override
    def _seen(self, completion: WorkCompletion) -> None:
        """The code has got ``completion``."""
        account, clock = self.account, self.clock
        account.round_trips += account.under_way
        account.under_way = 0
        account.verbs_ps += self._poll_ps
        if completion.observe is not None:
            completion.observe(clock.now_ps)
        span = completion.span
        if completion.opcode is _RECV or completion.opcode is _RECV_IMM:
            self.span = span
        if span is not None and span is self.span:
            span.marks.append((self._hop, clock._now))

    @override
    def _takes(self, completion: WorkCompletion) -> None:
        """Count how long a receive's completion has waited for the thread that takes it now."""
        if completion.span is not None and (completion.opcode is _RECV or completion.opcode is _RECV_IMM):
            completion.span.marks.append((self._wait_hop, self.clock._now))
