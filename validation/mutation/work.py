"""Pieces of the work on a mutation score: shared by processes, each done once, with the progress over all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...sim.jobs.kept import Kept
from ...sim.jobs.runner import JobRunner, Workers

Progress = Callable[[int, int], None]
"""Called with how many pieces are done, and of how many."""
_Piece = TypeVar("_Piece")
_Found = dict[str, Any]
"""The result of a piece: plain data."""


class Work:
    """``jobs`` processes, a file of known results, and a function that is called with the progress of the work."""

    def __init__(self, jobs: int | Workers = 1, file: Path | None = None, progress: Progress | None = None) -> None:
        self._jobs, self._kept, self._progress = jobs, Kept(file), progress
        self._done = self._total = 0

    def expect(self, pieces: int) -> None:
        """Announce ``pieces`` more pieces, for the progress."""
        self._total += pieces
        self._advance(0)

    def do(
        self, work: Sequence[_Piece], digests: Sequence[str], perform: Callable[[_Piece], _Found]
    ) -> dict[_Piece, _Found]:
        """The result of each piece; a piece that is known by its digest is not done again."""
        found = {}
        with JobRunner(self._jobs) as runner:
            for number, result in self._kept.completed(runner, perform, work, digests):
                found[work[number]] = result
                self._advance(1)
        return found

    def _advance(self, pieces: int) -> None:
        self._done += pieces
        if self._progress is not None:
            self._progress(self._done, self._total)
