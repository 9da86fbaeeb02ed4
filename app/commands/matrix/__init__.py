"""``rpsim matrix``: schemes or flush primitives x platforms x faults, findings beside claims; a module for each part.

``arguments.py`` reads the arguments and options that the parts share.
"""

from __future__ import annotations

from ...options import NO_REPORT, OUT, QUICK, RESULTS, SEED, SEEDS, WORKERS, Command, Field, Option

PLATFORMS = Option(
    "--platforms",
    "usual, quick, methods (those of rpsim matrix methods), every, a platform, or a label such as 'adr, ddio on' "
    "(a semicolon between labels)",
    "P,...",
)
OF_SCHEMES = Option(
    "--platforms",
    "platforms (rpsim list platforms), or as in 'optane-adr, ddio on' (a semicolon between those)",
    "P,...",
)
AS_CLAIMED = Field("as_claimed", "boolean", "whether no claim is refuted")

COMMAND = Command(
    "flush primitives or schemes x platforms x faults: guarantees and costs",
    parts={
        "primitives": Command(
            "flush primitives: what they guarantee, as claimed or not, and what they cost",
            "PRIMITIVE",
            "names, or paths of files; commas may stand between them (none: all shipped ones)",
            several=True,
            needed=False,
            options=(
                PLATFORMS,
                Option("--shapes", "of word, line, page, log, pair, other-qp", "S,..."),
                Option("--sizes", "of the updates that are timed, as in '8 B,4 KiB'", "B,..."),
                QUICK,
                SEED,
                OUT,
                *WORKERS,
                NO_REPORT,
            ),
            answer=(
                Field("seed", "integer", "the seed of all random choices"),
                AS_CLAIMED,
                Field("rows", "array", "of each primitive and platform: `claimed`, `found`, `refuted`, costs"),
                RESULTS,
            ),
            work="primitives",
        ),
        "schemes": Command(
            "schemes: their guarantees after faults, beside their papers' claims",
            "SCHEME",
            "names of schemes (rpsim list schemes); commas may stand between them",
            several=True,
            options=(
                OF_SCHEMES,
                Option("--faults", "faults (default: the first server's power), or every", "F,..."),
                Option("--sizes", "of the values that are written, as in '8 B,256 B'", "B,..."),
                Option("--writers", "one (a process writes an object), shared, or both (default: shared)", "W,..."),
                QUICK,
                SEED,
                SEEDS,
                OUT,
                *WORKERS,
            ),
            answer=(
                Field("seed", "integer", "the first of the seeds"),
                Field("seeds", "array", "all seeds"),
                AS_CLAIMED,
                Field("same_on_every_seed", "boolean", "whether verdicts are the same with every seed"),
                Field(
                    "rows",
                    "array",
                    "of each scheme, platform, fault and wish: `claimed`, `found`, `refuted`, `by_seed`",
                ),
                RESULTS,
            ),
            work="schemes",
        ),
        "groups": Command(
            "replication (fan-out, chain, quorum) over flush primitives, beside the primitive alone",
            "GROUP",
            "groups, as in chain or 'chain of 2'; commas may stand between them (none: all three)",
            several=True,
            needed=False,
            options=(
                PLATFORMS,
                Option("--primitives", "names, or paths of files (default: five)", "P,..."),
                Option("--faults", "faults (default: all power; the first or the last replica lost)", "F,..."),
                SEED,
                OUT,
                *WORKERS,
            ),
            answer=(
                Field("seed", "integer", "the seed of all random choices"),
                Field(
                    "rows",
                    "array",
                    "of each group, primitive, platform and fault: `found`, `alone`, `counterexample`, costs",
                ),
                RESULTS,
            ),
            work="groups",
        ),
        "methods": Command(
            "the cheapest correct method by configuration of the server and kind of update",
            "PRIMITIVE",
            "names, or paths of files; commas may stand between them (none: all shipped ones)",
            several=True,
            needed=False,
            options=(PLATFORMS, SEED, OUT, *WORKERS),
            answer=(
                Field("seed", "integer", "the seed of all random choices"),
                Field("methods", "array", "of each configuration and update: `cheapest`, `available`, `failed`"),
                RESULTS,
            ),
            work="methods",
        ),
    },
    plain="primitives",
    moved={
        "--primitives": "rpsim matrix primitives {}",
        "--schemes": "rpsim matrix schemes {}",
        "--groups": "rpsim matrix groups {}",
        "--methods": "rpsim matrix methods",
    },
)
