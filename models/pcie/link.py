"""The PCIe link between an adapter and its root port, as TLPs on two bandwidth pipes.

Upstream carries posted writes and read requests in one FIFO, so that a read cannot pass the writes before it (PCIe base
specification, table 2-40); downstream carries read completions. Header sizes and effective rates: Neugebauer et al.,
SIGCOMM'18 (pcie-model).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from ...sim.bytespace import LINE_BYTES
from ...sim.stations import Pipe
from ..profiles.parameters.pcie import PcieParameters

DWORD_BYTES = 4
PAGE_BYTES = 4096
"""No TLP crosses a multiple of this (PCIe base specification, section 2.2.7)."""
Tlp = tuple[int, int, int]
"""A posted write: how many bytes, when it leaves the adapter, when it is at the root port."""


class PcieLink:
    """One adapter's link; every method is called at the instant at which its TLP enters, in time order."""

    def __init__(self, parameters: PcieParameters) -> None:
        self.parameters = parameters
        self._up = Pipe(parameters.tlp_bits_per_s)
        self._down = Pipe(parameters.tlp_bits_per_s)
        self._mps_bytes = parameters.mps_bytes
        self._first_byte = parameters.tlp_cut == "first byte"
        self._write_header_bytes = parameters.tlp_header_write_bytes
        self._write_times: dict[int, tuple[int, int]] = {}
        """By size: how long a write takes in whole picoseconds, and the remainder as the pipe counts it."""
        self._most_completion_bytes = parameters.most_completion_bytes
        self._completion_header_bytes = parameters.tlp_header_completion_bytes
        self._mrrs_bytes = parameters.mrrs_bytes
        self._last_completion_ps = 0
        self.line_ps = self._down.transfer_ps(LINE_BYTES)
        """How far apart the lines of one DMA read are fetched: the link takes no more."""

    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        """A posted write of one TLP; returns the instants (it leaves the adapter, it is at the root port)."""
        # ``Pipe.send`` written out: this is the hottest of its callers.
        up = self._up
        if now_ps < up._last_ps:
            return up.send(now_ps, n_bytes)  # which refuses
        up._last_ps = now_ps
        rest, start_ps = up._rest, up._free_ps
        if now_ps > start_ps:
            start_ps, rest = now_ps, 0
        took = self._write_times.get(n_bytes)
        if took is None:
            took = self._write_times[n_bytes] = divmod((self._write_header_bytes + n_bytes) * up._step, up._scale)
        end_ps, new_rest = start_ps + took[0], rest + took[1]
        if new_rest >= up._scale:
            end_ps, new_rest = end_ps + 1, new_rest - up._scale
        up._free_ps, up._rest = end_ps, new_rest
        if rest:
            start_ps += 1
        if new_rest:
            end_ps += 1
        up.busy_ps += end_ps - start_ps
        up.served += 1
        return start_ps, end_ps

    def writes(self, now_ps: int, address: int, length: int) -> list[Tlp]:
        """A posted write cut into TLPs that follow each other, as :meth:`tlps`: the same as :meth:`write` of each."""
        if not length:
            return []
        up, header_bytes, mps_bytes = self._up, self._write_header_bytes, self._mps_bytes
        if now_ps < up._last_ps:
            up.send(now_ps, length)  # which refuses
        up._last_ps = now_ps
        rest, start_ps, step, scale = up._rest, up._free_ps, up._step, up._scale
        if now_ps > start_ps:
            start_ps, rest = now_ps, 0
        # How much of the link's time has gone when each of them is out, in scale-ths of a picosecond since start_ps:
        # those of MPS are a step apart.
        if self._first_byte and address % mps_bytes:
            sizes = cut(address, length, mps_bytes, True)
            times = [*accumulate(((header_bytes + size) * step for size in sizes), initial=rest)][1:]
        else:
            first = min(mps_bytes - address % mps_bytes, length)
            full, last = divmod(length - first, mps_bytes)
            sizes = [first, *[mps_bytes] * full]
            gone, mps_time = rest + (header_bytes + first) * step, (header_bytes + mps_bytes) * step
            times = [*range(gone, gone + full * mps_time + 1, mps_time)]
            if last:
                sizes.append(last)
                times.append(times[-1] + (header_bytes + last) * step)
        ends = [start_ps - -time // scale for time in times]  # rounded up
        begin_ps = start_ps + 1 if rest else start_ps
        took_ps, up._rest = divmod(times[-1], scale)
        up._free_ps = start_ps + took_ps
        up.busy_ps += ends[-1] - begin_ps
        up.served += len(sizes)
        return list(zip(sizes, [begin_ps, *ends[:-1]], ends, strict=True))

    @property
    def free_ps(self) -> int:
        """When the link has carried everything upstream that it was given so far."""
        return self._up.free_ps

    def write_ps(self, n_bytes: int) -> int:
        """How long a posted write of one TLP takes at least until it is at the root port."""
        return self._up.transfer_ps(self._write_header_bytes + n_bytes)

    def read_request(self, now_ps: int, n_bytes: int, address: int = 0) -> int:
        """The request TLPs of a DMA read; returns when the last is at the root port."""
        requests = _pieces(n_bytes, address, self._mrrs_bytes)
        return self._up.send(now_ps, requests * self.parameters.tlp_header_read_bytes)[1]

    def requests(self, n_bytes: int, address: int = 0) -> int:
        """How many requests a read takes: one for each MRRS that it touches, hence none crosses a 4 KiB boundary."""
        return _pieces(n_bytes, address, self._mrrs_bytes)

    def read_completion(self, ready_ps: int, n_bytes: int, address: int = 0, last_ps: int = 0) -> int:
        """The completion TLPs of a DMA read; returns when the data is in the adapter.

        There is one for each aligned piece of the largest completion that the read touches: they end where RCB allows
        it. Completions return in the order of the calls: an in-order gate. They leave as lines are there: the first at
        ``ready_ps``, the last at ``last_ps`` if that is later; the last line is then sent after that instant.
        """
        carried = self._completion_bytes(n_bytes, address)
        if last_ps > ready_ps:
            ready_ps = max(ready_ps, last_ps + self.line_ps - self._down.transfer_ps(carried))
        if ready_ps > self._last_completion_ps:
            self._last_completion_ps = ready_ps
        else:
            ready_ps = self._last_completion_ps
        return self._down.send(ready_ps, carried)[1]

    def completion_ps(self, n_bytes: int, address: int = 0) -> int:
        """How long an idle link carries the completions of a read."""
        return self._down.transfer_ps(self._completion_bytes(n_bytes, address))

    def _completion_bytes(self, n_bytes: int, address: int) -> int:
        return n_bytes + _pieces(n_bytes, address, self._most_completion_bytes) * self._completion_header_bytes

    def tlps(self, address: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """A write cut into TLPs of at most MPS, none crossing a 4 KiB boundary (:func:`cut`)."""
        done = 0
        for size in cut(address, len(data), self._mps_bytes, self._first_byte):
            yield address + done, data[done : done + size]
            done += size


def cut(address: int, length: int, mps_bytes: int, first_byte: bool) -> list[int]:
    """The sizes of the TLPs of a write: each MPS from its first byte on, and at pages, or at the multiples of MPS.

    Payload is counted in dwords (PCIe base specification, section 2.2.2): bytes before the first one are part of MPS.
    """
    sizes = []
    while length:
        if first_byte:
            room = min(mps_bytes - address % DWORD_BYTES, PAGE_BYTES - address % PAGE_BYTES)
        else:
            room = mps_bytes - address % mps_bytes
        size = min(room, length)
        sizes.append(size)
        address, length = address + size, length - size
    return sizes


def _pieces(n_bytes: int, address: int, most: int) -> int:
    """In how many aligned pieces of ``most`` bytes a range lies; one for no bytes."""
    return (address % most + n_bytes - 1) // most + 1 if n_bytes else 1
