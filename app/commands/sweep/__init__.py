"""``rpsim sweep``: a scenario over a grid of values and seeds, on this machine's cores or on a cluster.

``work.py`` runs what is not known yet, ``shards.py`` puts the shards of an array job together, ``results.py`` writes
and prints what both have found.
"""

from __future__ import annotations

import argparse

from ....sim.errors import InputError, Mistake
from ...options import JOBS, NO_REPORT, OF_SCENARIO, OUT, Command, Option

MERGE = "merge"

COMMAND = Command(
    "a grid of runs: rpsim sweep SCENARIO --over ..., rpsim sweep merge DIR ...",
    "SCENARIO",
    "a scenario (rpsim list scenarios, or a path); or the word merge, then the folders of all shards",
    several=True,
    options=(
        Option(
            "--over",
            "a field and its values: FIELD=a,b,c, FIELD=lo..hi*2 (doubles), FIELD=lo..hi+STEP; may be repeated",
            "FIELD=...",
            several=True,
            like="workload.keys=50,100",
        ),
        Option("--seeds", "how many seeds, from the scenario's or --seed on (default: 1)", "N", 1, least=1),
        Option("--crash", "explore every run's crash states as well, as rpsim crash does"),
        *(option for option in OF_SCENARIO if option.flag in {"--set", "--seed"}),
        Option("--shard", "only every n-th run, from the i-th on: one task of a batch system's array job", "I/N"),
        OUT,
        JOBS,
        Option(
            "--dask",
            "run on the Dask cluster whose scheduler is there (tcp://HOST:8786)",
            "ADDRESS",
            without=("--jobs",),
        ),
        Option("--parquet", "write runs.parquet besides (needs rpsim[data])"),
        NO_REPORT,
    ),
)
OF_RUNS = ("--over", "--seeds", "--crash", "--set", "--seed", "--shard", "--jobs", "--dask")
"""Options that mean nothing where shards are merged."""


def main(options: argparse.Namespace) -> int:
    """Run or merge, print, write; returns 0, or 1 where a run was impossible or a verdict is not as expected."""
    first, *more = options.subject
    if first == MERGE:
        wrong = [flag for flag in OF_RUNS if flag in options.given]
        if wrong:
            expected = f"the folders of shards alone: rpsim sweep {MERGE} DIR ..."
            raise InputError([Mistake(f"it together with {MERGE}", expected, field=flag) for flag in wrong])
        from . import shards

        return shards.main(options, more)
    if more:
        raise InputError(Mistake(f"'{' '.join(more)}'", "nothing more: a sweep has one scenario"))
    from . import work

    return work.main(options, first)
