"""The way back of requests that are acknowledged as soon as they are accepted, by an ACK that proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ....sim.clock import HARDWARE
from ...fabric.fabric import Departure
from ...verbs.opcodes import Status
from ...verbs.ties import RESPONSE
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..message import Message
from ..port import IN_PORT

_SUCCESS = Status.IBV_WC_SUCCESS


def acknowledging(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> Callable[[Message], None]:
    """The function that acknowledges a request that ``remote`` has accepted now."""
    clock, fabric = nic.clock, nic.port._fabric
    queue: list[Any] = clock._queue
    propagation_ps, switch_ps, last_ps = fabric.lead_ps, fabric.crossing_ps, fabric.last_ps
    ack_ps, ack_bytes, port = remote.parameters.ack_generation_ps, nic.parameters.headers.ack_bytes, remote.port
    engine, answers, send, processing_ps = port._to_engine, port._to_port, port.pipe.send, port._processing_ps
    send_back, acknowledged, responses = nic.link_in.send, nic.acknowledged, to.responses

    def acknowledge(message: Message) -> None:
        if responses.waiting:
            remote.answers.acknowledge(to, message, None)
            return
        ready_ps, last_ps = clock._now + ack_ps, responses.last_ps
        responses.last_ps = ready_ps = ready_ps if ready_ps > last_ps else last_ps
        message.status, message.observe, message.n_bytes, message.more = _SUCCESS, None, ack_bytes, None
        message.start_ps, message.end_ps = IN_PORT, ready_ps
        key = message.key + RESPONSE
        heappush(answers, (ready_ps, key, message))
        heappush(queue, (ready_ps + propagation_ps, HARDWARE, key, come_back, message))

    def come_back(message: Message) -> None:
        """No answer is before the acknowledgement at the responder's port, which takes it at once."""
        ready_ps = message.end_ps
        if (
            message.start_ps != IN_PORT
            or answers[0][2] is not message
            or (engine and engine[0][0] <= ready_ps - processing_ps)
            or port._reserved_ps > ready_ps
        ):
            remote.wire.acknowledgement(message)
            return
        heappop(answers)
        start_ps, end_ps = send(ready_ps, ack_bytes)
        message.start_ps, message.end_ps = start_ps, end_ps
        if fabric.departures is not None:
            fabric.departures.append(Departure(end_ps, port.name, start_ps, to.number, nic.name))
        if start_ps > ready_ps or end_ps > to.acks_ps:
            remote.wire.acknowledgement(message)
            return
        tail_in_ps = end_ps + propagation_ps + switch_ps
        tail_ps = send_back(clock._now + switch_ps, ack_bytes)[1]
        acknowledged(message, (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + last_ps)

    return acknowledge
