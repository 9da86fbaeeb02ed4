"""Small scenarios for stories about stores and power failures: a handful of operations on a handful of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.draws import Planned
from rpsim.scenarios.run.experiment import AssembledVariant, run_variant
from rpsim.scenarios.run.results import RunResult
from rpsim.scenarios.schema.schema import Scenario, Variant

PLATFORMS = (("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off"))
"""The four that a scheme is judged on: platform and DDIO."""


def put(process: int, key: str, at_ns: int = 0) -> dict[str, Any]:
    """A put by a client process, not before an instant."""
    return {"process": process, "f": "put", "object": key, "at": f"{at_ns} ns"}


def get(process: int, key: str, at_ns: int = 0) -> dict[str, Any]:
    """A get by a client process, not before an instant."""
    return {"process": process, "f": "get", "object": key, "at": f"{at_ns} ns"}


def ycsb(operations: int, mix: str = "a") -> dict[str, Any]:
    """So many operations of one of YCSB's mixes."""
    return {"kind": "ycsb", "mix": mix, "operations": operations}


def scenario(
    scheme: str,
    work: Sequence[dict[str, Any]] | dict[str, Any],
    platform: str = "optane-adr",
    ddio: str = "on",
    *,
    processes: int = 1,
    keys: int = 1,
    value: str = "8 B",
    whole_lines: bool = False,
    **more: Any,
) -> Scenario:
    """One scheme on one platform; ``work`` is a list of operations or :func:`ycsb`."""
    workload = work if isinstance(work, dict) else {"kind": "schedule", "operations": list(work)}
    fields: Any = {
        "vary": {"platform": [platform], "ddio": [ddio], "line_atomicity": ["whole" if whole_lines else "word"]},
        "roles": {"client": {"processes": processes}},
        "workload": {**workload, "keys": keys, "value": value},
    }
    return Draft.new("small", scenario="small", schemes=[scheme], **(fields | more)).build()


def only_variant(of: Scenario) -> Variant:
    """The one variant of a scenario that has one."""
    (variant,) = of.variants()
    return variant


def run(*args: Any, schedule: int = 0, **more: Any) -> RunResult:
    """The run of a :func:`scenario`."""
    made = scenario(*args, **more)
    return run_variant(made, only_variant(made), schedule)


def comes(of: AssembledVariant, process: int, puts: int, *, answered: bool = True) -> list[Any]:
    """Another client process writes k0 so often, and reads it, within 50 ms; the results of its reads."""
    calls = [*(Planned(process, "put", "k0", True) for _ in range(puts)), Planned(process, "get", "k0", False)]
    clock = of.system.clock
    clock.run_until(of.start_client(1, 0, process, calls) | clock.until(clock.now_ps + 50_000_000_000))
    own = [o for o in of.history.operations if o.process == process]
    assert all(o.outcome == "ok" for o in own) is answered
    return [o.result for o in own if o.f == "get"]
