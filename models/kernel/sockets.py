"""TCP sockets of the kernel: system calls, copies, the stack on both sides, interrupts and wake-ups.

A message is copied into the kernel, cut into segments by the adapter, and goes through the adapter's port among its
RDMA packets, and through the switch. At the other side an interrupt, held back by moderation, lets the softirq take the
message in on the core that the socket is steered to; a thread that sleeps is woken. Bytes arrive in the order in which
they were sent. There is a receiver's window, and no congestion control, no loss, no acknowledgement on the wire.
Where a process ends the kernel closes its sockets, and their peers learn so (RST). Of a machine without power nobody
learns anything; once its power is back it knows none of its old connections, and answers what comes for one with a
reset (RFC 9293, section 3.5.2): what was sent meanwhile, which comes again after a retransmission's time, and the
probe of a peer that keeps its connection alive (RFC 9293, section 3.8.4). A peer that waits without probes waits on.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import simpy
from typing_extensions import override

from ...sim.units import parse_duration_ps
from ..cpu.core import Core
from ..cpu.software import Deadline
from ..cpu.thread import Code, Thread
from ..fabric.fabric import NO_QUEUE_PAIR
from ..nic.wire import crossed
from ..profiles.parameters.storage import KernelParameters
from ..storage.waiting import enter, sleep
from ..verbs.ties import NEXT_REQUEST, RESPONSE, tie
from .machine import Machine

BURST_BYTES = 65_536
"""The largest piece that the kernel hands to the adapter at once (TCP segmentation offload)."""
RESEND_PS, LONGEST_RESEND_PS = 200 * 10**9, 120 * 10**12
"""What nobody acknowledges is sent again after so long, twice as long each time, up to the longest (Linux, TCP_RTO_MIN
and TCP_RTO_MAX; RFC 6298, section 5)."""


class ConnectionReset(Exception):
    """ECONNRESET, EPIPE: the process at the other end is gone, or its machine knows nothing of it."""


class Burst:
    """Segments that the adapter makes of one piece: the facts that the port needs of them, as of a response."""

    __slots__ = (
        "data", "end", "end_ps", "key", "more", "n_bytes", "parts", "sent_bytes", "sizes", "span", "start_ps", "to",
    )  # fmt: skip

    def __init__(self, end: Socket, key: int, data: bytes, sizes: list[int]) -> None:
        self.end, self.to = end, end.peer
        self.key = key
        self.data = data
        self.sizes = sizes
        """Of its frames."""
        self.n_bytes = sizes[0]
        self.more: list[Any] | None = sizes[1:] or None
        self.start_ps = self.end_ps = 0
        self.sent_bytes = 0
        self.span = self.parts = None


class Socket:
    """One end of a connection; ``core`` is where its softirqs run, that of the thread that reads it."""

    number = NO_QUEUE_PAIR

    def __init__(self, node: Machine, core: Core, keepalive_ps: int = 0) -> None:
        """``keepalive_ps``: it sends a probe when it has heard nothing for so long (SO_KEEPALIVE); 0: never."""
        nic = node.nic
        self.node = node
        self.core = core
        self.peer: Socket = self
        self.nic = nic
        """The adapter of the machine since its power came on last before this was opened."""
        self.sent_bytes = 0
        self._keepalive_ps = keepalive_ps
        self._heard_ps = node.system.clock.now_ps
        """When something came last."""
        self._unheard_ps: int | None = None
        """When the first burst came that found the machine without power."""
        self._clock = node.system.clock
        self._kernel: KernelParameters = node.system.platform.kernel
        self._key = tie(adapter=nic.number + 1, queue_pair=nic.next_qp_number())
        self._received: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._room = self._kernel.window_bytes
        """The bytes that the other side may still send."""
        self._senders: deque[simpy.Event] = deque()
        self._readers: deque[simpy.Event] = deque()
        self._interrupt_ps = 0
        """When the adapter interrupts next, or has last."""
        self.closed = False
        """Its own process has gone, or its machine has lost power."""
        self.reset = False
        """That of the other end has, and this end knows."""

    @property
    def readable_bytes(self) -> int:
        """The number of bytes that :meth:`recv` would find."""
        return self._waiting_bytes

    def close(self) -> None:
        """The kernel closes it, its process having ended: what it has sent still arrives, and behind it a reset."""
        if not self.closed:
            self.closed = True
            self._post(b"")

    # sending ----------------------------------------------------------------------------------------------
    def send(self, thread: Thread, data: bytes) -> Code:
        """send(2): returns once the kernel has all of it; sleeps while the receiver has no room.

        Raises ConnectionReset.
        """
        kernel, done = self._kernel, 0
        yield from enter(thread)
        while done < len(data):
            while self.reset or not self.peer._room:
                if self.reset:
                    raise ConnectionReset
                event = simpy.Event(self._clock)
                self._senders.append(event)
                yield from sleep(thread, event)
            piece = data[done : done + min(BURST_BYTES, self.peer._room)]
            self.peer._room -= len(piece)
            segments = -(-len(piece) // kernel.segment_bytes)
            stack_ps = kernel.send_ps + (segments - 1) * kernel.segment_work_ps
            yield from thread.kernel(stack_ps + kernel.copy_ps_per_byte * len(piece))
            self._post(piece)
            done += len(piece)

    def _post(self, piece: bytes) -> None:
        kernel = self._kernel
        sizes = [
            kernel.frame_bytes + min(kernel.segment_bytes, len(piece) - at)
            for at in range(0, max(1, len(piece)), kernel.segment_bytes)
        ]
        self._key += NEXT_REQUEST
        self.sent_bytes += len(piece)
        burst = cast(Any, Burst(self, self._key, piece, sizes))
        self._clock.call_at(self._clock.now_ps + kernel.adapter_ps, self._at_port, burst)

    def _at_port(self, burst: Any) -> None:
        self.nic.port.response(self._clock.now_ps, burst, self._leave)

    def _leave(self, burst: Any) -> None:
        """The first segment may be at the last switch: if it is, it goes on, and the others follow."""
        port, clock = self.nic.port, self._clock
        if burst.start_ps < 0:
            port.serve_response(burst)
        head_ps, key = burst.start_ps + port.propagation_ps, burst.key + RESPONSE
        if head_ps > clock.now_ps:
            clock.hardware(head_ps, key, self._leave, burst)
            return
        for turn, (start_ps, end_ps) in enumerate(burst.more or (), 1):
            clock.hardware(start_ps + port.propagation_ps, key + turn, self._cross, (burst, turn, end_ps))
        self._cross((burst, 0, burst.end_ps))

    def _cross(self, frame: tuple[Any, int, int]) -> None:
        burst, turn, end_ps = frame
        there = self.peer
        if end_ps > self.nic.off_ps:
            return
        tail_ps = crossed(self.node.system.fabric, there.nic, self._clock.now_ps, end_ps, burst.sizes[turn])
        if turn == len(burst.sizes) - 1:
            self._clock.hardware(tail_ps + self._kernel.adapter_ps, burst.key + RESPONSE, there._arrived, burst)

    # behind a power failure of its machine ----------------------------------------------------------------
    def power_is_back(self) -> None:
        """Its machine has power again, and does not know it: its peer learns so when it sends again, or probes."""
        self.closed = True
        now_ps, peer, comes_ps = self._clock.now_ps, self.peer, []
        if self._unheard_ps is not None:
            again_ps, wait_ps = self._unheard_ps, RESEND_PS
            while again_ps < now_ps:
                again_ps, wait_ps = again_ps + wait_ps, min(2 * wait_ps, LONGEST_RESEND_PS)
            comes_ps.append(again_ps)
        if peer._keepalive_ps:
            silent_ps = now_ps - peer._heard_ps
            comes_ps.append(now_ps + -silent_ps % peer._keepalive_ps)
        if comes_ps:
            self._clock.call_at(min(comes_ps), self._refuse, None)

    def _unknown(self, burst: Burst) -> None:
        """A burst has come for a connection of before: without power nobody answers, and then a reset does."""
        if self._clock.now_ps < self.node.nic.off_ps:
            if burst.data:  # a reset is not answered
                self._refuse()
        elif burst.data and self._unheard_ps is None:
            self._unheard_ps = self._clock.now_ps

    def _refuse(self, _: Any = None) -> None:
        """The machine as it is now answers with a reset, unless its peer knows, or has lost power itself."""
        peer = self.peer
        if not peer.reset and peer.nic is peer.node.nic and self._clock.now_ps < self.node.nic.off_ps:
            answer = Socket(self.node, self.core)
            answer.peer = peer
            answer._post(b"")

    # receiving --------------------------------------------------------------------------------------------
    def _arrived(self, burst: Any) -> None:
        """All of a burst is in the receiver's memory: an interrupt, now or with the bursts that came shortly before."""
        now_ps = self._clock.now_ps
        if now_ps > self.nic.off_ps:
            self._unknown(burst)
            return
        if self._interrupt_ps <= now_ps:
            self._interrupt_ps = now_ps + self._kernel.moderation_ps
        self._clock.call_at(self._interrupt_ps, self._softirq, burst)

    def _softirq(self, burst: Any) -> None:
        if self._clock.now_ps > self.nic.off_ps:
            self._unknown(burst)
            return
        kernel = self._kernel
        stack_ps = kernel.receive_ps + (len(burst.sizes) - 1) * kernel.segment_work_ps
        self.core.interrupt(self._clock, self.node.cpu.os.interrupt_ps + stack_ps, self._take_in, burst.data)

    def _take_in(self, data: bytes) -> None:
        if self.closed:
            return
        self._heard_ps = self._clock.now_ps
        if not data:
            self.reset = True
            while self._senders:
                self._senders.popleft().succeed()
        else:
            self._received.append(data)
        self._waiting_bytes += len(data)
        while self._readers:
            self._readers.popleft().succeed()

    def recv(self, thread: Thread, most: int) -> Code:
        """recv(2): at least a byte and at most so many, in order; sleeps until there is something.

        Raises ConnectionReset behind the last byte.
        """
        kernel = self._kernel
        yield from enter(thread)
        while not self._waiting_bytes:
            if self.reset:
                raise ConnectionReset
            yield from self.until_readable(thread)
        data = self._take(most)
        yield from thread.kernel(kernel.copy_ps_per_byte * len(data))
        return data

    def _take(self, most: int) -> bytes:
        parts, left = [], most
        while self._received and left:
            part = self._received.popleft()
            if len(part) > left:
                self._received.appendleft(part[left:])
                part = part[:left]
            parts.append(part)
            left -= len(part)
        taken = most - left
        self._waiting_bytes -= taken
        self._room += taken
        while self.peer._senders and taken:
            self.peer._senders.popleft().succeed()
        return b"".join(parts)

    def until_readable(self, thread: Thread) -> Code:
        """Sleep until something has come."""
        event = simpy.Event(self._clock)
        self._readers.append(event)
        yield from sleep(thread, event)

    def notify(self, event: simpy.Event) -> None:
        """``event`` happens with the next bytes, unless it has already."""
        self._readers.append(event)


class Epoll:
    """epoll_create(2): which of many sockets can be read (level-triggered)."""

    def __init__(self, kernel: KernelParameters) -> None:
        self._kernel = kernel
        self._sockets: list[Socket] = []
        self._asleep: list[_Once] = []
        """The events of threads that wait."""

    def add(self, socket: Socket) -> None:
        """Add a socket to wait for, for reading (EPOLL_CTL_ADD), by those too that wait already."""
        self._sockets.append(socket)
        for event in self._asleep:
            socket.notify(event)

    def remove(self, socket: Socket) -> None:
        """Wait for a socket no more (EPOLL_CTL_DEL)."""
        self._sockets.remove(socket)

    def wait(self, thread: Thread, deadline: Deadline | None = None) -> Code:
        """epoll_wait(2): sleeps until there is one; returns all that can be read, in the order of being added.

        None by the ``deadline``: an empty list.
        """
        yield from enter(thread)
        while not (ready := [socket for socket in self._sockets if socket.readable_bytes or socket.reset]):
            if deadline is not None and thread.now_ps >= deadline.at_ps:
                return []
            yield from self._sleep(thread, deadline)
        yield from thread.kernel(self._kernel.epoll_ps * len(ready))
        return ready

    def _sleep(self, thread: Thread, deadline: Deadline | None) -> Code:
        event = _Once(thread.clock)
        for socket in self._sockets:
            socket.notify(event)
        if deadline is not None:
            thread.clock.call_at(deadline.at_ps, _happens, event)
        self._asleep.append(event)
        yield from sleep(thread, event)
        self._asleep.remove(event)


class _Once(simpy.Event):
    """An event that several sockets may trigger; the first of them counts."""

    @override
    def succeed(self, value: Any = None) -> _Once:
        if not self.triggered:
            super().succeed(value)
        return self


def _happens(event: _Once) -> None:
    event.succeed()


def connect(
    client: Machine, server: Machine, client_core: int = 0, server_core: int = 0, keepalive: str | None = None
) -> tuple[Socket, Socket]:
    """An established connection: the ends at the client and at the server, with the cores that read them.

    The client sends a probe where it has heard nothing for ``keepalive`` (``"15 s"``); None: it sends none.
    """
    silent_ps = parse_duration_ps(keepalive) if keepalive is not None else 0
    ends = Socket(client, client.cores[client_core], silent_ps), Socket(server, server.cores[server_core])
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    return ends
