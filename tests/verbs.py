"""Short ways to post, on the rig's connections, the verbs that it has no method for."""

from __future__ import annotations

from typing import Any

from rpsim.models.verbs import (
    FLUSHES,
    REMOTE,
    FlushLevel,
    FlushType,
    MemoryRegion,
    Opcode,
    QpType,
    RecvWR,
    SendFlags,
    SendWR,
)

from .rig import LINE, Client, Rig

GLOBAL, PERSISTENT = FlushType.IBV_FLUSH_GLOBAL, FlushType.IBV_FLUSH_PERSISTENT


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def flushable(rig: Rig, lines: int = 64) -> MemoryRegion:
    """A region that may be flushed, from line 0 on."""
    return rig.server_pd.reg_mr(rig.address(0), lines * LINE, REMOTE | FLUSHES)


def work(client: Client, opcode: Opcode, data: bytes = b"", fence: bool = False, **fields: Any) -> SendWR:
    """A work request; ``fields`` are those of the rig's ``work``, or of SendWR."""
    how = {
        name: fields.pop(name) for name in list(fields) if name not in SendWR.__slots__ or name in ("length", "rkey")
    }
    made = client.work(opcode, data, **how)
    for name, value in fields.items():
        setattr(made, name, value)
    if fence:
        made.send_flags |= SendFlags.IBV_SEND_FENCE
    return made


def post(client: Client, opcode: Opcode, data: bytes = b"", at: int = 0, **fields: Any) -> SendWR:
    return client.post(work(client, opcode, data, **fields), at)


def post_add(client: Client, add: int, line: int = 0, **fields: Any) -> SendWR:
    opcode = Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD
    return post(client, opcode, bytes(8), inline=False, line=line, compare_add=add, **fields)


def post_cas(client: Client, old: int, new: int, line: int = 0, **fields: Any) -> SendWR:
    opcode = Opcode.IBV_WR_ATOMIC_CMP_AND_SWP
    return post(client, opcode, bytes(8), inline=False, line=line, compare_add=old, swap=new, **fields)


def post_flush(
    client: Client,
    region: MemoryRegion,
    kind: int = PERSISTENT,
    line: int = 0,
    length: int = LINE,
    level: int = FlushLevel.IBV_FLUSH_RANGE,
    at: int = 0,
    **fields: Any,
) -> SendWR:
    made = work(client, Opcode.IBV_WR_FLUSH, inline=False, line=line, rkey=region.key, **fields)
    made.length, made.flush_type, made.flush_level = length, kind, level
    return client.post(made, at)


def post_atomic_write(client: Client, data: bytes, line: int = 0, **fields: Any) -> SendWR:
    return post(client, Opcode.IBV_WR_ATOMIC_WRITE, data, line=line, **fields)


def returned(client: Client, made: SendWR) -> int:
    """What an atomic brought back, once it has completed."""
    client.wait(made)
    memory = client.node.memory["dram"].space
    return int.from_bytes(memory.read(client.rig.clock.now_ps, made.local_address, 8), "little")


def reconnect(client: Client, qp_type: QpType = QpType.IBV_QPT_RC, **options: Any) -> None:
    """Give the client a new queue pair (of another type), connected to a new one of the server's."""
    rig = client.rig
    client.qp = client.node.alloc_pd().create_qp(client.cq, client.receive_cq, qp_type, **options)
    client.peer = rig.server_pd.create_qp(rig.server.sent, rig.server.received, qp_type)
    if qp_type is not QpType.IBV_QPT_UD:
        client.peer.connect(client.qp)


def receive_buffer(rig: Rig, length: int = 256) -> RecvWR:
    return RecvWR(rig.next_number(), rig.server.node.memory["dram"].allocate(length, "receive buffer"), length)
