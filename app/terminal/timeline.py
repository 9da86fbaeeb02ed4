"""A counterexample as a picture in text: clients on the left, servers on the right, time downwards.

Where a fault leaves somebody alive and two machines beside the clients take part, each has a column of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ...validation.crash.findings import Counterexample, CrashReport, LineFate, TimelineRow
from .text import WIDTH, count, microseconds, paragraph, plural

INDENT = 2
GAP = 2
LEFT_WIDTHS = range(22, 38)
"""The left column is as wide as its rows need, within this."""
LOST, CRASH = "LOST", "CRASH"
COLUMNS = 2
"""So many machines find room beside the clients; of more, names stand before what they do."""
NARROW = 24
"""The width of the clients' column beside two others, on a terminal."""


def heading(report: CrashReport, example: Counterexample, tail: str = "") -> list[str]:
    """``client-active on optane-adr, ddio on: no_lost_ack VIOLATED   (412 of 9,731 crash states; ...)``."""
    bad = report.violating_states.get(example.condition, 0)
    found = "smallest below" if example.shrunk else "below as it was found, not made smaller"
    tail = tail or ("a small one below, perhaps not the smallest" if example.stopped else found)
    what = f"{report.scheme} on {report.platform}: {example.condition} VIOLATED"
    window = report.windows_ps.get(example.condition)
    when = ""
    if window is not None:
        when = f"; the last fault {microseconds(window[0])} to {microseconds(window[1])} us behind the first"
    share = f"({count(bad)} of {plural(report.states, 'crash state')}{when}; {tail})"
    if when:
        return [*paragraph(what, hang=2), *paragraph(share, 2, 3)]
    return [f"{what}   {share}"] if len(what) + 3 + len(share) <= WIDTH else [*paragraph(what, hang=2), f"  {share}"]


def timeline(example: Counterexample, most: int = WIDTH) -> list[str]:
    """The lines of the picture; ``most``: the letters of a line that has a column for each of two machines, else 80."""
    nodes = sorted({row.side for row in example.timeline if _is_node(row)})
    if len(nodes) == COLUMNS and any(row.time_ps > example.instant_ps for row in example.timeline):
        return _by_machine(example, nodes, most)
    before, after = _split(example.timeline)
    clients, servers = _sides(example.timeline, left=True), _sides(example.timeline, left=False)
    width = _left_width(before, after, clients, example.instant_ps)
    lines = [_join(_title(clients, "client"), _title(servers, "server"), width)]
    for row in before:
        lines += _event(row, row.side in clients, _prefix(row, clients, servers), width)
    what = next((row.text for row in example.timeline if row.mark == CRASH), "power failure")
    lines.append(f"  -- {what}  {microseconds(example.instant_ps):>10} us ".ljust(WIDTH, "-"))
    marked = [(row.side, row.text) for row in after if row.mark == LOST]
    for side, text in marked or [(line.node, lost_text(line)) for line in example.lost]:
        lines += _lost(f"{side}: {text}" if len(servers) > 1 else text, width)
    for row in after:
        if row.time_ps > example.instant_ps:  # survivors run on
            prefix = _prefix(row, clients, servers) if row.side in servers else f"{row.side}: "
            lines += _event(row, not _is_node(row), prefix, width)
        elif row.mark != LOST:
            lines += _event(row, row.side in clients or not _is_node(row), "", width, timed=False)
    return lines + _explanation(example, after, width)


def _by_machine(example: Counterexample, nodes: Sequence[str], most: int) -> list[str]:
    """The picture with a column for the clients and one for each machine."""
    clients = _sides(example.timeline, left=True)
    narrow = NARROW * most // WIDTH
    wide = (most - INDENT - narrow - GAP * COLUMNS) // COLUMNS
    starts = [narrow + GAP + turn * (wide + GAP) for turn in range(COLUMNS)]

    def cell(row: TimelineRow) -> list[str]:
        column = nodes.index(row.side) if row.side in nodes else None
        start, space = (0, narrow) if column is None else (starts[column], wide)
        if row.mark == LOST:  # the whole story: as far as there is room
            start, space = starts[0], most - INDENT - starts[0]
        shared = column is None and (len(clients) > 1 or row.side not in clients)
        prefix = f"{row.side}: " if shared or row.mark == LOST else ""
        end = LOST if row.mark == LOST else microseconds(row.time_ps)
        chunks = textwrap.wrap(prefix + " ".join(row.text.split()), space, subsequent_indent="  ")
        if len(chunks[-1]) + 2 + len(end) > space:
            chunks.append("")
        chunks[-1] = chunks[-1].ljust(space - len(end)) + end
        return [(" " * (INDENT + start) + chunk).rstrip() for chunk in chunks]

    titles = _title(clients, "client").ljust(narrow + GAP) + (" " * GAP).join(name.ljust(wide) for name in nodes)
    lines = [(" " * INDENT + titles).rstrip()]
    for row in example.timeline:
        if row.mark == CRASH:
            lines.append(f"  -- {row.text}  {microseconds(example.instant_ps):>10} us ".ljust(most, "-"))
            if not any(other.mark == LOST for other in example.timeline):
                for fate in example.lost:
                    lines += cell(TimelineRow(example.instant_ps, fate.node, lost_text(fate), LOST))
        else:
            lines += cell(row)
    return lines + paragraph(example.explanation, INDENT, 2)


def lost_text(line: LineFate) -> str:
    """``log+0x4c0 may still be in the NIC: no READ, receive, FLUSH or atomic of this QP had forced it on``."""
    from ...models.durability.places import IN_WORDS, Place

    return f"{line.label} may still be in {IN_WORDS[Place(line.place)]}: {line.reason}"


def _split(rows: Sequence[TimelineRow]) -> tuple[list[TimelineRow], list[TimelineRow]]:
    crash = next((i for i, row in enumerate(rows) if row.mark == CRASH), None)
    if crash is None:
        return [row for row in rows if row.mark != LOST], [row for row in rows if row.mark == LOST]
    before, after = list(rows[:crash]), list(rows[crash + 1 :])
    return [row for row in before if row.mark != LOST], [row for row in before if row.mark == LOST] + after


def _is_node(row: TimelineRow) -> bool:
    return bool(row.side) and not row.side.startswith(("client", "fresh client", "recovery"))


def _sides(rows: Sequence[TimelineRow], left: bool) -> list[str]:
    """The clients, or the nodes, in order of appearance; clients that are new after the crash do not head a column."""
    if not left:
        return list(dict.fromkeys(row.side for row in rows if _is_node(row)))
    crash = next((i for i, row in enumerate(rows) if row.mark == CRASH), len(rows))
    names = dict.fromkeys(row.side for row in rows[:crash])
    return [name for name in names if name.startswith("client")]


def _title(names: Sequence[str], kind: str) -> str:
    if len(names) == 1:
        return names[0]
    numbers = [name.removeprefix(f"{kind} ") for name in names]
    return f"{kind}s {', '.join(numbers)}" if all(map(str.isdigit, numbers)) and names else ", ".join(names) or kind


def _prefix(row: TimelineRow, clients: Sequence[str], servers: Sequence[str]) -> str:
    """The name of the client or node, where several share a column."""
    shared = clients if row.side in clients else servers
    return f"{row.side}: " if len(shared) > 1 else ""


def _left_width(
    before: Sequence[TimelineRow], after: Sequence[TimelineRow], clients: Sequence[str], after_ps: int
) -> int:
    several = len(clients) > 1
    needs = [len(row.text) + 2 + len(microseconds(row.time_ps)) for row in before if row.side in clients]
    needs = [need + (len(clients[0]) + 2 if several else 0) for need in needs]
    later = [row for row in after if row.mark != LOST and row.time_ps > after_ps and not _is_node(row)]
    needs += [len(f"{row.side}: {row.text}  {microseconds(row.time_ps)}") for row in later]
    return min(max(*needs, LEFT_WIDTHS.start, 0), LEFT_WIDTHS.stop - 1) if needs else LEFT_WIDTHS.start


def _event(row: TimelineRow, left: bool, prefix: str, width: int, timed: bool = True) -> list[str]:
    time = microseconds(row.time_ps) if timed else ""
    space = width if left else WIDTH - INDENT - width - GAP
    if not timed and left:
        return paragraph(row.text.strip(), INDENT, 2)
    lead = " " * (len(row.text) - len(row.text.lstrip()))
    chunks = textwrap.wrap(
        prefix + row.text.strip(), space - (len(time) + 2 if time else 0), initial_indent=lead,
        subsequent_indent=lead + "  ",
    ) or [""]  # fmt: skip
    chunks[-1] = chunks[-1].ljust(space - len(time)) + time
    return [_join(chunk, "", width) if left else _join("", chunk, width) for chunk in chunks]


def _lost(text: str, width: int) -> list[str]:
    space = WIDTH - INDENT - width - GAP
    chunks = textwrap.wrap(text, space - len(LOST) - 2)
    chunks[-1] = chunks[-1].ljust(space - len(LOST)) + LOST
    return [_join("", chunk, width) for chunk in chunks]


def _explanation(example: Counterexample, after: Sequence[TimelineRow], width: int) -> list[str]:
    """``get k17 -> v1`` on the left, ``but put k17 = v2 had returned at 2.010 us`` on the right, or one sentence."""
    head, but, tail = example.explanation.partition(", but ")
    if but and len(head) <= width:
        shown = any(row.text.strip() == head for row in after)
        space = WIDTH - INDENT - width - GAP
        chunks = textwrap.wrap(f"but {tail}", space)
        return [_join("" if shown or i else head, chunk, width) for i, chunk in enumerate(chunks)]
    return paragraph(example.explanation, INDENT, 2)


def _join(left: str, right: str, width: int) -> str:
    return (" " * INDENT + left.ljust(width) + " " * GAP + right).rstrip()
