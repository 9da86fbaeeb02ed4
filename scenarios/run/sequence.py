"""The steps of a scheme's parts for one operation: the sequence diagram of a run.

The threads are of a kind that notes the requests they post, persist and verify; nothing else differs from any other
run.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from ...models.cpu import Code, Deadline, Thread
from ...models.fabric.fabric import Departure
from ...models.profiles.platform import load_platform
from ...models.verbs import INLINE, RECEIVE_COMPLETIONS, CompletionQueue, QueuePair, SendWR, WorkCompletion
from ...protocols.failures import CLIENT
from ...protocols.guarantees import NO_FAULT
from ...protocols.layout import Layout
from ...protocols.objects import TAKES_OUT, TRANSACTION, verbs
from ...protocols.parts.kv import KvScheme
from ...protocols.scheme import Request, RequestStep, Scheme, Sizes
from ..build import Draft
from ..schema.schema import Scenario
from ..values import encode_value
from .cputime import spent
from .experiment import build_system, client_thread

OBJECTS = ("k0", "k1")


@dataclass(frozen=True)
class SequenceStep:
    """Something that a thread did: at ``at_ps`` from the operation's invocation, on ``who``; ``to`` where it went."""

    at_ps: int
    who: str
    text: str
    to: str | None = None


class _Noting(Thread):
    """A thread that notes its steps in ``steps``, which all threads of a system share."""

    steps: list[SequenceStep]

    def _note(self, text: str, to: str | None = None) -> None:
        if text and (not self.steps or (self.steps[-1].who, self.steps[-1].text) != (self._who, text)):
            self.steps.append(SequenceStep(self.now_ps, self._who, text, to))

    @property
    def _who(self) -> str:
        name, _, kind = self.name.partition(" ")
        role = name.split("[")[0]
        return f"{role} {kind}" if kind and not kind.isdigit() else role

    @override
    def post_send(self, qp: QueuePair, work: SendWR) -> Code:
        peer = qp.peer.device.name.split("[")[0] if qp.peer is not None else "?"
        inline = ", inline" if work.send_flags in INLINE else ""
        size = f" of {work.length} B" if work.length else ""
        self._note(f"{work.opcode}{size}{inline}", peer)
        return (yield from super().post_send(qp, work))

    @override
    def store(self, address: int, data: bytes) -> Code:
        self._note(self._touch("store", address, len(data)))
        return (yield from super().store(address, data))

    @override
    def clwb(self, address: int, length: int) -> Code:
        self._note(self._touch("clwb", address, length))
        return (yield from super().clwb(address, length))

    @override
    def clflushopt(self, address: int, length: int) -> Code:
        self._note(self._touch("clflushopt", address, length))
        return (yield from super().clflushopt(address, length))

    @override
    def clflush(self, address: int, length: int) -> Code:
        self._note(self._touch("clflush", address, length))
        return (yield from super().clflush(address, length))

    @override
    def sfence(self) -> Code:
        self._note("sfence")
        return (yield from super().sfence())

    @override
    def crc32_matches(self, address: int, length: int, expected: int) -> Code:
        self._note(f"CRC32 over {length} B")
        return (yield from super().crc32_matches(address, length, expected))

    @override
    def crc32_of(self, data: bytes) -> Code:
        self._note(f"CRC32 over {len(data)} B")
        return (yield from super().crc32_of(data))

    @override
    def poll(self, queue: CompletionQueue, deadline: Deadline | None = None, *, busy: bool = False) -> Code:
        completion: WorkCompletion | None = yield from super().poll(queue, deadline, busy=busy)
        if completion is not None and completion.opcode not in RECEIVE_COMPLETIONS:
            self._note(f"completion of the {completion.opcode}")
        return completion

    def _touch(self, what: str, address: int, length: int) -> str:
        """``clwb log+0x40, 2 lines``; nothing for what lies in volatile memory."""
        device, offset = self.host.memory.locate(address)
        if not device.traced:
            return ""
        first, last = offset // 64, (offset + length - 1) // 64
        more = f", {last - first + 1} lines" if last > first else ""
        return f"{what} {device.name_of(offset)}{more}"


@dataclass
class Sequence:
    """One operation: its steps, and its cost by role (``scenarios.run.cputime``), ``packets`` that it sent
    included.
    """

    f: str
    steps: list[SequenceStep]
    costs: dict[str, dict[str, float]]


def sequences(kind: type[Scheme], platform: str, value_bytes: int = 256) -> list[Sequence]:
    """One operation of each kind, on a system at rest, in the order in which the scheme lists them."""
    return [_sequence(kind, platform, value_bytes, f) for f in kind.operations]


def messages(kind: type[KvScheme], platform: str) -> list[type[Layout]]:
    """The requests that its server understands."""
    system = build_system(kind, load_platform(platform), _scenario(kind, platform, 64), None)
    return list(kind(system, Sizes(64, OBJECTS, 4, 1)).server.handlers())


def _sequence(kind: type[Scheme], platform: str, value_bytes: int, f: str) -> Sequence:
    system = build_system(kind, load_platform(platform), _scenario(kind, platform, value_bytes), None)
    steps: list[SequenceStep] = []
    system.thread_type = type("Noting", (_Noting,), {"steps": steps})
    scheme = kind(system, Sizes(value_bytes, OBJECTS, 4, 1))
    objects: dict[Hashable, bytes] = {name: encode_value(0, value_bytes) for name in OBJECTS}
    scheme.load(objects)
    scheme.start()
    client = scheme.roles[CLIENT][0]
    session = client.connect(client_thread(system, 1, 0))
    value = encode_value(1, value_bytes) if f in kind.updates and f not in TAKES_OUT else None
    request = Request.of(f, OBJECTS[0], value)
    if f == TRANSACTION:
        request = Request((RequestStep("r", OBJECTS[0]), RequestStep("w", OBJECTS[0], value, number=0)))
    began: list[int] = []
    packets: list[Departure] = []
    before: dict[str, dict[str, float]] = {}

    def code() -> Code:
        wanted = request
        if f == "free":
            block = yield from client.perform(session, Request.of("alloc", OBJECTS[0]))
            wanted = Request((RequestStep(f, OBJECTS[0], number=block),))
            before.update(spent(system, 1))
            steps.clear()
        system.fabric.departures = packets
        began.append(system.clock.now_ps)
        yield from client.perform(session, wanted)
        steps.append(SequenceStep(system.clock.now_ps, "client", f"{f} returns"))

    done: Any = system.clock.start(code())
    system.clock.run_until(done)
    costs = spent(system, 1)
    for role, some in before.items():
        costs[role] = {cost: round(value - some[cost], 3) for cost, value in costs[role].items()}
    for role, nodes in system.nodes.items():
        names = {node.name for node in nodes}
        costs[role]["packets"] = sum(packet.port in names for packet in packets)
    system.clock.run_until(system.clock.until(system.clock.now_ps + 20_000_000))  # the background runs on
    return Sequence(f, [SequenceStep(s.at_ps - began[0], s.who, s.text, s.to) for s in steps], costs)


def _scenario(kind: type[Scheme], platform: str, value_bytes: int) -> Scenario:
    drawn: Any = {"kind": "ycsb", "mix": "a"}
    if verbs(kind.operations) is None:
        drawn = {"kind": "mix", "shares": {kind.operations[0]: 1.0}}
    drawn |= {"keys": len(OBJECTS), "value": f"{value_bytes} B", "operations": 1}
    return Draft.new(
        "sequence",
        scenario="sequence",
        title="sequence",
        platform=platform,
        schemes=[kind.name],
        workload=drawn,
        crash={"fault": NO_FAULT},
    ).build()
