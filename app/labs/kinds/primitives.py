"""Flush primitives of the student's: are they durable on a platform, and what do they cost beside the library?"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ....sim.units import parse_bytes
from ...terminal.text import table
from ...terminal.timeline import timeline
from ..task import LabFinding, LabTask

if TYPE_CHECKING:
    from ....validation.matrix.judging import CellFinding

SHAPES = ("word", "line")


def _judged(task: LabTask) -> tuple[str, CellFinding]:
    """The first shape that is not durable, or the last one."""
    from ....validation.matrix.configurations import configuration
    from ....validation.matrix.judging import judge

    where = configuration(task.given("on"), "on")
    path = task.file(task.given("file")).as_posix()
    for shape in SHAPES:
        found = judge(f"{shape} over {path}", where)
        if not found.durable:
            break
    return shape, found


def durable(task: LabTask) -> LabFinding:
    """Words and lines written over it are durable on ``on``, whenever the power fails."""
    _, found = _judged(task)
    if found.durable:
        return LabFinding(True)
    example, on = found.counterexample, task.given("on")
    if example is None:
        return LabFinding(False, (task.say(["refused"], "{on}: {why}", on=on, why=found.why),))
    places = sorted({fate.place for fate in example.lost})
    names = [f"lost in {place}" for place in places]
    said = task.say(names, "On {on} an acknowledged update may be lost: {why}.", on=on, why=found.why)
    return LabFinding(False, (said,), tuple(timeline(example)), dict(example.case))


@lru_cache(maxsize=64)
def _p50_ns(primitive: str, on: str, size_bytes: int) -> float:
    from ....validation.matrix.configurations import configuration
    from ....validation.matrix.timing import measure

    where = configuration(on, "on")
    costs = measure(primitive, where, sizes=(size_bytes,), queue_pairs=())
    return costs.latency[size_bytes].p50_ns


def cheaper(task: LabTask) -> LabFinding:
    """It is durable on ``on``, and its median latency is below that of the library's primitives of ``than``."""
    on, size = task.given("on"), parse_bytes(task.given("size"))
    _, found = _judged(task)
    if not found.durable:
        otherwise = "What it costs counts only once it is durable on {on}."
        return LabFinding(False, (task.say(["not durable"], otherwise, on=on),))
    _p50_ns.cache_clear()
    mine = _p50_ns(task.file(task.given("file")).as_posix(), on, size)
    others = {name: _p50_ns(name, on, size) for name in task.given("than")}
    ranked = sorted({**others, "yours": mine}.items(), key=lambda one: one[1])
    shown = table(("primitive", "p50 ns"), [(name, f"{ns:,.1f}") for name, ns in ranked])
    faster = [name for name, ns in others.items() if ns <= mine]
    if not faster:
        return LabFinding(True, (), tuple(shown))
    otherwise = "Not yet below {others} on {on}."
    return LabFinding(False, (task.say(["slow"], otherwise, others=", ".join(faster), on=on),), tuple(shown))
