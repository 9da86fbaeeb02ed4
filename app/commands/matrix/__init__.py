"""``rpsim matrix``: schemes or flush primitives x platforms x faults, findings beside claims.

``primitives.py`` is the command without more options, ``schemes.py`` with ``--schemes``, ``methods.py`` with
``--methods``; ``arguments.py`` reads the options that they share.
"""

from __future__ import annotations

import argparse

from ...options import JOBS, OUT, Command, Option

COMMAND = Command(
    "flush primitives or schemes x platforms x faults: guarantees and costs",
    options=(
        Option("--primitives", "names, or paths of files (default: all shipped ones)", "P,...", without=("--schemes",)),
        Option("--schemes", "instead of primitives: these schemes", "S,...", without=("--methods",)),
        Option("--methods", "instead: the cheapest correct method by configuration"),
        Option(
            "--platforms",
            "usual, quick, every, a platform, or a label such as 'adr, ddio on' (a semicolon between labels)",
            "P,...",
        ),
        Option("--faults", "of --schemes (default: the first server's power), or every", "F,...", needs="--schemes"),
        Option("--shapes", "of word, line, page, log, pair, other-qp", "S,...", without=("--schemes", "--methods")),
        Option(
            "--sizes",
            "of the updates that are timed, as in '8 B,4 KiB'",
            "B,...",
            without=("--schemes", "--methods"),
        ),
        Option(
            "--quick", "four platforms, three shapes, two sizes; of --schemes DDIO on alone", without=("--methods",)
        ),
        Option("--seed", "seed of all random choices (default: 1); of --schemes several, as in 1,2,3", "N"),
        OUT,
        JOBS,
        Option("--no-report", "write no page", without=("--schemes", "--methods")),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Judge, measure, print, write; returns the exit status."""
    if options.schemes is not None:
        from . import schemes

        return schemes.main(options)
    if options.methods:
        from . import methods

        return methods.main(options)
    from . import primitives

    return primitives.main(options)
