"""JSON texts as plain data; the lines of its nodes are found when a mistake needs one."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field

from typing_extensions import override

from .errors import InputError, Mistake
from .yaml_source import FieldPath, Source, parse_yaml


@dataclass(frozen=True)
class JsonSource(Source):
    """The data of one JSON text. For lines the text is read again, as YAML, which JSON is."""

    text: str = field(default="", repr=False)

    @override
    def line(self, path: FieldPath) -> int | None:
        """The line of the node at ``path``; None where the text is too large or too deep to be read as YAML."""
        return None if self._as_yaml is None else self._as_yaml.line(path)

    @functools.cached_property
    def _as_yaml(self) -> Source | None:
        try:
            return parse_yaml(self.text, self.file)
        except InputError:
            return None


def parse_json(text: str, file: str, expected: str) -> Source:
    """Read JSON text; ``file`` is what messages call it, ``expected`` what it should hold. Raises InputError."""
    try:
        return JsonSource(json.loads(text), file, {}, text)
    except json.JSONDecodeError as error:
        found = "the end of the file" if error.pos >= len(text.rstrip()) else error.msg.lower()
        raise InputError(Mistake(found, "JSON", file, error.lineno)) from None
    except RecursionError:
        raise InputError(Mistake("lists nested too deeply", expected, file)) from None
