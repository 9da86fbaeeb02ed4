"""The integrated memory controller: a bounded write pending queue in front of each DIMM, drained at the medium's rate.

A write is inside the ADR domain from the instant at which the write pending queue takes it (Yang et al., FAST'20,
section 2.1). Addresses interleave over the DIMMs of a device. The queue is asked through an in-order gate: writes of
different agents that would overtake each other on the way to one DIMM keep the order in which they were sent.
"""

from __future__ import annotations

from functools import partial

from ..sim.bytespace import LINE_BYTES
from ..sim.stations import Bounded, Fifo, Pipe
from .parameters.memory import Imc, Media


class WriteQueue:
    """The write pending queue of one DIMM, in lines."""

    __slots__ = ("_accept_ps", "_entrance", "_last_ps", "_medium", "_places", "_write_ps")

    def __init__(self, imc: Imc, media: Media) -> None:
        self._accept_ps = imc.wpq_accept_ps
        self._write_ps = media.write_ps
        self._entrance = Fifo()
        self._places = Bounded(max(1, imc.wpq_bytes // LINE_BYTES))
        self._medium = Pipe(media.write_bandwidth_bits_per_s)
        self._last_ps = 0

    def accept(self, arrive_ps: int) -> tuple[int, int]:
        """A line arrives; returns when the queue has taken it and when it is on the medium."""
        arrive_ps = self._last_ps = max(arrive_ps, self._last_ps)
        queued_ps = self._places.admit(self._entrance.serve(arrive_ps, self._accept_ps))
        _, drained_ps = self._medium.send(queued_ps, LINE_BYTES)
        self._places.departs(drained_ps)
        return queued_ps, drained_ps + self._write_ps

    @property
    def stored_ps(self) -> int:
        """When all that arrived so far is on the medium."""
        return self._medium.free_ps + self._write_ps


class MemoryController:
    """The write queues of one memory device."""

    def __init__(self, imc: Imc, media: Media, dimms: int) -> None:
        self._interleave_bytes = imc.interleave_bytes
        self._dimms = dimms
        self._make = partial(WriteQueue, imc, media)
        self._queues: dict[int, WriteQueue] = {}
        """By DIMM, from its first write on: a restart after a crash writes to few of them."""

    def write_line(self, line: int, arrive_ps: int) -> tuple[int, int]:
        """A line arrives at ``arrive_ps``; returns (in the write pending queue, on the medium)."""
        dimm = line * LINE_BYTES // self._interleave_bytes % self._dimms
        queue = self._queues.get(dimm)
        if queue is None:
            queue = self._queues[dimm] = self._make()
        return queue.accept(arrive_ps)

    def stored_ps(self, line: int) -> int:
        """When the medium has what arrived so far at the queue that takes this line."""
        queue = self._queues.get(line * LINE_BYTES // self._interleave_bytes % self._dimms)
        return 0 if queue is None else queue.stored_ps
