"""docs/schemes/*.md: one page a scheme, made from its code and from runs, never written by hand.

``rpsim list schemes --pages docs/schemes`` writes them; a test compares.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from ..protocols.guarantees import EXPLORED, Verdict, claimed
from ..protocols.layout import Layout
from ..protocols.scheme import Scheme, schemes
from ..scenarios.experiment import run_variant
from ..scenarios.load import scenario_from_data
from ..validation.crash import explore
from ..validation.sequence import Sequence as Operation
from ..validation.sequence import Step, sequences

PLATFORM = "optane-adr"
VALUE_BYTES = 256
GUARANTEES = "## What survives"

_COSTS = {
    "cpu_ns": "CPU, ns", "verbs": "work requests", "round_trips": "round trips", "flushes": "lines flushed",
    "fences": "fences",
}  # fmt: skip


def write(folder: Path, names: Iterable[str] | None = None) -> list[Path]:
    """Write the pages of these schemes (all), and the page that lists them; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    known = schemes()
    pages = {f"{name}.md": page(known[name]) for name in names or known}
    pages["README.md"] = contents(known.values())
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return sorted(folder / name for name in pages)


def contents(kinds: Iterable[type[Scheme]]) -> str:
    """The page that lists the pages."""
    rows = [[f"[{kind.name}]({kind.name}.md)", kind.title, kind.paper] for kind in kinds]
    return "\n".join([
        "# Schemes",
        "",
        *_wrapped("Made by `rpsim list schemes --pages docs/schemes` from the schemes' code and from runs."),
        "",
        *_table(["scheme", "is", "paper"], rows),
        "",
    ])  # fmt: skip


def page(kind: type[Scheme], guarantees: bool = True) -> str:
    """One scheme's page; ``guarantees``: with what exploring crashes finds, which takes some seconds."""
    lines = [f"# {kind.name}", "", *_wrapped(f"{kind.title[0].upper()}{kind.title[1:]}."), ""]
    for paragraph in inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").split("\n\n"):
        lines += [*_wrapped(" ".join(paragraph.split()).replace("``", "`")), ""]
    claims = "; ".join(f"{condition} ({where})" for condition, where in kind.claims.items())
    lines += [*_wrapped(f"Its source claims: {claims or 'nothing'}."), "", "## Bytes", ""]
    for layout in _layouts(kind):
        lines += _layout(layout)
    where = f"On `{PLATFORM}` at rest, a value of {VALUE_BYTES} B; what goes on in the background stands at the end."
    lines += ["## Operations", "", *_wrapped(where), ""]
    operations = sequences(kind, PLATFORM, VALUE_BYTES)
    for operation in operations:
        lines += [f"### {operation.f}", "", "```mermaid", *_diagram(operation.steps), "```", ""]
    lines += ["## Costs", "", *_costs(operations), ""]
    if guarantees:
        lines += [GUARANTEES, "", *_guarantees(kind), ""]
    return "\n".join(lines)


def _layouts(kind: type[Scheme]) -> list[type[Layout]]:
    """What it keeps in memory and sends in messages: the layouts that its module defines or uses."""
    found = [value for value in vars(sys.modules[kind.__module__]).values() if inspect.isclass(value)]
    return [value for value in found if issubclass(value, Layout) and value is not Layout and value.fields]


def _layout(layout: type[Layout]) -> list[str]:
    rows = [
        [f"`{field.name}`", str(field.offset), str(field.size) if field.size else "the rest"] for field in layout.fields
    ]
    words = " ".join((layout.__doc__ or "").split("\n\n")[0].split()).replace(":class:", "").replace("``", "`")
    return [f"**{layout.__name__}**: {words}", "", *_table(["field", "at byte", "bytes"], rows), ""]


def _diagram(steps: Sequence[Step]) -> list[str]:
    """A Mermaid sequence diagram: what goes over the wire as arrows, the rest as notes."""
    lines = ["sequenceDiagram"]
    lines += [f"  participant {_word(who)} as {who}" for who in dict.fromkeys(step.who for step in steps)]
    for (who, local), group in groupby(steps, key=lambda step: (step.who, step.to is None)):
        if local:
            texts = "<br/>".join(_plain(step.text) for step in group)
            lines.append(f"  Note over {_word(who)}: {texts}")
        else:
            lines += [f"  {_word(who)}->>{_word(step.to or '')}: {_plain(step.text)}" for step in group]
    return lines


def _word(who: str) -> str:
    return who.replace(" ", "_")


def _plain(text: str) -> str:
    """Without what Mermaid would take for its own: semicolons end statements, '#' begins an entity."""
    return text.replace(";", ",").replace("#", "no. ")


def _costs(operations: Sequence[Operation]) -> list[str]:
    rows = []
    for operation in operations:
        for role, costs in operation.costs.items():
            rows.append([operation.f, role, *(f"{costs[name]:g}" for name in _COSTS)])
    return _table(["operation", "role", *_COSTS.values()], rows)


def _guarantees(kind: type[Scheme]) -> list[str]:
    """What exploring every instant of a small run finds, on ADR and eADR, with DDIO on and off."""
    data = {
        "scenario": "scheme-page",
        "title": kind.name,
        "vary": {"platform": ["optane-adr", "optane-eadr"], "ddio": ["on", "off"]},
        "roles": {"client": {"machines": 2, "processes": 2}},
        "schemes": [kind.name],
        "workload": {"kind": "ycsb", "mix": "a", "keys": 4, "value": "16 B", "operations": 60},
        "crash": {"fault": "server[0] power", "schedules": 2},
        "expect": {kind.name: {str(condition): "holds" for condition in EXPLORED}},
    }
    made = scenario_from_data(data, "scheme-page")
    rows, seen = [], {}
    for variant in made.variants():
        report = explore(run_variant(made, variant), made, variant)
        cells = []
        for condition in EXPLORED:
            verdict = report.verdicts.get(condition)
            star = "*" if claimed(kind.claims, condition, variant.label, "server[0] power") else ""
            cells.append(f"{verdict or ''}{star}")
            if verdict is Verdict.VIOLATED and condition not in seen:
                found = next(each for each in report.counterexamples if each.condition == condition)
                seen[condition] = f"- {condition}, on {variant.label}: {found.explanation}"
        rows.append([variant.label, *cells])
    words = (
        f"Every instant of two schedules of 60 operations on four keys; a star: its source claims it. "
        f"`rpsim crash` with a scenario of {kind.name} shows whole counterexamples."
    )
    table = _table(["platform", *(str(condition) for condition in EXPLORED)], rows)
    examples = [line for text in seen.values() for line in _wrapped(text)]
    return [*_wrapped(words), "", *table, *(["", *examples] if examples else [])]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def _wrapped(text: str) -> list[str]:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
