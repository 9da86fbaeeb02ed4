"""Who does what: a primitive's steps, cut at the wire.

Control passes from the requester to the responder with a packet, or with the updates themselves: its *carrier*. All
steps at the responder belong to one carrier each. Those of its adapter and root complex are a program that the carrier
starts there; those of its CPU are a chain that begins when its thread finds a message, or is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...sim.errors import InputError, Mistake, nearest
from ..verbs.opcodes import CARRIES, Opcode, QpType
from .language import Primitive, Step
from .messages import FLAG, TRAILER_BYTES
from .vocabulary import AT_REQUESTER, FOLLOWS, ROOT_COMPLEX, STARTING, TELLING, UPDATE, VERBS, StepPlace

_MESSAGES = ("SEND", "WRITE_WITH_IMM")
"""Verbs of updates whose arrival the responder's thread sees as a receive completion."""


@dataclass(frozen=True)
class AdapterProgram:
    """The program of the responder's adapter for one carrier: steps, and for each the steps that it waits for.

    A step that waits for none starts when the carrier has arrived. An ``interrupt`` or ``watch`` ends when its chain
    does. A program of nothing but a ``watch`` is answered as its verb is.
    """

    steps: tuple[Step, ...]
    after: Mapping[str, tuple[str, ...]]
    header_bytes: int
    holds: frozenset[str]
    chains: Mapping[str, tuple[Step, ...]]
    """By interrupt or watch: the steps of the CPU."""

    @property
    def buffered(self) -> bool:
        """Whether it takes an entry of the persist buffer: then it does not wait for epochs before it to end."""
        return any(step.do == "buffer" for step in self.steps)

    @property
    def names_flag(self) -> bool:
        """Whether one of its steps, or of the CPU's behind them, names the flag: then the carrier brings it."""
        return any(map(_names_flag, (*self.steps, *(step for chain in self.chains.values() for step in chain))))

    @property
    def answers(self) -> bool:
        """Whether a step answers the carrier; else the adapter does, as it answers the verb."""
        return any(step.do == "acknowledge" for step in self.steps)


@dataclass(frozen=True)
class PrimitivePlan:
    """A primitive, ready to be executed."""

    primitive: Primitive
    follows: str
    requester: tuple[Step, ...]
    programs: Mapping[str, AdapterProgram]
    """By carrier."""
    chains: Mapping[str, tuple[Step, ...]]
    """By carrier that is a message: the CPU's steps, ``receive`` first."""
    awaited: str
    """The carrier whose completion, or whose answering message, is the end."""
    by_message: bool
    """Whether the end is a message to the requester (``reply``, ``notify``)."""

    @property
    def needs_thread(self) -> bool:
        """Whether the responder's CPU has a part: steps, or receive buffers to give back."""
        interrupts = any(program.chains for program in self.programs.values())
        return bool(self.chains) or interrupts or self.messages

    @property
    def flagged(self) -> bool:
        """Whether a step names the flag."""
        return any(map(_names_flag, self.primitive.steps))

    @property
    def tells(self) -> tuple[Step, ...]:
        """The steps that send a message to the requester."""
        return tuple(step for step in self.primitive.steps if step.do in TELLING)

    def immediate(self, step: Step) -> int | None:
        """The immediate of a step's message, which says whose it is; None where no other step sends one."""
        return self.tells.index(step) if len(self.tells) > 1 else None

    def is_end(self, immediate: int | None) -> bool:
        """Whether the message with that immediate is the end."""
        return self.by_message and (immediate is None or self.tells[immediate].id == self.primitive.complete)

    def brings_flag(self, carrier: str) -> bool:
        """Whether a message has to bring the flag, for the CPU's steps behind it."""
        return any(map(_names_flag, self.chains.get(carrier, ())))

    @property
    def trailer_bytes(self) -> int:
        """What follows the bytes of an update that travels as a message."""
        return TRAILER_BYTES + (FLAG.size if self.brings_flag(UPDATE) else 0)

    @property
    def messages(self) -> bool:
        """Whether the responder needs receive buffers."""
        return self.follows in _MESSAGES or any(step.parameters.get("verb") == "SEND" for step in self.requester)


def _names_flag(step: Step) -> bool:
    return (
        step.do in ("write flag", "store flag")
        or "flag" in (step.parameters.get("address"), step.parameters.get("lines"))
        or step.parameters.get("verb") in ("ATOMIC_WRITE", "WRITE", "FETCH_ADD")
    )


def is_requester(step: Step) -> bool:
    """Whether the requester does it."""
    return step.place in AT_REQUESTER or step.do == "send"


def plan(primitive: Primitive, follows: str | None = None) -> PrimitivePlan:
    """The plan for updates that travel as ``follows`` (None: the first that the primitive names).

    Raises InputError, with file and line, for steps that cannot be executed in this order.
    """
    return _Planner(primitive, follows or primitive.follows[0]).plan()


def problems(primitive: Primitive) -> list[Mistake]:
    """The mistakes in the order of the steps, for each way in which updates may travel."""
    found: list[Mistake] = []
    for transport in primitive.transport:
        carried = CARRIES[QpType(transport)]
        for follows in primitive.follows:
            if FOLLOWS[follows] not in carried:
                expected = f"ways of updates that {transport} carries"
                found.append(
                    Mistake(f"'{follows}' over {transport}", expected, primitive.file or None, None, "follows")
                )
        for step in primitive.steps:
            verb = step.parameters.get("verb")
            opcode = VERBS[str(verb)] if verb is not None else Opcode.PRIMITIVE
            if step.do == "send" and opcode not in carried:
                what, name = (
                    f"{'a packet of a new kind' if verb is None else verb} over {transport}",
                    f"steps.{step.id}",
                )
                found.append(Mistake(what, f"what {transport} carries", primitive.file or None, step.line, name))
    for follows in primitive.follows:
        try:
            plan(primitive, follows)
        except InputError as error:
            found += [mistake for mistake in error.mistakes if mistake not in found]
    return found


class _Planner:
    def __init__(self, primitive: Primitive, follows: str) -> None:
        self.primitive = primitive
        self.follows = follows
        self.steps = {step.id: step for step in primitive.steps}
        self.carrier: dict[str, str] = {}
        """By step of the responder: what brought control there."""
        self.entry: dict[str, str] = {}
        """By step of the responder's CPU: the receive or interrupt that its chain begins with."""
        self.mistakes: list[Mistake] = []

    def wrong(self, step: Step | None, found: str, expected: str, field: str = "", known: Sequence[str] = ()) -> None:
        """A mistake at a step."""
        name = f"steps.{step.id}" if step is not None else "complete"
        close = nearest(field, known) if known else None
        line = step.line if step is not None else None
        self.mistakes.append(Mistake(found, expected, self.primitive.file or None, line, name, close))

    def plan(self) -> PrimitivePlan:
        for step in self.primitive.steps:
            if is_requester(step):
                self._at_requester(step)
            else:
                self._at_responder(step)
        carriers = list(dict.fromkeys(self.carrier.values()))
        programs = {name: self._program(name) for name in carriers if self._of(name, self._is_adapter)}
        if UPDATE in programs and self.follows == "WRITE_WITH_IMM":
            first = programs[UPDATE].steps[0]
            self.wrong(first, "an adapter that acts on the arrival of a WRITE_WITH_IMM", "to follow WRITE or SEND")
        chains = {
            name: self._of(name, lambda step: self._entry_is(step, "receive"))
            for name in carriers
            if self._of(name, lambda step: self._entry_is(step, "receive"))
        }
        if self.follows == "WRITE_WITH_IMM":
            for step in filter(_names_flag, chains.get(UPDATE, ())):
                self.wrong(step, "a flag that a WRITE_WITH_IMM would have to bring", "to follow SEND: it has no room")
        for step in self.primitive.steps:  # a new packet without a step that acts on it
            if step.parameters.get("packet") and step.id not in programs:
                self.wrong(
                    step, "a packet that nothing at the responder acts on", "steps behind it, down to its answer"
                )
        for name in programs:
            self._answered(name)
        awaited, by_message = self._end()
        if self.mistakes:
            raise InputError(self.mistakes)
        requester = tuple(step for step in self.primitive.steps if is_requester(step))
        return PrimitivePlan(self.primitive, self.follows, requester, programs, chains, awaited, by_message)

    # the requester's ------------------------------------------------------------------------------------------
    def _at_requester(self, step: Step) -> None:
        for name in step.after:
            if name != UPDATE and not is_requester(self.steps[name]):
                self.wrong(
                    step,
                    f"a step of the requester that waits for '{name}', which is at the {self.steps[name].place}",
                    "to wait for one of the requester's; `poll` waits for an answer",
                )
        if step.do == "poll":
            of, above = str(step["of"]), self.primitive.steps[: self.primitive.steps.index(step)]
            sends = [UPDATE, *(other.id for other in above if other.do == "send")]
            if of not in sends:
                self.wrong(step, f"'{of}'", f"a send above it to poll for: {', '.join(sends)}", of, sends)

    # the responder's ------------------------------------------------------------------------------------------
    def _at_responder(self, step: Step) -> None:
        carriers = {self._carried_by(name) for name in step.after}
        if len(carriers) != 1:
            names = " and ".join(sorted(f"'{name}'" for name in carriers))
            self.wrong(step, f"steps of two packets to wait for: {names}", "steps that one packet has brought there")
        carrier = self.carrier[step.id] = next(iter(carriers))
        sender = self.steps.get(carrier)
        if sender is not None:
            self._carrier_can(step, sender)
        if step.do == "receive":
            self._receives(step, carrier)
        elif step.do == "watch":
            self._watches(step, carrier)
        elif step.place is StepPlace.RESPONDER_CPU:
            self._in_chain(step)
        elif step.do == "copy" and self.follows != "SEND":
            self.wrong(step, f"a copy of a {self.follows}", "to follow SEND: others land where they belong")
        self._in_root_complex(step)

    def _carried_by(self, name: str) -> str:
        if name == UPDATE:
            return UPDATE
        return name if is_requester(self.steps[name]) else self.carrier.get(name, UPDATE)

    def _carrier_can(self, step: Step, sender: Step) -> None:
        verb = sender.parameters.get("verb")
        if sender.do != "send":
            expected = "to wait for a `send`, or a step of the responder"
            self.wrong(step, f"a step of the {step.place} that waits for '{sender.id}', a {sender.do}", expected)
        elif verb is not None and verb != "SEND":
            self.wrong(
                step,
                f"a step of the {step.place} behind a {verb}, which the adapter executes as ever",
                "a packet of a new kind, or a SEND that the responder's thread receives",
            )
        elif verb == "SEND" and step.place is not StepPlace.RESPONDER_CPU:
            self.wrong(step, f"a step of the {step.place} behind a SEND", "`receive` at the responder cpu first")

    def _receives(self, step: Step, carrier: str) -> None:
        sender = self.steps.get(carrier)
        if sender is None and self.follows not in _MESSAGES:
            self.wrong(
                step, f"a receive of a {self.follows}", "updates or a `send` that the responder is told of: SEND"
            )
        elif sender is not None and sender.parameters.get("verb") != "SEND":
            self.wrong(step, "a receive of what takes no receive request", "a SEND")
        if step.after != (carrier,):
            self.wrong(step, f"a receive that waits for {', '.join(step.after)}", f"to wait for '{carrier}' alone")
        self.entry[step.id] = step.id

    def _watches(self, step: Step, carrier: str) -> None:
        if carrier != UPDATE or self.follows == "SEND" or step.after != (UPDATE,):
            expected = f"to wait for '{UPDATE}' alone, and updates that land where they belong"
            self.wrong(step, f"a watch that waits for {', '.join(step.after)} of a {self.follows}", expected)

    def _in_chain(self, step: Step) -> None:
        entries = {self._entry(name) for name in step.after}
        if len(entries) != 1 or None in entries:
            self.wrong(
                step,
                f"a step of the responder cpu behind {', '.join(step.after)}",
                "one behind a `receive`, a `watch`, an `interrupt`, or another step of that chain",
            )
        self.entry[step.id] = next((entry for entry in entries if entry is not None), step.id)
        if step.do == "copy" and self.follows != "SEND":
            self.wrong(step, f"a copy of a {self.follows}", "to follow SEND: others land where they belong")

    def _entry(self, name: str) -> str | None:
        if name in self.steps and self.steps[name].do in STARTING:
            return name
        return self.entry.get(name)

    def _entry_is(self, step: Step, do: str) -> bool:
        entry = self.entry.get(step.id)
        return entry is not None and self.steps[entry].do == do

    def _in_root_complex(self, step: Step) -> None:
        inside = [name for name in step.after if self._inside(name)]
        if step.place in ROOT_COMPLEX:
            if len(inside) < len(step.after):
                self.wrong(step, f"a step at the {step.place} that no `request` has asked for", "one behind `request`")
            if step.do == "wait" and not any(self._before(step, lambda other: other.place is StepPlace.LLC)):
                self.wrong(step, "a wait for lines that nobody has written back", "`write back` or `invalidate` first")
        elif step.do == "complete":
            if len(inside) < len(step.after):
                self.wrong(step, "a completion of no request", "`request` first")
        elif inside and step.place is not StepPlace.RESPONDER_CPU:
            expected = "pcie: complete between them, which tells the adapter"
            self.wrong(step, f"a step at the {step.place} behind one of the root complex, '{inside[0]}'", expected)

    def _inside(self, name: str) -> bool:
        step = self.steps.get(name)
        return step is not None and (
            step.place in ROOT_COMPLEX or (step.place is StepPlace.PCIE and step.do == "request")
        )

    def _before(self, step: Step, wanted: Callable[[Step], bool]) -> list[Step]:
        """The steps of the wanted kind that it waits for, directly or not."""
        found, ahead, seen = [], list(step.after), set()
        while ahead:
            name = ahead.pop()
            if name in seen or name not in self.steps:
                continue
            seen.add(name)
            other = self.steps[name]
            ahead += other.after
            if wanted(other):
                found.append(other)
        return found

    # programs and chains ----------------------------------------------------------------------------------------
    def _of(self, carrier: str, wanted: Callable[[Step], bool]) -> tuple[Step, ...]:
        return tuple(step for step in self.primitive.steps if self.carrier.get(step.id) == carrier and wanted(step))

    def _behind(self, entry: str) -> tuple[Step, ...]:
        return tuple(step for step in self.primitive.steps if self.entry.get(step.id) == entry)

    def _is_adapter(self, step: Step) -> bool:
        return step.id not in self.entry

    def _program(self, carrier: str) -> AdapterProgram:
        steps = self._of(carrier, self._is_adapter)
        after = {}
        for step in steps:
            names = []
            for name in step.after:
                entry = self.entry.get(name)
                if entry is not None and self.steps[entry].do == "receive":
                    self.wrong(
                        step, f"the adapter waits for '{name}' of a chain that received a message", "`interrupt`"
                    )
                names.append(entry or name)
            after[step.id] = tuple(dict.fromkeys(name for name in names if name != carrier))
        chains = {
            step.id: (*((step,) if step.do == "watch" else ()), *self._behind(step.id))
            for step in steps
            if step.do in STARTING
        }
        sender = self.steps.get(carrier)
        buffers = [step for step in steps if step.do == "buffer"]
        if len(buffers) > 1:
            self.wrong(buffers[1], f"a second entry of the buffer for '{carrier}'", "one")
        kept = frozenset({"WRITE"} if buffers else ())
        if sender is None:
            return AdapterProgram(steps, after, self.primitive.header_bytes, kept, chains)
        holds = sender.parameters.get("holds") or ()
        header = sender.parameters.get("header")
        assert isinstance(holds, tuple) and isinstance(header, int)
        return AdapterProgram(steps, after, header, kept.union(holds), chains)

    def _answered(self, carrier: str) -> None:
        answers = self._of(carrier, lambda step: step.do == "acknowledge")
        if len(answers) > 1:
            self.wrong(answers[1], f"a second answer to '{carrier}'", "one")
        steps = self._of(carrier, self._is_adapter)
        if not answers and "RC" in self.primitive.transport and any(step.do != "watch" for step in steps):
            first = steps[0]
            self.wrong(first, f"no answer to '{carrier}'", "wire: acknowledge, which a reliable connection needs")

    def _end(self) -> tuple[str, bool]:
        name = self.primitive.complete
        if name == UPDATE:
            return UPDATE, False
        if name not in self.steps:
            known = [UPDATE, *self.steps]
            self.wrong(None, f"'{name}'", f"a step: {', '.join(known)}", name, known)
            return UPDATE, False
        step = self.steps[name]
        if step.do in ("send", "poll"):
            return str(step["of"]) if step.do == "poll" else name, False
        if step.do in ("acknowledge", *TELLING):
            return self.carrier.get(name, UPDATE), step.do != "acknowledge"
        expected = "what the requester can see: a `send`, a `poll`, an `acknowledge`, a `notify` or a `reply`"
        self.wrong(step, f"'{name}', a {step.do} at the {step.place}, as the end", expected)
        return UPDATE, False
