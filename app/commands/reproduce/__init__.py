"""``rpsim reproduce``: published numbers beside simulated ones, of the hardware or of a paper; the scoreboard.

``hardware.py`` does the one, ``paper.py`` the other, with ``sweep.py`` for parameters that the paper leaves open.
"""

from __future__ import annotations

import argparse

from ....sim.errors import InputError, Mistake, nearest
from ...options import JOBS, NO_REPORT, OUT, Command, Option

HARDWARE = "hardware"

COMMAND = Command(
    "published numbers beside simulated ones: the scoreboard",
    "SUBJECT",
    "hardware, or a paper (efactory), or a figure of one (efactory/9d)",
    options=(
        Option("--component", "the curves of one component (default: all)", "C", of=(HARDWARE,)),
        Option("--quick", "some points of each curve, a paper's ends of each axis"),
        Option("--sweep", "again with each badly known parameter at the ends of its range"),
        Option(
            "--without",
            "again with a mechanism of the models turned off, or with each (every): which curves need it",
            "M",
            several=True,
            of=(HARDWARE,),
        ),
        Option("--pages", "write pages as well: of platforms (docs/platforms), or of a paper", "DIR"),
        Option(
            "--fit",
            "fit the adapter's residual hops, and print them",
            of=(HARDWARE,),
            without=("--component", "--quick", "--sweep", "--without", "--pages", "--out", "--jobs", "--no-report"),
        ),
        OUT,
        JOBS,
        NO_REPORT,
    ),
)


def main(options: argparse.Namespace) -> int:
    """Run the subject's curves or claims, print, write; returns 0 if the predictions reach the bar, else 1."""
    if options.subject != HARDWARE:
        known = subjects()
        name = options.subject.partition("/")[0]
        if name not in known or name == HARDWARE:
            expected = f"one of {', '.join(known)}, or a paper's figure as in {known[1]}/9a"
            raise InputError(Mistake(f"'{options.subject}'", expected, nearest=nearest(name, known)))
        from . import paper

        return paper.main(options)
    from . import hardware

    return hardware.fit(options) if options.fit else hardware.main(options)


def subjects() -> list[str]:
    """The subjects that can be reproduced: the hardware, and the papers whose claims are here."""
    from ....validation.published.papers.paper import papers

    return [HARDWARE, *papers()]
