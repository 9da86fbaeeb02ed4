"""The one grammar of names of schemes: ``clover[replicas=2]``, ``bst on rnvm-rcb``, ``chain of 3 over no-flush``.

::

    NAME   := SYSTEM ["on" MODE] ["over" PRIMITIVE], and among them ["of" VALUE] ["by" VALUE] ["into" VALUE]
    SYSTEM := [FILE.py:]word[OPTIONS] | FILE.py[OPTIONS]
    MODE   := word[OPTIONS]            PRIMITIVE := word or file[OPTIONS]
    OPTIONS := "[" option "=" choice {"," option "=" choice} "]"

``of``, ``by`` and ``into`` are the options of the system that are called so: ``chain of 3`` is ``chain[of=3]``.
:func:`rpsim.protocols.registry.scheme` looks up what the words mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from typing_extensions import override

from ...sim.errors import InputError, Mistake

OPTION_WORDS = ("of", "by", "into")
"""Words that give an option of the system of the same name."""
_PART_WORDS = ("on", "over")

_WORDS = re.compile(rf"(?:^|(?<=\s|\]))(?:{'|'.join((*_PART_WORDS, *OPTION_WORDS))})(?=\s|$)")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True)
class NamePart:
    """A system, a mode or a primitive in a name, with the options that it is given."""

    word: str
    at: int = 0
    """Where the word begins in the name, counted from 0."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The choice of each option, as it is written."""

    @override
    def __str__(self) -> str:
        return self.word + in_brackets(self.options)


@dataclass(frozen=True)
class ParsedName:
    """The parts of a name; ``str`` writes it as everything that rpsim prints has it."""

    system: NamePart
    mode: NamePart | None = None
    """What stands behind ``on``."""
    primitive: NamePart | None = None
    """What stands behind ``over``."""

    @property
    def file(self) -> str | None:
        """The file of code that the system is in, if the name says one."""
        path, colon, _ = self.system.word.rpartition(":")
        return path if colon else self.system.word if self.system.word.endswith(".py") else None

    @property
    def word(self) -> str:
        """The system's own name; empty where the name says only a file."""
        return "" if self.file == self.system.word else self.system.word.rpartition(":")[2]

    @property
    def plain(self) -> bool:
        """Whether it is a word and nothing else."""
        return self.file is None and not self.system.options and self.mode is None and self.primitive is None

    @override
    def __str__(self) -> str:
        system = self.system
        bare = {option: choice for option, choice in system.options.items() if option not in OPTION_WORDS}
        words = {option: f" {option} {system.options[option]}" for option in OPTION_WORDS if option in system.options}
        on = f" on {self.mode}" if self.mode else ""
        over = f" over {self.primitive}" if self.primitive else ""
        behind = words.get("by", "") + words.get("into", "")
        return f"{system.word}{in_brackets(bare)}{words.get('of', '')}{on}{over}{behind}"


def in_brackets(options: Mapping[str, str]) -> str:
    """``[replicas=2, durable=commit]``; empty for no options."""
    return f"[{', '.join(f'{option}={choice}' for option, choice in options.items())}]" if options else ""


def parse_name(text: str) -> ParsedName:
    """The parts of a name. Raises InputError, with the position of what does not belong there."""
    hidden = _BRACKETS.sub(lambda found: "[" + " " * (len(found[0]) - 2) + "]", text)
    for at, sign in enumerate(hidden):
        if sign in "[]" and not _closed(hidden, at):
            _refuse(text, f"'{sign}'", at, "options in one pair of brackets, [option=choice, option=choice]")
    words = list(_WORDS.finditer(hidden))
    ends = [*(word.start() for word in words), len(text)]
    system = _part(text, hidden, 0, ends[0], "a system")
    parts: dict[str, NamePart] = {}
    options = dict(system.options)
    for word, end in zip(words, ends[1:], strict=True):
        name = word[0]
        if name in parts or (name in OPTION_WORDS and name in options):
            _refuse(text, f"'{name}' a second time", word.start(), "it once")
        expected = {"on": "a mode", "over": "a primitive"}.get(name, "a choice")
        part = _part(text, hidden, word.end(), end, f"{expected} behind '{name}'")
        if name in _PART_WORDS:
            parts[name] = part
        elif part.options:
            _refuse(text, in_brackets(part.options), part.at + len(part.word), f"a choice for '{name}' alone")
        else:
            options[name] = part.word
    return ParsedName(NamePart(system.word, system.at, options), parts.get("on"), parts.get("over"))


def place(text: str, word: str, at: int) -> str:
    """A word with its place in the name, as messages have it; the word alone where it is the whole name."""
    return f"'{word}'" if word == text else f"'{word}' at character {at + 1} of '{text}'"


def _closed(hidden: str, at: int) -> bool:
    """Whether a bracket has its partner: nothing but blanks is between the two."""
    inside = hidden[at + 1 :].lstrip(" ") if hidden[at] == "[" else hidden[:at].rstrip(" ")
    return inside[:1] == "]" if hidden[at] == "[" else inside[-1:] == "["


def _part(text: str, hidden: str, start: int, end: int, expected: str) -> NamePart:
    """The part between two positions: a word, then perhaps options."""
    start += len(text[start:end]) - len(text[start:end].lstrip())
    end -= len(text[start:end]) - len(text[start:end].rstrip())
    bracket = hidden.find("[", start, end)
    word = text[start : bracket if bracket >= 0 else end].rstrip()
    if not word:
        _refuse(text, "nothing", start, expected)
    options: dict[str, str] = {}
    if bracket >= 0:
        close = hidden.index("]", bracket)
        if close + 1 < end:
            _refuse(text, f"'{text[close + 1 : end].strip()}'", close + 1, f"one of {', '.join(_word_list())}")
        at = bracket + 1
        for given in text[at:close].split(","):
            name, equals, choice = (piece.strip() for piece in given.partition("="))
            if not (name and equals and choice):
                _refuse(text, f"'{given.strip()}'", at, "an option with its choice, as in replicas=2")
            if name in options:
                _refuse(text, f"'{name}' a second time", at, "each option once")
            options[name] = choice
            at += len(given) + 1
    return NamePart(word, start, options)


def _word_list() -> tuple[str, ...]:
    return (*_PART_WORDS, *OPTION_WORDS)


def _refuse(text: str, found: str, at: int, expected: str) -> NoReturn:
    raise InputError(Mistake(f"{found} at character {at + 1} of '{text}'", expected, field="scheme"))
