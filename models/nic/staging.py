"""Inbound staging on its way out: packets that an adapter has accepted and may not pass to PCIe yet.

As a rule a packet passes at once, and nothing is kept here. It waits where the root port's credits are used up, since
memory takes writes more slowly than the wire brings them, and where the arbiter does not follow the order of arrival,
while the link is busy. There is one queue for each queue pair, first in, first out; the order between them is the
arbiter's: of arrival, round robin, or drawn, so that another seed gives another schedule. All of them share the
adapter's memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ...sim.clock import Clock
from ...sim.trace import NEVER, Chunk
from ..durability.rules import RequestKind
from ..pcie.credits import UNIT_BYTES, PostedCredits, count_at_once, matter, units
from ..profiles.platform import Platform
from ..verbs.objects import QueuePair
from .ends import ReceiveEnd
from .slot import Slot

Leave = Callable[[int, int], None]
"""Takes when a TLP leaves the adapter, and when it is at the root port."""


class StagedPacket:
    """A packet's TLPs, in order, and the queue pair's actions once the last of them has left."""

    __slots__ = ("after", "end", "key", "kind", "ready_ps", "tlps")

    def __init__(self, end: ReceiveEnd, key: int, tlps: deque[tuple[int, Leave]], kind: RequestKind) -> None:
        self.end = end
        self.kind = kind
        self.ready_ps = 0
        """The instant until which the packet is held up."""
        self.key = key
        self.tlps = tlps
        self.after: list[Callable[[], None]] = []


class Gate:
    """The end of an epoch: the packets of its queue pair that came behind it, which stay until it is opened."""

    __slots__ = ("kept", "open", "packets")

    def __init__(self) -> None:
        self.open = False
        self.packets: list[StagedPacket] = []
        self.kept: list[Chunk] = []
        """The bytes of these packets, as far as they are traced."""


class Staging:
    """The packets that wait in one adapter; ``draw(n)`` chooses one of ``n`` queues for an arbiter that draws.

    ``left`` is called for each TLP that had to wait: with the instant at which it is at the root port, and its bytes.
    """

    def __init__(
        self, clock: Clock, slot: Slot, platform: Platform, draw: Callable[[int], int], left: Callable[[int, int], None]
    ) -> None:
        pcie = platform.pcie
        self._clock = clock
        self._slot = slot
        self._left = left
        self._draw = draw
        self._order = pcie.staging_order
        self._mps_bytes = pcie.mps_bytes
        self._pcie = pcie
        self.credits: PostedCredits | None = None
        """The root port's, while they are counted."""
        self.always_open = self._order == "arrival"
        """Nothing ever waits: the plain case, in which :meth:`open` need not be called."""
        if count_at_once(platform):
            self.count()
        elif matter(platform):
            slot.host.when_crowded.append(self.count)
        self._queues: dict[ReceiveEnd | None, deque[StagedPacket]] = {}
        """By queue pair, in the order in which they began to wait; all in one queue where order of arrival rules."""
        self._last: dict[ReceiveEnd, StagedPacket] = {}
        """By queue pair: the last packet that waits."""
        self._gates: dict[ReceiveEnd, deque[Gate]] = {}
        """By queue pair with epochs on their way: where each ends, in order."""
        self._sending: StagedPacket | None = None
        self._running = False
        self._holds: Callable[[QueuePair], int] | None = None

    def count(self) -> None:
        """Count the root port's credits from now on; what is under way already has none."""
        pcie = self._pcie
        self.credits = PostedCredits(pcie.posted_headers, pcie.posted_data_bytes, pcie.mps_bytes)
        self.always_open = False

    def hold_up(self, holds: Callable[[QueuePair], int]) -> None:
        """From now on a packet stays for as long as ``holds`` says, in picoseconds: nothing bounds how long it may.

        No platform does this by itself; the exploration of schedules does. Queue pairs do not wait for each other.
        """
        self._holds = holds
        self._order, self.always_open = "random", False

    def open(self, now_ps: int, address: int, length: int) -> bool:
        """Whether a packet with ``length`` bytes for ``address`` may go to PCIe now; takes its credits if so."""
        if self._last or self._holds is not None or (self._order != "arrival" and self._slot.link.free_ps > now_ps):
            return False
        credits, mps_bytes = self.credits, self._mps_bytes
        if credits is None:
            return True
        if length <= mps_bytes - address % mps_bytes:  # as below, for one TLP
            data = -(-length // UNIT_BYTES)
            if credits.headers and credits.data >= data:
                credits.headers -= 1
                credits.data -= data
                return True
        return self._take(now_ps, *units(address, length, mps_bytes, self._pcie.tlp_cut == "first byte"))

    def close(self, end: ReceiveEnd) -> Gate:
        """An epoch of a queue pair ends here: what comes behind stays until the gate that is returned is opened."""
        gate = Gate()
        self._gates.setdefault(end, deque()).append(gate)
        return gate

    def gated(self, end: ReceiveEnd) -> bool:
        """Whether packets of a queue pair stay behind an epoch."""
        return end in self._gates

    def open_gate(self, end: ReceiveEnd, gate: Gate) -> None:
        """An epoch is over: packets behind it go on, once those before it are over, too."""
        gate.open = True
        gates = self._gates[end]
        while gates and gates[0].open:
            opened = gates.popleft()
            if not gates:
                del self._gates[end]
            for chunk in opened.kept:
                chunk.kept_ps = self._clock.now_ps
            for item in opened.packets:
                end.inbound.behind_executed(item.kind, self._clock.now_ps)
                self._enqueue(item)

    def wait(
        self,
        end: ReceiveEnd,
        key: int,
        tlps: list[tuple[int, Leave]],
        kind: RequestKind,
        chunks: Sequence[Chunk] = (),
    ) -> None:
        """A packet's TLPs (bytes, the call when it leaves) have to wait; the first of them may go at once.

        ``chunks`` are its bytes in the trace.
        """
        item = StagedPacket(end, key, deque(tlps), kind)
        if end in self._gates:
            gate = self._gates[end][-1]
            gate.packets.append(item)
            gate.kept += chunks
            for chunk in chunks:
                chunk.kept_ps = NEVER
        else:
            self._enqueue(item)

    def _enqueue(self, item: StagedPacket) -> None:
        end, key = item.end, item.key
        self._queues.setdefault(None if self._order == "arrival" else end, deque()).append(item)
        idle, before = not self._last, self._last.get(end)
        self._last[end] = item
        if self._holds is not None:
            now_ps = self._clock.now_ps
            item.ready_ps = max(now_ps + self._holds(end.qp), before.ready_ps if before is not None else 0)
            if item.ready_ps > now_ps:
                self._clock.hardware(item.ready_ps, key, self._drain, None)
                return
        if (idle or self._holds is not None) and not self._running:
            self._drain(None)

    def behind(self, end: ReceiveEnd, action: Callable[[], None]) -> bool:
        """Call ``action`` once all waiting packets of ``end`` have left; False, without a call, if none waits."""
        gates = reversed(self._gates.get(end, ()))
        last = next((gate.packets[-1] for gate in gates if gate.packets), None) or self._last.get(end)
        if last is None:
            return False
        last.after.append(action)
        return True

    def _take(self, now_ps: int, headers: int, data: int) -> bool:
        credits = self.credits
        if credits is None or credits.take(now_ps, headers, data):
            return True
        self._slot.host.catch_up(now_ps)  # the writes that memory has taken until now
        return credits.take(now_ps, headers, data)

    def _drain(self, _: object) -> None:
        """Pass on the TLPs that may go now; come again when more may."""
        slot, clock = self._slot, self._clock
        now_ps = clock.now_ps
        self._running = True
        while self._last:
            item = self._sending
            if item is None:
                free_ps = slot.link.free_ps
                if self._order != "arrival" and free_ps > now_ps:
                    clock.hardware(free_ps, self._first_key(), self._drain, None)
                    return
                item = self._choose(now_ps)
                if item is None:  # all are held up, and each has set its own alarm
                    break
                self._sending = item
            tlps = item.tlps
            while tlps:
                n_bytes, leave = tlps[0]
                if not self._take(now_ps, *units(0, n_bytes, self._mps_bytes)):
                    clock.hardware(self._more_ps(now_ps), item.key, self._drain, None)
                    return
                tlps.popleft()
                slot.settle(item.key)
                start_ps, at_root_ps = slot.link.write(now_ps, n_bytes)
                leave(start_ps, at_root_ps)
                self._left(at_root_ps, n_bytes)
            self._sending = None
            if self._last[item.end] is item:
                del self._last[item.end]
            for action in item.after:
                action()
        self._running = False

    def _more_ps(self, now_ps: int) -> int:
        """When credits may come back next: known, or known once memory has taken its next write."""
        assert self.credits is not None
        known = [ps for ps in (self.credits.next_ps, self._slot.host.next_taken_ps) if ps is not None]
        assert known and min(known) > now_ps, "credits are with writes that are under way"
        return min(known)

    def _choose(self, now_ps: int) -> StagedPacket | None:
        """The arbiter: whose packet goes next; None if all are held up."""
        queues = list(self._queues)
        if self._holds is not None:
            queues = [end for end, queue in self._queues.items() if queue[0].ready_ps <= now_ps]
            if not queues:
                return None
        turn = queues[self._draw(len(queues))] if self._order == "random" else queues[0]
        queue = self._queues.pop(turn)
        item = queue.popleft()
        if queue:
            self._queues[turn] = queue  # behind the others
        return item

    def _first_key(self) -> int:
        return min(queue[0].key for queue in self._queues.values())
