"""Runs in which machines fail at stated instants, one after the other, while others may still be away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rpsim.protocols.failures import POWER, Failing
from rpsim.protocols.registry import scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import AssembledVariant
from rpsim.scenarios.run.inject import Aftermath, Strike, StruckRun
from rpsim.scenarios.run.leftover import MemoryLeft

MS, SECOND = 10**9, 10**12


class Fails(NamedTuple):
    """One machine fails at an instant; after its power it is back so much later."""

    at_ps: int
    role: str
    index: int
    kind: str = POWER
    down_ps: int | None = None


ADR = {"platform": ["optane-adr"], "ddio": ["on"]}


def struck(
    name: str, fails: Sequence[Fails], operations: Sequence[Mapping[str, Any]], vary: Any = ADR, **more: Any
) -> Aftermath:
    """The run of a scheme with these failures, until its survivors have finished and a fresh client has read all."""
    made = Draft.new(
        "struck", scenario="test", seed=1, schemes=[scheme(name).name],
        vary=vary,
        roles={"client": {"machines": 1, "processes": max(int(one["process"]) for one in operations) + 1}},
        workload={"kind": "schedule", "keys": 2, "value": "8 B", "operations": list(operations)},
        crash={"fault": "no fault"}, **more,
    ).build()  # fmt: skip
    (variant,) = made.variants()
    experiment = AssembledVariant(made, variant, 0, watched=True, observer=True)
    left, strikes = MemoryLeft(experiment.loaded), []
    for one in fails:
        parts = (Failing(one.role, one.index, one.kind),)
        strikes.append(Strike(one.at_ps, parts, memory=left.behind(one.at_ps, parts), down_ps=one.down_ps))
    return StruckRun(experiment, strikes, ()).run()


def serving(after: Aftermath, role: str) -> list[bool]:
    """Of each machine of a role, whether clients may connect to it at the end."""
    return [one.listener.listening for one in after.result.scheme.roles[role]]


def outcomes(after: Aftermath, process: int = 0) -> list[tuple[str, str | None]]:
    """What a client process did, and how each of its operations ended."""
    return [(one.f, one.outcome) for one in after.history.operations if one.process == process]
