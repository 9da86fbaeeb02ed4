"""Small runs of systems on several machines, and what a fault breaks of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.registry import scheme, small
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import Aftermath
from rpsim.scenarios.run.results import RunResult
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.testing.checks import crash_report, scenario_of

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
ALL = {COMMITTED, LOST, DURABLE}
TINY: Mapping[str, Any] = {"operations": 2, "keys": 1, "value": "8 B"}


def ran(name: str, platform: str = "optane-adr", *, clients: int = 1, ddio: str = "on", **workload: Any) -> RunResult:
    """A run in which nothing fails, metered."""
    made = scenario_of(
        scheme(name), platform, clients=clients, ddio=ddio, fault="no fault", workload={"operations": 12, **workload}
    )
    (variant,) = made.variants()
    return run_variant(made, variant, metered=True)


def violated(
    name: str,
    fault: str,
    *,
    platform: str = "optane-adr",
    ddio: str = "on",
    clients: int = 1,
    schedules: int = 1,
    exhaustive: bool = True,
    machines: Mapping[str, int] | None = None,
    **workload: Any,
) -> set[Condition]:
    """The conditions that a fault breaks in a tiny run, all of whose states are looked at."""
    report = crash_report(
        scheme(name), platform, fault=fault, ddio=ddio, clients=clients, schedules=schedules, examples=False,
        machines=machines, workload={**TINY, **workload},
    )  # fmt: skip
    assert report.exhaustive or not exhaustive
    assert report.states > 1
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"} & ALL


def waiting(name: str, fault: str, **workload: Any) -> tuple[int, int]:
    """How many states a fault has in a tiny run, and in how many of them somebody never comes to an end."""
    finished = [one.finished for one in aftermaths(name, fault, **workload)]
    return len(finished), finished.count(False)


def aftermaths(name: str, fault: str, **workload: Any) -> list[Aftermath]:
    """The ends of all runs of a tiny workload with a fault."""
    made = scenario_of(small(scheme(name)), clients=1, fault=fault, workload={**TINY, "mix": "update-only", **workload})
    (variant,) = made.variants()
    walk = Walk(made, variant)
    return [state.aftermath for state in walk.states(walk.instants)]
