"""``rpsim reproduce``: published numbers beside simulated ones, of the hardware or of a paper; the scoreboard.

``hardware.py`` does the one, ``paper.py`` the other, with ``sweep.py`` for parameters that the paper leaves open.
"""

from __future__ import annotations

import argparse

from ....sim.errors import InputError, Mistake, nearest
from ...options import NO_REPORT, OUT, PAGES, QUICK, RESULTS, WORKERS, Command, Field, Option

HARDWARE = "hardware"
SWEEP = Option("--sweep", "again with each badly known parameter at the ends of its range")
SUBJECT = Field("subject", "string", "hardware, or the paper")
CLAIMS = Field("claims", "array", "of each: `id`, `paper`, `status`, `published`, `simulated`, `met`, `reason`")
SUMMARY = Field("summary", "object", "how many are met, by status, and the median error")

COMMAND = Command(
    "published numbers beside simulated ones: the scoreboard",
    "PAPER",
    "a paper (efactory), or a figure of one (efactory/9d); or the word hardware",
    options=(QUICK, SWEEP, PAGES, OUT, *WORKERS, NO_REPORT),
    answer=(
        SUBJECT,
        CLAIMS,
        Field("not_compared", "array", "claims without a simulated number, and why"),
        SUMMARY,
        Field("as_recorded", "boolean", "whether all claims come out as recorded"),
        Field("changed", "array", "the claims that do not"),
        Field("sweep", "array", "with `--sweep`: the summary with each parameter otherwise"),
        RESULTS,
    ),
    parts={
        HARDWARE: Command(
            "published curves of hardware beside the models'",
            options=(
                Option("--component", "the curves of one component (default: all)", "C"),
                QUICK,
                SWEEP,
                Option(
                    "--without",
                    "again with a mechanism of the models turned off, or with each (every): which curves need it",
                    "M",
                    several=True,
                ),
                PAGES,
                OUT,
                *WORKERS,
                NO_REPORT,
            ),
            answer=(
                SUBJECT,
                CLAIMS,
                SUMMARY,
                Field("sweep", "array?", "with `--sweep`: the summary with each parameter otherwise"),
                Field("without", "array?", "with `--without`: what each mechanism is needed by"),
                RESULTS,
            ),
            work="hardware",
        ),
    },
    moved={"--fit": "rpsim calibrate hops"},
)


def main(options: argparse.Namespace) -> int:
    """Run a paper's claims, print, write; returns 0 if all come out as recorded, else 1."""
    known = papers_known()
    name = options.subject.partition("/")[0]
    if name not in known:
        expected = f"one of {', '.join(subjects())}, or a paper's figure as in {known[0]}/9a"
        raise InputError(Mistake(f"'{options.subject}'", expected, nearest=nearest(name, subjects())))
    from . import paper

    return paper.main(options)


def papers_known() -> list[str]:
    """The papers whose claims are here."""
    from ....validation.published.papers.paper import papers

    return list(papers())


def subjects() -> list[str]:
    """The subjects that can be reproduced: the hardware, and the papers."""
    return [HARDWARE, *papers_known()]
