"""Messages to owners, by SEND: the data that they carry stay in the receive buffers until they are given back.

A message has a number, and is sent again where no reply comes; an owner answers what it has answered before by the same
reply. A connection that breaks is made anew, and its numbers begin anew.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import Opcode, QpType, QueuePair, RecvWR, SendFlags, SendWR, Status, WorkCompletion
from ...sim.bytespace import round_up
from ..layout import Layout
from ..parts.lossy import LossyListener, Patience
from ..parts.onesided import Door, Poster, VerbsError
from .records import Answer, DirtyArea, MessageKind, NodeMessage, Room

Code = Generator[Any, Any, Any]
Handler = Callable[[Thread, NodeMessage, bytes, int], Code]
"""The owner's code for a message: its head, its areas and the number of its buffer; returns the status, what has been
read, and whether the buffer is kept."""

PATIENCE = "100 ms"
"""After so long without a reply a message is sent again (assumption: longer than any commit in which nothing fails)."""
REPEATED = Patience(PATIENCE, None)
"""A message is sent again until its connection breaks."""
SLOTS = 4
"""Receive buffers for each node that commits (assumption): one is kept for its transaction."""


class Calls(LossyListener):
    """Calls over a reliable connection."""

    def __init__(self, node: Node, handlers: Mapping[type[Layout], Callable[[Thread, Any], Code]], room: int) -> None:
        super().__init__(node, handlers, QpType.IBV_QPT_RC, message_bytes=room)


class InboxEnd:
    """This owner's end of one connection."""

    def __init__(self, qp: QueuePair, peer: int, out: int) -> None:
        self.qp = qp
        self.peer = peer
        self.out = out
        self.number = 0
        """Of the last message."""
        self.reply_bytes = 0
        """The length of the reply to it, which lies in ``out``."""


class NodeInbox:
    """The receive buffers of an owner, and the connections that fill them."""

    def __init__(self, node: Node, first: int, room: Room) -> None:
        """The buffers lie from the address ``first`` on."""
        self.node = node
        self.first = first
        self.room, self.answer_bytes, self.each = room.message, round_up(room.answer), room.each
        self.door = Door(node)
        self.received = node.create_cq()
        self.ends: dict[int, InboxEnd] = {}
        """By the node that commits: those in use."""
        self.kept = set[int]()
        """The buffers whose data somebody needs, by number."""

    def address(self, buffer: int) -> int:
        """Where a buffer is."""
        return self.first + buffer * self.room

    def admit(self, theirs: QueuePair, peer: int) -> None:
        """Connect a queue pair of a node that commits; the one before is dead."""
        ours = self.door.admit(theirs, recv_cq=self.received)
        out = self.node.memory["dram"].allocate(self.answer_bytes, "reply")
        self.ends[peer] = InboxEnd(ours, peer, out)
        for buffer in range(peer * SLOTS, (peer + 1) * SLOTS):
            if buffer not in self.kept:
                self._post(ours, buffer)

    def give_back(self, buffer: int) -> None:
        """Nobody needs a buffer's data any more."""
        if buffer in self.kept:
            self.kept.discard(buffer)
            end = self.ends.get(buffer // SLOTS)
            if end is not None:
                self._post(end.qp, buffer)

    def _post(self, qp: QueuePair, buffer: int) -> None:
        if not qp.error:
            qp.post_recv(RecvWR(buffer, self.address(buffer), self.room))

    def serve(self, thread: Thread, handle: Handler) -> Code:
        """Handle one message after the other, for ever."""
        while True:
            completion = yield from thread.poll(self.received)
            end = self.ends.get(completion.wr_id // SLOTS)
            if completion.status is not Status.IBV_WC_SUCCESS or end is None or end.qp is not completion.qp:
                continue
            thread.span = completion.span
            yield from self._take(thread, end, completion, handle)
            thread.span = None

    def _take(self, thread: Thread, end: InboxEnd, completion: WorkCompletion, handle: Handler) -> Code:
        buffer = completion.wr_id
        head = NodeMessage.unpack((yield from thread.load(self.address(buffer), NodeMessage.size)))
        keep = False
        if head.number > end.number:
            areas = b""
            if head.areas:
                start = self.address(buffer) + NodeMessage.size + head.written * self.each
                areas = yield from thread.load(start, head.areas * DirtyArea.size)
            yield from thread.compute()
            status, found, keep = yield from handle(thread, head, areas, buffer)
            reply = Answer.pack(number=head.number, status=status, rest=found)
            yield from thread.store(end.out, reply)
            end.number, end.reply_bytes = head.number, len(reply)
        if keep:
            self.kept.add(buffer)
        else:
            self._post(end.qp, buffer)
        if head.number == end.number and not end.qp.error:
            yield from thread.post_send(end.qp, _send(end.qp, end.out, end.reply_bytes))


class NodeWire:
    """A committing thread's way to one owner."""

    def __init__(self, thread: Thread, node: Node, number: int, inbox: NodeInbox) -> None:
        """``number`` is that of the node that commits."""
        self.thread = thread
        self.inbox = inbox
        self.poster = Poster(thread, node, inbox.room, slots=2)
        self.qp = self.poster.open()
        self.number = 0
        self.message = b""
        self.buffers = [node.memory["dram"].allocate(inbox.answer_bytes, "reply") for _ in range(SLOTS)]
        inbox.admit(self.qp, number)
        for turn in range(SLOTS):
            self._receive(turn)

    def _receive(self, turn: int) -> None:
        self.qp.post_recv(RecvWR(turn, self.buffers[turn], self.inbox.answer_bytes))

    def post(self, kind: MessageKind, body: bytes = b"", **head: int) -> Code:
        """Send a message; its reply is the next one that :meth:`reply` returns."""
        self.number += 1
        self.message = NodeMessage.pack(number=self.number, kind=kind, unused=b"", **head) + body
        yield from self._send()

    def _send(self) -> Code:
        self.poster.drop([(yield from self.poster.send(self.qp, self.message))])

    def reply(self) -> Code:
        """The reply to the last message, which is sent again where none comes. Raises VerbsError."""
        while True:
            completion = yield from self.thread.poll(self.qp.recv_cq, self.thread.deadline(PATIENCE))
            if completion is None:
                self.thread.count("calls sent again")
                yield from self._send()
                continue
            if completion.status is not Status.IBV_WC_SUCCESS:
                raise VerbsError(completion)
            turn = completion.wr_id
            found = Answer.unpack((yield from self.thread.load(self.buffers[turn], completion.byte_len)))
            self._receive(turn)
            if found.number == self.number:
                return found

    def call(self, kind: MessageKind, body: bytes = b"", **head: int) -> Code:
        """Send a message, and wait for its reply."""
        yield from self.post(kind, body, **head)
        return (yield from self.reply())


def _send(qp: QueuePair, address: int, length: int) -> SendWR:
    """The SEND of a reply, unsignalled: what follows tells that it has arrived."""
    flags = SendFlags.IBV_SEND_INLINE if length <= qp.max_inline_data else SendFlags.NONE
    return SendWR(0, Opcode.IBV_WR_SEND, address, length, send_flags=flags)
