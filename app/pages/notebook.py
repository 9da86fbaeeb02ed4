"""What a notebook shows of an answer: the tables of the report, the crash slider, the smallest counterexample.

Each is a page of its own in a frame, so that its style and its names stay apart from the notebook's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..terminal.timeline import heading, timeline
from ..terminal.work import JobOutcome
from .report import inline, performance_table, slider_data, template, verdict_table

TALL, SHORT = 900, 320
"""Pixels: of a frame with the slider, and of one with a table."""


def of_run(title: str, outcomes: Sequence[JobOutcome]) -> str:
    """Latency and throughput."""
    return frame(_page(title, performance_table(outcomes)), SHORT)


def of_crash(title: str, outcomes: Sequence[JobOutcome], unexpected: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts, the crash slider, and the smallest counterexample of all."""
    sliders = [slider_data(outcome.slider) for outcome in outcomes if outcome.slider]
    found = [(o.crash, example) for o in outcomes if o.crash for example in o.crash.counterexamples]
    parts = [verdict_table(outcomes, unexpected), template("slider.html") if sliders else ""]
    if found:
        report, example = min(found, key=lambda one: (one[1].operations, one[1].instant_ps))
        story = "\n".join([*heading(report, example, "smallest of all below"), "", *timeline(example)])
        parts.append(f"<h2>Smallest counterexample</h2><pre>{escape(story)}</pre>")
    return frame(_page(title, "".join(parts), sliders), TALL)


def frame(page: str, height: int) -> str:
    """A whole page as an element of another; the height is in pixels."""
    return f'<iframe srcdoc="{escape(page)}" style="width:100%;height:{height}px;border:0"></iframe>'


def _page(title: str, body: str, sliders: Sequence[Mapping[str, Any]] = ()) -> str:
    parts = {
        "title": escape(title),
        "body": body,
        "style": template("style.css"),
        "sliders": inline(sliders),
        "script": template("slider.js") if sliders else "",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("notebook.html"))
