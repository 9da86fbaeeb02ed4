"""A litmus test once it is read: operations, variables and their layout, profiles, cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ....models.durability.rules import Circumstances, Placement, RequestKind, Switches, Target
from ....models.primitives.language import Primitive
from .expression import OutcomeExpression
from .packets import Packet

REQUESTS: dict[str, RequestKind] = {
    "W": RequestKind.WRITE,
    "WIMM": RequestKind.WRITE,
    "SEND": RequestKind.SEND,
    "R": RequestKind.READ,
    "FAA": RequestKind.ATOMIC,
    "CAS": RequestKind.ATOMIC,
    "AW": RequestKind.ATOMIC_WRITE,
    "FLUSH": RequestKind.FLUSH,
    "PACKET": RequestKind.FLUSH,
}
"""The kind of request, for the ordering rules, of each operation of A on a queue pair."""

WORD_GRAIN, DRAM, THIRD = "8", "dram.", "c."
"""The usual grain; what names begin with of variables in B's DRAM, and of those of C, the third machine."""
CROSS_CHANNEL = ("WAIT", "ENABLE", "work request in memory", "packets in order")
"""What else the machine obeys: a WAIT and an ENABLE hold requests back; a request is what its bytes say when its
adapter reads it; of a dead machine's packets those arrive that come first on their queue pair."""


class OutcomeFinding(StrEnum):
    """The model's verdict on an outcome."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNDECIDED = "undecided"


class CrashMoment(StrEnum):
    """When B loses power: never, at any instant after A finished its list, at any instant; or A, at any instant."""

    NONE = "none"
    END_A = "end_A"
    ANY = "any"
    A = "A"


@dataclass(frozen=True)
class LitmusOperation:
    """One line of a program. ``names`` are remote variables of A's requests, variables of B's own operations."""

    text: str
    verb: str
    qp: str = ""
    names: tuple[str, ...] = ()
    values: tuple[int, ...] = ()
    source: str = ""
    """A's local variable: the one that ``st`` writes, or whose value the adapter fetches (``@s``)."""
    registers: tuple[str, ...] = ()
    persistent: bool = False
    fenced: bool = False
    inline: bool = False
    primitive: str = ""
    """The name of the primitive that ``P`` stands for."""
    packet: Packet | None = None
    """The steps of a packet of a primitive's own."""
    other: str = ""
    """The queue pair that a WAIT or an ENABLE is about."""
    element: str = ""
    """The variable of B that is the word of a request's element in memory which names its payload."""

    @property
    def request(self) -> RequestKind | None:
        """The operation's kind for the ordering rules, if it is a request on a queue pair."""
        return REQUESTS.get(self.verb)


@dataclass(frozen=True)
class Part:
    """``count`` operations of A from ``first`` on are what ``operation``, a ``P``, has become."""

    first: int
    count: int
    operation: LitmusOperation
    primitive: Primitive


@dataclass(frozen=True)
class LitmusProfile:
    """The platform that a case is about."""

    name: str
    domain: str = "adr"
    ddio: bool = True
    nic: Placement = Placement.STRICT
    data_in_order: str | None = None
    """In which order the bytes of one WRITE become visible (``nic.data_in_order``); None: it is not said, and words and
    lines of one TLP come in any order, TLPs as ``nic`` says."""
    pmrwbm: int = 0
    whole_lines: bool = False
    switches: Switches = field(default_factory=Switches)
    platform: str | None = None
    """The shipped platform that it stands for, if it does."""

    def circumstances(self, target: Target) -> Circumstances:
        """The circumstances of an event at memory of kind ``target``, for the ordering rules."""
        return Circumstances(self.ddio, target, self.nic, self.pmrwbm, self.switches)


@dataclass(frozen=True)
class LitmusCase:
    """One question: may the outcome be, on this profile?"""

    profile: LitmusProfile
    crash: CrashMoment
    outcome: OutcomeExpression
    expected: OutcomeFinding
    source: str
    line: int | None = None
    basis: str = ""
    note: str = ""
    unseen: str = ""
    """Why no run of the simulator shows it, if none can: its timing is not the only one that hardware may have."""


@dataclass(frozen=True)
class Test:
    """A program and its cases; ``grain`` says how variables lie that are neighbours (:func:`groups`)."""

    __test__ = False  # no test of pytest's

    id: str
    a: tuple[LitmusOperation, ...]
    b: tuple[LitmusOperation, ...]
    cases: tuple[LitmusCase, ...]
    grain: str = WORD_GRAIN
    rules: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    """Which operations of A stand for a primitive; those of B that do come first."""
    served: int = 0
    """How many of B's operations that is."""
    numbered: bool = False
    """Variables that differ in their number alone are neighbours: the test speaks of its grain."""
    file: str = ""
    line: int | None = None
    relay: tuple[LitmusOperation, ...] = ()
    """What B's program has posted on queue pairs of its own before anything happens."""

    @property
    def managed(self) -> frozenset[str]:
        """B's queue pairs that execute what an ENABLE lets them."""
        return frozenset(operation.other for operation in self.relay if operation.verb == "enable")

    @property
    def elements(self) -> frozenset[str]:
        """The variables that are words of work requests in memory."""
        return frozenset(operation.element for operation in self.relay if operation.element)


@dataclass(frozen=True)
class VariableLayout:
    """How the variables of a test lie in B's memory: each one's word, line and TLP neighbourhood, and its target."""

    variables: tuple[str, ...]
    word: Mapping[str, int]
    line: Mapping[str, int]
    apart: bool
    """Variables of one operation travel in separate TLPs."""
    block: Mapping[str, tuple[int, int]]
    """Which neighbours are in one block of 128 bytes."""
    target: Mapping[str, Target] = field(default_factory=dict)


def groups(test: Test) -> list[list[str]]:
    """The variables in sets of neighbours.

    Neighbours are variables that one operation names together (``x0+x1``) and, if the test says its grain, variables
    that differ in their number alone (``x0``, ``x1``).
    """
    together = [operation.names for operation in (*test.a, *test.b, *test.relay)]
    alone = [name for one in test.relay for name in (one.element, one.source) if name]
    if test.numbered:
        everyone = sorted({name for names in together for name in names})
        numbered = [(name.rstrip("0123456789"), name) for name in everyone if name[-1].isdigit()]
        together = [tuple(name for other, name in numbered if other == stem) for stem, _ in numbered] + together
    found: list[list[str]] = []
    for names in (*together, *((name,) for name in alone)):
        touched = [group for group in found if set(group) & set(names)]
        merged = sorted({*(name for group in touched for name in group), *names})
        found = [group for group in found if group not in touched] + ([merged] if merged else [])
    return found


def layout(test: Test, domain: str) -> VariableLayout:
    """Where the variables of ``test`` lie on a platform whose persistence domain is ``domain``."""
    word: dict[str, int] = {}
    line: dict[str, int] = {}
    block: dict[str, tuple[int, int]] = {}
    for number, group in enumerate(groups(test)):
        first_word, first_line = len(word), len(line)
        for turn, name in enumerate(group):
            word[name] = first_word + (turn // 2 if test.grain == "4" else turn)
            line[name] = first_line + (0 if test.grain in ("4", "8") else turn)
            block[name] = number, {"64": turn // 2, "tlp": turn}.get(test.grain, 0)
    device = Target.PMR if domain == "pmr" else Target.MEMORY
    target = {name: Target.MEMORY if name.startswith(DRAM) else device for name in word}
    return VariableLayout(tuple(sorted(word)), word, line, test.grain == "tlp", block, target)
