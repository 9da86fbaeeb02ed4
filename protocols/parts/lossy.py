"""Remote procedure calls that may be lost: over UC and UD, or to a server that may be gone. A deadline, then again.

What any such calls need is :func:`until_reply` at the client and :class:`Answered` at the server; calls by SEND are
whole here, those of ``protocols/rflush`` have other ways of their messages.

Each request has a number. A client that has no reply when its deadline passes sends the request again, so often as its
:class:`Patience` says, and gives up then: :class:`NoReply`. Replies to calls that it has given up are passed over. The
server remembers the last reply of each client: a request that comes again is answered by it and not executed again, as
long as the server's process lives. (FaSST, Kalia, Kaminsky, Andersen, OSDI'16, section 3, has calls over UD and takes a
lost packet for a failure; eRPC, Kalia, Kaminsky, Andersen, NSDI'19, section 5.3, has the server's at-most-once.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ...models.cpu import Deadline, Thread
from ...models.nic.packets import GRH_BYTES
from ...models.system import Node
from ...models.verbs import Opcode, QpType, QueuePair, RecvWR, SendFlags, SendWR, Status, WorkCompletion
from ..layout import U32, Layout
from ..scheme import OutcomeUnknown
from .onesided import Door, Poster, VerbsError
from .rpc import MESSAGE_BYTES, Handler

Code = Generator[Any, Any, Any]
Reply = TypeVar("Reply")


RECEIVES = 3
"""So many receive buffers are there for messages that come again, where nothing says how often they may."""


class NoReply(OutcomeUnknown):
    """No reply came in time: the call was executed, or will be, or never."""


class Patience(NamedTuple):
    """How long a client waits for a reply (a time with its unit), and how often it sends its request again then; None:
    until there is a reply.
    """

    wait: str
    repeats: int | None = 0


def until_reply(
    thread: Thread, patience: Patience, send: Callable[[int], Code], receive: Callable[[Deadline], Code]
) -> Code:
    """Call until there is a reply; returns it.

    ``send`` is given the number of the attempt, from 0; ``receive`` returns None where its deadline passes. Raises
    :class:`NoReply`.
    """
    for attempt in itertools.count():
        if patience.repeats is not None and attempt > patience.repeats:
            raise NoReply(f"no reply within {patience.wait}, {attempt} times")
        if attempt:
            thread.count("calls sent again")
        yield from send(attempt)
        reply = yield from receive(thread.deadline(patience.wait))
        if reply is not None:
            return reply


class Answered(Generic[Reply]):
    """What a server knows of a client's calls, as long as its process lives: the last one's number, and its reply."""

    def __init__(self) -> None:
        self.number = 0
        self.reply: Reply | None = None

    def known(self, number: int) -> bool:
        """Whether the call of this number has been answered before."""
        return number <= self.number

    def given_up(self, number: int) -> bool:
        """Whether its client has called again since, so that nobody waits for its reply."""
        return number < self.number

    def answer(self, number: int, reply: Reply) -> None:
        """This is the reply to the call of this number."""
        self.number, self.reply = number, reply


class Head(Layout):
    """Before a message and its reply: the number of the call, from 1, and the kind of the message."""

    number = U32()
    kind = U32()


class _End:
    """One end of a connection: its queue pair, a buffer to send from, and some to receive into, each by a ``wr_id``."""

    def __init__(self, node: Node, qp: QueuePair, room: int, receives: int) -> None:
        self.qp = qp
        self.to: QueuePair | None = None
        """Where datagrams go; None on a connection."""
        self.before = GRH_BYTES if qp.qp_type is QpType.IBV_QPT_UD else 0
        """Bytes in a receive buffer before the message."""
        dram = node.memory["dram"]
        self.out = dram.allocate(room, "message")
        self.length = room + self.before
        self.buffers = [dram.allocate(self.length, "message") for _ in range(receives)]
        self.number = 0
        """Of the client's last call."""
        self.answered: Answered[bytes] = Answered()

    def post_receives(self) -> None:
        for number in range(len(self.buffers)):
            self.qp.post_recv(RecvWR(number, self.buffers[number], self.length))

    def take(self, thread: Thread, completion: WorkCompletion) -> Code:
        """The message that has come; its buffer is there for the next. Raises VerbsError where none has."""
        if completion.status is not Status.IBV_WC_SUCCESS:
            raise VerbsError(completion)
        at = self.buffers[completion.wr_id]
        message = yield from thread.load(at + self.before, completion.byte_len - self.before)
        thread.post_recv(self.qp, RecvWR(completion.wr_id, at, self.length))
        return message

    def message(self, length: int) -> SendWR:
        """The SEND of what lies in the buffer; unsignalled, since the reply, or its absence, tells."""
        flags = SendFlags.IBV_SEND_INLINE if length <= self.qp.max_inline_data else SendFlags.NONE
        return SendWR(0, Opcode.IBV_WR_SEND, self.out, length, send_flags=flags, destination=self.to)


class LossyListener:
    """The server's end of all calls to one node, served by the thread that calls :meth:`serve`."""

    def __init__(
        self,
        node: Node,
        handlers: Mapping[type[Layout], Handler],
        qp_type: QpType = QpType.IBV_QPT_UC,
        *,
        message_bytes: int = MESSAGE_BYTES,
    ) -> None:
        """``handlers`` has the code for each kind of message; a datagram has to fit the MTU."""
        self.node = node
        self.door = Door(node)
        self._qp_type = qp_type
        self._room = Head.size + message_bytes
        self._kinds = list(handlers)
        self._handlers = handlers
        self._received, self._sent = node.create_cq(), node.create_cq()
        self._ends: dict[int, _End] = {}

    def accept(self, thread: Thread, node: Node, patience: Patience) -> LossyConnection:
        """What ``thread`` on ``node`` calls through."""
        poster = Poster(thread, node, self._room)
        theirs = poster.open(qp_type=self._qp_type)
        datagrams = self._qp_type is QpType.IBV_QPT_UD
        if datagrams:
            ours = self.door.domain.create_qp(self._sent, self._received, self._qp_type)
        else:
            ours = self.door.admit(theirs, send_cq=self._sent, recv_cq=self._received)
        repeats = RECEIVES if patience.repeats is None else patience.repeats
        here = _End(self.node, ours, self._room, 1 + repeats)
        there = _End(node, theirs, self._room, 2 + 2 * repeats)
        if datagrams:
            here.to, there.to = theirs, ours
        self._ends[ours.number] = here
        for end in (here, there):
            end.post_receives()
        return LossyConnection(poster, there, self._kinds, patience)

    def serve(self, thread: Thread) -> Code:
        """The server's thread: one request after the other."""
        while True:
            completion = yield from thread.poll(self._received)
            end = self._ends.get(completion.qp.number)
            if end is None:  # a further receive request of a connection that has broken
                continue
            thread.span = completion.span
            try:
                yield from self._answer(thread, end, completion)
            except VerbsError:  # the client is gone, and with it the connection
                self._ends.pop(completion.qp.number, None)
            thread.span = None

    def _answer(self, thread: Thread, end: _End, completion: WorkCompletion) -> Code:
        message = yield from end.take(thread, completion)
        head = Head.unpack(message)
        if end.answered.given_up(head.number):
            return
        yield from thread.compute()
        if not end.answered.known(head.number):
            kind = self._kinds[head.kind]
            reply = yield from self._handlers[kind](thread, kind.unpack(message[Head.size :]))
            end.answered.answer(head.number, message[: Head.size] + reply)
            yield from thread.store(end.out, message[: Head.size] + reply)
        assert end.answered.reply is not None
        yield from thread.post_send(end.qp, end.message(len(end.answered.reply)))


class LossyConnection:
    """A client's end."""

    def __init__(self, poster: Poster, end: _End, kinds: list[type[Layout]], patience: Patience) -> None:
        self.thread = poster.thread
        self.patience = patience
        self._poster = poster
        self._end = end
        self._kinds = kinds

    def call(self, kind: type[Layout], **fields: Any) -> Code:
        """Call the server; returns the reply's bytes.

        Raises :class:`NoReply` where none has come in time, and VerbsError where a reliable connection is broken.
        """
        end, thread = self._end, self.thread
        end.number += 1
        message = Head.pack(number=end.number, kind=self._kinds.index(kind)) + kind.pack(**fields)
        yield from thread.store(end.out, message)

        def send(attempt: int) -> Code:
            yield from self._poster.post(end.qp, end.message(len(message)))

        return (yield from until_reply(thread, self.patience, send, self._reply))

    def _reply(self, deadline: Deadline) -> Code:
        while (completion := (yield from self.thread.poll(self._end.qp.recv_cq, deadline))) is not None:
            found = yield from self._end.take(self.thread, completion)
            if Head.unpack(found).number == self._end.number:
                return found[Head.size :]
        return None
