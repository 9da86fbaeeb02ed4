"""EDN, as Jepsen stores its histories: a map for each event, one after the other or in one vector.

The reader knows the data notation (https://github.com/edn-format/edn) as far as histories use it: keywords and symbols
become texts, sets and lists become lists, tags are taken off. Jepsen's independent keys (``:value [key value]``) are
told by its reads, which are invoked with ``[key nil]``. Events of ``:nemesis`` say nothing about operations; a crash is
told as in JSON Lines: ``{:type :crash, :node :system, :time 40}``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from ..entries import HistoryFile
from ..events import FIELDS, Enough, Events

NAME = "edn"
DEEPEST = 100

_TOKEN = re.compile(
    r"""(?P<blank>(?:[\s,]|;[^\n]*)+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<open>\#\{|[\[({])
    |(?P<close>[\])}])
    |(?P<discard>\#_)
    |(?P<tag>\#[A-Za-z][^\s,;"\[\](){}]*)
    |(?P<char>\\(?:newline|space|tab|return|u[0-9a-fA-F]{4}|\S))
    |(?P<word>[^\s,;"\[\](){}\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?\d+N?|[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS = {"nil": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Malformed(ValueError):
    """Text that is no EDN: at which offset, what was found and what was expected."""

    def __init__(self, at: int, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.at, self.found, self.expected = at, found, expected


class Forms:
    """The forms of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """(offset, form) for each; Malformed where there is none."""
        while True:
            kind, token, at = self._token()
            if kind == "end":
                return
            if kind == "discard":
                self._form(*self._token(), 0)
            else:
                yield at, self._form(kind, token, at, 0)

    def spread(self) -> Iterator[tuple[int, Any]]:
        """As above; of a single vector or list, its items."""
        kind, token, at = self._token()
        if token not in ("[", "("):
            self.at = 0
            yield from self
            return
        while True:
            kind, inner, where = self._token()
            if kind == "close" and inner == _CLOSES[token]:
                break
            if kind == "discard":
                self._form(*self._token(), 1)
            elif kind == "end":
                raise Malformed(at, f"'{token}' that is never closed", f"'{_CLOSES[token]}'")
            else:
                yield where, self._form(kind, inner, where, 1)
        yield from self

    def _token(self) -> tuple[str, str, int]:
        while self.at < len(self.text):
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                sign = self.text[self.at]
                found = "a text that is never closed" if sign == '"' else f"'{sign}'"
                raise Malformed(self.at, found, "EDN")
            start, self.at = self.at, match.end()
            if match.lastgroup != "blank":
                return match.lastgroup or "", match[0], start
        return "end", "", self.at

    def _form(self, kind: str, token: str, at: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise Malformed(at, "lists in lists without end", f"at most {DEEPEST}")
        match kind:
            case "open":
                return self._collection(token, at, depth)
            case "string":
                return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token[1:-1], flags=re.DOTALL)
            case "tag":
                return self._form(*self._token(), depth + 1)
            case "char":
                return token[1:]
            case "word":
                return _word(token)
            case "discard":
                self._form(*self._token(), depth + 1)
                return self._form(*self._token(), depth + 1)
        raise Malformed(at, "the end of the file" if kind == "end" else f"'{token}'", "a value")

    def _collection(self, token: str, at: int, depth: int) -> Any:
        items = []
        while True:
            kind, inner, where = self._token()
            if kind == "close":
                if inner == _CLOSES[token]:
                    break
                raise Malformed(where, f"'{inner}'", f"'{_CLOSES[token]}'")
            if kind == "end":
                raise Malformed(at, f"'{token}' that is never closed", f"'{_CLOSES[token]}'")
            if kind == "discard":
                self._form(*self._token(), depth + 1)
            else:
                items.append(self._form(kind, inner, where, depth + 1))
        if token != "{":
            return items
        if len(items) % 2:
            raise Malformed(at, "a map with a key and no value", "a value for each key")
        return {key if isinstance(key, str) else str(key): value for key, value in zip(*[iter(items)] * 2, strict=True)}


def _word(token: str) -> Any:
    if token in _WORDS:
        return _WORDS[token]
    if _NUMBER.fullmatch(token):
        digits = token.rstrip("NM")
        return int(digits) if re.fullmatch(r"[+-]?\d+", digits) else float(digits)
    return token.removeprefix(":")


def read(text: str, file: str) -> HistoryFile:
    """The history that ``text`` is; raises InputError with all that is wrong."""
    ends = [match.start() for match in re.finditer("\n", text)]

    def line_of(at: int) -> int:
        return bisect_right(ends, at - 1) + 1 if at else 1

    events = Events(file, NAME)
    rows: list[tuple[int, Any]] = []
    timed = False
    try:
        try:
            for at, form in Forms(text).spread():
                rows.append((line_of(at), form))
        except Malformed as error:
            events.unreadable(line_of(error.at), error.found, error.expected)
        timed = any(isinstance(row, Mapping) and "time" in row for _, row in rows)
        take(events, rows, timed)
    except Enough:
        pass
    return events.finish(timed)


def take(events: Events, rows: list[tuple[int, Any]], timed: bool) -> None:
    """Hand (line, map) to ``events``, as Jepsen means them."""
    keyed = independent([row for _, row in rows if isinstance(row, Mapping)])
    for turn, (line, row) in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            events.unreadable(line, f"{row!r}"[:60], "a map: {:process 0, :type :invoke, :f :read, ...}")
            continue
        if row.get("process") == "nemesis" and row.get("type") != "crash":
            continue
        data = {name: value for name, value in row.items() if name in FIELDS}
        if not timed:
            data["time"] = turn
        if row.get("type") == "crash":
            data = {name: value for name, value in data.items() if name not in ("f", "value") or value is not None}
        elif row.get("type") in ("fail", "info"):
            data.pop("value", None)  # what did not happen, or an error in its place
        elif keyed and isinstance(data.get("value"), list):
            data["key"], data["value"] = data["value"]
        events.event(line, data)


def independent(rows: list[Mapping[str, Any]]) -> bool:
    """Whether values are [key value] throughout (jepsen.independent): reads are invoked with [key nil]."""
    invoked = [row for row in rows if row.get("type") == "invoke" and row.get("process") != "nemesis"]
    reads = [row.get("value") for row in invoked if row.get("f") in ("read", "get")]
    pairs = all(isinstance(row.get("value"), list) and len(row["value"]) == 2 for row in invoked)
    return bool(reads) and pairs and all(value[1] is None for value in reads if value)
