"""``rpsim matrix methods``: the cheapest correct method by server configuration and kind of update."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from ....sim.jobs.cluster import workers
from ....validation.matrix.configurations import configurations
from ....validation.matrix.methods import Method, MethodAnswer, answer, questions
from ...terminal.envelope import envelope
from ...terminal.output import folder, footer, manifest, replacing, write_json
from ...terminal.progress import performed
from ...terminal.text import paragraph, table
from .arguments import named, platforms


def main(options: argparse.Namespace) -> int:
    """Search, print, write; returns 0 where every question has an answer, else 1."""
    began = time.monotonic()
    where = configurations(platforms(options.platforms, "methods"))
    todo = questions(where, named(options), options.seed)
    inputs: dict[str, Any] = {
        "questions": [[one.configuration.label, one.receive_in, one.update, one.kind] for one in todo]
    }
    inputs |= {"of": todo[0].primitives, "seed": options.seed}
    target = folder(options.out, "methods", inputs, todo[0].seed, "methods")
    with workers(options.jobs, options.dask) as found:
        answers = performed("methods", answer, todo, found)
    document = {"seed": todo[0].seed, "methods": [_entry(one) for one in answers]}
    with replacing(target) as draft:
        write_json(draft / "methods.json", document)
        write_json(draft / "manifest.json", manifest("methods", time.monotonic() - began, seed=todo[0].seed))
    if options.json:
        print(envelope(options, {**document, "results": target.as_posix()}, options.seed, inputs), end="")
    else:
        print("\n".join([*lines(answers), "", *footer(target)]))
    return 0 if all(one.cheapest for one in answers) else 1


def lines(answers: Sequence[MethodAnswer]) -> list[str]:
    """The decision table, then why each cheaper method fails."""
    out = [
        "the cheapest correct method, p50 of an update of 64 B; after / the cheapest",
        "that today's adapters can do; none: nothing in the library is correct",
    ]
    for receive_in in dict.fromkeys(one.question.receive_in for one in answers):
        out += ["", f"receive buffers in {receive_in.upper()}"]
        own = [one for one in answers if one.question.receive_in == receive_in]
        for label in dict.fromkeys(one.question.configuration.label for one in own):
            body = []
            for one in own:
                if one.question.configuration.label == label:
                    body.append([one.question.update, one.question.kind, _words(one.cheapest)])
                    if one.available != one.cheapest:
                        body.append(["", "", f"/ {_words(one.available)}"])
            out += ["", *table([label, "", ""], body, left=3)]
    return [*out, "", *reasons(answers)]


def _words(method: Method | None) -> str:
    return f"{method.primitive}, {method.p50_ns / 1000:.2f} us" if method else "none"


def reasons(answers: Sequence[MethodAnswer]) -> list[str]:
    """Each cheaper method that fails, with its counterexample in a phrase; equal ones once."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in answers:
        for method in one.failed:
            where = f"{one.question.configuration.label}, {one.question.receive_in.upper()}"
            key = one.question.update, method.primitive, method.why
            if where not in groups.setdefault(key, []):
                groups[key].append(where)
    out = ["why the cheaper ones fail"]
    for (update, name, why), places in sorted(groups.items()):
        out += ["", *paragraph(f"{name} ({update}): {why}", 2, 2), *paragraph("; ".join(places), 4, 2)]
    return out


def _entry(one: MethodAnswer) -> dict[str, Any]:
    return {
        "platform": one.question.configuration.label,
        "receive_buffers": one.question.receive_in,
        "update": one.question.update,
        "kind": one.question.kind,
        "cheapest": vars(one.cheapest) if one.cheapest else None,
        "available": vars(one.available) if one.available else None,
        "failed": [vars(method) for method in one.failed],
    }
