"""The output of ``rpsim design``: the front, the published primitives found again, the figures within reach."""

from __future__ import annotations

from typing import Any

from ...validation.matrix.design import DesignSearch, FoundPrimitive, reached
from .text import count, paragraph, plural, table


def lines(search: DesignSearch, names: dict[FoundPrimitive, str]) -> list[str]:
    """The front, the published primitives among the durable ones, and the best figures within reach."""
    durable = search.durable or []
    out = [f"primitives of at most {plural(search.steps, 'step')} on {search.configuration.label}"]
    text = (
        f"{count(search.tried)} tried; {count(search.left_out)} left out, being a durable one with more steps; "
        f"{count(search.survivors)} survive one update; {count(len(durable))} are durable"
    )
    out += [*paragraph(text, 2), ""]
    if not durable:
        more = f"Try more steps, as with --steps {search.steps + 1}."
        return [*out, f"No primitive of at most {plural(search.steps, 'step')} is durable here. {more}"]
    body = [
        [name, f"{one.cost.p50_ns / 1000:.2f}", f"{one.cost.cpu_ns:.0f}", f"{one.cost.packets:g}"]
        for one, name in names.items()
    ]
    out += [*table(["not dominated", "p50 us", "CPU ns", "packets"], body), ""]
    for one, name in names.items():
        steps = [step.removeprefix("at: ").replace(", do: ", ": ", 1) for step in one.candidate.steps]
        known = f" (published: {', '.join(one.published)})" if one.published else ""
        out += paragraph(f"{name}: {one.candidate.follows}; {'; '.join(steps) or 'nothing more'}{known}", 2, 2)
    again = sorted({name for one in durable for name in one.published})
    out += ["", *paragraph(f"published ones among the durable: {', '.join(again) or 'none'}", 0, 2), ""]
    out += [f"what is within reach of {plural(search.steps, 'step')}"]
    for what, quickest in reached(durable).items():
        out.append(f"  {what}: " + (f"{quickest.cost.p50_ns / 1000:.2f} us" if quickest else "nothing"))
    return out


def document(search: DesignSearch, names: dict[FoundPrimitive, str]) -> dict[str, Any]:
    """The front and the rediscovered primitives as JSON."""

    def entry(one: FoundPrimitive) -> dict[str, Any]:
        return {
            "follows": one.candidate.follows,
            "steps": list(one.candidate.steps),
            "published": list(one.published),
            "latency_p50_ns": one.cost.p50_ns,
            "responder_cpu_ns": one.cost.cpu_ns,
            "packets": one.cost.packets,
        }

    durable = search.durable or []
    return {
        "platform": search.configuration.label,
        "steps": search.steps,
        "tried": search.tried,
        "left_out": search.left_out,
        "survivors": search.survivors,
        "durable": len(durable),
        "front": [{"name": name, "file": f"{name}.yaml", **entry(one)} for one, name in names.items()],
        "rediscovered": sorted({name for one in durable for name in one.published}),
        "reached": {what: one.cost.p50_ns if one else None for what, one in reached(durable).items()},
    }
