"""Is a verdict as expected? By the scenario's own ``expect``; where it is silent, by the scheme's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from ...protocols.guarantees import Claims, Condition, claimed, covers

Expect = Mapping[str, Mapping[str, str | Mapping[str, str]]]
"""Scheme -> condition -> verdict, or -> platform -> verdict."""


class Judged(Protocol):
    """Verdicts on one scheme and platform: a crash report, or a run of a sweep."""

    @property
    def scheme(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def fault(self) -> str: ...
    @property
    def verdicts(self) -> Mapping[Condition, str]: ...
    @property
    def one_writer(self) -> bool: ...


@dataclass(frozen=True)
class Surprise:
    """A verdict that differs from the one that the scenario or a claim expects."""

    scheme: str
    platform: str
    condition: str
    found: str
    expected: str
    by: str
    """The source of the expectation: ``scenario`` or ``claim``."""

    @override
    def __str__(self) -> str:
        who = "the scenario expects" if self.by == "scenario" else "the scheme claims"
        return f"{self.scheme} on {self.platform}: {self.condition} {self.found}, but {who} {self.expected}"


def expected(expect: Expect, scheme: str, platform: str) -> dict[str, str]:
    """The verdicts that the scenario expects of a scheme on a platform; the most exact of several entries counts."""
    answer: dict[str, str] = {}
    for condition, wanted in expect.get(scheme, {}).items():
        if not isinstance(wanted, Mapping):
            answer[str(condition)] = str(wanted)
            continue
        fitting = [selector for selector in wanted if covers(selector, platform)]
        if fitting:
            answer[str(condition)] = str(wanted[max(fitting, key=lambda selector: selector.count(","))])
    return answer


def surprises(report: Judged, expect: Expect, claims: Claims) -> list[Surprise]:
    """All verdicts of a report that are not as expected, in the order of the report's conditions."""
    by_scenario = expected(expect, report.scheme, report.platform)
    found = {str(condition): str(verdict) for condition, verdict in report.verdicts.items()}
    answer = []
    for condition in [*found, *(name for name in by_scenario if name not in found)]:
        verdict = found.get(condition, "not judged")
        if condition in by_scenario:
            if verdict != by_scenario[condition]:
                wanted = by_scenario[condition]
                answer.append(Surprise(report.scheme, report.platform, condition, verdict, wanted, "scenario"))
        elif verdict == "violated" and _claimed(claims, condition, report):
            answer.append(Surprise(report.scheme, report.platform, condition, verdict, "holds", "claim"))
    return answer


def unanswered(report: Judged, expect: Expect, claims: Claims) -> tuple[int, int]:
    """How many verdicts neither the scenario nor a claim foresees, and how many are claimed and undecided."""
    by_scenario = expected(expect, report.scheme, report.platform)
    left = {str(name): str(verdict) for name, verdict in report.verdicts.items() if str(name) not in by_scenario}
    promised = [condition for condition in left if _claimed(claims, condition, report)]
    return len(left) - len(promised), sum(left[condition] == "undecided" for condition in promised)


def _claimed(claims: Claims, condition: str, report: Judged) -> bool:
    return claimed(claims, condition, report.platform, report.fault, one_writer=report.one_writer)
