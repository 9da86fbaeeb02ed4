"""The PCIe link between an adapter and its root port, as TLPs on two bandwidth pipes.

Upstream carries posted writes and read requests in one FIFO, so that a read cannot pass the writes before it (PCIe base
specification, table 2-40); downstream carries read completions. Header sizes and effective rates: Neugebauer et al.,
SIGCOMM'18 (pcie-model).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..sim.bytespace import LINE_BYTES
from ..sim.stations import Pipe
from .parameters.pcie import Pcie


class PcieLink:
    """One adapter's link; every method is called at the instant at which its TLP enters, in time order."""

    def __init__(self, parameters: Pcie) -> None:
        self.parameters = parameters
        self._up = Pipe(parameters.tlp_bits_per_s)
        self._down = Pipe(parameters.tlp_bits_per_s)
        self._write_header_bytes = parameters.tlp_header_write_bytes
        self._last_completion_ps = 0
        self.line_ps = self._down.transfer_ps(LINE_BYTES)
        """How far apart the lines of one DMA read are fetched: the link takes no more."""

    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        """A posted write of one TLP; returns (it leaves the adapter, it is at the root port)."""
        # ``Pipe.send`` written out: this is the hottest of its callers.
        up = self._up
        if now_ps < up._last_ps:
            return up.send(now_ps, n_bytes)  # which refuses
        up._last_ps = now_ps
        rest, start_ps = up._rest, up._free_ps
        if now_ps > start_ps:
            start_ps, rest = now_ps, 0
        took_ps, new_rest = divmod(rest + (self._write_header_bytes + n_bytes) * up._step, up._scale)
        end_ps = up._free_ps = start_ps + took_ps
        up._rest = new_rest
        if rest:
            start_ps += 1
        if new_rest:
            end_ps += 1
        up.busy_ps += end_ps - start_ps
        up.served += 1
        return start_ps, end_ps

    def write_ps(self, n_bytes: int) -> int:
        """How long a posted write of one TLP takes at least until it is at the root port."""
        return self._up.transfer_ps(self._write_header_bytes + n_bytes)

    def read_request(self, now_ps: int, n_bytes: int) -> int:
        """The request TLPs of a DMA read, one for each MRRS; returns when the last is at the root port."""
        requests = max(1, -(-n_bytes // self.parameters.mrrs_bytes))
        _, end_ps = self._up.send(now_ps, requests * self.parameters.tlp_header_read_bytes)
        return end_ps

    def read_completion(self, ready_ps: int, n_bytes: int) -> int:
        """The completion TLPs of a DMA read, one for each MPS; returns when the data is in the adapter.

        Completions return in the order of their data being asked for here: an in-order gate.
        """
        ready_ps = self._last_completion_ps = max(ready_ps, self._last_completion_ps)
        completions = max(1, -(-n_bytes // self.parameters.mps_bytes))
        _, end_ps = self._down.send(ready_ps, completions * self.parameters.tlp_header_completion_bytes + n_bytes)
        return end_ps

    def tlps(self, address: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """A write cut into TLPs of at most MPS, none crossing a multiple of MPS (hence none a 4 KiB boundary)."""
        mps, done = self.parameters.mps_bytes, 0
        while done < len(data):
            take = min(mps - (address + done) % mps, len(data) - done)
            yield address + done, data[done : done + take]
            done += take
