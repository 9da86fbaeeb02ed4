"""YAML files as plain data that still knows its lines, with every mistake in plain words.

Only what YAML 1.2's core schema calls a number, a truth or nothing is one: ``on``, ``off``, ``yes``, ``no``,
dates and ``12:30`` stay the words that were written, ``010`` is ten, ``1e6`` is the integer 1000000. Keys are
always text. Tags (``!!python/object``, ``!anything``), duplicate keys and files of several documents are mistakes.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from .errors import InputError, Mistake
from .files import decode_text, printable, read_bytes

FieldPath = tuple[str | int, ...]
"""The way from the root of the data to a node: keys and list positions."""

MAX_BYTES = 4 << 20
MAX_NODES = 200_000
"""After aliases are followed: a few lines of aliases to aliases would otherwise fill the memory."""
MAX_DEPTH = 60
_SAFE_DEPTH = 2_000
_FAST: Any = getattr(yaml, "CSafeLoader", None)
"""PyYAML's loader over libyaml, eight times as fast; None where PyYAML was built without."""
_DIFFERENT = re.compile(r"[\t?!\x85\u2028\u2029\ufeff]|[|>][-+0-9]*#|^(?:%|---|\.\.\.)", re.MULTILINE)

_NULLS = {"", "~", "null", "Null", "NULL"}
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOATS = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_MAX_DIGITS = 100
_EXACT_FLOAT = 2**53

_STANDARD = "tag:yaml.org,2002:"
_CONVERTIBLE = {"bool", "float", "int", "null", "timestamp", "merge", "value"}
"""Tags that PyYAML guesses (YAML 1.1) or that a user may write out: the scalar's own text decides instead."""


@dataclass(frozen=True)
class Source:
    """The data of one YAML text, its file name as the user wrote it, and the line of every node."""

    data: Any
    file: str
    lines: dict[FieldPath, int] = field(repr=False)

    def line(self, path: FieldPath) -> int | None:
        """The line (from 1) of the node at ``path``, or of the nearest node above it that exists."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def mapping(self, expected: str) -> dict[str, Any]:
        """The data if it is a map; raises InputError, saying what was ``expected``, if it is anything else."""
        if isinstance(self.data, dict):
            return self.data
        raise InputError(Mistake(describe(self.data), expected, self.file, self.line(())))


def describe(data: Any) -> str:
    """What a value is, in words that fit after 'found': ``a list of 3``, ``'abc'``, ``nothing``."""
    match data:
        case None:
            return "nothing"
        case bool():
            return "true" if data else "false"
        case dict():
            return f"a map of {len(data)}" if data else "an empty map"
        case list():
            return f"a list of {len(data)}" if data else "an empty list"
        case str():
            text = data if len(data) <= 60 else f"{data[:57]}..."
            return f"'{text}'" if text.isprintable() else ascii(text)
        case _:
            return str(data)


_kept: dict[str, tuple[str, Source]] = {}
"""The text that each file had when it was last read, and what it says: a file is parsed once in a process."""


def read_yaml(path: FilePath) -> Source:
    """Read a YAML file; raises InputError with file, line, found and expected for everything that can be wrong.

    As long as the file has the same text the same Source is returned: its data is not to be changed.
    """
    file, expected = printable(str(path)), "YAML text in UTF-8"
    raw = read_bytes(path, "a YAML file", MAX_BYTES)
    nul = raw.find(b"\0") if len(raw) <= MAX_BYTES else -1
    if nul >= 0:
        raise InputError(Mistake(f"a binary file (byte {nul} is zero)", expected, file))
    text = decode_text(raw, file, expected, MAX_BYTES)
    kept = _kept.get(file)
    if kept is None or kept[0] != text:
        _kept[file] = kept = text, parse_yaml(text, file)
    return kept[1]


def parse_yaml(text: str, file: str) -> Source:
    """Read YAML text; ``file`` is what messages call it. Raises InputError with all duplicate keys and tags at once."""
    root = _compose(text, file)
    if root is None:
        found = "only comments" if text.strip() else "an empty file"
        raise InputError(Mistake(found, "a YAML map", file))
    builder = _Builder(file)
    data = builder.build(root, (), ())
    if builder.mistakes:
        raise InputError(builder.mistakes)
    return Source(data, file, builder.lines)


def _compose(text: str, file: str) -> yaml.Node | None:
    """The nodes of a text. Messages are PyYAML's own: what libyaml refuses is read again without it."""
    try:
        if _may_be_fast(text):
            with contextlib.suppress(yaml.YAMLError, ValueError):
                return yaml.compose(text, Loader=_FAST)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise InputError(_syntax_mistake(error, file)) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise InputError(Mistake(f"the control character U+{code:04X}", "YAML text", file, line)) from None
    except (RecursionError, ValueError):
        raise InputError(Mistake("maps and lists nested too deeply", f"at most {MAX_DEPTH} levels", file)) from None


def _may_be_fast(text: str) -> bool:
    """Whether libyaml reads a text as PyYAML does, and may read it at all.

    They differ in tabs, question marks in flow collections, tags, byte order marks, explicit documents and rare line
    breaks. And PyYAML's composer over libyaml (6.0) recurses in C without a limit: some 20,000 levels overflow a stack
    of 8 MiB. A bracket opens one level, a column of indentation two at the most.
    """
    if _FAST is None or _DIFFERENT.search(text):
        return False
    return text.count("[") + text.count("{") + 2 * max(map(len, text.split("\n"))) < _SAFE_DEPTH


def parse_scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means (see the module's first lines)."""
    if text in _NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        digits = text.replace("_", "")
        return int(digits, 16 if digits.startswith("0x") else 8 if digits.startswith("0o") else 10)
    if _FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
        whole = "e" in text.lower() and abs(number) < _EXACT_FLOAT and number.is_integer()
        return int(number) if whole else number
    if _SPECIAL_FLOATS.fullmatch(text):
        return math.nan if text[-1] in "nN" else math.copysign(math.inf, -1.0 if text[0] == "-" else 1.0)
    return text


class _Builder:
    """Plain data from composed nodes, with the line of each and all mistakes on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[FieldPath, int] = {}
        self.mistakes: list[Mistake] = []

    def build(self, node: yaml.Node, path: FieldPath, open_nodes: tuple[int, ...]) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if self._too_large(node, path, open_nodes):
            return None
        kind = node.tag.removeprefix(_STANDARD)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._build_map(node, path, (*open_nodes, id(node)))
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.build(item, (*path, i), (*open_nodes, id(node))) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and (kind in _CONVERTIBLE or kind == "str"):
            return node.value if node.style else parse_scalar(node.value)
        tag = node.tag.replace(_STANDARD, "!!")
        self._complain(f"the YAML tag {tag}", "plain text, numbers, lists and maps without tags", node, path)
        return None

    def _build_map(self, node: yaml.MappingNode, path: FieldPath, open_nodes: tuple[int, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._complain("a key that is a list or a map", "a key that is text", key_node, path)
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key in data:
                first = self.lines[here]
                expected = f"each key once (it is first given in line {first})"
                self._complain(f"the key '{key}' a second time", expected, key_node, here)
                continue
            self.lines[here] = key_node.start_mark.line + 1
            data[key] = self.build(value_node, here, open_nodes)
        return data

    def _too_large(self, node: yaml.Node, path: FieldPath, open_nodes: tuple[int, ...]) -> bool:
        if id(node) in open_nodes:
            self._complain("an alias to a map or list that contains it", "data that ends", node, path)
        elif len(path) > MAX_DEPTH:
            raise InputError(self._mistake("maps and lists nested too deeply", f"at most {MAX_DEPTH} levels", node, ()))
        elif len(self.lines) > MAX_NODES:
            found = f"more than {MAX_NODES:,} values (through aliases?)"
            raise InputError(self._mistake(found, "a smaller file", node, ()))
        else:
            return False
        return True

    def _complain(self, found: str, expected: str, node: yaml.Node, path: FieldPath) -> None:
        self.mistakes.append(self._mistake(found, expected, node, path))

    def _mistake(self, found: str, expected: str, node: yaml.Node, path: FieldPath) -> Mistake:
        return Mistake(found, expected, self.file, node.start_mark.line + 1, dotted(path) or None)


def dotted(path: FieldPath) -> str:
    """A path as users write it: ``vary.platform[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


_SYNTAX: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a ':' where no key can end",
        "one 'key: value' a line, or quotes around a text with ': '",
    ),
    (
        "cannot start any token",
        "{problem}",
        "text, a number, '[' or '{{' (indent with spaces; quote texts that start with a special sign)",
    ),
    ("expected ',' or ']'", "a list whose '[' (line {context}) is not closed before this", "',' or ']'"),
    ("expected ',' or '}'", "a map whose '{{' (line {context}) is not closed before this", "',' or '}}'"),
    (
        "expected <block end>",
        "an entry that is indented like none above it",
        "entries of one map or list in one column",
    ),
    ("but found '<block mapping start>'", "a line that is indented less than the first", "all keys in one column"),
    ("but found '<stream end>'", "the end of the file", "what was begun to be closed or given"),
    ("could not find expected ':'", "a key without ':' (line {context})", "'key: value'"),
    ("unexpected end of stream", "a text whose quote (line {context}) is never closed", "a closing quote"),
    ("but found another document", "a second document ('---')", "one document a file"),
    ("undefined alias", "{problem}", "an alias whose anchor stands above it"),
)
"""A sign in PyYAML's complaint, then what was found and what is expected."""


def _syntax_mistake(error: yaml.MarkedYAMLError, file: str) -> Mistake:
    """PyYAML's complaint in words for people who have not read its source."""
    mark = error.problem_mark or error.context_mark
    context_mark = error.context_mark or mark
    problem = (error.problem or "").replace("found character '\\t'", "a tab").removeprefix("found ")
    problem = problem.replace("that cannot start any token", "where a value should start")
    words = {"problem": problem, "context": str(context_mark.line + 1) if context_mark else "?"}
    found, expected = problem or "something that is no YAML", "YAML"
    complaint = f"{error.context or ''} {error.problem or ''}"
    for sign, found_words, expected_words in _SYNTAX:
        if sign in complaint:
            found, expected = found_words.format(**words), expected_words.format()
            break
    column = f" (column {mark.column + 1})" if mark else ""
    return Mistake(f"a YAML syntax error{column}: {found}", expected, file, mark.line + 1 if mark else None)
