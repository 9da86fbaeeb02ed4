"""The view of an answer in a notebook: the tables of the report, the crash slider, the smallest counterexample.

Each is a page of its own in a frame, so that its style and its names stay apart from the notebook's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..terminal.timeline import heading, timeline
from ..terminal.work import JobOutcome
from .report import performance, slider_data, verdicts
from .template import render

TALL, SHORT = 900, 320
"""Pixels: of a frame with the slider, and of one with a table."""


def of_run(title: str, outcomes: Sequence[JobOutcome]) -> str:
    """The tables of latency and throughput."""
    rows = [performance(outcome) for outcome in outcomes]
    return frame(render("notebook.html", title=title, performance=rows, crash=None, sliders=(), story=""), SHORT)


def of_crash(title: str, outcomes: Sequence[JobOutcome], unexpected: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts, the crash slider, and the smallest counterexample of all."""
    sliders = [slider_data(outcome.slider) for outcome in outcomes if outcome.slider]
    found = [(o.crash, example) for o in outcomes if o.crash for example in o.crash.counterexamples]
    story = ""
    if found:
        report, example = min(found, key=lambda one: (one[1].operations, one[1].instant_ps))
        story = "\n".join([*heading(report, example, "smallest of all below"), "", *timeline(example)])
    crash = verdicts(outcomes, unexpected)
    return frame(render("notebook.html", title=title, performance=(), crash=crash, sliders=sliders, story=story), TALL)


def frame(page: str, height: int) -> str:
    """A whole page as an element of another; the height is in pixels."""
    return Markup('<iframe srcdoc="{}" style="width:100%;height:{}px;border:0"></iframe>').format(page, height)
