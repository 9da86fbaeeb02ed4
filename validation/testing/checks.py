"""One scheme on one platform, crashed at every instant of a small run: a report, or a failure with its story."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...protocols.failures import CLIENT
from ...protocols.guarantees import Condition, Verdict, claimed
from ...protocols.scheme import Scheme
from ...scenarios.build import Draft
from ...scenarios.run.experiment import run_variant
from ...scenarios.schema.schema import Scenario
from ...sim.errors import InputError, Mistake, unknown
from ...sim.yaml_source import describe
from ..crash.explore import explore
from ..crash.findings import CrashReport
from .telling import story

DEFAULT_WORKLOAD: Mapping[str, Any] = {
    "kind": "ycsb",
    "mix": "update-only",
    "keys": 2,
    "value": "64 B",
    "operations": 6,
    "zipf": 0.0,
}
"""Small enough for a test of a second, large enough for two versions of an object and two clients at once."""


class Refuted(AssertionError):
    """A condition does not hold; the message has the smallest counterexample, ``report`` all findings."""

    def __init__(self, report: CrashReport, message: str) -> None:
        super().__init__(message)
        self.report = report


def crash_report(
    scheme: type[Scheme],
    platform: str = "optane-adr",
    *,
    conditions: Iterable[str | Condition] = (),
    workload: Mapping[str, Any] | None = None,
    clients: int = 2,
    machines: Mapping[str, int] | None = None,
    fault: str | None = None,
    schedules: int = 1,
    seed: int = 1,
    examples: bool = True,
    **settings: str,
) -> CrashReport:
    """Run ``scheme``, explore all its crash states, and report the findings.

    ``platform`` is a name or the path of a profile, ``settings`` are its switches (``ddio="on"``). ``workload`` is the
    map of a scenario (docs/scenarios.md), which states only what differs from :data:`DEFAULT_WORKLOAD`; ``conditions``
    are to be judged beside the usual ones and the claimed ones; ``machines`` says how many play a role; ``fault`` is
    by default the power of the first machine that recovers. Without ``examples`` the report has verdicts and no
    counterexamples, whose shrinking takes most of the time. Raises InputError for what a scenario may not contain.
    """
    scenario = scenario_of(
        scheme, platform, conditions=conditions, workload=workload, clients=clients, machines=machines, fault=fault,
        schedules=schedules, seed=seed, **settings,
    )  # fmt: skip
    (variant,) = scenario.variants()
    return explore(run_variant(scenario, variant), scenario, variant, examples=None if examples else ())


def scenario_of(
    scheme: type[Scheme],
    platform: str = "optane-adr",
    *,
    conditions: Iterable[str | Condition] = (),
    workload: Mapping[str, Any] | None = None,
    clients: int = 2,
    machines: Mapping[str, int] | None = None,
    fault: str | None = None,
    schedules: int = 1,
    seed: int = 1,
    **settings: str,
) -> Scenario:
    """The scenario, of one variant, that :func:`crash_report` explores."""
    needs_class(scheme)
    needs_map(workload)
    given = dict(workload or {})
    load: Any = given if given.get("kind", "ycsb") != "ycsb" else {**DEFAULT_WORKLOAD, **given}
    wanted = [condition_named(name) for name in conditions]
    return Draft.new(
        f"the test of {scheme.name}",
        scenario="test",
        seed=seed,
        vary={"platform": [platform], **{name: [value] for name, value in settings.items()}},
        schemes=[scheme.name],
        roles={
            CLIENT: {"machines": 1, "processes": clients},
            **{role: {"machines": count} for role, count in (machines or {}).items()},
        },
        workload=load,
        crash={"schedules": schedules} if fault is None else {"fault": fault, "schedules": schedules},
        expect={scheme.name: {str(condition): "holds" for condition in wanted}},
    ).build()


def assert_holds(
    scheme: type[Scheme], platform: str = "optane-adr", *conditions: str | Condition, **how: Any
) -> CrashReport:
    """Assert that ``scheme`` keeps ``conditions`` (by default its claims there) on ``platform`` in every crash state.

    ``how`` is as for :func:`crash_report`. Raises :class:`Refuted`, an AssertionError whose message has the smallest
    counterexample; so does a condition that was not decided.
    """
    wanted = [condition_named(name) for name in conditions]
    report = crash_report(scheme, platform, conditions=wanted, **how)
    where = report.platform, report.fault
    wanted = wanted or [
        c for c in report.verdicts if claimed(scheme.claims, str(c), *where, one_writer=report.one_writer)
    ]
    if not wanted:
        expected = "a condition to hold it to, as in assert_holds(scheme, platform, 'no_lost_ack')"
        raise InputError(Mistake(f"{scheme.name}, which claims nothing on {report.platform}", expected))
    wrong = [condition for condition in wanted if report.verdicts.get(condition) is not Verdict.HOLDS]
    if wrong:
        raise Refuted(report, "\n".join(story(report, wrong)))
    return report


def needs_class(scheme: object) -> None:
    """Raises InputError for what is not the class of a scheme that has a name."""
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme) and isinstance(getattr(scheme, "name", None), str)):
        expected = "the class of a scheme: rpsim.protocols.registry.scheme returns it for a name"
        raise InputError(Mistake(describe(scheme), expected, field="scheme"))


def needs_map(workload: object) -> None:
    """Raises InputError for what is neither a map nor None."""
    if not isinstance(workload, Mapping | None):
        expected = "the workload map of a scenario, as in {'keys': 2, 'value': '64 B'}"
        raise InputError(Mistake(describe(workload), expected, field="workload"))


def condition_named(name: str | Condition) -> Condition:
    """The condition of that name; raises InputError for any other."""
    known = [str(condition) for condition in Condition]
    if str(name) not in known:
        raise InputError(unknown(str(name), known, "a condition: {}", field="conditions"))
    return Condition(str(name))
