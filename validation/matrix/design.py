"""The search of the step language: which primitives of at most so many steps are durable on a platform, and cheap?

Candidates are written down from a grammar: how the update travels, what carries control to the responder (a verb, a
packet of its own, the update's packet, a message), and the steps there. They are tried shortest first. A candidate with
all steps of a shorter one that is durable, in its order, is left out: another step costs and adds nothing. Candidates
that survive a single update are judged on all shapes and timed; the front are the ones that no other beats in latency,
CPU time of the responder and packets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path

from ...models.primitives.language import Primitive
from ...models.primitives.reader import parse_primitive
from ...protocols.primitives import known_primitives, primitive
from ...protocols.shapes import shape_name
from ...sim.errors import InputError
from .configurations import Configuration
from .judging import Interleaving, judge
from .timing import Latency, latency, run

FAST = (Interleaving(),)
"""A single update, undisturbed: most candidates that fail fail here."""
SHAPES = ("word", "line", "pair")
BYTES = 64

Steps = tuple[str, ...]

VERBS = (
    "at: wire, do: send, verb: READ, address: last byte, length: 1 B",
    "at: wire, do: send, verb: READ, address: data, length: 0 B",
    "at: wire, do: send, verb: FETCH_ADD",
    "at: wire, do: send, verb: ATOMIC_WRITE",
)
PACKET = "at: wire, do: send, packet: NEW, header: 16 B"
MESSAGE = "at: wire, do: send, verb: SEND"
RECEIVE, REPLY, ACKNOWLEDGE = (
    "at: responder cpu, do: receive",
    "at: responder cpu, do: reply",
    "at: wire, do: acknowledge",
)
CPU = ("at: responder cpu, do: flush", "at: responder cpu, do: fence")
CPU_COPY = "at: responder cpu, do: copy"
NIC = (
    "at: responder nic, do: drain, of: queue pair",
    "at: pcie, do: read, address: last byte, length: 1 B",
    "at: pcie, do: read, address: data, length: 0 B",
)
NIC_COPY = "at: responder nic, do: copy"
ASK, TELL = ("at: pcie, do: request, behind: drained", "at: pcie, do: request, behind: range"), "at: pcie, do: complete"
LINES = (None, "at: llc, do: write back, lines: range", "at: llc, do: invalidate, lines: range")
QUEUED = (None, "at: imc, do: wait, until: queued", "at: imc, do: wait, until: persistent")
STORED = (None, "at: medium, do: wait")
WAKE = "at: responder nic, do: interrupt"


@dataclass(frozen=True)
class Candidate:
    """A primitive that might be."""

    follows: str
    steps: Steps
    complete: str
    """``update``, or the number of a step."""

    def text(self, name: str, title: str = "found by search", status: str = "proposed") -> str:
        """The YAML file of the candidate."""
        listed = [f"- {{id: s{number}, {step}}}" for number, step in enumerate(self.steps, start=1)]
        own = ["packet: NEW"] if self._acts_on_arrival else []
        head = [f"name: {name}", f'title: "{title}"', 'source: "rpsim design"', f"status: {status}"]
        steps = ["steps:", *listed] if listed else []
        return "\n".join([*head, f"follows: [{self.follows}]", *own, *steps, f"complete: {self.complete}", ""])

    @property
    def _acts_on_arrival(self) -> bool:
        return bool(self.steps) and not self.steps[0].startswith(("at: wire", "at: responder cpu"))

    def extends(self, other: Candidate) -> bool:
        """Whether it has all steps of another in their order, and more; carried in the same way."""
        if (self.follows, self._acts_on_arrival, self.steps[:1]) != (
            other.follows, other._acts_on_arrival, other.steps[:1] if not other._acts_on_arrival else self.steps[:1]
        ):  # fmt: skip
            return False
        rest = iter(self.steps)
        return len(self.steps) > len(other.steps) and all(step in rest for step in other.steps)


@dataclass(frozen=True, eq=False)
class FoundPrimitive:
    """A candidate that is durable on the platform."""

    candidate: Candidate
    cost: Latency
    published: tuple[str, ...]
    """The shipped primitives that have just these steps."""
    log: bool
    """Whether an entry and its commit word may be handed to it together."""

    @property
    def metrics(self) -> tuple[float, float, float]:
        return self.cost.p50_ns, self.cost.cpu_ns, self.cost.packets

    def dominated_by(self, other: FoundPrimitive) -> bool:
        """Whether another is at least as good in everything, and better in something."""
        return self.metrics != other.metrics and all(a >= b for a, b in zip(self.metrics, other.metrics, strict=True))


@dataclass
class DesignSearch:
    """The result of a search, and its state on the way."""

    configuration: Configuration
    steps: int
    tried: int = 0
    left_out: int = 0
    """Longer than a durable one whose steps they have."""
    survivors: int = 0
    durable: list[FoundPrimitive] | None = None

    @property
    def front(self) -> list[FoundPrimitive]:
        """Not dominated, quickest first; one for each point, published ones first."""
        best: dict[tuple[float, float, float], FoundPrimitive] = {}
        ordered = sorted(self.durable or (), key=lambda f: (f.metrics, not f.published, len(f.candidate.steps)))
        for one in ordered:
            if not any(one.dominated_by(other) for other in ordered):
                best.setdefault(one.metrics, one)
        return list(best.values())


def middles(most: int, copies: bool) -> Iterator[Steps]:
    """The sequences of at most so many steps that the responder's adapter may execute."""
    blocks: list[Steps] = [(step,) for step in NIC]
    for ask, lines, queued, stored in product(ASK, LINES, QUEUED, STORED):
        if lines is None and (queued, stored) != (None, None):
            continue  # nothing has been written back that one could wait for
        blocks.append(tuple(step for step in (ask, lines, queued, stored, TELL) if step is not None))
    blocks += [(WAKE, *some) for number in range(3) for some in permutations(CPU, number)]
    heads: tuple[Steps, ...] = ((NIC_COPY,),) if copies else ((),)
    for head in heads:
        for number in range(4):
            for chosen in permutations(blocks, number):
                if sum(block[0] in ASK for block in chosen) > 1 or sum(block[0] == WAKE for block in chosen) > 1:
                    continue
                steps = tuple(step for block in (head, *chosen) for step in block)
                if len(steps) <= most:
                    yield steps


def candidates(most: int) -> list[Candidate]:
    """All of at most so many steps, shortest first, each once."""
    found: dict[Candidate, None] = {}

    def add(follows: str, steps: Steps, complete: str) -> None:
        if len(steps) <= most:
            found.setdefault(Candidate(follows, steps, complete))

    for follows in ("WRITE", "WRITE_WITH_IMM", "SEND"):
        add(follows, (), "update")
    for number in (1, 2):
        for verbs in permutations(VERBS, number):
            add("WRITE", verbs, f"s{number}")
    for follows, copies in (("WRITE", False), ("SEND", True)):
        for middle in middles(most - 2, copies):
            add(follows, (PACKET, *middle, ACKNOWLEDGE), "s1")
    for middle in middles(most - 1, False):
        if middle and middle[0] != WAKE:
            add("WRITE", (*middle, ACKNOWLEDGE), f"s{len(middle) + 1}")
    for number in range(3):
        for some in permutations(CPU, number):
            add("WRITE", (MESSAGE, RECEIVE, *some, REPLY), f"s{number + 3}")
            add("WRITE_WITH_IMM", (RECEIVE, *some, REPLY), f"s{number + 2}")
            for copy in ((), (CPU_COPY,)):
                add("SEND", (RECEIVE, *copy, *some, REPLY), f"s{number + len(copy) + 2}")
    return sorted(found, key=lambda one: len(one.steps))


def canonical(one: Primitive) -> tuple[object, ...]:
    """A key that is equal for equal primitives: places, actions and arguments; no names or sizes, and no promise that a
    source holds back.
    """
    free = ("packet", "header", "takes", "holds", "promise")
    index = {step.id: number for number, step in enumerate(one.steps)}
    steps = tuple(
        (step.place, step.do, tuple((k, v) for k, v in sorted(step.parameters.items()) if k not in free))
        for step in one.steps
        if step.do != "look up"
    )
    return one.follows[:1], bool(one.packet), steps, index.get(one.complete, -1) if len(steps) == len(index) else -2


def published() -> dict[tuple[object, ...], list[str]]:
    """The names of the shipped primitives by their canonical form."""
    found: dict[tuple[object, ...], list[str]] = {}
    for name in known_primitives():
        found.setdefault(canonical(primitive(name)), []).append(name)
    return found


@dataclass(frozen=True)
class CandidateTrial:
    """A candidate to be judged in a process of its own; ``file`` is where it has been written."""

    candidate: Candidate
    configuration: Configuration
    file: str
    seed: int = 1
    whole: bool = False


def survives(trial: CandidateTrial) -> bool:
    """The fast check: one update of a word."""
    name = shape_name("word", trial.file)
    return judge(name, trial.configuration, seed=trial.seed, schedules=FAST).durable


def judged(trial: CandidateTrial) -> tuple[Latency, bool] | None:
    """The whole judgement, and the cost; None if it is not durable."""
    for shape in SHAPES:
        if not judge(shape_name(shape, trial.file), trial.configuration, seed=trial.seed).durable:
            return None
    cost = latency(run(shape_name("word", trial.file), trial.configuration, BYTES, 1, trial.seed))
    log = judge(shape_name("log", trial.file), trial.configuration, seed=trial.seed).durable
    return None if cost is None else (cost, log)


def possible(one: Candidate, file: Path) -> Primitive | None:
    """The candidate, read; None where its steps cannot be executed in this order."""
    try:
        return parse_primitive(one.text(file.stem), str(file))
    except InputError:
        return None


def wanted(some: Sequence[Candidate], durable: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that are not a durable one with more steps."""
    return [one for one in some if not any(one.extends(other) for other in durable)]


def reached(found: Sequence[FoundPrimitive]) -> dict[str, FoundPrimitive | None]:
    """The quickest durable one of each kind that people ask for; None where nothing of so many steps is."""

    def quickest(*fitting: bool) -> FoundPrimitive | None:
        chosen = [one for one, fits in zip(found, fitting, strict=True) if fits]
        return min(chosen, key=lambda one: one.metrics, default=None)

    return {
        "no CPU time of the responder": quickest(*(one.cost.cpu_ns == 0 for one in found)),
        "verbs of today's adapters, no CPU time": quickest(*(_of_today(one) for one in found)),
        "no request beside the update": quickest(*(not _asks(one) for one in found)),
        "an entry and its commit word in one go": quickest(*(one.log for one in found)),
        "a SEND that no CPU copies": quickest(*(_plain_send(one) for one in found)),
    }


def _asks(one: FoundPrimitive) -> bool:
    return any("do: send" in step for step in one.candidate.steps)


def _of_today(one: FoundPrimitive) -> bool:
    return all("verb: READ" in step or "verb: FETCH_ADD" in step for step in one.candidate.steps)


def _plain_send(one: FoundPrimitive) -> bool:
    return one.candidate.follows == "SEND" and CPU_COPY not in one.candidate.steps
