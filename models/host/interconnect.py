"""The link between two sockets (Intel: QPI, UPI): messages of a header, and of a line where they carry one.

A coherent read is a request and an answer with the line. A write first needs ownership, which is a request and a grant
of its own, and then sends an announcement, the line, and gets a completion (An Introduction to the Intel QuickPath
Interconnect, 2009: RdData, InvItoE, WbMtoI, WbIData, Cmp). Closed form: reads go at ``link / (line + header)``, writes
past the caches at ``link / (line + 3 headers)``.
"""

from __future__ import annotations

from ...sim.bytespace import LINE_BYTES
from ..memory.xpbuffer import service_ps
from ..profiles.parameters.sockets import InterconnectParameters


class Interconnect:
    """The links between all sockets of a machine, each way on its own. Calls come in order of time."""

    def __init__(self, parameters: InterconnectParameters) -> None:
        self.crossing_ps = parameters.crossing_ps
        self.round_trip_ps = 2 * parameters.crossing_ps
        self._header_bytes = parameters.header_bytes
        self._bits_per_s = parameters.link_bits_per_s
        self._free_ps: dict[tuple[int, int], int] = {}
        self.sent_bytes: dict[tuple[int, int], int] = {}
        """By (from, to): what the link has carried, headers included."""

    def fetch_ps(self, here: int, there: int, at_ps: int, issued_ps: int, lines: int = 1) -> int:
        """How much longer lines take that ``there`` has, asked for at ``at_ps``, which leave ``here`` at ``issued_ps``.

        As for a DIMM, the answer queues from ``at_ps`` on, and is there from ``issued_ps`` on at the earliest.
        """
        self._carry(here, there, at_ps, self._header_bytes * lines)
        start_ps, took_ps = self._carry(there, here, at_ps, (LINE_BYTES + self._header_bytes) * lines)
        return max(0, start_ps - issued_ps) + took_ps + self.round_trip_ps

    def ask(self, here: int, there: int, at_ps: int) -> None:
        """A request without data (for ownership, at first) is sent at ``at_ps``."""
        self._carry(here, there, at_ps, self._header_bytes)

    def write_ps(self, here: int, there: int, at_ps: int) -> int:
        """How long a line that is sent at ``at_ps`` is on its way to ``there``: announcement and data."""
        start_ps, took_ps = self._carry(here, there, at_ps, LINE_BYTES + 2 * self._header_bytes)
        return start_ps + took_ps - at_ps + self.crossing_ps

    def _carry(self, here: int, there: int, at_ps: int, n_bytes: int) -> tuple[int, int]:
        """From when on, and for how long, the link is busy with a message."""
        way = here, there
        start_ps, took_ps = max(self._free_ps.get(way, 0), at_ps), service_ps(n_bytes, self._bits_per_s)
        self._free_ps[way] = start_ps + took_ps
        self.sent_bytes[way] = self.sent_bytes.get(way, 0) + n_bytes
        return start_ps, took_ps
