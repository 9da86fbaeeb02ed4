"""Pieces of work that are shared by processes, each done once: what is kept from before is not done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from ...sim.parent import end_with_parent
from .store import Store

Progress = Callable[[int, int], None]
"""Called with how many pieces are done, and of how many."""
_Piece = TypeVar("_Piece")
_Found = dict[str, Any]
"""What became of a piece: plain data."""


class Work:
    """``jobs`` processes, a file of what is known, and somebody who is told how far it is."""

    def __init__(self, jobs: int = 1, file: Path | None = None, progress: Progress | None = None) -> None:
        self._jobs, self._store, self._progress = jobs, Store(file), progress
        self._done = self._total = 0

    def expect(self, pieces: int) -> None:
        """So many more will come."""
        self._total += pieces

    def do(
        self, work: Sequence[_Piece], digests: Sequence[str], perform: Callable[[_Piece], _Found]
    ) -> dict[_Piece, _Found]:
        """What becomes of each piece, and ``cpu_s``, what that took; what is known by its digest is not done again."""
        names = dict(zip(work, digests, strict=True))
        found = {piece: known for piece, name in names.items() if (known := self._store.get(name)) is not None}
        self._advance(len(found))
        for piece, result in self._performed([piece for piece in work if piece not in found], perform):
            self._store.add(names[piece], result)
            found[piece] = result
            self._advance(1)
        return found

    def _advance(self, pieces: int) -> None:
        self._done += pieces
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _performed(
        self, work: Sequence[_Piece], perform: Callable[[_Piece], _Found]
    ) -> Iterator[tuple[_Piece, _Found]]:
        if self._jobs == 1 or len(work) < 2:
            for piece in work:
                yield piece, _timed(perform, piece)
            return
        with ProcessPoolExecutor(self._jobs, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
            waiting = {pool.submit(_timed, perform, piece): piece for piece in work}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _timed(perform: Callable[[Any], _Found], piece: object) -> _Found:
    began = time.process_time()
    found = perform(piece)
    return {**found, "cpu_s": round(time.process_time() - began, 3)}
