"""The two ways of a request and its reply: by WRITE, as the paper has it, and by SEND, which it compares with.

Source: Luo et al., TCAD 2024, section IV-B, algorithms 1 and 2. By WRITE: the client WRITEs the request, then a flag
into the server's DRAM, signalled; it polls that completion, and spins on a flag of its own. The server's thread spins
on its flag, clears it, and answers in the same way. By SEND, as the paper draws FaSST: each side SENDs, waits for the
completion, posts a RECV and waits. Where the text has one combined WRITE the listing has two: the listing is followed.

A server that loses its power behind the completion of a request never answers it, and no error tells the client. The
paper has no failures while clients live; here a client that waits too long looks whether the server is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...models.cpu import Deadline, Signal, Thread
from ...models.system import Node
from ...models.verbs import (
    REMOTE,
    Opcode,
    ProtectionDomain,
    QueuePair,
    RecvWR,
    SendFlags,
    SendWR,
    Status,
)
from ..layout import U32, Layout
from ..parts.rpc import PATIENCE

Code = Generator[Any, Any, Any]

LINE = 64
CLEAR, SET = b"\0", b"\1"
"""A flag, before a message and with one."""
DONE, ABSENT, REFUSED, CORRUPT = 0, 1, 2, 3
"""What a reply says: it is done, nothing is there, it is no request or cannot be done, the store is corrupt."""


class ConnectionBroken(Exception):
    """The other end of a connection is gone."""


class ReplyHead(Layout):
    """What comes before a reply's data."""

    status = U32()
    length = U32()


class RequestPlace(NamedTuple):
    """Where requests go: an address of the server's memory, and its key."""

    address: int
    rkey: int


class Side(ABC):
    """One side of a connection, client's or server's."""

    def __init__(self, node: Node, domain: ProtectionDomain, qp: QueuePair, room: int) -> None:
        """``room`` is that for a message, either way."""
        self.node, self.domain, self.qp, self.room = node, domain, qp, room

    patience: str | None = None
    """After what time without a message it looks whether the other side is still there; None: it waits on."""

    @property
    def gone(self) -> bool:
        """Whether its queue pair is in the error state."""
        return self.qp.error

    inbox: RequestPlace
    """Where messages come by default."""

    def disconnect(self) -> None:
        """The connection is over, on both sides: the connection manager tells the other one."""
        self.qp.fail()
        if self.qp.peer is not None:
            self.qp.peer.fail()

    def waits(self, thread: Thread) -> Deadline | None:
        """The end of its patience, from now on."""
        return None if self.patience is None else thread.deadline(self.patience)

    def look_for_other(self, thread: Thread) -> Code:
        """READ nothing from the other side, which answers if it is there. Raises :class:`ConnectionBroken`."""
        yield from thread.post_send(self.qp, SendWR(0, Opcode.IBV_WR_RDMA_READ, self.inbox.address, 0))
        completion = yield from thread.poll(self.qp.send_cq)
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise ConnectionBroken

    def until(self, thread: Thread, done: Callable[[], bool], signal: Signal) -> Code:
        """Wait until the other side has done what a signal tells. Raises :class:`ConnectionBroken`."""
        while not done() and not self.gone:
            raised = yield from thread.wait_until(signal, thread.deadline(PATIENCE))
            if not raised and not done():
                yield from self.look_for_other(thread)
        if not done():
            raise ConnectionBroken

    @abstractmethod
    def send(self, thread: Thread, data: bytes, place: RequestPlace | None = None) -> Code:
        """Send a message; by WRITE it goes to ``place``, or to where replies go. Raises :class:`ConnectionBroken`."""

    @abstractmethod
    def receive(self, thread: Thread) -> Code:
        """Wait for a message. Raises :class:`ConnectionBroken`."""

    def expect(self, thread: Thread) -> None:  # noqa: B027 (a WRITE needs nobody to expect it)
        """Be ready for the next message: the one before has been read."""


class WriteSide(Side):
    """By WRITE: a buffer to write from, a flag to spin on. A flag may say more than that there is a message."""

    flag_bytes: ClassVar[int] = 1
    inlined: ClassVar[bool] = True
    """Whether what is short travels inline."""

    def __init__(self, node: Node, domain: ProtectionDomain, qp: QueuePair, room: int, align: int = LINE) -> None:
        super().__init__(node, domain, qp, room)
        dram = node.memory["dram"]
        lines = -(-room // align) * align
        self._buffer = dram.allocate(lines, "message buffer", align=LINE)
        self._set = dram.allocate(LINE, "set flag", align=LINE)
        dram.space.poke(self._set - dram.base, SET)
        base = dram.allocate(lines + LINE, "message", align=align)
        rkey = domain.reg_mr(base, lines + LINE, REMOTE).key
        self.inbox = RequestPlace(base, rkey)
        self.flag = RequestPlace(base + lines, rkey)
        """The flag that its owner spins on."""

    def meets(self, other: WriteSide) -> None:
        """The other side is there."""
        self._there, self._flag_there = other.inbox, other.flag

    @override
    def send(self, thread: Thread, data: bytes, place: RequestPlace | None = None) -> Code:
        yield from self.write(thread, data, place)
        yield from self.tell(thread)

    def write(self, thread: Thread, data: bytes, place: RequestPlace | None = None) -> Code:
        """WRITE a message; the flag says that it is there."""
        yield from thread.store(self._buffer, data)
        yield from self._write(thread, self._buffer, len(data), place or self._there, SendFlags.NONE)

    def tell(self, thread: Thread, flag: bytes = SET) -> Code:
        """WRITE the other side's flag, and wait for the completion. Raises :class:`ConnectionBroken`."""
        if flag != SET:
            yield from thread.store(self._set, flag)
        yield from self._write(thread, self._set, len(flag), self._flag_there, SendFlags.IBV_SEND_SIGNALED)
        completion = yield from thread.poll(self.qp.send_cq)
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise ConnectionBroken

    def _write(self, thread: Thread, here: int, length: int, there: RequestPlace, flags: SendFlags) -> Code:
        if self.inlined and length <= self.qp.max_inline_data:
            flags |= SendFlags.IBV_SEND_INLINE
        work = SendWR(0, Opcode.IBV_WR_RDMA_WRITE, here, length, there.address, there.rkey, flags)
        yield from thread.post_send(self.qp, work)

    @override
    def receive(self, thread: Thread) -> Code:
        clear = CLEAR * self.flag_bytes
        while (yield from thread.spin([(self.flag.address, clear)], self.waits(thread), [self.qp])) is None:
            if self.gone:
                raise ConnectionBroken
            yield from self.look_for_other(thread)
        if self.flag_bytes > 1:
            self.told = yield from thread.load(self.flag.address, self.flag_bytes)
        yield from thread.store(self.flag.address, clear)

    told: bytes = SET
    """What the flag said last."""


class SendSide(Side):
    """By SEND: a buffer to send from, one to receive into, whose RECV is posted when the side waits."""

    def __init__(self, node: Node, domain: ProtectionDomain, qp: QueuePair, room: int) -> None:
        super().__init__(node, domain, qp, room)
        dram = node.memory["dram"]
        self._buffer = dram.allocate(room, "message buffer", align=LINE)
        self.inbox = RequestPlace(dram.allocate(room, "message", align=LINE), 0)
        self._posted = False

    @override
    def expect(self, thread: Thread | None = None) -> None:
        """Post a RECV, unless one is posted."""
        if not self._posted:
            self._posted = True
            self.qp.post_recv(RecvWR(0, self.inbox.address, self.room))

    @override
    def send(self, thread: Thread, data: bytes, place: RequestPlace | None = None) -> Code:
        yield from thread.store(self._buffer, data)
        flags = SendFlags.IBV_SEND_SIGNALED
        if len(data) <= self.qp.max_inline_data:
            flags |= SendFlags.IBV_SEND_INLINE
        yield from thread.post_send(self.qp, SendWR(0, Opcode.IBV_WR_SEND, self._buffer, len(data), send_flags=flags))
        completion = yield from thread.poll(self.qp.send_cq)
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise ConnectionBroken

    @override
    def receive(self, thread: Thread) -> Code:
        self.expect(thread)
        while (completion := (yield from thread.poll(self.qp.recv_cq, self.waits(thread)))) is None:
            yield from self.look_for_other(thread)
        self._posted = False
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise ConnectionBroken


def connect_by_write(
    client: Node,
    theirs: ProtectionDomain,
    server: Node,
    ours: ProtectionDomain,
    room: int,
    kinds: tuple[type[WriteSide], type[WriteSide]] = (WriteSide, WriteSide),
    align: int = LINE,
) -> tuple[WriteSide, WriteSide]:
    """A connection whose messages go by WRITE: the client's side, and the server's; ``align`` is of the messages."""
    one, other = pair(client, theirs, server, ours)
    near, far = kinds[0](client, theirs, one, room, align), kinds[1](server, ours, other, room, align)
    near.meets(far)
    far.meets(near)
    near.patience = PATIENCE
    return near, far


def connect_by_send(
    client: Node, theirs: ProtectionDomain, server: Node, ours: ProtectionDomain, room: int
) -> tuple[SendSide, SendSide]:
    """A connection whose messages go by SEND: the server's first RECV is posted."""
    one, other = pair(client, theirs, server, ours)
    near, far = SendSide(client, theirs, one, room), SendSide(server, ours, other, room)
    far.expect()
    near.patience = PATIENCE
    return near, far


def pair(client: Node, theirs: ProtectionDomain, server: Node, ours: ProtectionDomain) -> tuple[QueuePair, QueuePair]:
    """Two connected queue pairs: the client's, and the server's."""
    near = theirs.create_qp(client.create_cq(), client.create_cq())
    far = ours.create_qp(server.create_cq(), server.create_cq())
    far.connect(near)
    return near, far


def pack_reply(status: int, data: bytes = b"") -> bytes:
    """The bytes of a reply."""
    return ReplyHead.pack(status=status, length=len(data)) + data


def read_reply(thread: Thread, address: int, room: int) -> Code:
    """Status and data of the reply that has come."""
    first = yield from thread.load(address, min(LINE, room))
    head = ReplyHead.unpack(first)
    end = ReplyHead.size + head.length
    if end > len(first):
        first += yield from thread.load(address + len(first), end - len(first))
    return head.status, first[ReplyHead.size : end]
