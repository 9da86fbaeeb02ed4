"""Results that are kept: whoever was stopped, or changed one scheme, tries only what is not known yet.

A line of JSON each, under a hash of all that it depends on: the simulator, the judge, the modules of the scheme, the
fault, the trials.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ...protocols.scheme import scheme
from .mutants import modules_of

_ROOT = Path(__file__).parents[2]
_JUDGING = ("trials", "trying", "shown", "mutants", "operators", "fates")
_DEPENDS_ON = (
    "sim/**/*", "models/**/*", "scenarios/**/*.py", "protocols/primitives/*",
    *(f"protocols/{name}.py" for name in ("scheme", "guarantees", "layout", "parts/placement")),
    "validation/crash/*.py", "validation/histories/**/*.py", "validation/oracle/**/*.py", "validation/testing/*.py",
    *(f"validation/mutation/{name}.py" for name in _JUDGING),
)  # fmt: skip


class Store:
    """What is known already, by digest; ``file`` None: nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._rows: dict[str, Any] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                    self._rows[row["of"]] = row["found"]
                except (ValueError, KeyError, TypeError):  # the last one, of whoever was stopped while writing it
                    continue

    def get(self, digest: str) -> Any:
        """What is known under a digest; None if nothing is."""
        return self._rows.get(digest)

    def add(self, digest: str, found: object) -> None:
        """Keep it, at once."""
        self._rows[digest] = found
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps({"of": digest, "found": found}) + "\n")


def digest(schemes: Iterable[str], *parts: object) -> str:
    """A hash of the code that these schemes are made of and run on, and of whatever else a result depends on."""
    total = hashlib.sha256("".join([_fingerprint(), *map(_code, sorted(schemes)), repr(parts)]).encode())
    return total.hexdigest()[:16]


@cache
def _code(name: str) -> str:
    """A hash of the modules of a scheme."""
    sources = (inspect.getsource(module) for module in modules_of(scheme(name)))
    return hashlib.sha256("".join(sources).encode()).hexdigest()


@cache
def _fingerprint() -> str:
    total = hashlib.sha256()
    for pattern in _DEPENDS_ON:
        for path in sorted(_ROOT.glob(pattern)):
            if path.suffix in (".py", ".yaml"):
                total.update(path.read_bytes())
    return total.hexdigest()
