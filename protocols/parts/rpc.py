"""Remote procedure calls over SEND and RECV on a reliable connection, and one-sided access to a registered region.

A message is one byte that names its kind and a :class:`Layout`. Small messages travel inline. A client has one call
under way, and posts its requests as ``onesided.py`` does; the server thread serves all connections from one receive
queue's completions, in order. A WRITE with immediate is a call too: what it asks for is the immediate. Several threads
may serve: each has a completion queue, and connections are dealt out among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ...models.verbs import MemoryRegion, Opcode, QueuePair, RecvWR, SendFlags, SendWR, Status, WorkCompletion
from ..layout import Layout
from ..naming.own import error_of
from .listening import Listening
from .onesided import Door, Poster, VerbsError

__all__ = ["PATIENCE", "Connection", "Listener", "VerbsError"]

Code = Generator[Any, Any, Any]
Handler = Callable[[Thread, Any], Code]
"""The server's code for a message, or for an immediate: returns the reply's bytes."""

MESSAGE_BYTES = 256
"""Room for a message in a receive buffer, unless a listener asks for more."""

PATIENCE = "100 ms"
"""After what time without an answer a caller that is not to wait for ever looks whether its peer is still there.
Assumption: a thousand times as long as most answers take.
"""
NOTICES = 16
"""So many notices may come before a client takes the first of them."""


@dataclass
class _Buffers:
    """One end of a connection: the queue pair and its buffers in DRAM."""

    qp: QueuePair
    send: int
    receive: int
    length: int

    def post_receive(self, thread: Thread) -> None:
        thread.post_recv(self.qp, RecvWR(0, self.receive, self.length))


class Listener(Listening):
    """The server's end of all connections to one node, served by threads that call :meth:`serve` by their numbers."""

    def __init__(
        self,
        node: Node,
        handlers: Mapping[type[Layout], Handler],
        *,
        on_immediate: Handler | None = None,
        message_bytes: int = MESSAGE_BYTES,
        threads: int = 1,
        batch: int = 1,
    ) -> None:
        """``handlers`` has the code for each kind of message, ``on_immediate`` that for a WRITE with immediate.

        A thread takes up to ``batch`` requests at a time.
        """
        super().__init__(node)
        self._on_immediate = on_immediate
        self._message_bytes = message_bytes
        self._batch = batch
        self._kinds = list(handlers)
        self._handlers = handlers
        self.door = Door(node)
        self._completions = [node.create_cq() for _ in range(threads)]
        self._accepted = 0
        self._sent = node.create_cq()
        self._ends: dict[int, _Buffers] = {}
        self._untaken: set[int] = set()
        """Numbers of the queue pairs on which a notice is under way."""
        self._since_request: Counter[int] = Counter()
        """By queue pair: how many notices have been sent since its last request, whose reply a client finds behind
        them."""
        self._late: set[int] = set()
        """Numbers of the queue pairs on which there was no room for the last notice."""
        self._notice = 0
        """The last notice."""

    def register(self, address: int, length: int) -> MemoryRegion:
        """Open a range of the node's memory to the clients."""
        return self.door.register(address, length)

    def accept(self, thread: Thread, node: Node, scratch_bytes: int, patience: str | None = None) -> Connection:
        """A connection for ``thread`` on ``node``, with room for one-sided transfers of ``scratch_bytes``.

        With ``patience`` (:data:`PATIENCE`) a client that has waited so long for a reply looks whether the server is
        still there.
        """
        room, here, there = self._message_bytes, self.node.memory["dram"], node.memory["dram"]
        request, reply = there.allocate(room, "request"), there.allocate(room, "reply")
        poster = Poster(thread, node, scratch_bytes)
        theirs = poster.open()
        completions = self._completions[self._accepted % len(self._completions)]
        ours = self.door.admit(theirs, send_cq=self._sent, recv_cq=completions)
        self._accepted += 1
        end = _Buffers(ours, here.allocate(room, "reply"), here.allocate(room, "request"), room)
        self._ends[ours.number] = end
        ours.post_recv(RecvWR(0, end.receive, room))
        return Connection(poster, _Buffers(theirs, request, reply, room), self._kinds, patience)

    def tell_all(self, thread: Thread, notice: int, *, spare: int = 0) -> Code:
        """A notice, by SEND with immediate and nothing in it, to every client that has room for it and for ``spare``
        more, whether or not it has taken those before; returns when all their adapters have it. The others get it
        behind the reply to their next request.
        """
        under_way: set[int] = set()
        self._notice = notice
        for number, end in list(self._ends.items()):
            if self._since_request[number] + spare >= NOTICES:
                self._late.add(number)
                continue
            self._late.discard(number)
            self._since_request[number] += 1
            under_way.add(number)
            yield from thread.post_send(end.qp, _notice(end, notice))
        while under_way:
            completion = yield from thread.poll(self._sent)
            under_way.discard(completion.qp.number)

    def tell_who_listens(self, thread: Thread, notice: int) -> Code:
        """A notice to every client that has room for it; waits for none of them."""
        while (completion := (yield from thread.try_poll(self._sent))) is not None:
            self._untaken.discard(completion.qp.number)
        for number, end in list(self._ends.items()):
            if number not in self._untaken:
                self._untaken.add(number)
                yield from thread.post_send(end.qp, _notice(end, notice))

    def serve(self, thread: Thread, number: int = 0) -> Code:
        """A server thread, by its number: its connections' requests in the order of their receive completions."""
        completions, ends = self._completions[number], self._ends
        while True:
            for completion in (yield from thread.poll_some(completions, self._batch)):
                client = completion.qp.number
                self._since_request.pop(client, None)
                if completion.status is not Status.IBV_WC_SUCCESS:  # the client is gone, its buffers are flushed
                    ends.pop(client, None)
                    self._late.discard(client)
                    continue
                thread.span, end = completion.span, ends[client]
                if completion.opcode is Opcode.IBV_WC_RECV_RDMA_WITH_IMM:
                    assert self._on_immediate is not None
                    handler, request = self._on_immediate, completion.imm_data
                    end.post_receive(thread)
                else:
                    message = yield from thread.load(end.receive, completion.byte_len)
                    end.post_receive(thread)
                    kind = self._kinds[message[0]]
                    handler, request = self._handlers[kind], kind.unpack(message[1:])
                yield from thread.compute()
                reply = yield from handler(thread, request)
                if not isinstance(reply, bytes) or len(reply) > end.length:
                    raise _wrong_reply(handler, reply, end.length)
                yield from thread.store(end.send, reply)
                yield from thread.post_send(end.qp, _send(end, len(reply)))
                if client in self._late:
                    self._late.remove(client)
                    yield from self._tell_late(thread, end)
                thread.span = None

    def _tell_late(self, thread: Thread, end: _Buffers) -> Code:
        """The last notice; again where :meth:`tell_all` has overtaken it with another one."""
        said: int | None = None
        while said != self._notice:
            said = self._notice
            self._since_request[end.qp.number] += 1
            yield from thread.post_send(end.qp, _notice(end, said, SendFlags.NONE))


class Connection:
    """A client's end: calls to the server's code, one-sided access to its registered memory."""

    def __init__(self, poster: Poster, end: _Buffers, kinds: list[type[Layout]], patience: str | None = None) -> None:
        self.thread = poster.thread
        self._patience = patience
        self._poster = poster
        self._end = end
        self._kinds = kinds
        self.notices = 0
        """How many have been taken."""
        self.notice: int | None = None
        """The last one that the server has sent, and the client has seen."""

    def call(self, kind: type[Layout], **fields: Any) -> Code:
        """Call the server; returns the reply's bytes."""
        self._end.post_receive(self.thread)
        message = bytes([self._kinds.index(kind)]) + kind.pack(**fields)
        yield from self.thread.store(self._end.send, message)
        yield from self._poster.post(self._end.qp, _send(self._end, len(message)))
        return (yield from self._reply())

    def close(self) -> None:
        """``rdma_disconnect``: both ends are in the error state, and no notice goes this way any more."""
        self._end.qp.fail()
        if self._end.qp.peer is not None:
            self._end.qp.peer.fail()

    def write_with_imm(self, address: int, rkey: int, data: bytes, immediate: int) -> Code:
        """RDMA WRITE of ``data`` with an immediate of 32 bits, unsignalled; returns the server's reply to it."""
        self._end.post_receive(self.thread)
        posted = yield from self._poster.write(
            self._end.qp, address, rkey, data, imm_data=immediate, inline=False, signaled=False
        )
        reply = yield from self._reply()
        self._poster.replied(posted)
        return reply

    def expect_notices(self) -> None:
        """Have receive requests there for notices, beside that of a call's reply."""
        for _ in range(NOTICES):
            self._end.post_receive(self.thread)

    def look_for_notices(self) -> Code:
        """Take the notices that have come, without waiting."""
        while (completion := (yield from self.thread.try_poll(self._end.qp.recv_cq))) is not None:
            self._take(completion)

    def _take(self, completion: WorkCompletion) -> bool:
        """Whether it is a notice: then it is taken, and the next one may come."""
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise VerbsError(completion)
        if completion.imm_data is None:
            return False
        self.notice = completion.imm_data
        self.notices += 1
        self._end.post_receive(self.thread)
        return True

    def _reply(self) -> Code:
        """The reply's bytes. Raises :class:`VerbsError` where the server is gone, if that is looked at."""
        while True:
            deadline = None if self._patience is None else self.thread.deadline(self._patience)
            completion = yield from self.thread.poll(self._end.qp.recv_cq, deadline)
            if completion is None:
                yield from self._poster.post(self._end.qp, SendWR(0, Opcode.IBV_WR_RDMA_READ, self._end.send, 0))
                found = yield from self.thread.poll(self._poster.sent)
                if found.status is not Status.IBV_WC_SUCCESS:
                    raise VerbsError(found)
            elif not self._take(completion):
                break
        return (yield from self.thread.load(self._end.receive, completion.byte_len))

    def write(self, address: int, rkey: int, data: bytes) -> Code:
        """RDMA WRITE of ``data``; returns at its work completion."""
        posted = yield from self._poster.write(self._end.qp, address, rkey, data, inline=False)
        yield from self._poster.result(posted)

    def read(self, address: int, rkey: int, length: int) -> Code:
        """RDMA READ; returns the bytes."""
        posted = yield from self._poster.read(self._end.qp, address, rkey, length)
        return (yield from self._poster.result(posted))


def _wrong_reply(handler: Handler, reply: object, most: int) -> Exception:
    found = f"a reply of {len(reply):,} bytes" if isinstance(reply, bytes) else f"a reply that is {reply!r}"
    return error_of(handler, found, f"bytes, at most {most:,} of them (message_bytes of the listener)")


def _notice(end: _Buffers, notice: int, flags: SendFlags = SendFlags.IBV_SEND_SIGNALED) -> SendWR:
    return SendWR(0, Opcode.IBV_WR_SEND_WITH_IMM, end.send, 0, imm_data=notice, send_flags=flags)


def _send(end: _Buffers, length: int) -> SendWR:
    """The SEND of a message that lies in the buffer, inline if it is short, unsignalled: the reply is what tells that
    it arrived."""
    flags = SendFlags.IBV_SEND_INLINE if length <= end.qp.max_inline_data else SendFlags.NONE
    return SendWR(0, Opcode.IBV_WR_SEND, end.send, length, send_flags=flags)
