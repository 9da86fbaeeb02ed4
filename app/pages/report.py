"""report.html: one file that opens anywhere, offline, with tables, plots and the crash slider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from plotly.offline import get_plotlyjs

from ...models.durability.places import Domain, Place, survives
from ..terminal.summary import grouped, same_story
from ..terminal.text import count, microseconds, plural
from ..terminal.timeline import heading, timeline
from ..terminal.work import JobOutcome
from . import plots

if TYPE_CHECKING:
    from ...scenarios.schema.schema import Scenario


def report(scenario: Scenario, outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> str:
    """The whole page as text; two runs with one seed give the same page."""
    from ... import __version__

    crash = any(outcome.crash for outcome in outcomes)
    sliders = [slider_data(outcome.slider) for outcome in outcomes if outcome.slider]
    hops = plots.hops(outcomes)
    figures = {"latency": plots.latency(outcomes), "throughput": plots.throughput(outcomes)}
    figures |= {f"hops-{i}": figure for i, figure in enumerate(hops.values())}
    parts = {
        "title": escape(f"{scenario.name}: {scenario.title}"),
        "name": escape(scenario.name),
        "headline": escape(scenario.title),
        "facts": _facts(scenario, outcomes),
        "finding": _finding(outcomes, summary) if crash else "",
        "verdicts": verdict_table(outcomes, summary.get("unexpected", [])) if crash else "",
        "slider": template("slider.html") if sliders else "",
        "counterexamples": _counterexamples(outcomes, summary) if crash else "",
        "performance": performance_table(outcomes),
        "resolved": escape(json.dumps(scenario.resolved(), indent=2, default=str)),
        "version": escape(__version__),
        "style": template("style.css"),
        "plotly": get_plotlyjs(),
        "script": template("slider.js") if sliders else "",
        "sliders": inline(sliders),
        "figures": inline(figures),
        "hops": "".join(f"<h4>{escape(f)}</h4><div class='plot' id='plot-hops-{i}'></div>" for i, f in enumerate(hops)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("report.html"))


def slider_data(slider: Mapping[str, Any]) -> dict[str, Any]:
    """The explorer's data for the crash slider, and which places are inside the persistence domain."""
    domain = str(slider["domain"])
    known = domain in {str(name) for name in Domain}
    inside = [str(place) for place in Place if known and survives(place, Domain(domain))]
    return {**slider, "inside": inside}


def template(name: str) -> str:
    """A file of templates/ as text."""
    return (files("rpsim.app") / "templates" / name).read_text(encoding="utf-8")


def inline(data: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":"), default=str).replace("<", "\\u003c")


def _facts(scenario: Scenario, outcomes: Sequence[JobOutcome]) -> str:
    schemes = dict.fromkeys(outcome.scheme for outcome in outcomes)
    platforms = dict.fromkeys(outcome.platform for outcome in outcomes)
    workload = scenario.resolved().get("workload")
    facts = {
        "schemes": ", ".join(schemes),
        "platforms": "; ".join(platforms),
        "workload": ", ".join(f"{key} {value}" for key, value in workload.items())
        if isinstance(workload, dict)
        else "",
        "fault": ", ".join(dict.fromkeys(o.crash.fault for o in outcomes if o.crash)),
        "seed": str(scenario.seed),
    }
    return "".join(f"<dt>{key}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value)


def _finding(outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> str:
    """What came out, in one sentence a scheme."""
    lines = []
    for scheme in dict.fromkeys(outcome.scheme for outcome in outcomes):
        own = [o.crash for o in outcomes if o.scheme == scheme and o.crash]
        words = []
        for condition in dict.fromkeys(condition for report in own for condition in report.verdicts):
            broken = [r for r in own if r.verdicts.get(condition) == "violated"]
            open_ = [r for r in own if r.verdicts.get(condition) == "undecided"]
            where = "every platform" if len(broken) == len(own) else ", ".join(f"({r.platform})" for r in broken)
            if broken:
                words.append(f"<b>{condition}</b> is violated on {escape(where)}")
            elif open_:
                words.append(f"<b>{condition}</b> is undecided on {plural(len(open_), 'platform')}")
            else:
                words.append(f"<b>{condition}</b> holds on every platform")
        lines.append(f"<li><b class='scheme'>{escape(scheme)}</b>: {'; '.join(words)}.</li>")
    odd = summary.get("unexpected", [])
    tail = (
        "All verdicts are as expected." if not odd else f"{plural(len(odd), 'verdict')} not as expected, marked below."
    )
    return f"<ul class='finding'>{''.join(lines)}</ul><p>{tail}</p>"


def verdict_table(outcomes: Sequence[JobOutcome], unexpected: Sequence[Mapping[str, Any]]) -> str:
    """The guarantee vector of every scheme and platform; ``unexpected`` are those that are not as expected."""
    reports = [outcome.crash for outcome in outcomes if outcome.crash]
    conditions = list(dict.fromkeys(condition for report in reports for condition in report.verdicts))
    odd = {(s["scheme"], s["platform"], s["condition"]): s["expected"] for s in unexpected}
    rows = []
    for report in reports:
        cells = [_row_head(report.scheme), f"<td>{escape(report.platform)}</td>"]
        for condition in conditions:
            verdict = str(report.verdicts.get(condition, ""))
            bad = report.violating_states.get(condition, 0)
            note = f"<small>{count(bad)} of {plural(report.states, 'state')}</small>" if bad else ""
            wanted = odd.get((report.scheme, report.platform, str(condition)))
            if wanted:
                note += f"<small class='odd'>expected: {escape(wanted)}</small>"
            cells.append(f"<td>{badge(verdict)}{note}</td>")
        extent = "all" if report.exhaustive else "a sample"
        cells.append(f"<td class='n'>{count(report.states)}<small>{extent}</small></td>")
        cells.append(f"<td class='n'>{count(report.instants)}</td><td class='n'>{count(report.recoveries_run)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = ["scheme", "platform", *map(str, conditions), "crash states", "instants", "recoveries run"]
    overs = dict.fromkeys(f"{'All' if r.exhaustive else 'A sample'}: {r.over}." for r in reports if r.over)
    views = ", ".join(dict.fromkeys(report.view for report in reports))
    note = f"<p class='note'>View: {escape(views)}. {escape(' '.join(overs))}</p>"
    return _table(head, rows, {"crash states", "instants", "recoveries run"}) + note


def badge(verdict: str) -> str:
    """A verdict that is told by sign and word, the colour only helps."""
    sign = {"holds": "✓", "violated": "✗", "undecided": "?"}.get(verdict, "")
    return f"<span class='badge {escape(verdict)}'>{sign} {escape(verdict)}</span>" if verdict else ""


def performance_table(outcomes: Sequence[JobOutcome]) -> str:
    """Latency and throughput of every scheme, platform and operation."""
    rows = []
    for outcome in outcomes:
        operations = outcome.summary["latency_ns"].items()
        rate = f"{outcome.summary['throughput_ops_per_s'] / 1000:,.1f}"
        for i, (f, latency) in enumerate(operations):
            first = (
                _row_head(outcome.scheme, len(operations))
                + f"<td rowspan={len(operations)}>{escape(outcome.platform)}</td>"
            )
            times = [microseconds(latency[key] * 1000) for key in ("p50", "p99", "p999", "mean")]
            cells = "".join(f"<td class='n'>{text}</td>" for text in (count(len(outcome.latency_ps[f])), *times))
            last = f"<td class='n' rowspan={len(operations)}>{rate}</td>" if i == 0 else ""
            inner = " class=inner" if i + 1 < len(operations) else ""
            rows.append(f"<tr{inner}>{first if i == 0 else ''}<td>{escape(f)}</td>{cells}{last}</tr>")
    numbers = ["count", "p50, us", "p99, us", "p99.9, us", "mean, us", "thousand ops/s"]
    return _table(["scheme", "platform", "operation", *numbers], rows, set(numbers))


def _row_head(scheme: str, rows: int = 1) -> str:
    return f"<th scope=row rowspan={rows}>{escape(scheme)}</th>"


def _table(head: Sequence[str], rows: Iterable[str], numbers: set[str]) -> str:
    cells = "".join(f"<th scope=col{' class=n' if name in numbers else ''}>{escape(name)}</th>" for name in head)
    return f"<div class='scroll'><table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"


def _counterexamples(outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> str:
    blocks = []
    shown: list[Any] = []
    for (scheme, condition, _), found in grouped(outcomes).items():
        index, number = found[0]
        crash = outcomes[index].crash
        assert crash is not None
        example = crash.counterexamples[number]
        names = [(outcomes[i].platform, summary["schemes"][i]["counterexamples"][n]["case"]) for i, n in found]
        cases = ", ".join(f"{escape(platform)}: <code>{escape(name)}</code>" for platform, name in names)
        if any(name == scheme and same_story(other, example) for name, other in shown):
            story = f"<p>By the same fault as above: {escape(example.explanation)}</p>"
        else:
            story = f"<pre>{escape(chr(10).join([*heading(crash, example), '', *timeline(example)]))}</pre>"
            shown.append((scheme, example))
        title = f"{escape(scheme)}: {escape(condition)}"
        blocks.append(f"<h3>{title}</h3>{story}<p class='note'>Saved cases, for <code>rpsim replay</code>: {cases}</p>")
    return "<h2>Smallest counterexamples</h2>" + "".join(blocks) if blocks else ""
