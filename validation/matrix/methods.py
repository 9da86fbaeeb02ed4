"""The cheapest correct method of each server configuration and kind of update, found by judging the library in order.

Candidates are timed first (one update of 64 B), then judged from the quickest on, until one is correct; the candidates
before it show why nothing cheaper will do. A dependent second update is judged by the shape ``pair``, one update by
``word`` and ``line``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...models.primitives.plan import plan
from ...models.primitives.vocabulary import FOLLOWS
from ...protocols.primitives import known_primitives, primitive
from ...protocols.shapes import shape_name
from .configurations import Configuration
from .judging import judge
from .timing import latency, run

KINDS = {"one object": ("word", "line"), "then a dependent one": ("pair",)}
AVAILABLE = ("in use",)
"""The statuses of primitives that today's adapters can execute."""
BYTES = 64
RECEIVE = ("dram", "pm")


@dataclass(frozen=True)
class Question:
    """Which method: on a configuration, with receive buffers in this memory, for updates that travel so."""

    configuration: Configuration
    receive_in: str
    update: str
    kind: str
    primitives: tuple[str, ...]
    seed: int = 1


@dataclass(frozen=True)
class Method:
    """A primitive as an answer, or as one that fails."""

    primitive: str
    status: str
    p50_ns: float
    cpu_ns: float
    packets: float
    why: str = ""
    """Why it is not correct; empty if it is."""


@dataclass
class MethodAnswer:
    """The methods found for one question."""

    question: Question
    cheapest: Method | None = None
    available: Method | None = None
    """The cheapest correct method that today's adapters can execute."""
    failed: list[Method] = field(default_factory=list)
    """Cheaper methods, quickest first."""


def questions(configurations: Sequence[Configuration], primitives: Sequence[str] = (), seed: int = 1) -> list[Question]:
    """Every configuration x receive buffers x way of updates x kind."""
    names = tuple(primitives or known_primitives())
    return [
        Question(one, receive_in, update, kind, names, seed)
        for one in configurations
        for receive_in in RECEIVE
        for update in FOLLOWS
        for kind in KINDS
    ]


def answer(question: Question) -> MethodAnswer:
    """Time all candidates, judge from the quickest on; both the cheapest and the cheapest available are looked for."""
    found = MethodAnswer(question)
    candidates = sorted(_timed(question), key=lambda method: (method.p50_ns, method.cpu_ns, method.primitive))
    for method in candidates:
        if found.cheapest is not None and method.status not in AVAILABLE:
            continue
        why = _why_not(question, method.primitive)
        if why:
            if found.cheapest is None:
                found.failed.append(Method(**{**vars(method), "why": why}))
            continue
        if found.cheapest is None:
            found.cheapest = method
        if method.status in AVAILABLE:
            found.available = method
            break
    return found


def _name(question: Question, shape: str, name: str) -> str:
    """Where receive buffers make no difference they are left out, so that equal questions have equal names."""
    uses = plan(primitive(name), question.update).messages
    return shape_name(shape, name, question.update, question.receive_in if uses else None)


def _timed(question: Question) -> list[Method]:
    methods = []
    memory = str(question.configuration.load().memory["pm"].domain)
    for name in question.primitives:
        found = primitive(name)
        if question.update in found.follows and found.memory in ("any", memory):
            result = run(_name(question, "word", name), question.configuration, BYTES, 1, question.seed)
            cost = latency(result)
            if cost is not None and not getattr(result.scheme, "refused", None):
                methods.append(Method(name, found.status, cost.p50_ns, cost.cpu_ns, cost.packets))
    return methods


def _why_not(question: Question, name: str) -> str:
    for shape in KINDS[question.kind]:
        scheme = _name(question, shape, name)
        finding = judge(scheme, question.configuration, seed=question.seed)
        if not finding.durable:
            return finding.why
    return ""
