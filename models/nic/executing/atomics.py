"""The responder's atomic unit: one for each adapter, with one lock or several.

The adapter reads the operand over PCIe behind its own posted writes, computes, and writes the result as a posted write.
The operand's lock is held until it has done all that, so that RDMA atomics of this adapter see each other; how many
locks there are, hashed by the operand's address, is the device's (Kalia et al., ATC'16, section 3.4). Nothing is locked
meanwhile for others: a CPU's store, or its CAS, in between is overwritten (ibv_wr_post(3): IBV_ATOMIC_HCA). One whose
queue pair is destroyed meanwhile, or whose adapter loses its power, writes nothing.

*A stall* (``atomic_stall``): an atomic that waits for its lock keeps the unit of the receive engine that it came
through, and so holds up whatever comes behind it there (Kong et al., NSDI'23, finding 2). How long that will be is
reckoned ahead, from how long the latest atomic held its lock: packets that arrive meanwhile are processed then.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from ....sim.trace import Chunk
from ...durability.rules import Event, RequestKind
from ...verbs.opcodes import Opcode
from ..adapter import Adapter
from ..ends import ReceiveEnd
from ..inbound import Observe
from ..lanes import Operand
from ..message import Message
from ..packets import ATOMIC_BYTES
from .order import Running

_WORD = 1 << (8 * ATOMIC_BYTES)


_Waiting = tuple[ReceiveEnd, Message, Running, Operand, Observe, int]


class AtomicUnit:
    """Executes the atomics that arrive at one adapter; atomics that share a lock go in order of arrival."""

    def __init__(self, nic: Adapter) -> None:
        self._nic = nic
        self._locks = nic.parameters.atomic_units
        self._occupancy_ps = nic.parameters.atomic_occupancy_ps
        operand_ps = nic.parameters.atomic_operand_ps
        self._sooner_ps = max(0, nic.slot.link.parameters.dma_read_ps - operand_ps) if operand_ps else 0
        self._stalls = nic.parameters.atomic_stall
        self._since_ps: dict[int, int] = {}
        """By lock that is held: since when."""
        self._held_ps = 0
        """How long the latest atomic held its lock."""
        self._waiting: dict[int, deque[_Waiting]] = {}
        """By lock that is held: the atomics that wait for it."""
        self._free_ps = 0
        """When the arithmetic, which all atomics share, is free."""
        self.executed = 0
        self.conflicts = 0
        """Executed atomics that found their lock held."""

    def execute(self, end: ReceiveEnd, message: Message, running: Running) -> None:
        """It is ``message``'s turn on its queue pair: queue for the operand's lock."""
        seen: list[Chunk] = []
        address = self._nic.regions.place(message.work)
        observe = end.inbound.observer(Event.ATOMIC_RESULT, address, returned=seen)
        lanes = end.inbound.lanes(address)
        operand = Operand((*lanes.earlier(), *lanes.earlier_releases()), seen)
        found = end, message, running, operand, observe, address
        lock = self._lock(address)
        self.executed += 1
        if lock in self._waiting:
            self.conflicts += 1
            waiting = self._waiting[lock]
            waiting.append(found)
            if self._stalls:
                receivers, free_ps = self._nic.receivers, self._since_ps[lock] + len(waiting) * self._held_ps
                receivers[end.unit] = max(receivers[end.unit], free_ps)
        else:
            self._waiting[lock] = deque()
            self._start(found)

    def _lock(self, address: int) -> int:
        return address // ATOMIC_BYTES % self._locks

    def _start(self, found: _Waiting) -> None:
        """An atomic has its lock: read the operand."""
        end, message, running, operand, observe, address = found
        nic = self._nic
        self._since_ps[self._lock(address)] = nic.clock.now_ps
        observe = end.inbound.behind_results(observe, address)
        nic.slot.settle(message.key)
        nic.slot.dma.read(
            message.key,
            address,
            ATOMIC_BYTES,
            partial(self._compute, end, message, running, operand, observe, address),
            not_before_ps=end.inbound.lanes(address).placed_ps,
            sooner_ps=self._sooner_ps,
        )

    def _compute(
        self,
        end: ReceiveEnd,
        message: Message,
        running: Running,
        operand: Operand,
        observe: Observe,
        address: int,
        old: bytes,
        chunks: list[Chunk],
    ) -> None:
        """The operand is here: the arithmetic takes one atomic after the other."""
        operand.seen.extend(chunks)
        clock = self._nic.clock
        self._free_ps = max(self._free_ps, clock.now_ps) + self._occupancy_ps
        finish = partial(self._finish, end, running, operand, observe, address, old)
        clock.hardware(self._free_ps, message.key, finish, message)

    def _finish(
        self,
        end: ReceiveEnd,
        running: Running,
        operand: Operand,
        observe: Observe,
        address: int,
        old: bytes,
        message: Message,
    ) -> None:
        nic, now_ps = self._nic, self._nic.clock.now_ps
        if not end.gone:
            new = _result(message, int.from_bytes(old, "little"))
            if new is not None:
                end.inbound.behind_executed(RequestKind.ATOMIC, now_ps)
                nic.responder.post_result(end, message, new.to_bytes(ATOMIC_BYTES, "little"), operand)
            end.inbound.executed(RequestKind.ATOMIC, observe)
            nic.answers.answer(end, message, now_ps, old, observe)
        end.order.end(running, now_ps)
        lock = self._lock(address)
        self._held_ps = now_ps - self._since_ps[lock]
        waiting = self._waiting[lock]
        if waiting:
            self._start(waiting.popleft())
        else:
            del self._waiting[lock], self._since_ps[lock]


def _result(message: Message, old: int) -> int | None:
    """The value to write; None if the comparison fails."""
    if message.opcode is Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD:
        return (old + message.work.compare_add) % _WORD
    return message.work.swap % _WORD if old == message.work.compare_add % _WORD else None
