"""Experiments of an adapter: latencies as perftest takes them, rates over outstanding requests and queue pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....models.profiles.platform import Platform
from ....models.verbs import Opcode, QpType, SendWR
from ...rigs.pair import PAGE_BYTES, Code, Pair
from .experiments import experiment

WARM_WINDOWS = 4
"""Windows of requests that do not count: completions that piled up during the first posts are polled in them."""
WARM_ROUNDS = 3
"""Rounds before the one that counts: caches of adapter and host know their lines then."""


def with_mtu(platform: Platform, mtu_bytes: int | None) -> Platform:
    """The platform with another path MTU, as ``ib_send_lat -m`` sets it."""
    return platform if mtu_bytes is None else replace(platform, nic=replace(platform.nic, mtu_bytes=mtu_bytes))


def _last_round(pair: Pair, once: Callable[[int], Code]) -> float:
    """The time that the last of some rounds gives."""

    def code() -> Code:
        took_ps = 0
        for number in range(WARM_ROUNDS + 1):
            took_ps = yield from once(number)
        return took_ps

    return float(pair.run(code()))


@experiment("write-one-way", "time")
def write_one_way(platform: Platform, size: int, *, mtu: int | None = None) -> float:
    """WRITE one way (ib_write_lat): from the post until a core at the other end sees the last byte."""
    platform = with_mtu(platform, mtu)
    pair = Pair(platform, region_bytes=max(size, PAGE_BYTES))
    thread = pair.thread

    def once(number: int) -> Code:
        yield from pair.cached_source(size)
        start_ps = thread.now_ps
        yield from thread.post_send(pair.queue_pairs[0], pair.work(Opcode.IBV_WR_RDMA_WRITE, size, number=number))
        yield from thread.poll(pair.sent)
        return pair.server.host.last_visible_ps + platform.cpu.spin_loop_ps - start_ps

    return _last_round(pair, once)


@experiment("send-one-way", "time")
def send_one_way(platform: Platform, size: int, *, mtu: int | None = None, transport: str = "RC") -> float:
    """SEND one way (ib_send_lat): from the post until the receiver has polled its completion."""
    platform = with_mtu(platform, mtu)
    qp_type = QpType[f"IBV_QPT_{transport}"]
    pair = Pair(platform, region_bytes=max(size, PAGE_BYTES), qp_type=qp_type)
    pair.post_recv(WARM_ROUNDS + 1, size)
    thread, receiver = pair.thread, pair.server_thread()

    def receive() -> Code:
        yield from receiver.poll(pair.received)
        return receiver.now_ps

    def once(number: int) -> Code:
        yield from pair.cached_source(size)
        received = pair.clock.start(receive())
        start_ps = thread.now_ps
        work = pair.work(Opcode.IBV_WR_SEND, size, number=number)
        if qp_type is QpType.IBV_QPT_UD:
            work.destination = pair.peers[0]
        yield from thread.post_send(pair.queue_pairs[0], work)
        received_ps = yield received
        yield from thread.poll(pair.sent)
        return received_ps - start_ps

    return _last_round(pair, once)


def _completion(platform: Platform, opcode: Opcode, size: int, memory: str) -> float:
    pair = Pair(platform, memory=memory, region_bytes=max(size, PAGE_BYTES))
    thread = pair.thread

    def once(number: int) -> Code:
        yield from pair.cached_source(size)
        start_ps = thread.now_ps
        yield from thread.post_send(pair.queue_pairs[0], pair.work(opcode, size, number=number))
        yield from thread.poll(pair.sent)
        return thread.now_ps - start_ps

    return _last_round(pair, once)


@experiment("write-completion", "time")
def write_completion(platform: Platform, size: int, *, memory: str = "dram") -> float:
    """WRITE, from the post until its completion is polled."""
    return _completion(platform, Opcode.IBV_WR_RDMA_WRITE, size, memory)


@experiment("read-completion", "time")
def read_completion(platform: Platform, size: int, *, memory: str = "dram") -> float:
    """READ (ib_read_lat), from the post until its completion is polled."""
    return _completion(platform, Opcode.IBV_WR_RDMA_READ, size, memory)


@experiment("verb-rate", "per_s")
def verb_rate(
    platform: Platform,
    queue_pairs: int,
    *,
    verb: str = "WRITE",
    size: int = 64,
    window: int = 64,
    region: int = 1 << 20,
    verbs: int = 3000,
    memory: str = "dram",
) -> float:
    """Completed verbs a second, ``window`` outstanding over all queue pairs, addresses over the whole region."""
    return saturated(
        Pair(platform, memory=memory, queue_pairs=queue_pairs, region_bytes=region), verb, size, window, verbs
    )


@experiment("verb-bandwidth", "bytes_per_s")
def verb_bandwidth(
    platform: Platform,
    size: int,
    *,
    verb: str = "WRITE",
    window: int = 64,
    verbs: int = 1000,
    memory: str = "dram",
    mtu: int | None = None,
) -> float:
    """Payload bytes a second of one queue pair (ib_write_bw, ib_read_bw)."""
    pair = Pair(with_mtu(platform, mtu), memory=memory, region_bytes=max(size * 64, 1 << 20))
    return saturated(pair, verb, size, window, verbs) * size


def saturated(pair: Pair, verb: str, size: int, window: int, verbs: int) -> float:
    """Verbs a second with ``window`` outstanding, once the first window has passed."""
    opcode = {"WRITE": Opcode.IBV_WR_RDMA_WRITE, "READ": Opcode.IBV_WR_RDMA_READ}[verb]
    thread, queue_pairs, sent = pair.thread, pair.queue_pairs, pair.sent
    places = max(1, pair.region_bytes // max(size, 64))
    warm = WARM_WINDOWS * window + len(queue_pairs)

    def request(number: int) -> SendWR:
        return pair.work(opcode, size, at=number * 7919 % places * max(size, 64), number=number)

    def code() -> Code:
        outstanding = start_ps = 0
        for number in range(warm + verbs):
            if outstanding == window:
                yield from thread.poll(sent)
                outstanding -= 1
            if number == warm:
                start_ps = thread.now_ps
            yield from thread.post_send(queue_pairs[number % len(queue_pairs)], request(number))
            outstanding += 1
        took_ps = thread.now_ps - start_ps
        for _ in range(outstanding):
            yield from thread.poll(sent)
        return verbs * 1e12 / took_ps

    return float(pair.run(code()))
