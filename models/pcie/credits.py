"""Flow-control credits for posted writes: the room in the root port's receive queue.

A posted TLP needs a header credit and a data credit for each 16 B of payload before it is handed to the link, and gives
both back when the write has been *taken* from there: by the cache, behind the dirty line that has to go for it, or,
with DDIO off, by a write pending queue. When memory is slow, credits run out and writes stay in the adapter. Credits
come back in any order; the instant is often known ahead.
"""

from __future__ import annotations

from heapq import heappop, heappush

from typing_extensions import override

from ..profiles.platform import Platform
from .link import cut

FEW_IO_BYTES = 65_536
"""I/O ways that hold less than this may be full before anybody looks."""
UNIT_BYTES = 16
"""Bytes of payload for each data credit (PCIe base specification, section 2.6.1)."""


class PostedCredits:
    """The posted credits of one link. Raises ValueError where a TLP would wait for ever."""

    __slots__ = ("_coming", "data", "headers")

    def __init__(self, headers: int, data_bytes: int, mps_bytes: int) -> None:
        if data_bytes < mps_bytes:
            raise ValueError(f"data credits for {data_bytes} B never let a TLP of {mps_bytes} B go")
        self.headers = headers
        self.data = data_bytes // UNIT_BYTES
        self._coming: list[tuple[int, int, int]] = []
        """(when they come back, headers, data) of the credits whose return is known."""

    def take(self, now_ps: int, headers: int, data: int) -> bool:
        """Take credits if they are there now; in order of time."""
        if self.headers < headers or self.data < data:
            coming = self._coming
            while coming and coming[0][0] <= now_ps:
                _, more_headers, more_data = heappop(coming)
                self.headers += more_headers
                self.data += more_data
            if self.headers < headers or self.data < data:
                return False
        self.headers -= headers
        self.data -= data
        return True

    def give(self, at_ps: int, n_bytes: int) -> None:
        """A TLP of so many bytes of payload is taken at ``at_ps``: its credits come back."""
        heappush(self._coming, (at_ps, 1, -(-n_bytes // UNIT_BYTES)))

    def owner(self, n_bytes: int) -> tuple[PostedCredits, int]:
        """The credits that come back, and of how many bytes, where ``n_bytes`` are taken."""
        return self, n_bytes

    def for_tlp(self, n_bytes: int) -> PostedCredits:
        """These credits for the last piece of a TLP of ``n_bytes`` that memory takes in pieces: the TLP's come back."""
        return _OfTlp(self, n_bytes)

    @property
    def next_ps(self) -> int | None:
        """The earliest known instant at which credits come back; None if none is known."""
        return self._coming[0][0] if self._coming else None


class _OfTlp(PostedCredits):
    """Credits that are given back for a whole TLP, however many bytes are said."""

    __slots__ = ("_bytes", "_credits")

    def __init__(self, credits: PostedCredits, n_bytes: int) -> None:
        self._credits = credits
        self._bytes = n_bytes

    @override
    def give(self, at_ps: int, n_bytes: int) -> None:
        self._credits.give(at_ps, self._bytes)

    @override
    def owner(self, n_bytes: int) -> tuple[PostedCredits, int]:
        return self._credits, self._bytes


def units(address: int, length: int, mps_bytes: int, first_byte: bool = False) -> tuple[int, int]:
    """The credits of a write cut into TLPs (:func:`models.pcie.link.cut`): headers, data."""
    if first_byte and address % mps_bytes:
        sizes = cut(address, length, mps_bytes, True)
        return len(sizes), sum(-(-size // UNIT_BYTES) for size in sizes)
    first = mps_bytes - address % mps_bytes
    if length <= first:
        return 1, -(-length // UNIT_BYTES)
    rest = length - first
    return 1 - (-rest // mps_bytes), -(-first // UNIT_BYTES) - (-rest // UNIT_BYTES)


def count_at_once(platform: Platform) -> bool:
    """Whether credits are counted from the first write on, as they are where :func:`matter` says more than victims.

    With DDIO on they are otherwise counted from the first victim on. The caches look for one when half of what the I/O
    ways hold has come, then at each eighth (and at any look at them); that may be late where they hold little.
    """
    llc = platform.llc
    return _run_out(platform) or (llc.ddio and llc.victims_hold and llc.io_bytes < FEW_IO_BYTES)


def matter(platform: Platform) -> bool:
    """Whether the posted credits can run out at all: a victim may hold them, or the link uses them up."""
    return _run_out(platform) or (platform.llc.ddio and platform.llc.victims_hold)


def _run_out(platform: Platform) -> bool:
    """Whether the link can use the credits up, or memory that is not behind the cache.

    It cannot where the cache takes all, ``pcie.posted_write`` after it has crossed the link, and the link is too slow
    to use them up until then.
    """
    pcie = platform.pcie
    if not platform.llc.ddio or platform.peers or platform.devices:
        return True

    def sent_within(payload: int) -> int:
        """At most how many TLPs of one size enter the link until the first of them is taken."""
        byte_ps = 8 * 10**12 / pcie.tlp_bits_per_s
        tlp_ps = (pcie.tlp_header_write_bytes + payload) * byte_ps
        return int((pcie.visible_ps + (pcie.tlp_header_write_bytes + pcie.mps_bytes) * byte_ps) / tlp_ps) + 2

    # The last byte of a data credit's unit costs the link nothing: the worst payload leaves the others of it out.
    data = pcie.mps_bytes // UNIT_BYTES * sent_within(pcie.mps_bytes - UNIT_BYTES + 1)
    return pcie.posted_headers < sent_within(1) or pcie.posted_data_bytes // UNIT_BYTES < data
