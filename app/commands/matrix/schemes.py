"""``rpsim matrix schemes``: the guarantee vectors of schemes, x platforms x faults, beside the papers' claims."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ....models.profiles.platform import platform_names, platform_settings
from ....protocols.guarantees import EXPLORED, Condition, Verdict, claimed
from ....protocols.registry import scheme
from ....protocols.scheme import Scheme
from ....sim.errors import InputError, Mistake, nearest
from ....sim.jobs.cluster import workers
from ....validation.crash.findings import Counterexample, CrashReport
from ....validation.matrix.guarantees import (
    QUICK,
    every,
    file_of,
    fitted_to,
    joined,
    quickly,
    scenario_of,
    usual,
    with_own_objects,
)
from ....validation.matrix.testbeds import fitting, testbed
from ...terminal.envelope import envelope
from ...terminal.output import folder, footer, manifest, replacing, write_json
from ...terminal.summary import counterexample
from ...terminal.text import count, paragraph, plural, table
from ...terminal.work import Job, JobOutcome, perform_all
from .arguments import listed, named, options_as_given, platforms

PLATFORMS = ("optane-adr", "optane-eadr")
ONE, SHARED = "one", "shared"
"""How many processes write an object, as ``--writers`` has it."""


class Wish(NamedTuple):
    """What the options ask of the workload; None: as the scenario of the fault has it."""

    value: str | None = None
    """The size of a value, as it was written."""
    writers: str | None = None
    """``one`` process writes an object, or it is ``shared``."""

    @property
    def words(self) -> str:
        """As it stands behind a fault."""
        said = (self.value, f"{self.writers} writer" if self.writers == ONE else self.writers)
        return "".join(f", {each}" for each in said if each)


class Place(NamedTuple):
    """Platforms of one scenario: with the switches that it varies, or with these."""

    platforms: tuple[str, ...]
    switches: tuple[str, ...] = ()
    """As in ``ddio on``."""

    @classmethod
    def of(cls, text: str) -> Place:
        """A platform, or a row's: ``optane-adr, ddio on``. Raises InputError."""
        platform, *switches = (part.strip() for part in text.split(","))
        wrong = any(" " not in switch for switch in switches)
        try:
            platform_settings(platform)
        except InputError as error:
            if error.mistakes[0].file:
                raise
            wrong = True
        if wrong:
            expected = "a platform (rpsim list platforms), perhaps with its switches, as in 'optane-adr, ddio on'"
            raise InputError(
                Mistake(f"'{text}'", expected, field="--platforms", nearest=nearest(platform, platform_names()))
            )
        return cls((platform,), tuple(switches))

    @property
    def settings(self) -> tuple[str, ...]:
        """What is set in the scenario for it."""
        switches = (switch.rpartition(" ") for switch in self.switches)
        return f"vary.platform=[{', '.join(self.platforms)}]", *(f"vary.{key}=[{value}]" for key, _, value in switches)


@dataclass(frozen=True)
class SchemeRow:
    """A scheme on a platform after a fault: the findings with each seed."""

    number: int
    subject: str
    platform: str
    fault: str
    wish: Wish
    reports: Mapping[int, CrashReport]
    """The report of each seed."""
    explored: str
    """The name of what was explored: with small options where there are several machines."""

    @property
    def found(self) -> dict[str, str]:
        """The verdicts of all seeds together: a condition that one of them violates is violated."""
        each = [{str(c): str(v) for c, v in report.verdicts.items()} for report in self.reports.values()]
        return {condition: joined(one[condition] for one in each) for condition in each[0]}

    @property
    def by_seed(self) -> dict[str, dict[str, str]]:
        """The conditions on which seeds disagree, with the verdict of each seed."""
        every = {
            condition: {str(seed): str(report.verdicts[c]) for seed, report in self.reports.items()}
            for c in next(iter(self.reports.values())).verdicts
            for condition in [str(c)]
        }
        return {condition: said for condition, said in every.items() if len(set(said.values())) > 1}

    @property
    def claimed(self) -> list[str]:
        """The conditions that its paper claims here."""
        claims = scheme(self.subject).claims
        one_writer = all(report.one_writer for report in self.reports.values())
        return [str(c) for c in claims if claimed(claims, str(c), self.platform, self.fault, one_writer=one_writer)]

    @property
    def place(self) -> str:
        """Which row it is, in words."""
        return f"{self.subject} on {self.platform}, {self.fault}{self.wish.words}"

    @property
    def refuted(self) -> list[str]:
        return [condition for condition in self.claimed if self.found.get(condition) == "violated"]

    @property
    def examples(self) -> dict[str, Counterexample]:
        """A counterexample for each violated condition: of the first seed that has one."""
        found: dict[str, Counterexample] = {}
        for report in self.reports.values():
            for example in report.counterexamples:
                found.setdefault(str(example.condition), example)
        return found

    def case(self, condition: str) -> str:
        """The file of a counterexample."""
        return f"case-{self.number}-{condition}.json"

    def document(self) -> dict[str, Any]:
        """The row in the JSON document."""
        examples = {c: counterexample(e) | {"case": self.case(c)} for c, e in self.examples.items()}
        reports = self.reports.values()
        return {
            "subject": self.subject,
            "explored": self.explored,
            "platform": self.platform,
            "fault": self.fault,
            "value": self.wish.value,
            "writers": self.wish.writers,
            "claimed": dict.fromkeys(self.claimed, "holds"),
            "found": self.found,
            "by_seed": self.by_seed,
            "refuted": self.refuted,
            "counterexample": examples or None,
            "states": sum(report.states for report in reports),
            "exhaustive": all(report.exhaustive for report in reports),
            "over": next(iter(reports)).over,
        }


def main(options: argparse.Namespace) -> int:
    """Explore, print, write; returns 0 when no claim is refuted and all seeds agree, else 1."""
    began = time.monotonic()
    names = _names(named(options))
    if not names:
        expected = "names of schemes, as in saw,erda (rpsim list schemes)"
        raise InputError(Mistake("nothing", expected, field="rpsim matrix schemes"))
    chosen = list(range(options.seed, options.seed + options.seeds))
    with options_as_given():
        jobs, asked = _jobs(options, names, chosen)
    inputs = {"jobs": [[job.overrides, job.index, job.seed] for job in jobs]}
    target = folder(options.out, "schemes", inputs, chosen[0], "matrix")
    with workers(options.jobs, options.dask) as found:
        outcomes = list(perform_all(jobs, found, "matrix"))
        late = unshown(jobs, outcomes, len(chosen))
        for number, outcome in zip(late, perform_all(list(late.values()), found, "matrix"), strict=True):
            outcomes[number] = outcome
    rows = _rows(outcomes, jobs, asked, names)
    fine = not any(row.refuted or row.by_seed for row in rows)
    entries = [row.document() for row in rows]
    agree = not any(row.by_seed for row in rows)
    document = {"seed": chosen[0], "seeds": chosen, "as_claimed": not any(row.refuted for row in rows)}
    document |= {"same_on_every_seed": agree, "rows": entries}
    with replacing(target) as draft:
        write_json(draft / "matrix.json", document)
        for row in rows:
            for condition, example in row.examples.items():
                write_json(draft / row.case(condition), example.case)
        write_json(draft / "manifest.json", manifest("matrix", time.monotonic() - began, seed=chosen[0]))
    if options.json:
        print(envelope(options, {**document, "results": target.as_posix()}, chosen, inputs), end="")
    else:
        print("\n".join([*lines(rows, chosen, target), "", *footer(target)]))
    return 0 if fine else 1


def _names(listed_names: Sequence[str]) -> list[str]:
    """The names as everything that is printed has them. Raises InputError with all mistakes."""
    names, mistakes = [], []
    for name in listed_names:
        try:
            names.append(scheme(name).name)
        except InputError as error:
            mistakes += [m if m.file else replace(m, field="rpsim matrix schemes") for m in error.mistakes]
    if mistakes:
        raise InputError(mistakes)
    return names


def _quoted(name: str) -> str:
    """A name as it may stand in a list of YAML."""
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name)


def _jobs(
    options: argparse.Namespace, names: Sequence[str], chosen: Sequence[int]
) -> tuple[list[Job], list[tuple[str, Wish]]]:
    """A job for each cell and seed; by job, the name that is asked about, and what is asked of its workload. Raises
    InputError with every mistake in the options.
    """
    from ....scenarios.schema.load import load_scenario

    jobs: list[Job] = []
    asked: list[tuple[str, Wish]] = []
    mistakes: list[Mistake] = []
    for some, wish, file, overrides in _scenarios(options, names):
        try:
            scenario = load_scenario(file, overrides, chosen[0])
        except InputError as error:
            mistakes += error.mistakes
            continue
        subjects = dict(zip(scenario.schemes, some, strict=True))  # a scenario's have the options that are set in it
        for index, variant in enumerate(scenario.variants()):
            shown = tuple(scheme(variant.scheme).claims) if options.quick else None
            for seed in chosen:
                examples = shown if seed == chosen[0] else ()
                jobs.append(Job(file, overrides, seed, index, True, also=EXPLORED, examples=examples, slider=False))
            asked += [(subjects[variant.scheme], wish)] * len(chosen)
    if mistakes:
        raise InputError(list(dict.fromkeys(mistakes)))
    return jobs, asked


def unshown(jobs: Sequence[Job], outcomes: Sequence[JobOutcome], seeds: int) -> dict[int, Job]:
    """Later seeds show only what the first of a cell does not: by number, the jobs to be done again, with what they
    have to show.
    """
    found: dict[int, Job] = {}
    for first in range(0, len(jobs), seeds):
        asked, shown = jobs[first].examples, set[Condition]()
        for number in range(first, first + seeds):
            report = outcomes[number].crash
            assert report is not None
            violated = {
                c for c, v in report.verdicts.items() if v == Verdict.VIOLATED and (asked is None or c in asked)
            }
            if number > first and violated - shown:
                found[number] = replace(jobs[number], examples=tuple(sorted(violated - shown)))
            shown |= violated
    return found


def faults(options: argparse.Namespace, kind: type[Scheme]) -> list[str]:
    """The faults of ``--faults``: some, ``every`` that a scheme may suffer, or by default its first server's power."""
    named = listed(options.faults) or [usual(kind)]
    all_of_them = every(kind, last=not options.quick)
    return list(dict.fromkeys(fault for name in named for fault in (all_of_them if name == "every" else (name,))))


def _places(options: argparse.Namespace, names: Sequence[str]) -> dict[str, list[Place]]:
    """The platforms of each scheme: those of ``--platforms``; or its paper's own and the two Optane servers, as far as
    they have its memory. Raises InputError.
    """
    if not options.platforms:
        known = {name: scheme(name) for name in names}
        own = {name: dict.fromkeys([*filter(None, [testbed(kind.paper)]), *PLATFORMS]) for name, kind in known.items()}
        return {name: [Place(tuple(fitting(kind, own[name])))] for name, kind in known.items()}
    chosen = [Place.of(text) for text in platforms(options.platforms, "")]
    plain = tuple(place.platforms[0] for place in chosen if not place.switches)
    together = [Place(plain)] if plain else []
    places = [*together, *(place for place in chosen if place.switches)]
    return {name: places for name in names}


def _wishes(options: argparse.Namespace, names: Sequence[str]) -> list[Wish]:
    """Each size of ``--sizes`` with each word of ``--writers``. Raises InputError."""
    writers = listed(options.writers)
    for word in writers:
        if word not in (ONE, SHARED):
            expected = f"{ONE}, {SHARED}, or both, as in {ONE},{SHARED}"
            raise InputError(Mistake(f"'{word}'", expected, field="--writers", nearest=nearest(word, (ONE, SHARED))))
    alone = [name for name in names if scheme(name).one_writer]
    if SHARED in writers and alone:
        raise InputError(Mistake(f"'{SHARED}'", f"{ONE}: an object of {alone[0]} has one writer", field="--writers"))
    values = listed(options.sizes)
    return [Wish(value, word) for value in values or (None,) for word in writers or (None,)]


def _wished(wish: Wish, kind: type[Scheme], name: str) -> tuple[str, ...]:
    """The settings of a scenario for what is asked of its workload."""
    own = with_own_objects(name) if wish.writers == ONE and not kind.one_writer else ()
    return own if wish.value is None else (f"workload.value={wish.value}", *own)


def _scenarios(options: argparse.Namespace, names: Sequence[str]) -> list[tuple[list[str], Wish, str, tuple[str, ...]]]:
    """One scenario for all schemes that suffer a fault on the same platforms: their names, what is asked of the
    workload, its file, and what is set in it.
    """
    where, less = _places(options, names), QUICK if options.quick else ()
    together: dict[tuple[Wish, str, str, Place, tuple[str, ...]], list[str]] = {}
    for name in names:
        kind = scheme(name)
        for wish, fault, place in itertools.product(_wishes(options, names), faults(options, kind), where[name]):
            scenario = scenario_of(fault, kind)
            quick = quickly(kind, scenario) if options.quick else ()
            own = (*fitted_to(kind, scenario, fault), *_wished(wish, kind, scenario), *quick)
            together.setdefault((wish, fault, scenario, place, own), []).append(name)
    return [
        (
            some,
            wish,
            file_of(scenario),
            (
                f"schemes=[{', '.join(map(_quoted, some))}]",
                *less,
                *place.settings,
                f'crash.fault="{fault}"',
                *own,
            ),
        )
        for (wish, fault, scenario, place, own), some in together.items()
    ]


def _rows(
    outcomes: Iterable[JobOutcome], jobs: Sequence[Job], asked: Sequence[tuple[str, Wish]], names: Sequence[str]
) -> list[SchemeRow]:
    """The cells, seeds together; scheme by scheme, each fault's platforms in a row."""
    cells: dict[tuple[str, str, Wish, str], dict[int, CrashReport]] = {}
    explored: dict[tuple[str, str, Wish, str], str] = {}
    for outcome, job, (subject, wish) in zip(outcomes, jobs, asked, strict=True):
        report = outcome.crash_report
        assert job.seed is not None
        cell = subject, report.fault, wish, outcome.platform
        cells.setdefault(cell, {})[job.seed], explored[cell] = report, outcome.scheme
    order = sorted(cells, key=lambda cell: names.index(cell[0]))
    return [
        SchemeRow(number, subject, platform, fault, wish, cells[cell], explored[cell])
        for number, cell in enumerate(order, start=1)
        for subject, fault, wish, platform in [cell]
    ]


def lines(rows: Sequence[SchemeRow], chosen: Sequence[int], target: Path) -> list[str]:
    """A table for each scheme and fault; claims beside findings; then refuted claims, and where seeds disagree."""
    out = ["guarantees by scheme, platform and fault; claimed: its paper says it holds"]
    for subject, fault, wish in dict.fromkeys((row.subject, row.fault, row.wish) for row in rows):
        own = [row for row in rows if (row.subject, row.fault, row.wish) == (subject, fault, wish)]
        conditions = list(dict.fromkeys(condition for row in own for condition in row.found))
        explored, body = own[0].explored, []
        how = "" if explored == subject else f", explored as {explored}"
        for row in own:
            states = sum(report.states for report in row.reports.values())
            body.append([row.platform, *(_cell(row, condition) for condition in conditions), count(states)])
        out += [
            "",
            *paragraph(f"{subject}, {fault}{wish.words}{how}", 0, 2),
            *table(["", *conditions, "states"], body, left=1 + len(conditions)),
        ]
    out += ["", "*: claimed; !: claimed and violated; runs or crash states of each"]
    claims, refuted = sum(len(row.claimed) for row in rows), sum(len(row.refuted) for row in rows)
    as_claimed = f"as claimed: all {plural(claims, 'claim')}"
    out += ["", as_claimed if not refuted else f"NOT as claimed: {refuted} of {plural(claims, 'claim')}"]
    for row in rows:
        for condition in row.refuted:
            text = f"! {row.place}: {condition}: {row.examples[condition].explanation}"
            out += [*paragraph(text, 2, 2), f"    rpsim replay {target.as_posix()}/{row.case(condition)}"]
    if len(chosen) > 1:
        out += ["", *_seeds(rows, chosen)]
    return out


def _seeds(rows: Sequence[SchemeRow], chosen: Sequence[int]) -> list[str]:
    named = ", ".join(map(str, chosen))
    differing = [(row, condition, said) for row in rows for condition, said in row.by_seed.items()]
    if not differing:
        return [f"the same with every seed: {named}"]
    out = [f"NOT the same with every seed: {named}"]
    for row, condition, said in differing:
        each = ", ".join(f"{seed}: {verdict}" for seed, verdict in said.items())
        out += paragraph(f"{row.place}: {condition}: {each}", 2, 2)
    return out


def _cell(row: SchemeRow, condition: str) -> str:
    mark = "!" if condition in row.refuted else "*" if condition in row.claimed else ""
    return f"{row.found.get(condition, '')}{mark}"
