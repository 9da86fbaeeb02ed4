"""Small runs of the stores over passive data nodes, and what is found out about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpsim.protocols.guarantees import Condition
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.results import RunResult
from rpsim.scenarios.schema.schema import Scenario
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.strikes import Walk

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, LOST, DURABLE}


def small(
    scheme: str,
    work: Any = "update-only",
    *,
    operations: int = 6,
    keys: int = 2,
    value: str = "64 B",
    domain: str = "wsp",
    ddio: str = "on",
    machines: int = 2,
    processes: int = 1,
    nodes: int = 2,
    metadata: int = 1,
    threads: int = 1,
    **more: Any,
) -> Scenario:
    """A few operations on a few keys: ``work`` is a mix, a list of operations, or a workload's fields."""
    roles: dict[str, Any] = {"client": {"machines": machines, "processes": processes}, "data": {"machines": nodes}}
    if scheme.startswith("clover"):
        roles["metadata"] = {"machines": metadata, "waits": "adaptive", "threads": threads}
    elif scheme.startswith("herd"):
        del roles["data"]
    workload: dict[str, Any] = {"keys": keys, "value": value}
    if isinstance(work, list):
        workload |= {"kind": "schedule", "operations": work}
    else:
        workload |= {"kind": "ycsb", "operations": operations, **(work if isinstance(work, Mapping) else {"mix": work})}
    vary = {"platform": ["clover-testbed"], "domain": [domain], "ddio": [ddio]}
    return Draft.new(
        "small", scenario="small", schemes=[scheme], roles=roles, vary=vary, workload=workload, **more
    ).build()


def ran(scheme: str, work: Any = "update-only", **more: Any) -> RunResult:
    """The run, metered."""
    made = small(scheme, work, **more)
    (variant,) = made.variants()
    return run_variant(made, variant, metered=True)


def violated(
    scheme: str, fault: str, work: Any = "update-only", *, schedules: int = 1, down: str = "1 s", **more: Any
) -> set[Condition]:
    """The conditions that a fault breaks, of those that the paper speaks of and the durable one."""
    made = small(scheme, work, crash={"fault": fault, "schedules": schedules, "down": down}, **more)
    (variant,) = made.variants()
    report = explore(run_variant(made, variant), made, variant, examples=())
    undecided = {condition for condition, verdict in report.verdicts.items() if verdict == "undecided"}
    assert report.exhaustive and not undecided, (report.over, undecided)
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"}


def waiting(scheme: str, fault: str, work: Any = "update-only", *, down: str = "1 s", **more: Any) -> int:
    """In how many of the runs with a fault somebody waits for ever."""
    made = small(scheme, work, crash={"fault": fault, "down": down}, **more)
    (variant,) = made.variants()
    walk = Walk(made, variant)
    return sum(not state.aftermath.finished for state in walk.states(walk.instants))
