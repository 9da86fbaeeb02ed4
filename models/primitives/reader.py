"""Reads a primitive from YAML: every mistake with its file, line, field, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...sim.errors import InputError, Mistake, nearest
from ...sim.units import parse_bytes, parse_duration_ps
from ...sim.yaml_source import FieldPath as Where
from ...sim.yaml_source import Source, describe, dotted, parse_yaml, read_yaml
from .language import Choice, Primitive, PrimitiveOption, Step, Value
from .plan import is_requester, problems
from .vocabulary import ACTIONS, FOLLOWS, STATUSES, TRANSPORTS, UPDATE, ActionParameter, Kind, StepPlace

FIELDS: Mapping[str, str] = {
    "name": "what it is called, as in `rpsim list primitives`",
    "title": "one line",
    "source": "where a stranger finds it: authors, venue, section; or the manual",
    "status": "one of " + ", ".join(STATUSES),
    "transport": "a list of " + ", ".join(TRANSPORTS) + "; the first is used (default RC)",
    "follows": "how updates may travel, a list of " + ", ".join(FOLLOWS) + "; the first is used (default WRITE)",
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
    return _Reader(read_yaml(path)).read(switches or {})


def parse_primitive(text: str, file: str, switches: Mapping[str, str] | None = None) -> Primitive:
    """Read YAML text; ``file`` is what messages call it. Raises InputError."""
    return _Reader(parse_yaml(text, file)).read(switches or {})


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.data = source.mapping("a map with " + ", ".join(FIELDS))
        self.mistakes: list[Mistake] = []

    def wrong(self, where: Where, found: str, expected: str, close: str | None = None) -> None:
        """A mistake at a place of the file."""
        self.mistakes.append(
            Mistake(found, expected, self.source.file, self.source.line(where), dotted(where) or None, close)
        )

    def read(self, switches: Mapping[str, str]) -> Primitive:
        data = self.data
        for key in data:
            if key not in FIELDS:
                self.wrong((key,), f"the unknown field '{key}'", f"one of {', '.join(FIELDS)}", nearest(key, FIELDS))
        name = self.text("name")
        if name and not name.replace("-", "").replace("_", "").isalnum():
            self.wrong(("name",), f"'{name}'", _NAME)
        steps = self.steps()
        found = Primitive(
            name=name,
            title=self.text("title"),
            source=self.text("source"),
            status=self.word("status", STATUSES),
            transport=self.words(("transport",), data.get("transport", ["RC"]), TRANSPORTS, self.data),
            follows=self.words(("follows",), data.get("follows", ["WRITE"]), tuple(FOLLOWS), self.data),
            steps=steps,
            complete=self.named("complete", UPDATE),
            claims=self.claims(),
            options=self.options({step.id: step for step in steps}),
            batching=self.count("batching"),
            packet=self.named("packet", ""),
            header_bytes=self.size(("header",), data.get("header", "0 B")),
            file=self.source.file,
        )
        if not self.mistakes:
            found = self.chosen(found, switches)
        if not self.mistakes:
            self.mistakes = problems(found)
        if self.mistakes:
            raise InputError(self.mistakes)
        return found

    # single values ----------------------------------------------------------------------------------------------
    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str) or not value.strip():
            self.wrong((key,), describe(value), FIELDS[key])
            return ""
        return " ".join(value.split())

    def named(self, key: str, default: str) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or (key in self.data and not value):
            self.wrong((key,), describe(value), FIELDS[key])
            return default
        return value

    def word(self, key: str, words: tuple[str, ...]) -> str:
        value = self.data.get(key)
        if value not in words:
            self.wrong((key,), describe(value), f"one of {', '.join(words)}", nearest(str(value), words))
            return words[0]
        return str(value)

    def words(self, where: Where, value: Any, words: tuple[str, ...], holder: Any) -> tuple[str, ...]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items:
            self.wrong(where, describe(value), f"a list of {', '.join(words)}")
            return words[:1]
        for number, item in enumerate(items):
            if item not in words:
                self.wrong((*where, number), describe(item), f"one of {', '.join(words)}", nearest(str(item), words))
        return tuple(str(item) for item in items)

    def count(self, key: str) -> int:
        value = self.data.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
            self.wrong((key,), describe(value), "a whole number from 1 to 1024")
            return 1
        return value

    def size(self, where: Where, value: Any) -> int:
        return self.quantity(where, value, parse_bytes, "a size, as in 16 B")

    def quantity(self, where: Where, value: Any, parse: Any, expected: str) -> int:
        try:
            if not isinstance(value, str):
                raise ValueError
            return int(parse(value))
        except ValueError:
            self.wrong(where, describe(value), expected)
            return 0

    def claims(self) -> Mapping[str, str]:
        value = self.data.get("claims", {})
        if not isinstance(value, dict):
            self.wrong(("claims",), describe(value), FIELDS["claims"])
            return {}
        for key, where in value.items():
            if not isinstance(where, str) or not where.strip():
                self.wrong(("claims", key), describe(where), "where it is claimed: always, or as in 'ddio off; eadr'")
        return {str(key): str(where) for key, where in value.items()}

    # steps --------------------------------------------------------------------------------------------------------
    def steps(self) -> tuple[Step, ...]:
        value = self.data.get("steps", [])
        if not isinstance(value, list):
            self.wrong(("steps",), describe(value), FIELDS["steps"])
            return ()
        found: list[Step] = []
        for number, item in enumerate(value):
            step = self.step(number, item, found)
            if step is not None:
                found.append(step)
        return tuple(found)

    def step(self, number: int, item: Any, before: list[Step]) -> Step | None:
        where: Where = ("steps", number)
        if not isinstance(item, dict):
            self.wrong(where, describe(item), "a step, as in {at: pcie, do: read}")
            return None
        place = item.get("at")
        if place not in list(StepPlace):
            self.wrong(
                (*where, "at"), describe(place), f"a place: {', '.join(StepPlace)}", nearest(str(place), StepPlace)
            )
            return None
        actions, do = ACTIONS[StepPlace(place)], item.get("do")
        if do not in actions:
            self.wrong(
                (*where, "do"), describe(do), f"what is done at the {place}: {', '.join(actions)}",
                nearest(str(do), actions),
            )  # fmt: skip
            return None
        action = actions[str(do)]
        known = [*STEP_FIELDS, *(parameter.name for parameter in action.parameters)]
        for key in item:
            if key not in known:
                self.wrong((*where, key), f"the unknown key '{key}'", f"one of {', '.join(known)}", nearest(key, known))
        id = item.get("id", f"{do} {number + 1}")
        if not isinstance(id, str) or not id or id == UPDATE:
            self.wrong((*where, "id"), describe(id), f"{_NAME}, but not '{UPDATE}'")
            id = f"{do} {number + 1}"
        elif id in {step.id for step in before}:
            self.wrong((*where, "id"), f"a second step '{id}'", "an id of its own")
        parameters = {
            parameter.name: self.parameter((*where, parameter.name), parameter, item) for parameter in action.parameters
        }
        if action.name == "send":
            self.one_request(where, item)
        note = item.get("note", "")
        if not isinstance(note, str):
            self.wrong((*where, "note"), describe(note), "words: its source, or why it is assumed")
        step = Step(id, action.place, action.name, parameters, (), str(note), self.source.line(where))
        return replace(step, after=self.after((*where, "after"), item, step, before))

    def one_request(self, where: Where, item: dict[str, Any]) -> None:
        named = [key for key in ("verb", "packet") if item.get(key) is not None]
        if len(named) != 1:
            self.wrong(where, " and ".join(named) or "neither verb nor packet", "a verb, or the packet's own name")

    def after(self, where: Where, item: dict[str, Any], step: Step, before: list[Step]) -> tuple[str, ...]:
        if "after" in item:
            value = item["after"]
            names = [value] if isinstance(value, str) else value
            known = [UPDATE, *(other.id for other in before)]
            if not isinstance(names, list) or not names:
                self.wrong(where, describe(value), f"steps above it: {', '.join(known)}")
                return (UPDATE,)
            for name in names:
                if name not in known:
                    self.wrong(where, describe(name), f"steps above it: {', '.join(known)}", nearest(str(name), known))
            return tuple(str(name) for name in names if name in known) or (UPDATE,)
        return default_after(step, before)

    def parameter(self, where: Where, parameter: ActionParameter, item: dict[str, Any]) -> Value:
        """The value of a parameter, or its default."""
        value = item.get(parameter.name)
        if value is None:
            if parameter.required:
                self.wrong(where, "nothing", wanted(parameter))
            if parameter.default is None:
                return None
            value = parameter.default
        return self.value(where, parameter, value)

    def value(self, where: Where, parameter: ActionParameter, value: Any) -> Value:
        match parameter.kind:
            case Kind.DURATION:
                return self.quantity(where, value, parse_duration_ps, wanted(parameter))
            case Kind.SIZE:
                return self.quantity(where, value, parse_bytes, wanted(parameter))
            case Kind.WORDS:
                return self.words(where, value, parameter.words, None)
            case Kind.TRUTH:
                if not isinstance(value, bool):
                    self.wrong(where, describe(value), wanted(parameter))
                return value is True
        if not isinstance(value, str) or (parameter.words and value not in parameter.words):
            close = nearest(str(value), parameter.words) if parameter.words else None
            self.wrong(where, describe(value), wanted(parameter), close)
        return str(value)

    # options --------------------------------------------------------------------------------------------------------
    def options(self, steps: Mapping[str, Step]) -> Mapping[str, PrimitiveOption]:
        value = self.data.get("options", {})
        if not isinstance(value, dict):
            self.wrong(("options",), describe(value), FIELDS["options"])
            return {}
        return {name: self.option(("options", name), item, steps) for name, item in value.items()}

    def option(self, where: Where, item: Any, steps: Mapping[str, Step]) -> PrimitiveOption:
        expected = "a map with text, default and choices"
        if not isinstance(item, dict) or set(item) != {"text", "default", "choices"}:
            self.wrong(where, describe(item), expected)
            return PrimitiveOption("", "", {})
        choices = item["choices"]
        if not isinstance(choices, dict) or len(choices) < 2:
            self.wrong((*where, "choices"), describe(choices), "two choices or more")
            return PrimitiveOption(str(item["text"]), "", {})
        if item["default"] not in choices:
            close = nearest(str(item["default"]), choices)
            self.wrong((*where, "default"), describe(item["default"]), f"one of {', '.join(choices)}", close)
        read = {name: self.choice((*where, "choices", name), one, steps) for name, one in choices.items()}
        return PrimitiveOption(str(item["text"]), str(item["default"]), read)

    def choice(self, where: Where, item: Any, steps: Mapping[str, Step]) -> Choice:
        known = ("source", "set", "drop")
        if not isinstance(item, dict) or not set(item) <= set(known) or not isinstance(item.get("source"), str):
            self.wrong(where, describe(item), "a map with source, and what it changes: set, drop")
            return Choice("")
        settings, dropped = item.get("set", {}), item.get("drop", [])
        if not isinstance(settings, dict):
            self.wrong((*where, "set"), describe(settings), "a map of step.parameter to values")
            settings = {}
        values: dict[str, Value] = {}
        for key, value in settings.items():
            here = (*where, "set", key)
            if key == "complete":
                values[key] = str(value)
                continue
            id, _, name = key.rpartition(".")
            parameters = {one.name: one for one in steps[id].action.parameters} if id in steps else {}
            if name not in parameters:
                settable = [
                    "complete",
                    *(f"{step.id}.{p.name}" for step in steps.values() for p in step.action.parameters),
                ]
                self.wrong(here, f"'{key}'", f"one of {', '.join(settable)}", nearest(key, settable))
                continue
            values[key] = self.value(here, parameters[name], value)
        if not isinstance(dropped, list) or any(name not in steps for name in dropped):
            self.wrong((*where, "drop"), describe(dropped), f"a list of steps: {', '.join(steps)}")
            dropped = []
        return Choice(item["source"], values, tuple(dropped))

    def chosen(self, primitive: Primitive, switches: Mapping[str, str]) -> Primitive:
        """With its switches set."""
        options = primitive.options
        for name, value in switches.items():
            if name not in options:
                known = ", ".join(options) or "none: it has no switches"
                self.wrong(("options",), f"the switch '{name}'", known, nearest(name, options))
            elif value not in options[name].choices:
                known = ", ".join(options[name].choices)
                close = nearest(value, options[name].choices)
                self.wrong(("options", name), f"'{value}'", f"one of {known}", close)
        if self.mistakes:
            return primitive
        return with_choices(primitive, {name: switches.get(name, option.default) for name, option in options.items()})


def default_after(step: Step, before: list[Step]) -> tuple[str, ...]:
    """What a step waits for that does not say: of the requester, its previous one; else the step before it."""
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
            dropped = next(step for step in steps if step.id == gone)
            kept = [step for step in steps if step.id != gone]
            steps = [replace(step, after=_without(step.after, dropped)) for step in kept]
    return replace(primitive, steps=tuple(steps), complete=complete, chosen=dict(chosen))


def _without(after: tuple[str, ...], dropped: Step) -> tuple[str, ...]:
    names = [name for one in after for name in (dropped.after if one == dropped.id else (one,))]
    return tuple(dict.fromkeys(names))


def wanted(parameter: ActionParameter) -> str:
    """What a parameter has to be, in words."""
    match parameter.kind:
        case Kind.WORD:
            return f"one of {', '.join(parameter.words)}"
        case Kind.WORDS:
            return f"a list of {', '.join(parameter.words)}"
        case Kind.DURATION:
            return "a duration, as in 7 us"
        case Kind.SIZE:
            return "a size, as in 16 B"
    return str(parameter.kind)
