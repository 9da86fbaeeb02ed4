"""``rpsim sweep``: a scenario over a grid of values and seeds, on this machine's cores or on a cluster.

``work.py`` runs what is not known yet, ``shards.py`` puts the shards of an array job together, ``results.py`` writes
and prints what both have found.
"""

from __future__ import annotations

import argparse

from ...options import NO_REPORT, OF_SCENARIO, OUT, RESULTS, SEEDS, WORKERS, Command, Field, Option

PARQUET = Option("--parquet", "write runs.parquet besides (needs rpsim[data])", bears=False)
ANSWER = (
    Field("scenario", "string", "the scenario's name"),
    Field("title", "string", "its title"),
    Field("over", "object", "the fields and their values"),
    Field("seeds", "array", "the seeds"),
    Field("shard", "array|null", "which shard of how many, if it is one"),
    Field("runs", "integer", "how many runs"),
    Field("as_expected", "boolean?", "with `--crash`: whether all verdicts are as expected"),
    Field("unexpected", "array?", "with `--crash`: the verdicts that are not"),
    Field("points", "array", "of each point of the grid: `figures` with confidence intervals, `verdicts`, `errors`"),
    RESULTS,
)

COMMAND = Command(
    "a grid of runs: rpsim sweep SCENARIO --over ..., rpsim sweep merge DIR ...",
    "SCENARIO",
    "a scenario (rpsim list scenarios, or a path); or the word merge, then the folders of all shards",
    options=(
        Option(
            "--over",
            "a field and its values: FIELD=a,b,c, FIELD=lo..hi*2 (doubles), FIELD=lo..hi+STEP; may be repeated",
            "FIELD=...",
            several=True,
            like="workload.keys=50,100",
        ),
        SEEDS,
        Option("--crash", "explore every run's crash states as well, as rpsim crash does"),
        *(option for option in OF_SCENARIO if option.flag in {"--set", "--seed"}),
        Option("--shard", "only every n-th run, from the i-th on: one task of a batch system's array job", "I/N"),
        OUT,
        *WORKERS,
        PARQUET,
        NO_REPORT,
    ),
    answer=ANSWER,
    parts={
        "merge": Command(
            "the shards of one sweep as if it had been run at once",
            "DIR",
            "the results folders of all shards",
            several=True,
            options=(OUT, PARQUET, NO_REPORT),
            answer=ANSWER,
            work="shards",
        ),
    },
)


def main(options: argparse.Namespace) -> int:
    """Run, print, write; returns 0, or 1 where a run was impossible or a verdict is not as expected."""
    from . import work

    return work.main(options)
