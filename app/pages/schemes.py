"""docs/schemes/*.md: one page a scheme, made from its code and from runs, never written by hand.

``rpsim list schemes --pages docs/schemes`` writes them; a test compares.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...protocols.guarantees import EXPLORED, Condition, claimed
from ...protocols.layout import Layout
from ...protocols.parts.index import Entry, Location
from ...protocols.parts.kv import Allocate, KvScheme, Object, Region
from ...protocols.registry import schemes
from ...protocols.scheme import Scheme
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.sequence import Sequence as Operation
from ...scenarios.run.sequence import SequenceStep, messages, sequences
from ...scenarios.schema.load import load_scenario
from ...validation.crash.explore import explore
from ...validation.crash.findings import CrashReport
from ...validation.matrix.guarantees import QUICK, every, file_of, fitted_to, scenario_of, usual
from ...validation.matrix.testbeds import fitting, testbed
from .markdown import table, wrapped

PLATFORM = "optane-adr"
VALUE_BYTES = 256
GUARANTEES = "## What survives"
CONDITIONS = (*EXPLORED, Condition.LINEARIZABLE)

_COSTS = {
    "cpu_ns": "CPU, ns", "verbs": "work requests", "packets": "packets sent", "round_trips": "round trips",
    "flushes": "lines flushed", "fences": "fences",
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
        *wrapped("Made by `rpsim list schemes --pages docs/schemes` from the schemes' code and from runs."),
        "",
        *table(["scheme", "is", "paper"], rows),
        "",
    ])  # fmt: skip


def page(kind: type[Scheme], guarantees: bool = True) -> str:
    """One scheme's page; ``guarantees``: with what exploring crashes finds, which takes some seconds."""
    lines = [f"# {kind.name}", "", *wrapped(f"{kind.title[0].upper()}{kind.title[1:]}."), ""]
    for paragraph in inspect.cleandoc(sys.modules[kind.__module__].__doc__ or "").split("\n\n"):
        lines += [*wrapped(" ".join(paragraph.split()).replace("``", "`")), ""]
    claims = "; ".join(f"{condition} ({where})" for condition, where in kind.claims.items())
    lines += [*wrapped(f"Its source claims: {claims or 'nothing'}."), "", *_options(kind), "## Bytes", ""]
    for layout in _layouts(kind):
        lines += _layout(layout)
    for word in _words(kind):
        lines += _word_layout(word)
    platform = fitting(kind, [PLATFORM])[0]
    where = f"On `{platform}` at rest, a value of {VALUE_BYTES} B; what goes on in the background stands at the end."
    lines += ["## Operations", "", *wrapped(where), ""]
    operations = sequences(kind, platform, VALUE_BYTES)
    for operation in operations:
        lines += [f"### {operation.f}", "", "```mermaid", *_diagram(operation.steps), "```", ""]
    lines += ["## Costs", "", *_costs(operations), ""]
    if guarantees:
        lines += [GUARANTEES, "", *_guarantees(kind), ""]
    return "\n".join(lines)


def _options(kind: type[Scheme]) -> list[str]:
    """What `name[option=choice]` may choose, with the source of each."""
    if not kind.options:
        return []
    rows = [
        [f"`{name}`", one.text, one.expected, one.write(kind.option(name)), one.source]
        for name, one in kind.options.items()
    ]
    example = next(iter(kind.options))
    how = f"`{kind.name}[{example}=...]` chooses ([how](../scenarios.md#options-of-schemes))."
    return ["## Options", "", *wrapped(how), "", *table(["option", "is", "choices", "default", "source"], rows), ""]


def _layouts(kind: type[Scheme]) -> list[type[Layout]]:
    """The layouts of a scheme in memory and in messages: entry, object, and all that its modules define or use."""
    kept: list[type[Layout]] = []
    if issubclass(kind, KvScheme):
        sent = messages(kind, fitting(kind, [PLATFORM])[0])
        kept = [kind.Index.Entry, kind.Object, *sent, *([Region] if Allocate in sent else [])]
    used = [value for value in _classes(kind) if issubclass(value, Layout) and value is not Layout and value.fields]
    return list(dict.fromkeys([*kept, *(value for value in used if not kept or value not in (Entry, Object))]))


def _classes(kind: type[Scheme]) -> list[type[Any]]:
    """The classes in the modules that a scheme is made of, but for the modules that all stores share."""
    own = [one for one in kind.__mro__ if issubclass(one, Scheme) and one not in (Scheme, KvScheme)]
    found = [value for one in own for value in vars(sys.modules[one.__module__]).values() if inspect.isclass(value)]
    return list(dict.fromkeys(found))


def _layout(layout: type[Layout]) -> list[str]:
    rows = [
        [f"`{field.name}`", str(field.offset), str(field.size) if field.size else "the rest"] for field in layout.fields
    ]
    return [
        *wrapped(f"**{layout.__name__}**: {_plain_doc(layout)}"),
        "",
        *table(["field", "at byte", "bytes"], rows),
        "",
    ]


def _words(kind: type[Scheme]) -> list[type[Any]]:
    """The 8-byte words of an index entry that say what their bits are: the scheme's own, or the usual one."""
    found = [value for value in _classes(kind) if isinstance(getattr(value, "bits", None), tuple)]
    return [value for value in found if value is not Location] or ([Location] if issubclass(kind, KvScheme) else [])


def _word_layout(word: type[Any]) -> list[str]:
    rows, at = [], 0
    for name, bits in word.bits:
        rows.append([f"`{name}`" if name.isidentifier() else name, str(at), str(bits)])
        at += bits
    text = _plain_doc(word)
    return [*wrapped(f"**{word.__name__}**, in a word: {text}"), "", *table(["field", "at bit", "bits"], rows), ""]


def _plain_doc(of: type[Any]) -> str:
    """The first paragraph of a class's docstring."""
    return " ".join((of.__doc__ or "").split("\n\n")[0].split()).replace(":class:", "").replace("``", "`")


def _diagram(steps: Sequence[SequenceStep]) -> list[str]:
    """A Mermaid sequence diagram: messages on the wire as arrows, the rest as notes."""
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
    """The text without signs that mean something to Mermaid: semicolons end statements, '#' begins an entity."""
    return text.replace(";", ",").replace("#", "no. ")


def _costs(operations: Sequence[Operation]) -> list[str]:
    rows = []
    for operation in operations:
        for role, costs in operation.costs.items():
            rows.append([operation.f, role, *(f"{costs[name]:g}" for name in _COSTS)])
    return table(["operation", "role", *_COSTS.values()], rows)


def _guarantees(kind: type[Scheme]) -> list[str]:
    """What `rpsim matrix --schemes` finds with one seed, and the counterexample of each condition that is violated."""
    rows: list[list[str]] = []
    examples: dict[tuple[Condition, str], str] = {}
    for fault in every(kind):
        for report in _reports(kind, fault):
            cells = []
            for condition in CONDITIONS:
                verdict = report.verdicts.get(condition, "")
                here = report.platform, report.fault
                star = "*" if verdict and claimed(kind.claims, condition, *here, one_writer=report.one_writer) else ""
                cells.append(f"{verdict}{star}")
            rows.append([report.fault, report.platform, *cells])
            for example in report.counterexamples:
                where = f"{example.condition}, {report.fault}, {report.platform}"
                examples.setdefault((example.condition, report.fault), f"- {where}: {example.explanation}")
    words = (
        "Every instant, as `rpsim matrix --schemes` explores it ([how](../matrix.md#schemes)). A star: claimed. "
        f"`rpsim matrix --schemes {kind.name} --faults every` saves the counterexamples whole."
    )
    found = table(["after", "on", *map(str, CONDITIONS)], rows)
    stories = [line for text in examples.values() for line in wrapped(text)]
    return [*wrapped(words), "", *found, *(["", *stories] if stories else [])]


def _reports(kind: type[Scheme], fault: str) -> Iterator[CrashReport]:
    """The reports after a fault: the server's power on all platforms, other faults on one."""
    own = testbed(kind.paper)
    wanted = [*([own] if own else []), PLATFORM, "optane-eadr"] if fault == usual(kind) else [PLATFORM]
    names = fitting(kind, wanted)
    less = () if fault == usual(kind) else QUICK
    chosen = (f"schemes=[{kind.name}]", f"vary.platform=[{', '.join(names)}]", f'crash.fault="{fault}"', *less)
    scenario = scenario_of(fault, kind)
    made = load_scenario(file_of(scenario), (*chosen, *fitted_to(kind, scenario)))
    for variant in made.variants():
        yield explore(run_variant(made, variant), made, variant, also=EXPLORED)
