"""The pages of schemes: one a scheme, made from its code, from runs, and from what exploring crashes has found.

The documentation site has them (``make docs``), with verdicts that are kept (``app/site/measured.py``), since exploring
all schemes takes a quarter of an hour; ``rpsim list schemes --pages DIR`` explores anew and writes them as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...protocols.guarantees import EXPLORED, Condition, claimed
from ...protocols.layout import Layout
from ...protocols.parts.index import Entry, Location
from ...protocols.parts.kv import Allocate, KvScheme, Object, Region
from ...protocols.registry import schemes, small_options
from ...protocols.scheme import Scheme
from ...scenarios.run.sequence import messages, sequences
from ...scenarios.schema.load import load_scenario
from ...validation.crash.findings import CrashReport
from ...validation.matrix.guarantees import QUICK, every, file_of, fitted_to, machines, scenario_of, usual
from ...validation.matrix.testbeds import fitting, testbed
from ..terminal.progress import performing
from ..terminal.work import Job, perform
from .composed import composed_contents, pages
from .markdown import table, wrapped
from .scheme_parts import costs_table, diagram, documented, layout_table, options_table, word_layout

PLATFORM = "optane-adr"
VALUE_BYTES = 256
GUARANTEES = "## What survives"
CONDITIONS = (*EXPLORED, Condition.LINEARIZABLE)


@dataclass(frozen=True)
class Found:
    """What exploring one fault on one platform has found, as a scheme's page shows it."""

    fault: str
    platform: str
    one_writer: bool
    """Whether each object has one process that writes it: some claims speak of no more."""
    verdicts: Mapping[str, str]
    """By condition: holds, violated or undecided."""
    counterexamples: Mapping[str, str]
    """By condition: in words, of the first platform only on which it is violated after this fault."""


def write(folder: Path, workers: int = 1) -> Iterator[Path]:
    """Write a page for each scheme and one that lists them, by so many processes; gives each path once it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    known = schemes()
    yield _written(folder / "README.md", contents(known.values()))
    for name, text in pages().items():
        yield _written(folder / f"{name}.md", text)
    jobs = {name: _jobs(kind) for name, kind in known.items()}
    found = performing("pages", perform, [job for some in jobs.values() for job in some], workers)
    for name, kind in known.items():
        reports = [next(found).crash_report for _ in jobs[name]]
        yield _written(folder / f"{name}.md", page(kind, survived(reports)))


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def explored(kind: type[Scheme]) -> list[Found]:
    """What a page says of crashes, found out in this process: some ten seconds, for some schemes minutes."""
    return survived([perform(job).crash_report for job in _jobs(kind)])


def survived(reports: Iterable[CrashReport]) -> list[Found]:
    """Of explorations what a page shows: verdicts, and one counterexample a condition and fault."""
    told: set[tuple[str, str]] = set()
    rows = []
    for report in reports:
        verdicts = {str(one): str(report.verdicts[one]) for one in CONDITIONS if one in report.verdicts}
        examples: dict[str, str] = {}
        for example in report.counterexamples:
            if (example.condition, report.fault) not in told:
                examples.setdefault(str(example.condition), example.explanation)
        told |= {(condition, report.fault) for condition in examples}
        rows.append(Found(report.fault, report.platform, report.one_writer, verdicts, examples))
    return rows


def contents(kinds: Iterable[type[Scheme]]) -> str:
    """The page that lists the pages."""
    rows = [[f"[{kind.name}]({kind.name}.md)", kind.title, kind.paper] for kind in kinds]
    return "\n".join([
        "# Schemes",
        "",
        *wrapped("Made from the schemes' code and from runs."),
        "",
        *table(["scheme", "is", "paper"], rows),
        "",
        *composed_contents(),
    ])  # fmt: skip


def page(kind: type[Scheme], found: Sequence[Found] = ()) -> str:
    """One scheme's page; ``found``: what exploring crashes has found, :func:`explored`."""
    lines = [f"# {kind.name}", "", *wrapped(f"{kind.title[0].upper()}{kind.title[1:]}."), ""]
    lines += documented(sys.modules[kind.__module__].__doc__)
    claims = "; ".join(f"{condition} ({where})" for condition, where in kind.claims.items())
    lines += [
        *wrapped(f"Its source claims: {claims or 'nothing'}."),
        "",
        *options_table(kind.name, kind.options, {option: kind.option(option) for option in kind.options}),
        "## Bytes",
        "",
    ]
    for layout in _layouts(kind):
        lines += layout_table(layout)
    for word in _words(kind):
        lines += word_layout(word)
    platform = fitting(kind, [PLATFORM])[0]
    where = f"On `{platform}` at rest, a value of {VALUE_BYTES} B; what goes on in the background stands at the end."
    lines += ["## Operations", "", *wrapped(where), ""]
    operations = sequences(kind, platform, VALUE_BYTES)
    for operation in operations:
        lines += [f"### {operation.f}", "", "```mermaid", *diagram(operation.steps), "```", ""]
    lines += ["## Costs", "", *costs_table(operations), ""]
    if found:
        lines += [GUARANTEES, "", *_guarantees(kind, found), ""]
    return "\n".join(lines)


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


def _words(kind: type[Scheme]) -> list[type[Any]]:
    """The 8-byte words of an index entry that say what their bits are: the scheme's own, or the usual one."""
    found = [value for value in _classes(kind) if isinstance(getattr(value, "bits", None), tuple)]
    return [value for value in found if value is not Location] or ([Location] if issubclass(kind, KvScheme) else [])


def _guarantees(kind: type[Scheme], found: Sequence[Found]) -> list[str]:
    """What `rpsim matrix schemes` finds with one seed, and the counterexample of each condition that is violated."""
    rows: list[list[str]] = []
    stories: list[str] = []
    for one in found:
        cells = []
        for condition in CONDITIONS:
            verdict = one.verdicts.get(condition, "")
            promised = claimed(kind.claims, condition, one.platform, one.fault, one_writer=one.one_writer)
            cells.append(f"{verdict}{'*' if verdict and promised else ''}")
        rows.append([one.fault, one.platform, *cells])
        for broken, text in one.counterexamples.items():
            stories += wrapped(f"- {broken}, {one.fault}, {one.platform}: {text}")
    chosen = ", ".join(f"{name}={value}" for name, value in small_options(kind).items())
    options = f"Several machines are explored with `{chosen}`. " if chosen and machines(kind) > 1 else ""
    words = (
        "Every instant, as `rpsim matrix schemes` explores it ([how](../matrix.md#schemes)). A star: claimed. "
        f"{options}"
        f"`rpsim matrix schemes {kind.name} --faults every` saves the counterexamples whole."
    )
    listed = table(["after", "on", *map(str, CONDITIONS)], rows)
    return [*wrapped(words), "", *listed, *(["", *stories] if stories else [])]


def _jobs(kind: type[Scheme]) -> list[Job]:
    """An exploration for each fault: the server's power on all platforms, other faults on one."""
    own = testbed(kind.paper)
    jobs = []
    for fault in every(kind):
        wanted = [*([own] if own else []), PLATFORM, "optane-eadr"] if fault == usual(kind) else [PLATFORM]
        names = fitting(kind, wanted)
        less = () if fault == usual(kind) else QUICK
        chosen = (f"schemes=[{kind.name}]", f"vary.platform=[{', '.join(names)}]", f'crash.fault="{fault}"', *less)
        scenario = scenario_of(fault, kind)
        file, overrides = file_of(scenario), (*chosen, *fitted_to(kind, scenario, fault))
        variants = len(load_scenario(file, overrides).variants())
        jobs += [Job(file, overrides, None, index, True, also=EXPLORED, slider=False) for index in range(variants)]
    return jobs
