"""``rpsim check --html``: one file that shows a history, its violations, and where operations took effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ...protocols.guarantees import Condition, Verdict
from ...validation.histories.check import Report, Witness
from ...validation.histories.fitting import Act, key_text
from ...validation.histories.placing import Placed, place
from ...validation.oracle.wording import moment_text, nanoseconds
from ..terminal.check import crash_text
from ..terminal.text import count, plural
from .template import render

ROW, GUTTER, TOP = 30, 120, 44
"""Pixels: of a row, left of the first instant, above the first row."""
NARROWEST, WIDEST, LETTER = 46, 110, 6
"""Pixels of a column, at least and at most, and of a letter."""
MOST_SHOWN = 400
"""At most this many operations of a history are shown, up to the first that cannot be placed."""

Points = Mapping[int, tuple[int, int]]


def page(report: Report) -> str:
    """The whole page as text; the same report gives the same page."""
    history = report.history
    placed = place(report, _shown_condition(report))
    points = {line: point for one in placed for line, point in one.turns.items()}
    acts = _all(report)
    shown, how = _window(report, acts, placed)
    bad = {one.stuck for one in placed if one.stuck is not None}
    facts = {
        "model": report.model.name,
        "operations": f"{count(len(history.entries))} on {plural(report.objects, 'object')}",
        "crashes": ", ".join(f"{crash_text(c)} (line {c.line})" for c in history.crashes[:8]) or "none",
    }
    return render(
        "history.html",
        title=f"rpsim check {history.file}",
        kind="rpsim check",
        heading=history.file,
        facts=facts,
        verdicts=report.verdicts,
        not_judged=report.not_judged,
        violations=_violations(report),
        how=how,
        history=drawing(report, shown, bad, points, 1 << 62),
    )


def _shown_condition(report: Report) -> Condition:
    """The strongest judged condition that needs an order of each object."""
    for condition in (Condition.STRICT, Condition.PERSISTENT):
        if condition in report.verdicts and report.verdicts[condition].verdict is Verdict.HOLDS:
            return condition
    return Condition.LINEARIZABLE


def _all(report: Report) -> list[Act]:
    acts = [act for subject in report.subjects for act in [*subject.acts, *subject.failed]]
    return sorted(acts, key=lambda act: (act.entry.invoke_ps, act.entry.line))


def _window(report: Report, acts: Sequence[Act], placed: Sequence[Placed]) -> tuple[Sequence[Act], str]:
    """The operations that are shown, and the sentence that says so."""
    stuck = sorted(one.stuck for one in placed if one.stuck is not None)
    condition = _shown_condition(report)
    if stuck:
        what = f"Diamonds: an order of the longest prefix that is {condition}"
        what += f"; the first operation that fits none is that of line {stuck[0]}."
    else:
        what = f"Diamonds: an order by which it is {condition}." if placed else "Too many operations to place."
    if len(acts) <= MOST_SHOWN:
        return acts, what
    last = next((n for n, act in enumerate(acts) if act.entry.line in stuck[:1]), len(acts) - 1)
    end = min(len(acts), max(MOST_SHOWN, last + 20))
    begin = max(0, end - MOST_SHOWN)
    return acts[begin:end], f"{what} Operations {count(begin + 1)} to {count(end)} of {count(len(acts))}."


def _violations(report: Report) -> list[dict[str, Any]]:
    """Each shortest failing piece once, with the conditions that it breaks and why."""
    by_story: dict[tuple[int, ...], dict[str, list[str]]] = {}
    shown: dict[tuple[int, ...], Witness] = {}
    for condition, one in report.verdicts.items():
        if one.witness is not None:
            lines = tuple(act.entry.line for act in one.witness.piece)
            shown.setdefault(lines, one.witness)
            by_story.setdefault(lines, {}).setdefault(one.witness.explanation, []).append(str(condition))
    return [
        {
            "conditions": ", ".join(name for some in stories.values() for name in some),
            "line": witness.act.entry.return_line,
            "stories": stories,
            "size": f"{plural(len(witness.piece), 'operation')} of {count(len(report.history.entries))}",
            "drawing": drawing(report, witness.piece, {witness.act.entry.line}, {}, witness.at_ps),
        }
        for lines, stories in by_story.items()
        for witness in [shown[lines]]
    ]


def drawing(report: Report, acts: Sequence[Act], bad: Iterable[int], points: Points, until_ps: int) -> Markup:
    """Operations as bars from invocation to response, a row for each process, crashes across them."""
    if not acts:
        return Markup()
    wrong = set(bad)
    first_ps = min(act.entry.invoke_ps for act in acts)
    last_ps = max(_end_ps(act, until_ps) or act.entry.invoke_ps for act in acts)
    crashes = [c for c in report.history.crashes if first_ps <= c.at_ps <= min(last_ps, until_ps)]
    lines = {act.entry.line for act in acts}
    instants = {act.entry.invoke_ps for act in acts} | {end for act in acts if (end := _end_ps(act, until_ps))}
    instants |= {at_ps for line, (_, at_ps) in points.items() if line in lines}
    crash_at = {crash: crash.at_ps + 0.5 for crash in crashes}  # after all that happened at its instant
    order = {at: n for n, at in enumerate(sorted(instants | set(crash_at.values())))}
    step = _column(acts, order, until_ps)
    columns = {at: GUTTER + step * n for at, n in order.items()}
    width = GUTTER + step * (len(columns) + 1)
    rows = _rows(acts, until_ps)
    height = TOP + ROW * (1 + max(rows.values())) + 8
    body = []
    for at, x in columns.items():
        if at == int(at):
            label = nanoseconds(int(at), report.history.time_zero_ns)
            body.append(_svg("<line class='grid' x1='{0}' x2='{0}' y1='{1}' y2='{2}'/>", x, TOP - 8, height))
            body.append(_svg("<text class='tick' x='{}' y='{}' text-anchor='middle'>{}</text>", x, TOP - 14, label))
    unit = "time, ns" if report.history.timed else "event"
    body.append(_svg("<text class='tick' x='6' y='{}'>{}</text>", TOP - 14, unit))
    names: dict[str, int] = {}
    for act in acts:
        names.setdefault(key_text(act.entry.process), rows[act])
    for name, row in names.items():
        body.append(_svg("<text class='who' x='6' y='{}'>process {}</text>", TOP + ROW * row + 17, name))
    for act in acts:
        body.append(_bar(act, rows[act], columns, width, act.entry.line in wrong, report, until_ps))
    body += _diamonds(acts, rows, columns, points)
    for crash, at in crash_at.items():
        x = columns[at]
        body.append(_svg("<line class='crash' x1='{0}' x2='{0}' y1='14' y2='{1}'/>", x, height))
        body.append(_svg("<text class='crash-name' x='{}' y='11'>{}</text>", x + 3, crash_text(crash)))
    return _svg("<div class='history'><svg width='{}' height='{}'>{}</svg></div>", width, height, Markup().join(body))


def _svg(form: str, *values: object) -> Markup:
    """A piece of the drawing; values that are not Markup are escaped."""
    return Markup(form).format(*values)


def _column(acts: Sequence[Act], order: Mapping[float, int], until_ps: int) -> int:
    """How wide a column has to be for most texts to fit into their bars."""
    wanted = []
    for act in acts:
        end_ps = _end_ps(act, until_ps)
        spanned = len(order) if end_ps is None else max(1, order[end_ps] - order[act.entry.invoke_ps])
        wanted.append((LETTER * len(act.text) + 12) // spanned)
    return min(WIDEST, max(NARROWEST, sorted(wanted)[len(wanted) * 9 // 10]))


def _end_ps(act: Act, until_ps: int) -> int | None:
    entry = act.entry
    known = entry.outcome is not None and entry.return_ps is not None and entry.return_ps <= until_ps
    return entry.return_ps if known else None


def _rows(acts: Sequence[Act], until_ps: int) -> dict[Act, int]:
    """The row of each operation: those of one process below each other where they overlap."""
    lanes: dict[str, list[float]] = {}
    place: dict[Act, tuple[str, int]] = {}
    for act in acts:
        name = key_text(act.entry.process)
        ends = lanes.setdefault(name, [])
        lane = next((n for n, end in enumerate(ends) if end < act.entry.invoke_ps), len(ends))
        end_ps = _end_ps(act, until_ps)
        ends[lane : lane + 1] = [float("inf") if end_ps is None else end_ps]
        place[act] = name, lane
    offsets: dict[str, int] = {}
    for name in lanes:
        offsets[name] = sum(len(lanes[other]) for other in offsets)
    return {act: offsets[name] + lane for act, (name, lane) in place.items()}


def _bar(
    act: Act, row: int, columns: Mapping[float, int], width: int, bad: bool, report: Report, until_ps: int
) -> Markup:
    entry = act.entry
    end_ps = _end_ps(act, until_ps)
    left = columns[entry.invoke_ps]
    right = width - 8 if end_ps is None else max(columns[end_ps], left + 8)
    kind = "failed" if entry.outcome == "fail" else "look" if report.model.inert(act.call) else "update"
    classes = " ".join([kind, *(["open"] if end_ps is None else []), *(["bad"] if bad else [])])
    y = TOP + ROW * row
    zero, timed = report.history.time_zero_ns, report.history.timed
    until = "open" if end_ps is None else moment_text(end_ps, zero, timed)
    title = f"line {entry.line}: {act.text}, {moment_text(entry.invoke_ps, zero, timed)} to {until}"
    room = max(2, (right - left - 6) // LETTER)
    text = act.text if len(act.text) <= room else act.text[: room - 1] + "…"
    box = _svg(
        "<rect class='{}' x='{}' y='{}' width='{}' height='{}' rx='3'/>", classes, left, y, right - left, ROW - 8
    )
    return _svg("<g><title>{}</title>{}<text x='{}' y='{}'>{}</text></g>", title, box, left + 4, y + 15, text)


def _diamonds(
    acts: Sequence[Act], rows: Mapping[Act, int], columns: Mapping[float, int], points: Points
) -> list[Markup]:
    """The points at which operations took effect; those of one object at one instant side by side."""
    drawn = []
    crowd: dict[tuple[int, object], int] = {}
    for act in sorted(acts, key=lambda act: points.get(act.entry.line, (0, 0))):
        point = points.get(act.entry.line)
        if point is None:
            continue
        turn, at_ps = point
        nth = crowd[at_ps, act.entry.key] = crowd.get((at_ps, act.entry.key), -1) + 1
        x = columns[at_ps] + 7 + min(6 * nth, NARROWEST - 16)
        y = TOP + ROW * rows[act] + ROW - 9
        drawn.append(_svg("<path class='point' d='M{} {}l4 5l-4 5l-4 -5z'/>", x, y - 5))
        drawn.append(_svg("<text class='turn' x='{}' y='{}'>{}</text>", x + 5, y + 7, turn))
    return drawn
