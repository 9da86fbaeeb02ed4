"""Answers kept by the workers that compute them, each in a file of its own: a kill loses no answer.

A worker writes a line when it has an answer, before the answer goes anywhere else: the process that waits for answers,
a worker, or all of them may be killed at any time. The next start reads all files. A line that was broken off is no
answer, and answers are known by the digests of their jobs, so that none counts twice.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from .runner import JobRunner, Progress

_Job = TypeVar("_Job")


def known_answers(files: Iterable[Path]) -> dict[str, Any]:
    """The answers in files of lines with ``job`` and ``answer``; other lines are passed over."""
    known: dict[str, Any] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                row = json.loads(line)
                known[row["job"]] = row["answer"]
            except (ValueError, KeyError, TypeError):  # a line that was broken off
                continue
    return known


class Spread:
    """Answers by the digests of their jobs, in one file a worker below ``folder``; a context that closes its own file.

    ``known`` are answers from elsewhere. Where the workers do not see the folder (another machine, no shared file
    system) answers are written here, as they arrive.
    """

    def __init__(self, folder: Path, known: Mapping[str, Any] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.known: dict[str, Any] = {**(known or {})}
        self.read()
        self._own = _AnswerFile(folder)

    def read(self) -> None:
        """Read all files again: workers may have written more than they could say."""
        self.known |= known_answers(sorted(self._folder.glob("*.jsonl")))

    def add(self, rows: Mapping[str, Any]) -> None:
        """Keep answers that are known from elsewhere in this folder, too."""
        for name, answer in rows.items():
            self._own.write(name, answer)
            self.known[name] = answer

    def close(self) -> None:
        """Close this process's own file."""
        self._own.close()

    def completed(
        self,
        runner: JobRunner,
        function: Callable[[_Job], Any],
        jobs: Sequence[_Job],
        digests: Sequence[str],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """The number and the answer (plain data) of each job that is not known yet, as they come."""
        rest = [number for number, name in enumerate(digests) if name not in self.known]
        job = partial(_keep, function, str(self._folder), self._own.name)
        todo = [(digests[number], jobs[number]) for number in rest]

        def on_share(turn: int, share: float) -> None:
            assert progress is not None
            progress(rest[turn], share)

        for turn, (kept, answer) in runner.completed(job, todo, on_share if progress else None):
            name = digests[rest[turn]]
            if not kept:
                self._own.write(name, answer)
            self.known[name] = answer
            yield rest[turn], answer


class _AnswerFile:
    """A file that one process alone appends to; each line is on the disk when ``write`` returns."""

    def __init__(self, folder: Path) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._path = folder / self.name
        self._descriptor = os.open(self._path, flags, 0o666)

    def write(self, name: str, answer: object) -> None:
        line = json.dumps({"job": name, "answer": answer}).encode() + b"\n"
        while line:
            line = line[os.write(self._descriptor, line) :]
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it; one that nothing was written to is removed."""
        empty = os.fstat(self._descriptor).st_size == 0
        os.close(self._descriptor)
        if empty:
            self._path.unlink(missing_ok=True)


# in a worker -----------------------------------------------------------------------------------------------------
_files: dict[tuple[str, str, int], _AnswerFile] = {}
"""The file of this process for each folder, by its path and the name of the file of the process that waits."""


def _keep(function: Callable[[_Job], Any], folder: str, waiting: str, task: tuple[str, _Job]) -> tuple[bool, Any]:
    """Perform a job and write its answer down; returns whether that could be done here, and the answer as it reads."""
    name, job = task
    answer = json.loads(json.dumps(function(job)))
    if not Path(folder, waiting).exists():  # a folder of the same name on another machine is not the one that is meant
        return False, answer
    key = folder, waiting, os.getpid()
    if key not in _files:
        _files[key] = _AnswerFile(Path(folder))
    _files[key].write(name, answer)
    return True, answer
