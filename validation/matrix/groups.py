"""Groups x primitives x platforms x faults: a group's verdicts beside those of the primitive alone, and its costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from ...protocols.groups.shapes import ReplicaGroup
from ...protocols.naming.names import NamePart, ParsedName, parse_name
from ...protocols.registry import scheme
from ...sim.errors import InputError, Mistake, nearest
from .configurations import Configuration
from .judging import VALUES, CellFinding, draft, judge
from .timing import Latency, latency, run

BYTES = 64
"""Of the updates that are timed."""
BUDGET = 5000
"""States of a schedule after which a condition without a violation is undecided: three logs have more than one."""
GROUPS = tuple(sorted(kind.name for kind in ReplicaGroup.__subclasses__()))


@dataclass(frozen=True)
class GroupJob:
    """A group (``chain``, ``chain of 2``) over a primitive on a configuration, and the fault."""

    group: str
    primitive: str
    configuration: Configuration
    fault: str
    seed: int = 1

    @property
    def name(self) -> str:
        """The scheme's name."""
        return f"{self.group} over {self.primitive}"


@dataclass
class GroupRow:
    """The findings of a job."""

    job: GroupJob
    finding: CellFinding
    alone: CellFinding
    """The same primitive and line of bytes on one machine, after its power failure."""
    cost: Latency | None = None
    """None where the primitive cannot be used there; CPU time is that of all replicas."""
    alone_cost: Latency | None = None


def group_row(job: GroupJob) -> GroupRow:
    """Judge and time a group; what the primitive does alone is found out once for each platform."""
    kind = scheme(job.name)
    away = [f"replica[{number}]" for number in range(int(kind.option("of")))]
    finding = judge(job.name, job.configuration, seed=job.seed, fault=job.fault, away=away, budget=BUDGET)
    alone, alone_cost = _alone(job.primitive, job.configuration, job.seed)
    cost = None
    if not finding.refused:
        cost = latency(run(job.name, job.configuration, BYTES, 1, job.seed), responder="replica")
    return GroupRow(job, finding, alone, cost, alone_cost)


@cache
def _alone(primitive: str, configuration: Configuration, seed: int) -> tuple[CellFinding, Latency | None]:
    name = f"line over {primitive}"
    finding = judge(name, configuration, seed=seed)
    return finding, None if finding.refused else latency(run(name, configuration, BYTES, 1, seed))


def usual(group: str) -> list[str]:
    """The faults that a group is tried with: all its machines fail, and its first or its last one is lost."""
    last = int(scheme(f"{group} over no-flush").option("of")) - 1
    return ["all power", "replica[0] lost", f"replica[{last}] lost"]


def group_jobs(
    groups: Sequence[str],
    primitives: Sequence[str],
    configurations: Sequence[Configuration],
    faults: Sequence[str] = (),
    seed: int = 1,
) -> list[GroupJob]:
    """A job for each; without faults those of :func:`usual`. Raises InputError with every name that is none, or does
    not go with the others.
    """
    mistakes: list[Mistake] = []
    jobs: list[GroupJob] = []
    for group in groups:
        word = parse_name(group).word
        if word not in GROUPS:
            expected = f"a group: {', '.join(GROUPS)}, perhaps with its replicas, as in chain of 2"
            mistakes.append(Mistake(f"'{group}'", expected, field="rpsim matrix groups", nearest=nearest(word, GROUPS)))
            continue
        try:
            scheme(f"{group} over no-flush")
        except InputError as error:
            mistakes += [replace(one, found=one.found.replace(" over no-flush", "")) for one in error.mistakes]
            continue
        own_faults = faults or usual(group)
        for primitive in primitives:
            try:
                own, alone = _parts(f"{group} over {primitive}")
                for fault in own_faults:
                    draft(f"{own} over {alone}", configurations[0], VALUES["line"], fault=fault).build()
            except InputError as error:
                mistakes += error.mistakes
                continue
            jobs += [GroupJob(own, alone, where, fault, seed) for where in configurations for fault in own_faults]
    if mistakes:
        raise InputError(list(dict.fromkeys(mistakes)))
    order = list(dict.fromkeys(job.fault for job in jobs))
    return sorted(jobs, key=lambda job: order.index(job.fault))


def _parts(name: str) -> tuple[str, str]:
    """The two halves of a group's name: the group with its replicas, the primitive with the way of its updates."""
    parsed = parse_name(scheme(name).name)
    assert parsed.primitive is not None
    options = parsed.system.options
    travels = {option: options[option] for option in ("by", "into") if option in options}
    own = {option: choice for option, choice in options.items() if option not in travels}
    alone = str(ParsedName(NamePart("line", options=travels), primitive=parsed.primitive))
    return str(ParsedName(NamePart(parsed.word, options=own))), alone.removeprefix("line over ")
