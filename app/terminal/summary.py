"""What ``run`` and ``crash`` print: performance, verdicts, findings; and the same as a JSON document."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ...validation.crash.brute_force import Comparison
from ...validation.crash.findings import Counterexample, CrashReport
from .expected import Surprise
from .output import states_per_second
from .text import WIDTH, count, microseconds, paragraph, plural, table, thousands
from .timeline import heading, timeline
from .work import JobOutcome

Cases = Mapping[tuple[int, int], str]
"""(index of the outcome, index of its counterexample) -> the case's file name."""


def performance(outcomes: Sequence[JobOutcome]) -> list[str]:
    """Latency and throughput, a table per scheme."""
    lines = ["latency and throughput"]
    for scheme in dict.fromkeys(outcome.scheme for outcome in outcomes):
        rows = []
        for outcome in (o for o in outcomes if o.scheme == scheme):
            name, rate = outcome.platform, thousands(outcome.summary["throughput_ops_per_s"])
            for f, latency in outcome.summary["latency_ns"].items():
                times = [microseconds(latency[key] * 1000) for key in ("p50", "p99", "p999", "mean")]
                rows.append([name, f, count(len(outcome.latency_ps[f])), *times, rate])
                name = rate = ""
        head = ["op", "count", "p50 us", "p99 us", "p99.9 us", "mean us", "kops/s"]
        lines += ["", *_titled(scheme, head, rows, left=2, labels=2)]
    return lines


def _titled(scheme: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int, labels: int = 1) -> list[str]:
    """A scheme's table, a row for each platform. The scheme heads their column, or stands above if that is too wide."""
    made = table([scheme, *head], rows, left, labels=labels)
    narrow = table(["platform", *head], rows, left, labels=labels)
    fits = max(map(len, made)) <= WIDTH and len(made) <= len(narrow)
    return made if fits else [*paragraph(scheme, 2, 2), *narrow]


def execution(outcomes: Sequence[JobOutcome]) -> list[str]:
    """How long PageRank takes, a table for each platform; nothing for other workloads."""
    lines: list[str] = []
    for platform in dict.fromkeys(outcome.platform for outcome in outcomes if "pagerank" in outcome.summary):
        own = {o.scheme: o.summary["pagerank"] for o in outcomes if o.platform == platform}
        names = ("execution_time_s", "load_time_s", "iteration_time_s")
        rows = [[scheme, *(f"{found[name]:,.3f}" for name in names)] for scheme, found in own.items()]
        one = next(iter(own.values()))
        text = f"{one['nodes']:,} nodes, {one['edges']:,} edges: {one['iterations']} iterations, {one['rpcs']:,} calls"
        if one["rpcs_run"] != one["rpcs"]:
            text += f", computed from {one['rpcs_run']:,} that were run"
        head = [f"PageRank on {platform}", "time s", "loading s", "iteration s"]
        lines += [*table(head, rows), *paragraph(text, 2, 2), ""]
    return lines


def repairs(outcomes: Sequence[JobOutcome]) -> list[str]:
    """What failed at random and was repaired, and what that costs; a table for each platform."""
    lines: list[str] = []
    for platform in dict.fromkeys(outcome.platform for outcome in outcomes if "repaired" in outcome.summary):
        own = {o.scheme: o.summary["repaired"] for o in outcomes if o.platform == platform}
        rows = [
            [
                scheme,
                *(count(found[name]) for name in ("failures", "sent_again")),
                *(count(found[name]) if name in found else "" for name in ("recovered", "executed_again")),
                *(f"{found[name]:,.1f}" for name in ("down_ms", "cost_ms")),
            ]
            for scheme, found in own.items()
        ]
        head = [f"failures on {platform}", "all", "resent", "recovered", "twice", "down ms", "ms each"]
        lines += [*table(head, rows), ""]
        whole = {scheme: found["of_rpcs"] for scheme, found in own.items() if "of_rpcs" in found}
        if whole:
            one = next(iter(whole.values()))
            at = "" if one["availability"] is None else f", availability {one['availability']:g}"
            head = [f"{one['rpcs']:,} calls{at}", "failures", "hours", "without"]
            hours = [("failures", 1.0), ("time_s", 3600.0), ("without_failures_s", 3600.0)]
            lines += table(head, [[s, *(f"{found[n] / by:,.3f}" for n, by in hours)] for s, found in whole.items()])
            lines += [""]
    return lines


def costs(outcomes: Sequence[JobOutcome]) -> list[str]:
    """CPU time, round trips and flushes of an operation, by role."""
    lines = ["CPU time in us, round trips and other counts of an operation, by role"]
    for scheme in dict.fromkeys(outcome.scheme for outcome in outcomes):
        rows = []
        for outcome in (o for o in outcomes if o.scheme == scheme):
            name = outcome.platform
            for role, spent in outcome.summary["per_operation"].items():
                times = [microseconds(spent[key] * 1000) for key in ("cpu_ns", "polling_ns", "asleep_ns")]
                counted = [f"{spent[key]:.2f}" for key in ("verbs", "round_trips", "flushes")]
                rows.append([name, role, *times, *counted])
                name = ""
        head = ["role", "CPU", "polling", "asleep", "verbs", "trips", "flushes"]
        lines += ["", *_titled(scheme, head, rows, left=2, labels=2)]
    return lines


def verdicts(outcomes: Sequence[JobOutcome], surprises: Sequence[Surprise]) -> list[str]:
    """The guarantee vector of every scheme and platform; ``!`` marks unexpected verdicts."""
    reports = [outcome.crash for outcome in outcomes if outcome.crash is not None]
    odd = {(s.scheme, s.platform, s.condition) for s in surprises}
    how = ["executed" if report.executed else f"{report.view} view" for report in reports]
    lines = [f"verdicts after {_all([report.fault for report in reports])}, {_all(how)}"]
    for scheme in dict.fromkeys(report.scheme for report in reports):
        own = [report for report in reports if report.scheme == scheme]
        conditions = list(dict.fromkeys(condition for report in own for condition in report.verdicts))
        rows = []
        for report in own:
            cells = [
                str(report.verdicts.get(condition, "")) + (" !" if (scheme, report.platform, condition) in odd else "")
                for condition in conditions
            ]
            states = count(report.states) + (" all" if report.exhaustive else " some")
            rows.append([report.platform, *cells, states])
        lines += ["", *_titled(scheme, [*map(str, conditions), "states"], rows, left=1 + len(conditions))]
        for report in own:
            if report.waiting:
                found = f"! {report.platform}: {waits(report)}; the conditions judge what has returned"
                lines += paragraph(found, 2, 2)
    overs = {True: _over(reports, True), False: _over(reports, False)}
    for word, exhaustive in (("all", True), ("some", False)):
        for over in overs[exhaustive]:
            lines += ["", *paragraph(f"{word}: {over}", 2, 2)]
    return lines


def waits(report: CrashReport) -> str:
    """That somebody waits for ever, and how often."""
    return f"somebody waits for ever in {count(report.waiting)} of {plural(report.states, 'run')}"


def _over(reports: Sequence[CrashReport], exhaustive: bool) -> list[str]:
    return list(dict.fromkeys(r.over for r in reports if r.exhaustive is exhaustive and r.over))


def _all(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def findings(outcomes: Sequence[JobOutcome], cases: Cases) -> list[str]:
    """One full timeline per scheme, refuted condition and manner; a line for each other platform with that story."""
    lines: list[str] = []
    shown: list[tuple[str, Counterexample]] = []
    for (scheme, _, _), found in grouped(outcomes).items():
        (first, number), others = found[0], found[1:]
        report = outcomes[first].crash_report
        example = report.counterexamples[number]
        if any(name == scheme and same_story(other, example) for name, other in shown):
            lines += [
                "",
                *heading(report, example, "by the fault above" if report.executed else "by the power failure above"),
                *paragraph(example.explanation, 2, 2),
            ]
        else:
            lines += ["", *heading(report, example), "", *timeline(example)]
            shown.append((scheme, example))
        lines += ["", f"  replay: rpsim replay {cases[first, number]}"]
        for index, where in others:
            other = outcomes[index].crash_report
            bad, states = count(other.violating_states.get(example.condition, 0)), count(other.states)
            lines.append(f"  likewise on {other.platform} ({bad} of {states}): {_file(cases[index, where])}")
    return lines[1:]


def grouped(outcomes: Sequence[JobOutcome]) -> dict[tuple[str, str, Hashable], list[tuple[int, int]]]:
    """(scheme, condition, manner) -> its counterexamples: index of the outcome, index within its report."""
    groups: dict[tuple[str, str, Hashable], list[tuple[int, int]]] = {}
    for index, outcome in enumerate(outcomes):
        for number, example in enumerate(outcome.crash.counterexamples if outcome.crash else []):
            where = (outcome.scheme, str(example.condition), example.manner)
            groups.setdefault(where, []).append((index, number))
    together = {(scheme, condition): None for scheme, condition, _ in groups}
    return {key: found for one in together for key, found in groups.items() if key[:2] == one}


def same_story(one: Counterexample, other: Counterexample) -> bool:
    """Whether two conditions fall by the same case, so that its story is shown once."""
    return (one.instant_ps, one.timeline, one.lost) == (other.instant_ps, other.timeline, other.lost)


def _file(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def by_brute_force(subject: str, brute: Comparison) -> list[str]:
    """Whether brute force and the explorer found the same in the undisturbed schedule."""
    if brute.agree:
        return paragraph(f"{subject}: brute force over {plural(brute.images, 'image')} agrees", 0, 2)
    found = ", ".join(f"{c} at {ps} ps" for c, ps in brute.brute.items()) or "nothing"
    ours = ", ".join(f"{c} at {ps} ps" for c, ps in brute.pruned.items()) or "nothing"
    return paragraph(f"{subject}: brute force DISAGREES: it found {found}; the explorer {ours}", 0, 2)


def closing(surprises: Sequence[Surprise], judged: int, left: Sequence[tuple[int, int]] = ()) -> list[str]:
    """Whether all came out as expected; ``left``: of each report, what ``expected.unanswered`` says."""
    unforeseen, undecided = sum(one for one, _ in left), sum(one for _, one in left)
    foreseen = judged - unforeseen
    if surprises:
        lines = [f"NOT as expected: {count(len(surprises))} of {plural(judged, 'verdict')}"]
    elif foreseen:
        met = f"{count(foreseen - undecided)} of" if undecided else "all"
        which = " that are expected or claimed" if unforeseen or undecided else ""
        lines = [f"as expected: {met} {plural(foreseen, 'verdict')}{which}"]
    else:
        lines = []
    for surprise in surprises:
        lines += paragraph(f"! {surprise}", 2, 2)
    lines += [f"claimed and undecided: {plural(undecided, 'verdict')}"] if undecided else []
    lines += [f"neither expected nor claimed: {plural(unforeseen, 'verdict')}"] if unforeseen and not surprises else []
    return lines


def crash_entry(outcome: JobOutcome, cases: Mapping[int, str], surprises: Sequence[Surprise]) -> dict[str, Any]:
    """One element of ``schemes`` in the crash document; wall time stays out (see :func:`with_wall_time`)."""
    report = outcome.crash_report
    return {
        **outcome.summary,
        "fault": report.fault,
        "view": report.view,
        "instants": report.instants,
        "states": report.states,
        "recoveries_run": report.recoveries_run,
        "verdicts_computed": report.verdicts_computed,
        "exhaustive": report.exhaustive,
        "over": report.over,
        "waiting": report.waiting,
        "verdicts": {str(condition): str(verdict) for condition, verdict in report.verdicts.items()},
        "violating_states": {str(condition): states for condition, states in report.violating_states.items()},
        **({"windows_ps": {str(c): window for c, window in report.windows_ps.items()}} if report.windows_ps else {}),
        "as_expected": not any(s.scheme == outcome.scheme and s.platform == outcome.platform for s in surprises),
        "counterexamples": [
            counterexample(example) | {"case": cases[number]} for number, example in enumerate(report.counterexamples)
        ],
    }


def counterexample(example: Counterexample) -> dict[str, Any]:
    """A counterexample in the words of the JSON documents."""
    return {
        "condition": str(example.condition),
        "instant_ps": example.instant_ps,
        "operations": example.operations,
        "object": _plain(example.object),
        "recovered": _plain(example.recovered),
        "lines_lost": [
            {
                "node": line.node, "device": line.device, "address": line.address, "label": line.label,
                "writer": line.writer, "place": line.place, "reason": line.reason,
            }
            for line in example.lost
        ],
        "explanation": example.explanation,
    }  # fmt: skip


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | str) else str(value)


def with_wall_time(document: dict[str, Any], outcomes: Sequence[JobOutcome], folder: str) -> dict[str, Any]:
    """The document as ``--json`` prints it: with how fast it went, and with paths that ``rpsim replay`` takes."""
    schemes = []
    for entry, outcome in zip(document["schemes"], outcomes, strict=True):
        examples = [{**example, "case": f"{folder}/{example['case']}"} for example in entry["counterexamples"]]
        schemes.append({**entry, "states_per_second": states_per_second(outcome), "counterexamples": examples})
    return {**document, "schemes": schemes, "results": folder}
