"""Replays of a PCIe link: a TLP that a bit error has damaged is sent again, and so are those behind it.

PCI Express base specification 3.0, section 3.5.2: the receiver finds the LCRC wrong and answers with a NAK; the sender
then repeats what is in its replay buffer. Here the link carries nothing for ``pcie.replay`` behind the damaged TLP, and
then it once more. Errors come at random, one in ``pcie.error_every`` bytes (``tails.replays``).
"""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from ...sim.stations import Pipe
from ..profiles.parameters.pcie import PcieParameters
from .link import PcieLink, Tlp
from .rootport import SharedLink, SwitchedLink


class Errors:
    """Where the bit errors of one link are, both ways together."""

    def __init__(self, parameters: PcieParameters, random: np.random.Generator) -> None:
        self._every_bytes = parameters.error_every_bytes
        self._replay_ps = parameters.replay_ps
        self._random = random
        self._left_bytes = self._next()
        self.replays = 0

    def _next(self) -> int:
        return 1 + int(self._random.exponential(self._every_bytes))

    def strike(self, pipe: Pipe, now_ps: int, n_bytes: int) -> None:
        """``n_bytes`` are sent: hold the pipe up once for each error in them."""
        self._left_bytes -= n_bytes
        while self._left_bytes <= 0:
            self._left_bytes += self._next()
            self.replays += 1
            pipe.busy_until(max(pipe.free_ps, now_ps) + pipe.transfer_ps(n_bytes) + self._replay_ps)


class _Replays(PcieLink):
    """A link with errors; ``errors`` is set before its first TLP."""

    errors: Errors

    @override
    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        """A posted write, behind its own replay."""
        self.errors.strike(self._up, now_ps, self._write_header_bytes + n_bytes)
        return super().write(now_ps, n_bytes)

    @override
    def writes(self, now_ps: int, address: int, length: int) -> list[Tlp]:
        """TLPs one by one: each may be damaged."""
        found = []
        for _, data in self.tlps(address, bytes(length)):
            found.append((len(data), *self.write(now_ps, len(data))))
        return found

    @override
    def read_request(self, now_ps: int, n_bytes: int, address: int = 0) -> int:
        """Read requests, behind their own replays."""
        self.errors.strike(self._up, now_ps, self.requests(n_bytes, address) * self.parameters.tlp_header_read_bytes)
        return super().read_request(now_ps, n_bytes, address)

    @override
    def read_completion(self, ready_ps: int, n_bytes: int, address: int = 0, last_ps: int = 0) -> int:
        """Completions, behind their own replays."""
        self.errors.strike(self._down, max(ready_ps, last_ps), self._completion_bytes(n_bytes, address))
        return super().read_completion(ready_ps, n_bytes, address, last_ps)


class ReplayingLink(_Replays):
    """The link of an adapter to its root port."""


class ReplayingSwitchedLink(_Replays, SwitchedLink):
    """The link of an adapter to a switch."""


def replaying_link(parameters: PcieParameters, random: np.random.Generator) -> PcieLink:
    """As ``rootport.root_link``, with errors on the adapter's own link."""
    link = (
        ReplayingSwitchedLink(parameters, SharedLink(parameters)) if parameters.switch_ps else ReplayingLink(parameters)
    )
    link.errors = Errors(parameters, random)
    return link
