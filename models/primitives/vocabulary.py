"""The words of the primitive language: places, the actions there, their parameters, and what each action proves.

One table: the reader, the JSON schema, the reference page and the engine's dispatch are made from it, so that none of
them knows a word that the others do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ..verbs.opcodes import FlushLevel, FlushType, Opcode


class StepPlace(StrEnum):
    """The places where a step may happen."""

    REQUESTER_CPU = "requester cpu"
    REQUESTER_NIC = "requester nic"
    WIRE = "wire"
    RESPONDER_NIC = "responder nic"
    PCIE = "pcie"
    LLC = "llc"
    IMC = "imc"
    MEDIUM = "medium"
    RESPONDER_CPU = "responder cpu"


class Kind(StrEnum):
    """The kinds of values that a parameter may have."""

    WORD = "one of"
    NAME = "a name"
    STEP = "the id of a step"
    DURATION = "a duration"
    SIZE = "a size"
    TRUTH = "true or false"
    COUNT = "a whole number"
    WORDS = "a list of"


@dataclass(frozen=True)
class ActionParameter:
    """A parameter of an action; ``default`` is as a file would say it, None: it has to be given unless ``optional``."""

    name: str
    kind: Kind
    text: str
    default: str | bool | int | None = None
    words: tuple[str, ...] = ()
    optional: bool = False

    @property
    def required(self) -> bool:
        """Whether a file has to give it."""
        return self.default is None and not self.optional


@dataclass(frozen=True)
class Action:
    """An action possible at a place; ``proves`` is the fact that its end proves of the updates before it."""

    place: StepPlace
    name: str
    text: str
    proves: str = "nothing"
    parameters: tuple[ActionParameter, ...] = ()

    def parameter(self, name: str) -> ActionParameter:
        """The parameter of that name. Raises KeyError."""
        return {each.name: each for each in self.parameters}[name]


FOLLOWS: Mapping[str, Opcode] = {
    "WRITE": Opcode.IBV_WR_RDMA_WRITE,
    "WRITE_WITH_IMM": Opcode.IBV_WR_RDMA_WRITE_WITH_IMM,
    "SEND": Opcode.IBV_WR_SEND,
}
"""How an update may travel to the responder."""
VERBS: Mapping[str, Opcode] = {
    "READ": Opcode.IBV_WR_RDMA_READ,
    "SEND": Opcode.IBV_WR_SEND,
    "FLUSH": Opcode.IBV_WR_FLUSH,
    "ATOMIC_WRITE": Opcode.IBV_WR_ATOMIC_WRITE,
    "WRITE": Opcode.IBV_WR_RDMA_WRITE,
    "FETCH_ADD": Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
"""Standard verbs that a primitive may add."""
LEVELS = {"range": FlushLevel.IBV_FLUSH_RANGE, "region": FlushLevel.IBV_FLUSH_MR}
PLACEMENTS = {
    "global": FlushType.IBV_FLUSH_GLOBAL,
    "persistent": FlushType.IBV_FLUSH_PERSISTENT,
    "both": FlushType.IBV_FLUSH_GLOBAL | FlushType.IBV_FLUSH_PERSISTENT,
}
STATUSES = ("specified", "in use", "proposed", "emulated")
TRANSPORTS = ("RC", "UC", "UD")
MEMORIES = ("any", "pmr")
UPDATE = "update"
"""The default of ``after`` for the first step: the updates that the primitive follows."""

_ADDRESSES = ("data", "first byte", "last byte", "flag")
_EXTENT = ActionParameter(
    "lines",
    Kind.WORD,
    "the lines of the updates' range, of the whole region, or all that the drained updates touched",
    "range",
    ("range", "region", "drained"),
)
_RELAXED = ActionParameter(
    "relaxed",
    Kind.TRUTH,
    "true: it carries the region's relaxed-ordering bit, and may then pass writes",
    False,
)
_TAKES = ActionParameter("takes", Kind.DURATION, "how long; no model knows it, so give a source or say 'assumption'")

_ACTIONS = (
    Action(
        StepPlace.REQUESTER_CPU,
        "wait",
        "spin for a while",
        parameters=(_TAKES,),
    ),
    Action(
        StepPlace.REQUESTER_CPU,
        "poll",
        "poll the completion of a `send` (or what answers it) before going on",
        "what the answer proves",
        (ActionParameter("of", Kind.STEP, "which"),),
    ),
    Action(
        StepPlace.REQUESTER_NIC,
        "fence",
        "hold the next `send` until earlier READ, atomics and ATOMIC_WRITE are answered (IBV_SEND_FENCE)",
        "what their answers prove",
    ),
    Action(
        StepPlace.WIRE,
        "send",
        "the requester posts a request: a standard verb, or a packet of a new kind that the next steps execute",
        "of a verb: what the ordering rules say of its completion; of a new packet: what its steps prove",
        (
            ActionParameter("verb", Kind.WORD, "a standard verb", words=tuple(VERBS), optional=True),
            ActionParameter("packet", Kind.NAME, "the name of a new packet", optional=True),
            ActionParameter("header", Kind.SIZE, "of a new packet: bytes beside those of every packet", "16 B"),
            ActionParameter(
                "holds",
                Kind.WORDS,
                "of a new packet: later requests of its queue pair that execute only once its steps are done",
                words=("WRITE", "SEND", "READ", "ATOMIC"),
                optional=True,
            ),
            ActionParameter(
                "address", Kind.WORD, "what it names: the updates' range, a byte of it, or the flag", "data", _ADDRESSES
            ),
            ActionParameter("length", Kind.SIZE, "of a READ; 0 B reads nothing", "1 B"),
            ActionParameter("placement", Kind.WORD, "of a FLUSH", "persistent", tuple(PLACEMENTS)),
            ActionParameter("level", Kind.WORD, "of a FLUSH: selectivity", "range", tuple(LEVELS)),
        ),
    ),
    Action(
        StepPlace.WIRE,
        "acknowledge",
        "the responder's adapter answers the packet that brought the steps here",
        "at the requester's completion: what the steps that it waits for prove",
    ),
    Action(
        StepPlace.WIRE,
        "notify",
        "the responder's adapter sends a message of its own to the requester (no CPU): any transport",
        "once it leaves: what the steps that it waits for prove",
    ),
    Action(
        StepPlace.RESPONDER_NIC,
        "drain",
        "wait until staging has passed on to PCIe what was accepted before, of this queue pair or of all",
        "that it has left the adapter; what comes behind it on PCIe is behind it",
        (ActionParameter("of", Kind.WORD, "whose", "queue pair", ("queue pair", "all")),),
    ),
    Action(StepPlace.RESPONDER_NIC, "look up", "find the message's target in a table", parameters=(_TAKES,)),
    Action(
        StepPlace.RESPONDER_NIC,
        "compute",
        "an engine of the adapter works on the packet",
        parameters=(
            _TAKES,
            ActionParameter(
                "occupies",
                Kind.DURATION,
                "how long the engine is busy with it, while the next packet's step waits; without it nobody waits",
                optional=True,
            ),
        ),
    ),
    Action(
        StepPlace.RESPONDER_NIC,
        "buffer",
        "an epoch of the queue pair ends here: wait for an entry of its persist buffer, which is free again when the "
        "packet's steps are done; until then WRITEs behind it are accepted and stay in the adapter",
        "nothing; what the packet's steps prove is certain before those WRITEs go on",
        (ActionParameter("entries", Kind.COUNT, "how many epochs may be on their way to memory", 8),),
    ),
    Action(
        StepPlace.RESPONDER_NIC,
        "copy",
        "DMA of a SEND's payload from its receive buffer to its target",
        "nothing; the copy is an update of this queue pair like any other",
    ),
    Action(
        StepPlace.RESPONDER_NIC,
        "write flag",
        "DMA of the flag, posted",
        "once posted: what the steps that it waits for prove",
    ),
    Action(
        StepPlace.RESPONDER_NIC,
        "interrupt",
        "wake the responder's thread: its steps come next",
    ),
    Action(
        StepPlace.PCIE,
        "read",
        "a DMA read, served behind what was drained before it",
        "drained updates are visible, with DDIO off in a write pending queue; of 0 B: visible; of a PMR: its barrier",
        (
            ActionParameter("address", Kind.WORD, "of what", "last byte", _ADDRESSES),
            ActionParameter("length", Kind.SIZE, "how much; 0 B is PCIe's own flush request", "1 B"),
            _RELAXED,
        ),
    ),
    Action(
        StepPlace.PCIE,
        "request",
        "ask the root complex to do the next steps, behind posted writes; `complete` brings the answer back",
        "what it is behind is visible, by its completion",
        (
            ActionParameter(
                "behind",
                Kind.WORD,
                "what it is behind: what was drained before it, or preceding updates of this queue pair",
                "drained",
                ("drained", "range", "region"),
            ),
            ActionParameter("promise", Kind.TRUTH, "false: its source promises no visibility", True),
            _RELAXED,
        ),
    ),
    Action(StepPlace.PCIE, "complete", "the root complex tells the adapter that it has done it"),
    Action(StepPlace.LLC, "write back", "the root complex writes lines back, and keeps them", parameters=(_EXTENT,)),
    Action(StepPlace.LLC, "invalidate", "the root complex writes lines back and drops them", parameters=(_EXTENT,)),
    Action(
        StepPlace.IMC,
        "wait",
        "wait until the write pending queues have the lines that were written back",
        "what of them was visible is in a write pending queue",
        (
            ActionParameter(
                "until",
                Kind.WORD,
                "`persistent`: until they are in the persistence domain, wherever it begins, as IBTA's FLUSH promises",
                "queued",
                ("queued", "persistent"),
            ),
        ),
    ),
    Action(
        StepPlace.MEDIUM,
        "wait",
        "wait until the medium has the lines that were written back",
        "what of them was visible is on the medium",
    ),
    Action(
        StepPlace.RESPONDER_CPU,
        "receive",
        "the responder's thread polls the receive completion of a SEND or an immediate",
        "earlier writes of the queue pair are visible",
    ),
    Action(
        StepPlace.RESPONDER_CPU,
        "watch",
        "the responder's thread spins on the updates' last byte, and finds it",
        "what it has found is visible, and what came before it on that queue pair",
    ),
    Action(StepPlace.RESPONDER_CPU, "compute", "software runs", parameters=(_TAKES,)),
    Action(StepPlace.RESPONDER_CPU, "copy", "memcpy of a SEND's payload from its receive buffer to its target"),
    Action(
        StepPlace.RESPONDER_CPU,
        "flush",
        "flush the updates' lines with an instruction",
        "clflush: what was visible is in a write pending queue; clwb and clflushopt: once fenced",
        (
            ActionParameter(
                "instruction",
                Kind.WORD,
                "`best` is this processor's",
                "best",
                ("best", "clwb", "clflushopt", "clflush"),
            ),
            ActionParameter(
                "lines", Kind.WORD, "all, the last, or the flag's", "range", ("range", "last line", "flag")
            ),
        ),
    ),
    Action(StepPlace.RESPONDER_CPU, "fence", "sfence", "stores are visible, flushes of before are done"),
    Action(
        StepPlace.RESPONDER_CPU,
        "read pmrsts",
        "read the register PMRSTS of the drive whose region the updates went to; of other memory: nothing",
        "where PMRCAP.PMRWBM has bit 1: what the region's buffer had is in the region",
    ),
    Action(StepPlace.RESPONDER_CPU, "store flag", "store the flag", "nothing by itself"),
    Action(StepPlace.RESPONDER_CPU, "reply", "the responder's thread posts a SEND to the requester"),
)
ACTIONS: Mapping[StepPlace, Mapping[str, Action]] = {
    place: {action.name: action for action in _ACTIONS if action.place is place} for place in StepPlace
}
"""By place and name."""

AT_REQUESTER = frozenset({StepPlace.REQUESTER_CPU, StepPlace.REQUESTER_NIC})
STARTING = ("interrupt", "watch")
"""Actions by which a program starts a chain of the responder's CPU."""
TELLING = ("reply", "notify")
"""Actions that send a message to the requester."""
ROOT_COMPLEX = frozenset({StepPlace.LLC, StepPlace.IMC, StepPlace.MEDIUM})
"""Places that the adapter reaches through a request to the root complex only."""
