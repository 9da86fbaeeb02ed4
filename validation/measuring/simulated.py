"""Measurements made on the component models: two machines, a window of operations, and what each of them takes.

It does what ``validation/verbs_bench`` does on real adapters: operations are posted until ``depth`` of them are under
way, dealt to the queue pairs in turn; each is timed from its first post until the completion that ends it is polled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...models.profiles.platform import Platform
from ...models.verbs import FLUSHES, REMOTE, Access, FlushLevel, FlushType, Opcode, QpType, RecvWR, SendFlags, SendWR
from ...sim.units import format_bytes
from ..published.experiments.verbs import with_mtu
from ..rigs.pair import PAGE_BYTES, Code, Pair
from .conditions import ANSWERABLE, INLINE, REPLIED, VERBS, WORD_BYTES, Conditions, Measurement

MESSAGE_BYTES = 16
"""The SEND behind a WRITE carries the address and the length for the responder's core."""
GRH_BYTES = 40
STEADY, STEADY_LEAST, STEADY_BYTES = 32, 4, 128 << 10
"""So many operations, and so many bytes, under way fill every path; any more would wait, and change no rate."""
SETTLED = 2
"""Operations after which a latency repeats itself: caches of adapter and host know their lines."""


SAMPLED = 33
"""Operations whose median counts where they differ: other queue pairs, or pages."""
MOST_PAGES = 1024


class Unmeasurable(Exception):
    """The platform lacks a part that the conditions need; the text names it."""


@dataclass(frozen=True)
class MeasuredRun:
    """The numbers of some operations: the latency of each, and the time from the first of them to the last."""

    latencies_ps: Sequence[int]
    completed: int
    elapsed_ps: int

    @property
    def median_ps(self) -> int:
        """The lower median of the latencies."""
        return sorted(self.latencies_ps)[(len(self.latencies_ps) - 1) // 2]


def memory_of(platform: Platform, kind: str) -> str:
    """The memory device of a platform that a plan's ``dram``, ``dax`` or ``dmabuf`` is. Raises Unmeasurable."""
    for name, memory in platform.memory.items():
        behind = memory.device in {*platform.peers, *platform.devices}
        host = memory.device in platform.media
        found = {"dram": host and memory.domain == "none", "dax": host and memory.domain != "none", "dmabuf": behind}
        if found[kind]:
            return name
    what = {"dram": "volatile memory", "dax": "persistent memory of the host", "dmabuf": "memory beside the adapter"}
    raise Unmeasurable(f"{platform.name} has no {what[kind]}")


def measure(platform: Platform, conditions: Conditions) -> Measurement:
    """All the iterations that the conditions ask for; skipped, with the reason, where the platform cannot do it."""
    wanted = replace(conditions, mtu_bytes=conditions.mtu_bytes or platform.nic.mtu_bytes)
    try:
        bench = Bench(platform, wanted)
        run = bench.run(conditions.warmup, conditions.iterations)
    except Unmeasurable as error:
        return Measurement(wanted, skipped=str(error))
    wanted = replace(wanted, inline=bench.inline or conditions.verb == "ATOMIC_WRITE")
    rate = run.completed * 1e12 / run.elapsed_ps  # of round trips, where half of one is the latency
    return Measurement(
        wanted, statistics(run.latencies_ps), histogram(run.latencies_ps), rate, rate * conditions.size_bytes
    )


def per_operation_ps(platform: Platform, conditions: Conditions) -> float:
    """The number of a measurement's ``per_operation_ns``, in ps, by as few operations as it takes.

    A latency by the last of a few operations; a rate by when the completions of a third window of STEADY operations
    come, polled or not: what piled up while the first was posted is polled faster than it came. Raises
    Unmeasurable.
    """
    if conditions.depth == 1:
        known = conditions.qps if conditions.qps > 1 else 0
        if conditions.access == "random":
            known += 2 * min(MOST_PAGES, conditions.region_bytes // platform.nic.page_bytes) + 2 * SETTLED
        return Bench(platform, conditions).run(SETTLED + known, min(SAMPLED, 1 + known)).median_ps
    depth = max(min(conditions.depth, STEADY, STEADY_BYTES // conditions.size_bytes), conditions.qps, STEADY_LEAST)
    depth = min(depth, conditions.depth)
    every = min(conditions.signal_every, max(1, depth // (2 * conditions.qps)))
    bench = Bench(platform, replace(conditions, depth=depth, signal_every=every))
    bench.run(depth, 2 * depth)
    come_ps = bench.come_ps[max(1, 2 * depth // every) - 1 :]
    return (come_ps[-1] - come_ps[0]) / ((len(come_ps) - 1) * every)


class Bench:
    """A pair of machines set up for one measurement. Raises Unmeasurable."""

    def __init__(self, platform: Platform, conditions: Conditions) -> None:
        self.conditions = conditions
        self.platform = platform = with_mtu(platform, conditions.mtu_bytes)
        self.opcodes = VERBS[conditions.verb]
        self.replied = conditions.verb == REPLIED
        self.one_way = conditions.method == "half_round_trip"
        self.qp_type = QpType(conditions.transport.upper())
        self._check()
        memory = memory_of(platform, conditions.memory)
        try:
            self.pair = pair = Pair(
                platform,
                memory=memory,
                queue_pairs=conditions.qps,
                region_bytes=max(conditions.region_bytes, conditions.slot_bytes, PAGE_BYTES),
                qp_type=self.qp_type,
                access=self._access(),
            )
        except MemoryError:
            room = f"a region of {format_bytes(conditions.region_bytes)}"
            raise Unmeasurable(f"{memory} of {platform.name} has no room for {room}") from None
        self.inline = self._inline()
        self.signal_every = min(conditions.signal_every, max(1, conditions.depth // conditions.qps))
        self.landing = pair.client.memory["dram"].allocate(max(conditions.size_bytes, PAGE_BYTES), "landing", align=64)
        self.index = {peer: index for index, peer in enumerate(pair.peers)}
        self._offsets: list[int] = []
        self.come_ps: list[int] = []
        """When each completion became visible."""

    def _check(self) -> None:
        about, platform = self.conditions, self.platform
        if about.transport == "ud" and about.size_bytes > platform.nic.mtu_bytes:
            raise Unmeasurable(f"a datagram of {about.size_bytes} B, the MTU is {platform.nic.mtu_bytes} B")
        if about.inline and about.size_bytes > platform.nic.inline_max_bytes:
            raise Unmeasurable(f"{about.size_bytes} B inline, the adapter takes {platform.nic.inline_max_bytes} B")
        if about.memory == "dmabuf" and (self.one_way or self.replied):
            raise Unmeasurable("a core of the responder neither polls nor flushes a device's memory here")
        if self.one_way and about.verb not in ANSWERABLE:
            raise Unmeasurable(f"{about.verb} cannot be answered in kind")
        if about.size_bytes > about.region_bytes:
            raise Unmeasurable(f"{about.size_bytes} B in a region of {about.region_bytes} B")

    def _access(self) -> Access:
        about = self.conditions
        if not about.verb.endswith("FLUSH"):
            return REMOTE
        domain = self.platform.memory[memory_of(self.platform, about.memory)].domain
        if about.placement == "persistent" and domain == "none":
            raise Unmeasurable("persistent FLUSH to memory that loses all with the power (ibv_reg_mr: EINVAL)")
        return REMOTE | (FLUSHES if domain != "none" else Access.IBV_ACCESS_FLUSH_GLOBAL)

    def _inline(self) -> bool:
        about = self.conditions
        if about.verb not in INLINE:
            return False
        return about.size_bytes <= self.platform.nic.inline_max_bytes if about.inline is None else about.inline

    # operations -----------------------------------------------------------------------------------------------
    def offset(self, number: int) -> int:
        """Where in the region an operation goes."""
        about = self.conditions
        slots = max(1, self.pair.region_bytes // about.slot_bytes)
        if about.access == "sequential":
            return number % slots * about.slot_bytes
        while len(self._offsets) <= number:
            draw = self.pair.system.streams.stream("slots").integers(slots)
            self._offsets.append(int(draw) * about.slot_bytes)
        return self._offsets[number]

    def works(self, number: int) -> list[SendWR]:
        """The work requests of one operation; the last one has a completion, now and then."""
        about, pair = self.conditions, self.pair
        target = pair.target + self.offset(number)
        works: list[SendWR] = []
        for opcode in self.opcodes:
            flags = SendFlags.IBV_SEND_INLINE if self.inline and not works else SendFlags.NONE
            work = SendWR(number, opcode, pair.source, about.size_bytes, target, pair.rkey, flags)
            if opcode is Opcode.IBV_WR_SEND:
                work.remote_address = work.rkey = 0
                if self.replied:
                    work.length = MESSAGE_BYTES
            elif opcode is Opcode.IBV_WR_RDMA_READ:
                work.local_address = self.landing
                if works:  # behind a WRITE: its last bytes
                    work.length = min(WORD_BYTES, about.size_bytes)
                    work.remote_address += about.size_bytes - work.length
            elif opcode in (Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD):
                work.local_address = self.landing
            elif opcode is Opcode.IBV_WR_FLUSH:
                persistent = about.placement == "persistent"
                work.flush_type = FlushType.IBV_FLUSH_PERSISTENT if persistent else FlushType.IBV_FLUSH_GLOBAL
                work.flush_level = FlushLevel.IBV_FLUSH_MR if about.level == "region" else FlushLevel.IBV_FLUSH_RANGE
            if self.qp_type is QpType.IBV_QPT_UD:
                work.destination = pair.peers[number % about.qps]
            works.append(work)
        if (number // about.qps + 1) % self.signal_every == 0:
            works[-1].send_flags |= SendFlags.IBV_SEND_SIGNALED
        return works

    def run(self, warmup: int, iterations: int) -> MeasuredRun:
        """Operations of which the first ``warmup`` do not count."""
        about, pair = self.conditions, self.pair
        most = warmup + iterations + about.depth
        if any(opcode is not Opcode.IBV_WR_RDMA_WRITE for opcode in self.opcodes):
            self._receive(most)
        if self.replied:
            pair.clock.start(self._responder())
        run = pair.run(self._one_way(warmup, iterations) if self.one_way else self._window(warmup, iterations))
        assert isinstance(run, MeasuredRun)
        return run

    def _receive(self, operations: int) -> None:
        """Receive requests for all operations, and for their answers."""
        pair, each = self.pair, -(-operations // self.conditions.qps) + 1
        length = max(self.conditions.size_bytes, MESSAGE_BYTES) + GRH_BYTES
        self.buffer = pair.server.memory["dram"].allocate(length, "receive buffer", align=64)
        for ours, theirs in zip(pair.queue_pairs, pair.peers, strict=True):
            for number in range(each):
                theirs.post_recv(RecvWR(number, self.buffer, length))
                if self.replied:
                    ours.post_recv(RecvWR(number, self.landing, WORD_BYTES))

    def _window(self, warmup: int, iterations: int) -> Code:
        about, pair, thread = self.conditions, self.pair, self.pair.thread
        ends = pair.answers if self.replied else pair.sent
        ends.notify = lambda: self.come_ps.append(pair.clock.now_ps)
        starts: dict[int, int] = {}
        latencies: list[int] = []
        number = done = begun = 0
        yield from pair.cached_source(about.size_bytes)
        start_ps = thread.now_ps
        while True:
            while number - done < about.depth:
                starts[number] = thread.now_ps
                yield from thread.post_list(pair.queue_pairs[number % about.qps], self.works(number))
                number += 1
            if self.replied:
                completion = yield from thread.poll(
                    pair.sent
                )  # of the request: it gives the send queue its places back
            completion = yield from thread.poll(ends)
            ended = completion.wr_id
            if self.replied:
                ended = completion.wr_id * about.qps + pair.queue_pairs.index(completion.qp)
            done += self.signal_every
            if done <= warmup:
                begun, start_ps = done, thread.now_ps
                continue
            latencies.append(thread.now_ps - starts.pop(ended))
            if done - begun >= iterations:
                return MeasuredRun(latencies, done - begun, thread.now_ps - start_ps)

    def _responder(self) -> Code:
        """The responder's core: read the message, flush the lines that it names, answer."""
        pair, about = self.pair, self.conditions
        thread = pair.server_thread()
        answer = pair.server.memory["dram"].allocate(WORD_BYTES, "answer", align=64)
        flags = SendFlags.IBV_SEND_INLINE
        while True:
            message = yield from thread.poll(pair.received)
            yield from thread.load(self.buffer, MESSAGE_BYTES)
            number = message.wr_id * about.qps + self.index[message.qp]
            yield from thread.flush(pair.target + self.offset(number), about.size_bytes)
            yield from thread.post_send(
                message.qp, SendWR(number, Opcode.IBV_WR_SEND, answer, WORD_BYTES, send_flags=flags)
            )

    def _one_way(self, warmup: int, iterations: int) -> Code:
        """From the post until a core at the other end knows: half of the time of a ping and its pong."""
        pair, thread, latencies = self.pair, self.pair.thread, []
        receiver = pair.server_thread()
        seen = self.opcodes[0] is Opcode.IBV_WR_RDMA_WRITE

        def receive() -> Code:
            yield from receiver.poll(pair.received)
            return receiver.now_ps

        yield from pair.cached_source(self.conditions.size_bytes)
        for number in range(warmup + iterations):
            received = None if seen else pair.clock.start(receive())
            start_ps = thread.now_ps
            (work,) = self.works(number)
            work.send_flags |= SendFlags.IBV_SEND_SIGNALED
            yield from thread.post_send(pair.queue_pairs[0], work)
            arrived_ps = None if received is None else (yield received)
            yield from thread.poll(pair.sent)
            if arrived_ps is None:
                arrived_ps = pair.server.host.last_visible_ps + self.platform.cpu.spin_loop_ps
            if number >= warmup:
                latencies.append(arrived_ps - start_ps)
        return MeasuredRun(latencies, iterations, 2 * sum(latencies))


def statistics(latencies_ps: Sequence[int]) -> dict[str, float]:
    """Latencies in short, in ns."""
    ordered = sorted(latencies_ps)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
    found = {"min": ordered[0], "mean": sum(ordered) / len(ordered)}
    found |= {name: ordered[max(0, -int(-share * len(ordered) // 1) - 1)] for name, share in shares.items()}
    return {name: round(value / 1000, 3) for name, value in {**found, "max": ordered[-1]}.items()}


def histogram(latencies_ps: Sequence[int]) -> tuple[tuple[float, int], ...]:
    """How many latencies lie below each edge, in ns, and not below the one before: 1 ns wide up to 64 ns, then 32 bins
    to each power of two."""
    counts: Counter[int] = Counter()
    for latency_ps in latencies_ps:
        ns = latency_ps // 1000
        width = 1 << max(0, ns.bit_length() - 6)
        counts[(ns // width + 1) * width] += 1
    return tuple(sorted((float(edge), count) for edge, count in counts.items()))
