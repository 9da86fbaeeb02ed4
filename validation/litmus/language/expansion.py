"""Primitives by name in litmus programs: ``P q read-after-write x 1`` as the operations that its steps are.

An update travels as the primitive says, its packets follow, and A waits for its own end. Standard verbs become the
litmus operations of these names; a packet of a new kind becomes a request whose answer waits for its steps
(``packets``); the responder's CPU steps become operations of B, in front of B's own ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ....models.primitives.language import Primitive, Step
from ....models.primitives.plan import AdapterProgram, PrimitivePlan, plan
from ....models.primitives.vocabulary import UPDATE
from .operations import parse_operation
from .packets import Packet, ancestors
from .program import DRAM, LitmusOperation, Part


class NoWords(Exception):
    """The litmus machine cannot express a step of the primitive; the arguments: that step, and the known words."""


@dataclass
class Expanded:
    """The operations that one ``P``, or a whole program, expands into."""

    a: list[LitmusOperation] = field(default_factory=list)
    b: list[LitmusOperation] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    def add(self, operation: LitmusOperation, primitive: Primitive | None) -> None:
        """One more operation of A, as it is or as what its primitive is. Raises :class:`NoWords`."""
        if primitive is None:
            self.a.append(operation)
            return
        more = expand(operation, primitive, len(self.a))
        self.parts.append(Part(len(self.a), len(more.a), operation, primitive))
        self.a += more.a
        self.b += more.b


def expand(operation: LitmusOperation, primitive: Primitive, number: int) -> Expanded:
    """The operations of both sides; ``number`` distinguishes this ``P`` from others. Raises :class:`NoWords`."""
    return _Expansion(operation, plan(primitive), number).made()


class _Expansion:
    def __init__(self, operation: LitmusOperation, planned: PrimitivePlan, number: int) -> None:
        self.operation = operation
        self.plan = planned
        self.number = number
        self.qp = operation.qp
        self.x = "+".join(operation.names)
        self.value = operation.values[0] if operation.values else 0
        self.flag = f"flag_{operation.names[0].replace('.', '_')}"
        self.found = Expanded()
        self.fenced = False

    def made(self) -> Expanded:
        """The expansion of the whole primitive."""
        primitive = self.plan.primitive
        if self.operation.values:
            self._update()
        elif UPDATE in self.plan.programs or UPDATE in self.plan.chains:
            raise NoWords(f"{primitive.name}, which acts when its update arrives, without a value", "a value to write")
        self._chain(UPDATE)
        self._program(UPDATE)
        for step in self.plan.requester:
            self._request(step)
        if primitive.complete == UPDATE or not self.plan.by_message:
            self._a(f"poll {self.qp}")
        else:
            self._a("wait reply")
        return self.found

    def _a(self, text: str, **more: object) -> None:
        self.found.a.append(replace(parse_operation(text, True), **more))  # type: ignore[arg-type]

    def _b(self, text: str, **more: object) -> None:
        self.found.b.append(replace(parse_operation(text, False, True), **more))  # type: ignore[arg-type]

    # A's part ---------------------------------------------------------------------------------------------
    def _update(self) -> None:
        follows = self.plan.follows
        if follows == "WRITE":
            self._a(f"W {self.qp} {self.x} {self.value}")
        elif follows == "WRITE_WITH_IMM":
            self._a(f"WIMM {self.qp} {self.x} {self.value}")
        elif not self._copies():
            self._a(f"SEND {self.qp} {self.x} {self.value}")
        else:
            slots = "+".join(f"{DRAM}slot_{self.number}_{i}" for i, _ in enumerate(self.operation.names))
            self._a(f"SEND {self.qp} {slots} {self.value}")

    def _copies(self) -> bool:
        return any(step.do == "copy" for step in self.plan.primitive.steps)

    def _request(self, step: Step) -> None:
        match step.do:
            case "fence":
                self.fenced = True
            case "poll":
                self._a(f"poll {self.qp}")
            case "send":
                self._send(step)

    def _send(self, step: Step) -> None:
        verb, fence = step.parameters.get("verb"), " F" if self.fenced else ""
        self.fenced = False
        address = str(step.parameters.get("address") or "data")
        names = self.operation.names
        where = {"flag": self.flag, "first byte": names[0], "last byte": names[-1]}.get(address, self.x)
        q = self.qp
        match verb:
            case "READ" if step["length"]:
                registers = "+".join(f"_{self.number}_{i}" for i, _ in enumerate(where.split("+")))
                self._a(f"R {q} {where} {registers}{fence}")
            case "READ":
                nothing = Packet((), {})
                self._packet(f"READ of no bytes, {q} {where}", nothing, bool(fence))
            case "SEND":
                self._a(f"SEND {q}{fence}")
            case "FLUSH":
                placements = {"global": ["global"], "persistent": ["persist"], "both": ["global", "persist"]}
                for placement in placements[str(step["placement"])]:
                    self._a(f"FLUSH {q} {'*' if step['level'] == 'region' else where} {placement}{fence}")
            case "ATOMIC_WRITE" | "WRITE":
                self._a(f"{'AW' if verb == 'ATOMIC_WRITE' else 'W'} {q} {self.flag} {self.number + 1}{fence}")
            case "FETCH_ADD":
                self._a(f"FAA {q} {self.flag} 1 _{self.number}{fence}")
            case _:
                self._program(step.id, bool(fence))
        self._chain(step.id)

    # the responder's adapter --------------------------------------------------------------------------------
    def _packet(self, text: str, packet: Packet, fenced: bool = False) -> None:
        self.found.a.append(
            LitmusOperation(text, "PACKET", self.qp, self.operation.names, fenced=fenced, packet=packet)
        )

    def _program(self, carrier: str, fenced: bool = False) -> None:
        program = self.plan.programs.get(carrier)
        if program is None:
            return
        for step in program.steps:
            if step.do in ("write flag", "watch") and not (step.do == "watch" and carrier == UPDATE):
                raise NoWords(f"'{step.id}', a {step.do} at the {step.place}", "steps that litmus has words for")
            if step.do == "drain" and step["of"] == "all":
                raise NoWords(f"'{step.id}', which drains all queue pairs", "a drain of this queue pair")
            if step.do == "buffer":
                raise NoWords(
                    f"'{step.id}', which lets later writes be acknowledged before", "a packet that holds them"
                )
            if step.do == "copy":
                self._a(f"W {self.qp} {self.x} {self.value}")
        primitive = self.plan.primitive
        named = primitive.packet if carrier == UPDATE else primitive.step(carrier)["packet"]
        text = f"{named} {self.qp} {self.x}"
        for packet, more in self._packets(program, carrier):
            self._packet(f"{text}{more}", packet, fenced)

    def _packets(self, program: AdapterProgram, carrier: str) -> Iterator[tuple[Packet, str]]:
        """The packet with the answer, and a second one for the steps that go on behind the answer."""
        watched = [step for step in program.steps if step.do == "watch"]
        if watched:
            for step in watched:
                self._spin(step, program)
            return
        answer = next((step for step in program.steps if step.do == "acknowledge"), None)
        notice = next((step for step in program.steps if step.do == "notify" and self._is_end(step)), None)
        woken = next((step for step in program.steps if step.do == "interrupt"), None)
        waited = ancestors(program.steps, program.after, answer.id) if answer else []
        by_thread = woken is not None and woken in waited
        if by_thread:
            assert woken is not None
            self._b(f"awake {self.qp}")
            self._cpu(program.chains[woken.id])
            self._b(f"answer {self.qp}")
        elif woken is not None:
            raise NoWords(f"'{woken.id}', which no answer waits for", "an interrupt that the answer waits for")
        if carrier != UPDATE or waited:
            yield Packet(tuple(waited), program.after, by_thread=by_thread), ""
        rest = [step for step in program.steps if step not in waited and step is not answer]
        if rest or program.holds:
            does = [step for step in program.steps if step is not answer]
            if notice is not None:
                does = ancestors(program.steps, program.after, notice.id)
            silent = Packet(tuple(does), program.after, True, program.holds, notice is not None)
            yield silent, ", behind its answer"

    # the responder's CPU ------------------------------------------------------------------------------------
    def _chain(self, carrier: str) -> None:
        self._cpu(self.plan.chains.get(carrier, ()))

    def _spin(self, watch: Step, program: AdapterProgram) -> None:
        self._b(f"spin {self.operation.names[-1]} {self.value}")
        self._cpu([step for step in program.chains[watch.id] if step is not watch])

    def _cpu(self, steps: object) -> None:
        assert isinstance(steps, list | tuple)
        does: dict[str, Callable[[Step], None]] = {
            "receive": lambda step: self._b(f"recv {self.qp}"),
            "fence": lambda step: self._b("fence"),
            "reply": lambda step: self._b("reply" if self._is_end(step) else "tell"),
            "read pmrsts": lambda step: self._b("pmrsts"),
            "compute": lambda step: None,
            "flush": self._flush,
            "copy": self._copy,
            "store flag": lambda step: self._b(f"st {self.flag} {self.number + 1}"),
        }
        for step in steps:
            does[step.do](step)

    def _is_end(self, step: Step) -> bool:
        """Whether the message of a step is what A waits for."""
        return step.id == self.plan.primitive.complete

    def _flush(self, step: Step) -> None:
        names = self.operation.names if step["lines"] == "range" else self.operation.names[-1:]
        verb = "clflush" if step["instruction"] == "clflush" else "clflushopt"
        for name in names:
            self._b(f"{verb} {name}")

    def _copy(self, step: Step) -> None:
        for name in self.operation.names:
            self._b(f"st {name} {self.value}")
