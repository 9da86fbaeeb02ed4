"""Views over a run in which one machine loses power and others do not: these keep all that they had taken in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from typing_extensions import override

from ...models.durability.places import Domain
from ...models.durability.views import LineKey, Piece, Views
from ...sim.trace import Chunk, Stage, Trace


class StandingViews(Views):
    """Views in which the devices of ``standing`` have lost nothing: their machines go on, caches and adapters too."""

    def __init__(
        self,
        trace: Trace,
        domains: Mapping[int, Domain],
        initial: Callable[[LineKey], bytes],
        standing: Collection[int],
        *,
        whole_lines: bool = False,
        iio_wc_survives: bool = False,
    ) -> None:
        self._standing = standing
        known = {n: Domain.WSP if n in standing else domain for n, domain in domains.items()}
        super().__init__(trace, known, initial, whole_lines=whole_lines, iio_wc_survives=iio_wc_survives)

    @override
    def _piece(self, chunk: Chunk, line: int, safe: Stage) -> Piece:
        piece = super()._piece(chunk, line, safe)
        if chunk.device in self._standing:
            piece.must_ps = piece.timed_ps = piece.enters_ps
        return piece
