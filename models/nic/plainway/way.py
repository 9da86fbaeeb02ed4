"""The plain way of one connection, put together of those of its verbs; each is made when its first request comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...verbs.opcodes import NON_POSTED, Opcode
from ..adapter import Adapter
from ..ends import PlainWay, ReceiveEnd, SendEnd
from ..message import Packet
from .leaving import leaving
from .reads import serve_reads
from .sends import take_sends
from .writes import accept_writes

Handler = Callable[[Packet], None]
"""A packet of a request has been processed by the responder."""

_MADE: Mapping[Opcode, Callable[[Adapter, SendEnd, Adapter, ReceiveEnd], Handler]] = {
    Opcode.IBV_WR_RDMA_WRITE: accept_writes,
    Opcode.IBV_WR_RDMA_READ: serve_reads,
    Opcode.IBV_WR_SEND: take_sends,
}


class _Arrivals(dict[Opcode, Handler]):
    """By verb: the handler of its packets at the responder; of a verb without a plain way the general one."""

    def __init__(self, nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> None:
        super().__init__()
        self._ends = nic, end, remote, to

    def __missing__(self, opcode: Opcode) -> Handler:
        made, remote = _MADE.get(opcode), self._ends[2]
        general = remote.serve if opcode in NON_POSTED else remote.take_in
        self[opcode] = handler = general if made is None else made(*self._ends)
        return handler


def plain_way(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> PlainWay:
    """The plain way of requests from ``end``, on this adapter, to ``to``, on ``remote``."""
    arrivals = _Arrivals(nic, end, remote, to)
    post, leave = leaving(nic, end, remote, to, arrivals)
    return PlainWay(post, leave, arrivals)
