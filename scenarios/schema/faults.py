"""What fails, as a scenario says it: ``data[0] power``, ``data[0] + data[1] lost``, ``X lost then Y power``.

The grammar, spaces aside::

    fault  = "no fault" | first ["then" second] ["in recovery"]
    first  = "all power" | part {"+" part}          (second likewise)
    part   = role ["[" index {"," index} "]"] [kind]
    kind   = "power" | "process" | "lost"

A part without a kind has that of the next one; a role without an index means its first machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any

from pydantic import PlainSerializer
from pydantic_core import PydanticCustomError
from typing_extensions import override

from ...protocols.failures import ALL, CLIENT, LOST, POWER, PROCESS, Failing, usual_kinds
from ...protocols.guarantees import ALWAYS, EXPLORED, NO_FAULT, ONE_WRITER, Claims, Condition, misplaced
from ...protocols.objects import conditions_of
from ...sim.errors import InputError, Mistake, nearest
from ...sim.yaml_source import describe
from .known import Context, KnownNames, RoleFacts, SchemeFacts, complaint, from_context, name_of

IN_RECOVERY = "in recovery"
AGAIN = f"{POWER} {IN_RECOVERY}"

DOWN_PS = 10**12
"""For how long a machine without power is away unless ``crash.down`` says: a second. A boot takes longer, but nothing
happens meanwhile: every adapter has given up on it by then, so that survivors notice before its return."""


@dataclass(frozen=True)
class Fault:
    """A fault: some parts that fail at one instant, or all machines, or nothing.

    ``again`` is how often power may fail once more, each time during the recovery from the time before. ``then`` is the
    fault that follows at any instant of what this one sets off.
    """

    parts: tuple[Failing, ...] = ()
    everyone: bool = False
    again: int = 0
    then: Fault | None = None
    survivors: bool = False
    """Whether a machine beside clients lives on: the roles of the scenario's schemes decide."""
    hosted: bool = False
    """Whether a machine of clients holds what they read, by the same roles: its power is then as a server's is."""

    @override
    def __str__(self) -> str:
        if self.nothing:
            return NO_FAULT
        text = f"{ALL} {POWER}" if self.everyone else _joined(self.parts)
        text += "" if self.then is None else f" then {self.then}"
        return f"{text} {IN_RECOVERY}" if self.again else text

    @property
    def family(self) -> str:
        """The fault without indices, as a claim names it: ``data power``, ``all power``."""
        return re.sub(r"\[\d+\]", "", str(self))

    @property
    def nothing(self) -> bool:
        """Whether nothing fails."""
        return not (self.parts or self.everyone)

    @property
    def client(self) -> bool:
        """Whether only clients fail: they recover nothing."""
        return bool(self.parts) and all(part.client and not self._returns(part) for part in self.parts)

    def _returns(self, part: Failing) -> bool:
        """Whether a machine comes back with what is left in its memory."""
        return part.kind == POWER and (self.hosted or not part.client)

    @property
    def part(self) -> Failing:
        """The part that fails, where it is a single one; raises ValueError elsewhere."""
        (only,) = self.parts
        return only

    @property
    def in_words(self) -> str:
        """``client[0] loses power``, ``the process of server[0] dies``, as an event."""
        if self.nothing:
            return "all have returned"
        words = ["every machine loses power"] if self.everyone else [_in_words(part) for part in self.parts]
        return ", ".join(words) + ("" if self.then is None else f", then {self.then.in_words}")

    def nested(self, times: int) -> Fault:
        """The same fault with power failing up to ``times`` more, each time during the recovery from the time
        before.
        """
        return replace(self, again=times)

    def failures(self, machines: Mapping[str, int]) -> tuple[Failing, ...]:
        """The parts that fail at the first instant, ``machines`` saying how many of each role there are."""
        if not self.everyone:
            return self.parts
        return tuple(Failing(role, index, POWER) for role, count in machines.items() for index in range(count))

    def strikes(self, role: str, index: int) -> bool:
        """Whether the machine loses power or is lost, at the first instant."""
        return self.everyone or any(part.at == (role, index) and part.kind != PROCESS for part in self.parts)

    @property
    def recovered(self) -> bool:
        """Whether a machine beside clients comes back from it, so that power may fail again during recovery."""
        last = self.then or self
        return last.everyone or any(map(last._returns, last.parts))

    @property
    def executed(self) -> bool:
        """Whether some process goes on after it, so that the run is replayed and the survivors run on."""
        alone = all(map(self._returns, self.parts))
        return self.nothing or self.survivors or self.then is not None or not alone


USUAL = Fault((Failing("server", 0, POWER),))
"""The fault unless a scenario names one; where no role is called server, of the first role that recovers."""


def _joined(parts: tuple[Failing, ...]) -> str:
    """``data[0] + data[1] power``: neighbours that fail in the same way share the word."""
    kinds = groupby(parts, key=lambda part: part.kind)
    return " + ".join(f"{' + '.join(part.place for part in group)} {kind}" for kind, group in kinds)


def _in_words(part: Failing) -> str:
    if part.kind != PROCESS:
        return f"{part.place} {'loses power' if part.kind == POWER else 'is lost for good'}"
    return f"the process of client {part.index} dies" if part.client else f"the process of {part.place} dies"


# reading ----------------------------------------------------------------------------------------------------------

_PART = re.compile(r"([A-Za-z_][\w-]*)(?:\s*\[\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*\])?(?:\s+(\S.*))?")
_RECOVERY = re.compile(r"\s+in\s+recovery$")


def _parse_fault(value: Any, context: Context) -> Fault:
    if isinstance(value, Fault):
        fault = value
        if fault == USUAL:
            fault = Fault((Failing(context.recovering(), 0, POWER),))
    else:
        fault = _read(value)
    _check(fault, context)
    return _resolved(fault, context)


def _read(value: Any) -> Fault:
    """The fault that a text names, whoever may suffer it."""
    text = value.strip() if isinstance(value, str) else ""
    if text in (NO_FAULT, "none"):
        return Fault()
    again = _RECOVERY.search(text) is not None
    first, *later = (_at_once(part, value) for part in re.split(r"\s+then\s+", _RECOVERY.sub("", text)))
    if len(later) > 1:
        raise complaint(describe(value), "one 'then': a fault, and another that follows it")
    if later and first.everyone:
        raise complaint(describe(value), "before 'then' a fault that somebody survives")
    return replace(first, again=int(again), then=later[0] if later else None)


def _at_once(text: str, value: Any) -> Fault:
    """What fails at one instant."""
    what, _, how = text.partition(" ")
    if what == ALL:
        name_of("something of all machines that may fail", how.strip(), [POWER])
        return Fault(everyone=True)
    matches = [_PART.fullmatch(part.strip()) for part in text.split("+")]
    parts: list[Failing] = []
    kind = None
    for match in reversed(matches):
        kind = kind if match is None or match[3] is None else " ".join(match[3].split())
        if match is None or kind is None:
            expected = f"a role with its index and what fails, e.g. 'server[0] power', or '{NO_FAULT}'"
            raise complaint(describe(value), expected)
        indices = [int(index) for index in (match[2] or "0").split(",")]
        named = PROCESS if kind == "crash" else kind
        parts[:0] = [Failing(match[1], index, named) for index in indices]
    return Fault(tuple(parts))


# may it fail like that? ---------------------------------------------------------------------------------------------


def kinds_of(role: str, facts: SchemeFacts) -> tuple[str, ...]:
    """How machines of a role may fail, as its scheme declares or, where it does not, as any may."""
    if role == ALL:
        return facts.faults.get(ALL, (POWER,))
    own = facts.roles[role]
    return facts.faults.get(role, usual_kinds(invokes=own.invokes, passive=own.passive))


def _check(fault: Fault, context: Context) -> None:
    for now in (fault, *(() if fault.then is None else (fault.then,))):
        last = now is fault.then or fault.then is None
        if now.everyone:
            _may_all_fail(now, context)
        for part in now.parts:
            _may_fail(part, bool(fault.again) and last and (part.kind == POWER or not fault.recovered), context)
        for turn, part in enumerate(now.parts):
            if part.at in [other.at for other in now.parts[:turn]]:
                raise complaint(f"'{part.place}' twice", "each machine once")
    gone = [part.at for part in fault.parts if part.kind == LOST]
    for part in fault.then.parts if fault.then is not None else ():
        if part.at in gone:
            raise complaint(f"'{fault.then}'", f"behind 'then' a machine that is still there: {part.place} is lost")


def check_claims(claims: Claims, facts: SchemeFacts, known: KnownNames) -> None:
    """Raise InputError where a scheme claims something for what is no platform, no switch and no fault of its roles."""
    switches = [f"{switch} {position}" for switch, all_of in known.switches().items() for position in all_of]
    places = [*known.platforms, *switches, ONE_WRITER]
    expected = f"{ALWAYS} alone, or a platform, a switch, '{ONE_WRITER}', a fault without its index"
    wrong = [
        Mistake(
            f"the claim of {condition} for '{part}'", expected,
            nearest=nearest(part, {ALWAYS, NO_FAULT, *places, *_declared(facts)} - {part}),
        )
        for condition, part in misplaced(claims, lambda part: part in places or _may_be_claimed(part, facts))
    ]  # fmt: skip
    if wrong:
        raise InputError(wrong)


def _may_be_claimed(text: str, facts: SchemeFacts) -> bool:
    """Whether a text is a fault of a scheme's roles, in the words that a claim has for it."""
    try:
        fault = _read(text)
    except PydanticCustomError:
        return False
    parts = (*fault.parts, *(() if fault.then is None else fault.then.parts))
    own = all(part.role in facts.roles and part.kind in kinds_of(part.role, facts) for part in parts)
    return own and fault.family == text


def _may_all_fail(fault: Fault, context: Context) -> None:
    for name, facts in context.chosen.items():
        if POWER not in kinds_of(ALL, facts):
            raise complaint(f"'{fault}'", f"a fault that {name} declares: {', '.join(_declared(facts))}")


def _declared(facts: SchemeFacts) -> list[str]:
    return [f"{role} {kind}" for role in (*facts.roles, ALL) for kind in kinds_of(role, facts)]


def _example(context: Context) -> str:
    """A fault that all schemes may suffer: the power of a role that they share and that recovers, or of everything."""
    for role in context.roles():
        shared = [facts for facts in context.chosen.values() if role != CLIENT and role in facts.roles]
        if len(shared) == len(context.chosen) and all(
            facts.roles[role].recovers and POWER in kinds_of(role, facts) for facts in shared
        ):
            return f"{role}[0] {POWER}"
    together = all(POWER in kinds_of(ALL, facts) for facts in context.chosen.values())
    return f"{ALL} {POWER}" if together else f"{CLIENT}[0] {PROCESS}"


def _may_fail(part: Failing, again: bool, context: Context) -> None:
    """Whether every chosen scheme has the machine, and says that it may fail like that."""
    role, index, kind = part.role, part.index, part.kind
    if context.chosen and role not in (roles := context.roles()):
        like = nearest(role, roles)
        example = f", as in '{_example(context)}'" if like is None else ""
        expected = f"a fault of a role of these schemes: {', '.join(roles)}{example}"
        raise complaint(describe(role), expected, like)
    for name, facts in context.chosen.items():
        if role not in facts.roles:
            raise complaint(f"'{part}'", f"a fault of a role of {name}: {', '.join(facts.roles)}")
    schemes = [facts for facts in context.chosen.values() if kind not in kinds_of(role, facts)]
    strictest = next(iter(schemes or context.chosen.values()), None)
    own = strictest.roles[role] if strictest is not None else RoleFacts(invokes=role == CLIENT)
    kinds = kinds_of(role, strictest) if strictest is not None else usual_kinds(invokes=own.invokes, passive=False)
    asked = f"{kind} {IN_RECOVERY}" if again else kind
    by_others = own.passive and POWER in kinds and asked == AGAIN  # who recovers for it may fail: taken, not offered
    if not by_others:
        further = (AGAIN,) if POWER in kinds and own.recovers else ()
        name_of(f"something of a {role} that may fail", asked, (*kinds, *further))
    machines, processes = context.counts.get(role, (1, 1))
    if own.invokes and kind == PROCESS:
        if index >= machines * processes:
            raise complaint(f"'{part}'", f"an index below {machines * processes}: so many {role} processes there are")
    elif index >= machines:
        raise complaint(f"'{part}'", f"an index below {machines}: so many {role} machines there are, counted from 0")


def _resolved(fault: Fault, context: Context) -> Fault:
    """The fault with what the schemes' roles make of it: does a machine beside clients live on, or one that hosts?"""
    chosen = [facts.roles for facts in context.chosen.values()]
    hosted = any(role.hosts for roles in chosen for role in roles.values())
    then = None if fault.then is None else replace(fault.then, hosted=hosted)
    return replace(fault, survivors=any(_leaves(fault, roles, context) for roles in chosen), hosted=hosted, then=then)


def _leaves(fault: Fault, roles: Mapping[str, RoleFacts], context: Context) -> bool:
    """Whether a machine beside clients keeps its power: clients may still use the process or the memory there.

    Where clients' machine hosts what they read, it is that machine alone that counts: nobody reads elsewhere.
    """
    hosting = any(facts.hosts for facts in roles.values())
    counts = {
        name: facts.machines or (context.counts.get(name, (1, 1))[0] if facts.many else 1)
        for name, facts in roles.items()
        if (facts.hosts if hosting else not facts.invokes)
    }
    return not all(fault.strikes(name, index) for name, count in counts.items() for index in range(count))


_OTHERS = (Condition.EXACTLY_ONCE, Condition.BOUNDED_LOSS, Condition.BUFFERED_CUT, Condition.BUFFERED)
_KILLED = (Condition.EXACTLY_ONCE, Condition.LINEARIZABLE, Condition.PERSISTENT, Condition.STRICT)


def conditions_after(fault: Fault, model: str = "register") -> tuple[Condition, ...]:
    """The conditions that a fault can be judged by, where objects follow a model.

    A client's crash is no end of an era (its operation stays open), and ``linearizable`` is the condition after it.
    ``durable``, literally, is the same question where ids of processes are not used again, and ``monotonic`` can be
    judged on reads around that crash as around any other. After the server's, ``linearizable`` equals ``durable``.
    Where nothing fails nothing can be lost or taken back.
    """
    found: tuple[Condition, ...]
    if fault.nothing:
        found = Condition.COMMITTED, Condition.EXACTLY_ONCE, Condition.SESSION, Condition.LINEARIZABLE
    else:
        found = (*EXPLORED, *(_KILLED if fault.client else _OTHERS))
    fitting = conditions_of(model)
    return tuple(condition for condition in found if condition in fitting)


FaultText = Annotated[Fault, from_context(_parse_fault), PlainSerializer(str, return_type=str)]
