"""Answers kept in a file: a command that was stopped goes on from there, and nothing is run twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .runner import JobRunner

_Job = TypeVar("_Job")


class Kept:
    """The answers of jobs (plain data) by the digests of the jobs, a line of JSON each; without a file none is kept."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, Any] = {}
        self._before = ""
        """Put in front of the next line: ends a line that was broken off."""
        if file is not None and file.exists():
            text = file.read_text(encoding="utf-8", errors="replace")
            self._before = "\n" if text and not text.endswith("\n") else ""
            for line in text.splitlines():
                try:
                    row = json.loads(line)
                    self._known[row["job"]] = row["answer"]
                except (ValueError, KeyError, TypeError):  # a line that was broken off, or another version's
                    continue

    def completed(
        self, runner: JobRunner, function: Callable[[_Job], Any], jobs: Sequence[_Job], digests: Sequence[str]
    ) -> Iterator[tuple[int, Any]]:
        """The number and the answer of each job: first the known answers, then the others as they come."""
        for number, name in enumerate(digests):
            if name in self._known:
                yield number, self._known[name]
        rest = [number for number, name in enumerate(digests) if name not in self._known]
        for turn, answer in runner.completed(function, [jobs[number] for number in rest]):
            self._add(digests[rest[turn]], answer)
            yield rest[turn], answer

    def _add(self, name: str, answer: object) -> None:
        self._known[name] = answer
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(self._before + json.dumps({"job": name, "answer": answer}) + "\n")
            self._before = ""
