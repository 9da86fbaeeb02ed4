"""The pages of platforms: one a profile, made from the profile and the scoreboard, never written by hand.

The documentation site has them (``make docs``); ``rpsim reproduce hardware --pages DIR`` writes them as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...models.profiles.platform import Platform, load_platform, platform_names, platform_settings
from ...models.profiles.profiles import read_profile
from ...models.profiles.reader import Parameter
from ...sim.units import format_duration
from ...validation.published.curves.board import Board, Result
from ...validation.published.curves.reading import unread
from ...validation.published.scoreboard import NOT_ANALYSED, Bound, Claim, ClaimStatus, summarise
from ..terminal.text import plural
from . import markdown

VALIDATION = "## Validation"

SCOPE = (
    "A verdict on this platform is relative to the ordering rules, to the domain of the memory device and to the "
    "schedules explored ([scope and limitations](../limits.md)); no timing below can make a scheme durable or not. "
    "Latencies and rates are as good as the numbers below and the curves at the end of this page: where a number is an "
    "assumption, what hangs on it is an assumption."
)


def pages(board: Board) -> dict[str, str]:
    """The text of every page by the name of its file."""
    of_platform: dict[str, list[Result]] = {name: [] for name in platform_names()}
    for result in board.results:
        of_platform[result.curve.platform].append(result)
    found = {f"{name}.md": page(name, results) for name, results in of_platform.items()}
    return {"README.md": contents(of_platform)} | found


def write(board: Board, folder: Path) -> list[Path]:
    """Write all pages into a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(board).items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return sorted(folder / name for name in pages(board))


def contents(of_platform: dict[str, list[Result]]) -> str:
    """The page that lists the pages."""
    rows = []
    for name, results in of_platform.items():
        claims = [claim for result in results for claim in result.claims()]
        short = summarise(claims)
        compared = f"{short.predicted_met} of {short.predicted}" if short.predicted else "none"
        rows.append([f"[{name}]({name}.md)", read_profile(name).title, compared])
    head = "# Platforms\n\n" + _wrapped(
        "What the shipped profiles describe, with every number's origin. These pages are made from the profiles and "
        "the scoreboard (`rpsim reproduce hardware`)."
    )
    return head + "\n" + _table(["profile", "what it is", "predicted points met"], rows)


def page(name: str, results: Sequence[Result]) -> str:
    """One profile's page: scope first, then every number, then the measurements that it was compared with."""
    platform, profile = load_platform(name), read_profile(name)
    parts = [f"# {name}\n", _wrapped(f"{platform.title[0].upper()}{platform.title[1:]}."), "## Scope and limitations\n"]
    parts.append(_wrapped(platform.description))
    if profile.extends:
        parts.append(_wrapped(f"Put over {', then '.join(f'`{base}`' for base in profile.extends)}."))
    parts += [_wrapped(SCOPE), _wrapped(_origins(platform)), _wrapped(_not_read(platform))]
    parts += _settings(name)
    parts.append("## Numbers\n")
    groups: dict[str, list[Parameter]] = {}
    for parameter in platform.parameters():
        groups.setdefault(parameter.path.split(".")[0], []).append(parameter)
    for group, parameters in groups.items():
        parts += [f"### {group}\n", _table(["value", "is", "origin", "range", "source"], map(_number, parameters))]
    parts += [f"{VALIDATION}\n", validation(name, results)]
    return "\n".join(parts)


def validation(name: str, results: Sequence[Result]) -> str:
    """The comparisons with published curves on this profile: the scoreboard's rows."""
    if not results:
        return _wrapped(
            "No published curve was measured on these machines in a way that could be compared: nothing is validated "
            "here beyond what is on the pages of the profiles that it is put over."
        )
    claims = [claim for result in results for claim in result.claims()]
    short = summarise(claims)
    text = _wrapped(
        f"{plural(short.predicted, 'predicted point')}, of which {short.predicted_met} met, with a median error of "
        f"{short.median_error:.1%}. Points marked *fit* were used to find parameters, points marked *input* are "
        "parameters themselves or follow from them in closed form; neither says how good the model is."
    )
    rows = [_row(result, claim) for result in results for claim in result.claims()]
    return text + "\n" + _table(["point", "role", "published", "simulated", "error", "met", "if not: why"], rows)


def _row(result: Result, claim: Claim) -> list[str]:
    published = str(claim.published) if isinstance(claim.published, Bound) else f"{claim.published:g}"
    error = "" if claim.error is None else f"{claim.error:+.1%}"
    why = "" if claim.met or claim.status is ClaimStatus.INPUT else claim.reason or NOT_ANALYSED
    settings = "".join(f", {key} {value}" for key, value in result.curve.settings.items())
    unit = claim.unit
    return [
        f"`{claim.id}`{settings}",
        str(claim.status),
        f"{published} {unit}",
        f"{claim.simulated:.4g} {unit}",
        error,
        "yes" if claim.met else "no",
        why,
    ]


def _origins(platform: Platform) -> str:
    parameters = platform.parameters()
    counts = Counter(parameter.origin for parameter in parameters)
    return (
        f"Of its {len(parameters)} values {counts['published']} are published (or follow from a specification or a "
        f"definition), {counts['assumption']} are assumptions, {counts['fitted']} are fitted to the measurement that "
        "they name."
    )


def _not_read(platform: Platform) -> str:
    paths = unread(platform)
    if not paths:
        return "Every value is read by some model."
    return f"No model reads {', '.join(f'`{path}`' for path in paths)}: stated for completeness, without effect."


def _settings(name: str) -> list[str]:
    settings = platform_settings(name)
    if not settings:
        return []
    rows = [[f"`{s.name}`", f"`{s.sets}`", ", ".join(s.values), s.default, s.source] for s in settings.values()]
    return ["### Settings\n", _table(["setting", "sets", "values", "default", "source"], rows)]


def _number(parameter: Parameter) -> list[str]:
    bounds = " to ".join(parameter.range) if parameter.range else ""
    source = parameter.source if not parameter.note else f"{parameter.source} ({parameter.note})"
    return [f"`{parameter.path}`", _value(parameter), parameter.origin, bounds, source]


def _value(parameter: Parameter) -> str:
    """The text of the profile; a fitted duration in its shortest form."""
    if parameter.text.endswith(" ps") and isinstance(parameter.value, int):
        return format_duration(parameter.value)
    return parameter.text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(markdown.table(head, rows)) + "\n"


def _wrapped(text: str) -> str:
    return "\n".join(markdown.wrapped(text, 118)) + "\n"
