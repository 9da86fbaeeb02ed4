"""Reads a primitive from YAML: every mistake with its file, line, field, the text found and the one expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...sim.cursor import Cursor
from ...sim.errors import InputError, nearest
from ...sim.units import parse_bytes, parse_duration_ps
from ...sim.yaml_source import Source, parse_yaml, read_yaml
from .language import Choice, Primitive, PrimitiveOption, Step, Value
from .plan import is_requester, problems
from .vocabulary import ACTIONS, FOLLOWS, MEMORIES, STATUSES, TRANSPORTS, UPDATE, ActionParameter, Kind, StepPlace

FIELDS: Mapping[str, str] = {
    "name": "what it is called, as in `rpsim list primitives`",
    "title": "one line",
    "source": "where a stranger finds it: authors, venue, section; or the manual",
    "status": "one of " + ", ".join(STATUSES),
    "transport": "a list of " + ", ".join(TRANSPORTS) + "; the first is used (default RC)",
    "follows": "how updates may travel, a list of " + ", ".join(FOLLOWS) + "; the first is used (default WRITE)",
    "memory": "the memory that it is for, one of " + ", ".join(MEMORIES) + " (default any)",
    "packet": "the name of the updates' own packets, where the responder's adapter acts on their arrival",
    "header": "what those packets carry beside the headers of the verb that they replace (default 0 B)",
    "steps": "a list of steps",
    "complete": "the step at whose end updates count as durable; `update`: their own completion (default)",
    "batching": "how many updates one run of the steps may cover (default 1)",
    "claims": "a map of conditions to where its source claims them (`always`; `adr, ddio off; eadr`)",
    "options": "switches where sources differ: text, default, choices",
}
STEP_FIELDS = ("id", "at", "do", "after", "note")
_NAME = "a name of letters, digits, '-' and '_'"


def read_primitive(path: Path, switches: Mapping[str, str] | None = None) -> Primitive:
    """Read a file; ``switches`` choose of its options. Raises InputError with everything that is wrong with it."""
    return _read(read_yaml(path), switches or {})


def parse_primitive(text: str, file: str, switches: Mapping[str, str] | None = None) -> Primitive:
    """Read YAML text; ``file`` is what messages call it. Raises InputError."""
    return _read(parse_yaml(text, file), switches or {})


def _read(source: Source, switches: Mapping[str, str]) -> Primitive:
    at = Cursor.over(source, "a map with " + ", ".join(FIELDS))
    at.keys(FIELDS)
    name = _line(at, "name")
    if name and not name.replace("-", "").replace("_", "").isalnum():
        at["name"].wrong(_NAME)
    steps: list[Step] = []
    for item in at.get("steps", []).items(FIELDS["steps"]):
        steps += _step(item, steps)
    found = Primitive(
        name=name,
        title=_line(at, "title"),
        source=_line(at, "source"),
        status=at["status"].choice(STATUSES),
        transport=_words(at.get("transport", "RC"), TRANSPORTS),
        follows=_words(at.get("follows", "WRITE"), tuple(FOLLOWS)),
        memory=at.get("memory", MEMORIES[0]).choice(MEMORIES),
        steps=tuple(steps),
        complete=_named(at, "complete", UPDATE),
        claims={key: _claim(claim) for key, claim in at.get("claims", {}).fields(FIELDS["claims"]).items()},
        options=_options(at, {step.id: step for step in steps}),
        batching=at.get("batching", 1).whole(1, 1024),
        packet=_named(at, "packet", ""),
        header_bytes=at.get("header", "0 B").parsed(parse_bytes, "a size, as in 16 B"),
        file=source.file,
    )
    if not at.mistakes:
        found = _chosen(at, found, switches)
    at.finish()
    wrong = [replace(one, line=at["complete"].line) if one.field == "complete" else one for one in problems(found)]
    if wrong:
        raise InputError(sorted(wrong, key=lambda one: one.line or 0))
    return found


def _line(at: Cursor, key: str) -> str:
    """Text in one line, which has to be there."""
    return " ".join(at[key].text(FIELDS[key], blank=False).split())


def _named(at: Cursor, key: str, default: str) -> str:
    return at[key].text(FIELDS[key], blank=False) if key in at else default


def _words(at: Cursor, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one.choice(known) for one in at.listed(f"a list of {', '.join(known)}")) or known[:1]


def _claim(at: Cursor) -> str:
    return at.text("where it is claimed: always, or as in 'ddio off; eadr'", blank=False)


# steps ----------------------------------------------------------------------------------------------------------


def _step(at: Cursor, before: list[Step]) -> list[Step]:
    """The step at a place; none where its action is not known."""
    if not at.is_map("a step, as in {at: pcie, do: read}"):
        return []
    place = at["at"].choice(StepPlace, "a place: {}")
    if not at["at"].sound():
        return []
    actions = ACTIONS[place]
    do = at["do"].choice(actions, f"what is done at the {place}: {{}}")
    if not at["do"].sound():
        return []
    action = actions[do]
    at.keys([*STEP_FIELDS, *(parameter.name for parameter in action.parameters)])
    number = at.path[-1]
    assert isinstance(number, int)
    usual = f"{do} {number + 1}"
    id = at.get("id", usual).text(f"{_NAME}, but not '{UPDATE}'", blank=False) or usual
    if id == UPDATE:
        at["id"].wrong(f"{_NAME}, but not '{UPDATE}'")
    elif id in {step.id for step in before}:
        at["id"].wrong("an id of its own", f"a second step '{id}'")
    parameters = {parameter.name: _parameter(at[parameter.name], parameter) for parameter in action.parameters}
    if action.name == "send":
        named = [key for key in ("verb", "packet") if at[key].data is not None]
        if len(named) != 1:
            at.wrong("a verb, or the packet's own name", " and ".join(named) or "neither verb nor packet")
    note = at.get("note", "").text("words: its source, or why it is assumed")
    step = Step(id, action.place, action.name, parameters, (), note, at.line)
    return [replace(step, after=_after(at["after"], before) if "after" in at else default_after(step, before))]


def _after(at: Cursor, before: list[Step]) -> tuple[str, ...]:
    known = [UPDATE, *(step.id for step in before)]
    expected = f"steps above it: {', '.join(known)}"
    return tuple(one.choice(known, "steps above it: {}") for one in at.listed(expected)) or (UPDATE,)


def _parameter(at: Cursor, parameter: ActionParameter) -> Value:
    """The value of a parameter, or its default."""
    if at.data is None:
        if parameter.required:
            at.wrong(wanted(parameter))
        if parameter.default is None:
            return None
        at = replace(at, data=parameter.default)
    return _value(at, parameter)


def _value(at: Cursor, parameter: ActionParameter) -> Value:
    match parameter.kind:
        case Kind.DURATION:
            return at.parsed(parse_duration_ps, wanted(parameter))
        case Kind.SIZE:
            return at.parsed(parse_bytes, wanted(parameter))
        case Kind.WORDS:
            return _words(at, parameter.words)
        case Kind.TRUTH:
            return at.truth(wanted(parameter))
        case Kind.COUNT:
            return at.whole(1, 1024)
    return at.choice(parameter.words, wanted(parameter)) if parameter.words else at.text(wanted(parameter))


# options ----------------------------------------------------------------------------------------------------------


def _options(at: Cursor, steps: Mapping[str, Step]) -> Mapping[str, PrimitiveOption]:
    given = at.get("options", {}).fields(FIELDS["options"])
    return {name: _option(option, steps) for name, option in given.items()}


def _option(at: Cursor, steps: Mapping[str, Step]) -> PrimitiveOption:
    if not isinstance(at.data, dict) or set(at.data) != {"text", "default", "choices"}:
        at.wrong("a map with text, default and choices")
        return PrimitiveOption("", "", {})
    choices = {name: _choice(one, steps) for name, one in at["choices"].fields("two choices or more", 2).items()}
    default = at["default"].choice(choices) if choices else ""
    return PrimitiveOption(str(at["text"].data), default, choices)


def _choice(at: Cursor, steps: Mapping[str, Step]) -> Choice:
    known = {"source", "set", "drop"}
    if not isinstance(at.data, dict) or not set(at.data) <= known or not isinstance(at["source"].data, str):
        at.wrong("a map with source, and what it changes: set, drop")
        return Choice("")
    parameters = {f"{step.id}.{one.name}": one for step in steps.values() for one in step.action.parameters}
    values: dict[str, Value] = {}
    for key, setting in at.get("set", {}).fields("a map of step.parameter to values").items():
        if key == "complete":
            values[key] = setting.choice([UPDATE, *steps], "a step: {}")
        elif key in parameters:
            values[key] = _value(setting, parameters[key])
        else:
            replace(setting, data=key).choice(["complete", *parameters])
    dropped = at.get("drop", [])
    if not isinstance(dropped.data, list) or any(name not in list(steps) for name in dropped.data):
        dropped.wrong(f"a list of steps: {', '.join(steps)}")
        return Choice("")
    return Choice(at["source"].data, values, tuple(dropped.data))


def _chosen(at: Cursor, primitive: Primitive, switches: Mapping[str, str]) -> Primitive:
    """The primitive with its switches set."""
    options, written = primitive.options, at["options"]
    for name, value in switches.items():
        if name not in options:
            known = ", ".join(options) or "none: it has no switches"
            written.wrong(known, f"the switch '{name}'", nearest(name, options))
        else:
            replace(written[name], data=value).choice(options[name].choices)
    if at.mistakes:
        return primitive
    return with_choices(primitive, {name: switches.get(name, option.default) for name, option in options.items()})


def default_after(step: Step, before: list[Step]) -> tuple[str, ...]:
    """The default of ``after``: at the requester, its previous step; else the step before it."""
    mine = is_requester(step)
    for other in reversed(before):
        if not mine or is_requester(other):
            return (other.id,)
    return (UPDATE,)


def with_choices(primitive: Primitive, chosen: Mapping[str, str]) -> Primitive:
    """The primitive as these choices of its options have it."""
    steps = list(primitive.steps)
    complete = primitive.complete
    for name, value in chosen.items():
        choice = primitive.options[name].choices[value]
        for key, setting in choice.set.items():
            if key == "complete":
                complete = str(setting)
                continue
            id, _, parameter = key.rpartition(".")
            steps = [
                replace(step, parameters={**step.parameters, parameter: setting}) if step.id == id else step
                for step in steps
            ]
        for gone in choice.drop:
            for dropped in [step for step in steps if step.id == gone]:  # none, if another option has dropped it
                kept = [step for step in steps if step.id != gone]
                steps = [replace(step, after=_without(step.after, dropped)) for step in kept]
    return replace(primitive, steps=tuple(steps), complete=complete, chosen=dict(chosen))


def _without(after: tuple[str, ...], dropped: Step) -> tuple[str, ...]:
    names = [name for one in after for name in (dropped.after if one == dropped.id else (one,))]
    return tuple(dict.fromkeys(names))


def wanted(parameter: ActionParameter) -> str:
    """The expected values of a parameter, in words."""
    match parameter.kind:
        case Kind.WORD:
            return f"one of {', '.join(parameter.words)}"
        case Kind.WORDS:
            return f"a list of {', '.join(parameter.words)}"
        case Kind.DURATION:
            return "a duration, as in 7 us"
        case Kind.SIZE:
            return "a size, as in 16 B"
        case Kind.COUNT:
            return "a whole number from 1 to 1024"
    return str(parameter.kind)
