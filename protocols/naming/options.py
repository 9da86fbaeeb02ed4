"""Options of schemes and modes: what a paper leaves open, offers in several variants, or differs in from its code.

A scheme declares them with their choices or range, their default and the source of each::

    options = {
        "replicas": Option(1, at_least=1, at_most=8, source="section 5.4"),
        "durable": Option("write", choices=("write", "commit"), source="section 3.4; the default is what it measures"),
    }

``clover[replicas=2]`` chooses wherever a scheme's name goes, ``options:`` in a scenario for all of its schemes.

Several choices that belong together have a name, a preset: ``Option(..., presets={"public code": "one line"})`` says
what the option is under that one. ``farm[as=public code]`` takes it, and what is chosen beside it goes before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NoReturn

from ...sim.errors import InputError, Mistake, nearest
from ...sim.units import numeral, read_quantity

OptionValue = bool | int | float | str | None
"""The value of an option: a truth, a number, a word, or a time or size as text with its unit."""

_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Option:
    """A declared option; its kind is that of its default: a truth, a whole number, a number, or a word.

    Numbers have a range, words have ``choices`` or a ``quantity`` (``time``, ``size``: text with a unit; ``share``:
    ``10%``). A default of None stands for "as the scheme has it otherwise" and is no choice. A time or a share stays
    text, a size is bytes.
    """

    default: OptionValue
    source: str
    """Where default and choices come from: the paper's section, its public code, or ``assumption`` with the reason."""
    text: str = ""
    """What it decides, in a phrase."""
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    quantity: str | None = None
    presets: Mapping[str, OptionValue] = field(default_factory=dict)
    """By preset: the value under it, where that is not the default."""
    small: OptionValue = None
    """What a small run takes, in which what is rare otherwise comes: few machines, a log that comes round."""
    usual: OptionValue = field(init=False, compare=False, default=None)
    """The default's value."""

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError("an option has a source: paper, public code, or assumption")
        if self.default is not None:
            object.__setattr__(self, "usual", self.read(self.default))
        object.__setattr__(self, "presets", {name: self.read(value) for name, value in self.presets.items()})
        if self.small is not None:
            self.read(self.small)

    def read(self, written: object) -> OptionValue:
        """The value that a text, or what YAML made of it, stands for. Raises ValueError with what is expected."""
        text = self.write(written)
        if self.choices:
            truth = {"True": ("on", "yes", "true"), "False": ("off", "no", "false")}.get(str(written), ())
            found = next((choice for choice in self.choices if choice == text or choice in truth), None)
            return found if found is not None else self._refuse()
        if isinstance(self.default, bool):
            return _TRUTHS[text.lower()] if text.lower() in _TRUTHS else self._refuse()
        if self.quantity is not None:
            try:
                found_quantity = read_quantity(self.quantity, text)
            except (ValueError, TypeError):
                self._refuse()
            if self.at_least is not None and found_quantity < self.at_least:
                self._refuse()
            return found_quantity if self.quantity == "size" else text
        try:
            number = int(text) if isinstance(self.default, int) else float(text)
        except ValueError:
            self._refuse()
        low, high = self.at_least, self.at_most
        if (low is not None and number < low) or (high is not None and number > high) or not isfinite(number):
            self._refuse()
        return number

    @staticmethod
    def write(value: object) -> str:
        """A value as names have it."""
        if isinstance(value, bool):
            return str(value).lower()
        return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)

    @property
    def expected(self) -> str:
        """What may be chosen, in words."""
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        if self.quantity is not None:
            usual = self.default or {"time": "100 us", "size": "4 KiB", "share": "10%"}.get(self.quantity)
            least = f" of at least {self.at_least:g} B" if self.quantity == "size" and self.at_least else ""
            unit = " from 0% to 100%" if self.quantity == "share" else f"{least} with its unit"
            return f"a {self.quantity}{unit}, e.g. '{usual}'"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        bounds = [f"at least {numeral(self.at_least)}"] if self.at_least is not None else []
        bounds += [f"at most {numeral(self.at_most)}"] if self.at_most is not None else []
        return f"{kind} of {' and '.join(bounds)}" if bounds else kind

    def _refuse(self) -> NoReturn:
        raise ValueError(self.expected)


DESCRIBED = "described"
"""The choice of ``as`` that takes no preset: all options are as the paper describes the scheme."""


def with_presets(options: Mapping[str, Option]) -> dict[str, Option]:
    """The options, and ``as`` where they have presets."""
    found = dict(options)
    presets = list(dict.fromkeys(name for one in options.values() for name in one.presets))
    if presets:
        under = ", ".join(f"{name}={Option.write(value)}" for name, one in options.items()
                          for value in one.presets.values())  # fmt: skip
        found["as"] = Option(
            DESCRIBED, choices=(DESCRIBED, *presets), source="that of each option",
            text=f"what the other options are unless they are chosen too ({under})",
        )  # fmt: skip
    return found


def value_of(name: str, options: Mapping[str, Option], chosen: Mapping[str, OptionValue]) -> OptionValue:
    """The value of an option: the chosen one, or that of the chosen preset, or its default. KeyError: undeclared."""
    if name in chosen:
        return chosen[name]
    return options[name].presets.get(str(chosen.get("as")), options[name].usual)


def chosen_of(
    owner: str, options: Mapping[str, Option], given: Mapping[str, object], text: str = "", at: int = 0
) -> dict[str, OptionValue]:
    """The values of the options that are given for ``owner``, in the name ``text`` behind position ``at``.

    Raises InputError for every wrong name and choice.
    """
    chosen: dict[str, OptionValue] = {}
    wrong = []
    for name, written in given.items():
        where = f" at character {text.find(name, at) + 1} of '{text}'" if text else ""
        if name not in options:
            expected = f"an option of {owner}: {', '.join(options) or 'it has none'}"
            wrong.append(Mistake(f"'{name}'{where}", expected, field="scheme", nearest=nearest(name, options)))
            continue
        try:
            chosen[name] = options[name].read(written)
        except ValueError as error:
            choice = Option.write(written)
            close = nearest(choice, options[name].choices)
            wrong.append(
                Mistake(
                    f"'{name}={choice}'{where}",
                    f"{error} for the option '{name}' of {owner}",
                    None,
                    None,
                    "scheme",
                    close,
                )
            )
    if wrong:
        raise InputError(wrong)
    return chosen
