"""An adapter's state of a queue pair: the end that sends requests, and the end that receives them.

``ibv_qp`` is its program's; a provider wraps it into a structure of its own, and so does this adapter
(:attr:`QueuePair.end`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from ...sim.stations import Pipe
from ...sim.trace import NEVER
from ..fabric.fabric import NoPipe
from ..host.attached import AttachedMemory
from ..memory.devices import MemoryDevice
from ..profiles.parameters.adapter import NicParameters
from ..verbs.objects import QueuePair
from ..verbs.opcodes import Opcode
from ..verbs.ties import tie
from ..verbs.work import RecvWR, SendWR
from .executing.order import ExecutionOrder
from .inbound import Inbound
from .lanes import Lanes
from .message import Message, Packet
from .responses import Responses
from .sram import Tables


class PlainWay(NamedTuple):
    """Where a connection's requests may take the plain way (``models.nic.plainway``)."""

    post: Callable[[SendWR, bytes], bool]
    """The doorbell of one work request has left the core; returns whether the request went the plain way."""
    leave: Callable[[Message], None] | None = None
    """A request of one packet may be at the switch."""
    arrivals: Mapping[Opcode, Callable[[Packet], None]] | None = None
    """By verb: a packet of a request has been processed by the responder."""


NO_WAY = PlainWay(lambda work, payload: False)
"""The plain way of a connection on which every request is special: none takes it."""


class EndsAdapter(Protocol):
    """The adapter that an end is on, as the adapter at the other side of the wire knows it."""

    name: str
    number: int
    """The adapter's number among the vertices of the fabric."""
    parameters: NicParameters
    off_ps: int
    """When the adapter lost power."""
    link_in: Pipe | NoPipe
    """The link from the last switch to the adapter."""
    sram: Tables
    take_in: Callable[[Packet], None]
    """A packet of a WRITE or SEND has been processed."""
    serve: Callable[[Packet], None]
    """A request that is answered once executed has been processed."""
    translate: Callable[[Packet], None]
    """Either kind of packet, at an adapter that may first have to read the entries that it needs."""
    acknowledged: Callable[[Message, int], None]
    """The last bit of an acknowledgement arrives at an instant."""
    take_response: Callable[[Packet], None]
    """A packet of a response with data has been processed."""
    unanswered: Callable[[Message], None]
    """No answer to this request will ever come."""

    def request_received(self, tail_ps: int, end: ReceiveEnd, message: Message, at: int) -> int:
        """When a packet of a request has been processed whose tail is there at ``tail_ps``."""

    def response_received(self, tail_ps: int, end: SendEnd) -> int:
        """As :meth:`request_received`, of a packet of a response."""

    def execution_order(self) -> ExecutionOrder:
        """A new queue pair's one at its responder."""

    def responses(self) -> Responses:
        """A new queue pair's one at its responder."""

    def inbound(self, qp: QueuePair) -> Inbound:
        """The record of the writes that will arrive through a new queue pair."""


Route = tuple[int, int, AttachedMemory, int, Lanes, int, ExecutionOrder, Inbound, str]
"""The plain way of WRITEs to a region: its first address, its end, its memory and where that begins, the lanes, the
channel; the queue pair's execution order and inbound writes, which the responder checks; and the name of the writer."""
ReadRoute = tuple[int, int, Lanes, MemoryDevice]
"""The plain way of READs of a region: its first address, its end, the lanes of writes to there, its device."""


class SendEnd:
    """The requester's half of a queue pair."""

    __slots__ = (
        "answered_ps",
        "attempt",
        "closed",
        "fencing",
        "key",
        "last_answer_ps",
        "nic",
        "number",
        "off_ps",
        "outstanding",
        "plain",
        "qp",
        "reads_under_way",
        "receive",
        "reliable",
        "repeats",
        "send_queue",
        "stalled",
        "to",
        "unit",
        "unreported",
        "unseen",
        "unsignalled",
    )

    def __init__(self, qp: QueuePair, nic: EndsAdapter) -> None:
        self.qp = qp
        self.nic = nic
        self.number = qp.number
        self.reliable = qp.reliable
        self.unit = qp.number % nic.parameters.processing_units
        """The adapter's unit that serves this queue pair."""
        self.receive = ReceiveEnd(qp, nic, self.unit)
        """The responder's half of the same queue pair."""
        self.to: ReceiveEnd | None = None
        """The far end that requests go to, once it is connected."""
        self.plain: PlainWay | None = None
        """The way of its requests where nothing is special about them; None before the first request."""
        self.off_ps = nic.off_ps
        """When the queue pair was destroyed or its adapter lost power: bits in the port by then never leave it."""
        self.key = tie(adapter=nic.number + 1, queue_pair=qp.number)
        """The key of its last request among the customers of one station and instant."""
        self.send_queue: deque[Message] = deque()
        """Requests posted and not yet on the wire, in order."""
        self.outstanding: deque[Message] = deque()
        """Requests on the wire and not yet answered, in order."""
        self.reads_under_way = 0
        """Outstanding requests that are READ, atomic, FLUSH or ATOMIC WRITE."""
        self.fencing = 0
        """Outstanding requests that a fence waits for."""
        self.unseen: deque[Callable[[int], None]] = deque()
        """Proofs of the responses so far whose completions no program has polled yet."""
        self.unreported = 0
        """The number of those proofs that belong to no completion yet: unsignalled requests."""
        self.unsignalled = 0
        """Unsignalled requests that are done and whose send queue slots no completion has given back."""
        self.attempt = 0
        """How often the queue pair has gone back to repeat requests."""
        self.repeats = 0
        """Repetitions in a row of the request that found no receive request."""
        self.stalled = False
        """An RNR NAK's timer is running."""
        self.closed = False
        """The head of the send queue fails as soon as nothing is outstanding."""
        self.last_answer_ps = 0
        """Responses to one queue pair are processed in order."""
        self.answered_ps = 0
        """When the last response is processed of the requests that are not outstanding any more."""

    def reveal(self, answers: int, at_ps: int) -> None:
        """A completion has been polled: the proofs of the oldest ``answers`` responses hold from now on."""
        for _ in range(answers):
            self.unseen.popleft()(at_ps)

    def report(self) -> Callable[[int], None]:
        """The ``observe`` of a completion that shows now: it reveals all answers since the last completion."""
        answers, self.unreported = self.unreported, 0
        return partial(self.reveal, answers)


class _Writers(dict[Opcode, str]):
    """Names of the writers into memory on behalf of a queue pair's peer, by verb: made once, since a run has many."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, opcode: Opcode) -> str:
        self[opcode] = f"{opcode}, queue pair {self._number}"
        return self[opcode]


class ReceiveEnd:
    """The responder's half of a queue pair."""

    __slots__ = (
        "_inbound",
        "_order",
        "_responses",
        "_writers",
        "acks_ps",
        "expected_attempt",
        "expected_bytes",
        "expected_key",
        "messages",
        "nic",
        "number",
        "off_ps",
        "qp",
        "read_routes",
        "receive_offset",
        "receive_queue",
        "receiving",
        "refused_key",
        "reliable",
        "routes",
        "unit",
        "used_bytes",
    )

    def __init__(self, qp: QueuePair, nic: EndsAdapter, unit: int) -> None:
        self.qp = qp
        self.nic = nic
        self.number = qp.number
        self.reliable = qp.reliable
        self.unit = unit
        self.off_ps = nic.off_ps
        """As :attr:`SendEnd.off_ps`."""
        self.acks_ps = nic.off_ps
        """Until when an acknowledgement must have left to arrive: the same, or earlier where those on their way are
        lost."""
        self.receive_queue: deque[RecvWR] = qp.receive_queue
        self.used_bytes = 0
        """Used bytes of the multi-packet buffer at the head of that queue."""
        self.receive_offset = 0
        """Where in its buffer the message lies that is just arriving."""
        self.receiving: RecvWR | None = None
        """The receive request that the message that is just arriving has taken."""
        self.messages: deque[int] | None = None
        """Addresses of messages that the adapter itself still has to process, oldest first; None: it processes none."""
        self.expected_attempt = 0
        self.expected_key = 0
        """The request that found no receive request: it and all behind it are not taken in before they are repeated."""
        self.refused_key = 0
        """Of a broken connection: the first request that was refused, by which it broke."""
        self.expected_bytes = 0
        """Of an unreliable connection: where the next packet of the message belongs; -1 once one was lost."""
        self.routes: dict[int, Route] = {}
        """By key of a region: the plain way of WRITEs to it."""
        self.read_routes: dict[int, ReadRoute] = {}
        """The same of READs of it."""
        self._writers: _Writers | None = None
        self._responses: Responses | None = None
        self._order: ExecutionOrder | None = None
        self._inbound: Inbound | None = None

    # Made when the first request arrives: most ends of most connections never see one.
    @property
    def writers(self) -> _Writers:
        """The names under which its peer's requests write."""
        if self._writers is None:
            self._writers = _Writers(self.number)
        return self._writers

    @property
    def responses(self) -> Responses:
        """The responses that it has to send, in order."""
        if self._responses is None:
            self._responses = self.nic.responses()
        return self._responses

    @property
    def order(self) -> ExecutionOrder:
        """In which order its peer's requests are executed."""
        if self._order is None:
            self._order = self.nic.execution_order()
        return self._order

    @property
    def inbound(self) -> Inbound:
        """The record of the writes that arrived through it."""
        if self._inbound is None:
            self._inbound = self.nic.inbound(self.qp)
        return self._inbound

    def buffer(self, needed_bytes: int) -> tuple[RecvWR, int] | None:
        """The receive request that the message has which is arriving, or that one of so many bytes would take now, and
        how much of its buffer is used; None where there is none.
        """
        if self.receiving is not None:
            return self.receiving, 0
        owner = self.qp.srq if self.qp.srq is not None else self
        queue, used_bytes = owner.receive_queue, owner.used_bytes
        if used_bytes and used_bytes + needed_bytes > queue[0].length:  # no room in the rest of a multi-packet buffer
            return (queue[1], 0) if len(queue) > 1 else None
        return (queue[0], used_bytes) if queue else None

    def ignores(self, message: Message) -> bool:
        """Whether a request is not taken in: the connection is broken, or one before it is repeated.

        A request that is refused breaks the connection for those behind it; those before it are executed and answered.
        """
        late = message.attempt < self.expected_attempt and message.key >= self.expected_key
        broken = self.qp.error and message.key >= self.refused_key
        return broken or message.attempt < 0 or late

    @property
    def gone(self) -> bool:
        """Whether it has been destroyed, or its adapter has no power."""
        return self.off_ps < NEVER
