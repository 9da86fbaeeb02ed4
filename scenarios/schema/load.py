"""Loading a scenario: by name from the library or by path, with overrides from the command line."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from ...protocols.guarantees import covers
from ...sim.errors import InputError, Mistake, listed, nearest
from ...sim.files import nearest_file, printable
from ...sim.yaml_source import FieldPath, Source, describe, dotted, parse_yaml, read_yaml
from .known import Context, KnownNames, role_complaints
from .mistakes import Origin, mistakes
from .naming import full_names, named
from .schema import EXPLORED_OTHERWISE, Scenario

LIBRARY = FilePath(__file__).parents[1] / "library"
EXPECTED_ROOT = "a map with scenario, schemes, workload, ..."

_LEFT_OUT_BY = {"schemes", "platform", "ddio", "vary"}
"""Fields whose overrides may leave out what a file expects something of."""
_OTHER_FILES = {
    "steps": ("a flush primitive", "rpsim matrix primitives FILE judges one"),
    "tests": ("litmus tests", "rpsim litmus FILE judges them"),
    "nic": ("a platform", "as in rpsim run quickstart --set platform=FILE"),
}
"""By a key that only they have: what other files of YAML are, and what takes them."""
_COUNTED = ("machines", "processes")
_PART = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")
_TARGET = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[\d{1,9}\])*")


def scenario_names() -> list[str]:
    """The scenarios that are shipped."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def scenario_title(name: str) -> str:
    """The title of a shipped scenario; raises InputError for an unknown name."""
    return str(read_yaml(find_scenario(name)).mapping(EXPECTED_ROOT).get("title", ""))


def find_scenario(name_or_path: str) -> FilePath:
    """The file of a scenario; a shipped name counts before a file of that name. Raises InputError with the nearest."""
    names = scenario_names()
    if name_or_path in names:
        return LIBRARY / f"{name_or_path}.yaml"
    path = FilePath(name_or_path)
    if _exists(path):
        return path
    is_path = path.suffix in {".yaml", ".yml"} or path.name != name_or_path
    hint = (nearest_file(path) if is_path else None) or nearest(path.stem, names)
    found = "no such file" if is_path else "no such scenario"
    expected = f"the path of a scenario file, or one of {listed(path.stem, names, 'rpsim list scenarios')}"
    raise InputError(Mistake(found, expected, printable(name_or_path), nearest=hint))


def load_scenario(
    name_or_path: str,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    *,
    known: KnownNames | None = None,
) -> Scenario:
    """Read, override (``workload.keys=50``) and validate a scenario.

    Raises InputError with all of its mistakes at once. ``known`` are the names it may use (default: all there are).
    """
    return validate(read_scenario(name_or_path), overrides, seed, known=known)


def explored(scenario: Scenario) -> Scenario:
    """The scenario that runs where its crashes are explored: with as many operations and objects as ``crash`` says.

    Itself where it says nothing of them. Raises InputError where the workload cannot be as small.
    """
    data, places = scenario.resolved(), dict[FieldPath, str]()
    asked = data.get("crash", {})
    for name in (name for name in EXPLORED_OTHERWISE if name in asked):
        put_field(f"workload.{name}", asked[name], f"crash.{name}", data, places)
        places["crash", name] = f"crash.{name}"  # it stays, and says that the workload is smaller
    if not places:
        return scenario
    if scenario.workload.warmup >= data["workload"]["operations"]:
        data["workload"]["warmup"] = 0
    return check(data, Origin(Source(dict(data), scenario.name, {}), places))


def read_scenario(name_or_path: str) -> Source:
    """The document of a scenario, not validated. Raises InputError, also for a file that is something else."""
    source = read_yaml(find_scenario(name_or_path))
    if isinstance(source.data, dict) and "scenario" not in source.data:
        for found, taken in (other for key, other in _OTHER_FILES.items() if key in source.data):
            raise InputError(Mistake(found, f"a scenario ({taken.replace('FILE', source.file)})", source.file))
    return source


def scenario_from_data(data: Mapping[str, Any], file: str, *, known: KnownNames | None = None) -> Scenario:
    """A scenario from plain data such as :meth:`Scenario.resolved` gave; ``file`` is what messages call it."""
    return validate(Source(dict(data), file, {}), known=known)


def validate(
    source: Source,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    *,
    known: KnownNames | None = None,
) -> Scenario:
    """The scenario that a source and the overrides describe; raises InputError with all mistakes at once."""
    data, places, wrong = overridden(source, overrides)
    if seed is not None:
        data["seed"] = seed
        places["seed",] = "--seed"
    return check(data, Origin(source, places), known, wrong)


def overridden(source: Source, overrides: Sequence[str]) -> tuple[dict[str, Any], dict[FieldPath, str], list[Mistake]]:
    """A copy of a source's data with the overrides in it, the place of each, and the mistakes in them."""
    data = copy.deepcopy(source.mapping(EXPECTED_ROOT))
    places: dict[FieldPath, str] = {}
    wrong: list[Mistake] = []
    for override in overrides:
        try:
            _apply(override, data, places)
        except InputError as error:
            wrong += error.mistakes
    return data, places, wrong


def check(
    data: dict[str, Any], origin: Origin, known: KnownNames | None = None, before: Sequence[Mistake] = ()
) -> Scenario:
    """The scenario that plain data describes; raises InputError with all mistakes, also those found ``before``."""
    wrong = list(before)
    _explore_what_is_set(data, origin.overrides)
    names = (known or KnownNames.shipped()).with_profiles(_profiles(data)).with_composed(named(data))
    full, complaints = full_names(data, names)
    names = names.with_composed(full.values())
    context = _context(data, names, full)
    complaints += role_complaints(context)
    unsaid = {role: (number, 1) for role, number in {**context.at_least(), **context.counted()}.items()}
    context = replace(context, counts={**unsaid, **context.counts})
    wrong += [origin.mistake(c.path, c.found, c.expected, c.nearest) for c in complaints]
    try:
        scenario = Scenario.model_validate(data, context=context)
        if origin.source.lines and not _LEFT_OUT_BY & {path[0] for path in origin.overrides}:
            wrong += _never_run(scenario, data.get("expect") or {}, origin)
    except ValidationError as error:
        wrong += mistakes(error, data, origin)
    if wrong:
        raise InputError(sorted(wrong, key=lambda mistake: (mistake.line is None, mistake.line or 0)))
    return scenario


def _explore_what_is_set(data: dict[str, Any], places: Mapping[FieldPath, str]) -> None:
    """A workload that is set otherwise than in the file is explored as it is, unless ``crash`` is set so as well."""
    crash = data.get("crash")
    if not isinstance(crash, dict):
        return
    for name in EXPLORED_OTHERWISE:
        if {("workload",), ("workload", name)} & places.keys() and not {("crash",), ("crash", name)} & places.keys():
            crash.pop(name, None)


def _never_run(scenario: Scenario, expect: Mapping[str, Any], origin: Origin) -> Iterator[Mistake]:
    """What is expected of schemes, or of variants of them, that the scenario does not run."""
    labels = dict.fromkeys(variant.label for variant in scenario.variants())
    parts = list(dict.fromkeys(part for label in labels for part in label.split(", ")))
    for written, (scheme, wanted) in zip(expect, scenario.expect.items(), strict=False):
        if scheme not in scenario.schemes:
            expected = f"a scheme that runs here: {', '.join(scenario.schemes)}"
            yield origin.mistake(("expect", written), f"'{written}'", expected, nearest(written, scenario.schemes))
        for condition, verdict in wanted.items():
            for selector in verdict if isinstance(verdict, dict) else ():
                if not any(covers(selector, label) for label in labels):
                    path, expected = ("expect", written, condition, selector), f"what runs here: {', '.join(parts)}"
                    yield origin.mistake(path, f"'{selector}'", expected, nearest(selector, parts))


def _apply(override: str, data: dict[str, Any], places: dict[FieldPath, str]) -> None:
    """Set the field that ``--set field=value`` names."""
    target, equals, text = override.partition("=")
    target = target.strip()
    if not equals or not _TARGET.fullmatch(target):
        raise InputError(Mistake(f"'{override}'", "field=value, e.g. workload.keys=50", "--set"))
    place = f"--set {target}"
    put_field(target, _value(text, place), place, data, places)


def put_field(target: str, value: Any, place: str, data: dict[str, Any], places: dict[FieldPath, str]) -> None:
    """Set one field, and make the maps on the way to it; ``place`` is its name in messages."""
    if not _TARGET.fullmatch(target):
        raise InputError(Mistake(f"'{target}'", "the path of a field, e.g. workload.keys", place))
    path: FieldPath = tuple(name or int(index) for name, index in _PART.findall(target))
    node: Any = data
    for i, part in enumerate(path[:-1]):
        _check_step(node, part, path[:i], place)
        if isinstance(node, dict) and node.get(str(part)) is None:
            node[str(part)] = {}
            places[path[: i + 1]] = place
        node = node[part]
    _check_step(node, path[-1], path[:-1], place)
    node[path[-1]] = value
    places[path] = place
    vary = data.get("vary")
    if isinstance(vary, dict) and len(path) == 1:
        vary.pop(str(path[0]), None)  # a field that is set is no longer varied
    if path[0] == "vary" and isinstance(vary, dict):
        for axis in [path[1]] if len(path) > 1 else list(vary):
            if axis in {"platform", "ddio"}:
                data.pop(str(axis), None)  # a field that is varied is no longer set


def _value(text: str, place: str) -> Any:
    if not text.strip():
        return None
    try:
        return parse_yaml(text, place).data
    except InputError as error:
        raise InputError([Mistake(m.found, m.expected, place, nearest=m.nearest) for m in error.mistakes]) from None


def _check_step(node: Any, part: str | int, above: FieldPath, place: str) -> None:
    """Refuse to take ``part`` from ``node`` unless it may be."""
    where = f"{describe(node)} in {dotted(above)}" if above else describe(node)
    if isinstance(part, int):
        if not isinstance(node, list):
            raise InputError(Mistake(where, f"a list to take [{part}] from", place))
        if part >= len(node):
            raise InputError(Mistake(f"[{part}]", f"a position below {len(node)} in {dotted(above)}", place))
    elif not isinstance(node, dict):
        raise InputError(Mistake(where, f"a map to set {part} in", place))


def _profiles(data: Mapping[str, Any]) -> list[str]:
    """The platforms that a scenario names by the path of their file (from the working folder)."""
    vary = data.get("vary")
    varied = vary.get("platform", []) if isinstance(vary, dict) else []
    named = [data.get("platform"), *(varied if isinstance(varied, list) else [varied])]
    return [name for name in named if isinstance(name, str) and name.endswith((".yaml", ".yml"))]


def _context(data: Mapping[str, Any], known: KnownNames, full: Mapping[str, str]) -> Context:
    """The context of a field: all other fields, as far as they are valid, so that no mistake is reported twice."""
    names = data.get("schemes")
    names = [names] if isinstance(names, str) else names if isinstance(names, list) else []
    valid = [name for name in names if isinstance(name, str) and name in known.schemes]
    complete = [full.get(name, name) for name in valid] if len(valid) == len(names) else []
    chosen = {name: known.schemes[name] for name in complete if name in known.schemes}
    roles = data.get("roles", {})
    roles = roles if isinstance(roles, dict) else {"client": roles}
    counts: dict[str, tuple[int, int]] = {}
    threads, cores = {}, {}
    for role, count in roles.items():
        machines, processes = (count.get(name, 1) if isinstance(count, dict) else 0 for name in _COUNTED)
        if all(isinstance(number, int) and number > 0 for number in (machines, processes)):
            counts[role] = machines, processes
        serving = count.get("threads") if isinstance(count, dict) else None
        if isinstance(serving, int):
            threads[role] = serving
        shared = count.get("cores") if isinstance(count, dict) else None
        if isinstance(shared, int) and not isinstance(shared, bool):
            cores[role] = shared
    machines, processes = counts.get("client", (0, 0) if "client" in roles else (1, 1))
    return Context(known, chosen, counts, machines * processes, threads, full, cores)


def _exists(path: FilePath) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
