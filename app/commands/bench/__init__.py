"""``rpsim bench``: the speed of the simulator and the checker on this machine, beside the aims; a module for each part.

``aims.py`` has how a figure is held against its aim, and what the parts share.
"""

from __future__ import annotations

from ...options import QUICK, Command, Field

AIMS = (
    Field("aims", "array", "each figure that has an aim: `name`, `here`, `at_least` or `at_most`, `met`"),
    Field("missed", "array", "the names of the figures that miss their aims"),
)
"""The fields of every part that has aims."""
OPERATIONS = (
    Field("verbs", "object", "by verb: how many a second, and raw timeouts, Python calls and bytecodes of each"),
    Field("stores", "object", "the same of an operation of each of three stores"),
    Field("rpcs", "object", "the same of remote procedure calls, and of a thread that spins in vain"),
)
SPEED = (
    Field("verbs_per_second", "integer", "WRITEs of 64 B"),
    Field("verbs_per_second_traced", "integer", "the same, traced"),
    Field("timeouts_per_verb", "number", "as many raw SimPy timeouts take as long as one of them"),
    Field("traced_over_untraced", "number", "the speed of traced ones over that of others"),
    Field("arithmetic_over_naive", "number", "speed over that of a model with a process for each hop"),
    Field("events_per_verb", "number", "events of one of them"),
    Field("sizes", "object", "the fields above by size in bytes"),
    *OPERATIONS,
    Field("raw_timeouts_per_second", "integer", "SimPy processes that only wait"),
    Field("mebibytes_per_million_traced_verbs", "integer", "memory"),
    Field("crash_states_per_second", "integer", "judged in units, 1,000 keys"),
    Field("crash_states_per_second_opaque", "integer", "judged with a recovery whose reads say nothing"),
    Field("crash_states_per_second_redo_log", "integer", "judged of the redo log"),
    Field("executed_faults_per_second", "number", "runs in which somebody outlives the fault"),
    Field("timeouts_per_executed_fault", "integer", "as many raw SimPy timeouts take as long as one of them"),
    Field("oracle_operations_per_second", "integer", "of a long history of unique values"),
    Field("help_milliseconds", "integer", "from start to end of `rpsim --help`"),
    Field("profile", "object", "by size: the functions in which the time of a WRITE goes"),
    Field("components", "object", "by size: the shares of the components"),
    *AIMS,
)
COMMAND = Command(
    "how fast the simulator and the checker are on this machine; 1 if an aim is missed",
    parts={
        "speed": Command(
            "verbs, crash states, executed faults, the oracle: all that has an aim",
            options=(QUICK,),
            answer=SPEED,
            work="speed",
        ),
        "operations": Command(
            "what each verb, each store's operation and each call costs",
            options=(QUICK,),
            answer=(*OPERATIONS, *AIMS),
            work="operations",
        ),
        "oracle": Command(
            "the oracle, beside the plain search",
            options=(QUICK,),
            answer=(
                Field("unique_values", "object", "by object: seconds by operations, and the growth of twice as many"),
                Field("hard_cas_histories", "object", "steps of both searches on histories that are hard"),
                *AIMS,
            ),
            work="oracle",
        ),
        "components": Command(
            "what each component of the models costs",
            options=(QUICK,),
            answer=(
                Field("components", "object", "by size: the shares of the components"),
                Field("components_with_everything", "object", "the same where every component has to work"),
                Field("features", "object", "by size: how many times as long a WRITE takes with a feature"),
            ),
            work="components",
        ),
        "sweep": Command(
            "how many times as fast two processes do a sweep as one",
            options=(QUICK,),
            answer=(
                Field("runs", "integer", "the runs of the sweep"),
                Field("seconds", "object", "wall time by processes"),
                Field("processor_seconds", "object", "processor time by processes"),
                Field("two_processes_over_one", "number", "the speed of two over that of one"),
                *AIMS,
            ),
            work="sweep",
        ),
    },
    plain="speed",
    moved={
        "--oracle": "rpsim bench oracle",
        "--operations": "rpsim bench operations",
        "--components": "rpsim bench components",
        "--sweep": "rpsim bench sweep",
    },
)
