"""Where the naive model cuts: messages into packets, ranges into lines and aligned pieces, posted writes into TLPs."""

from __future__ import annotations

from ...models.profiles.parameters.pcie import PcieParameters
from ...sim.bytespace import LINE_BYTES

PAGE_BYTES, DWORD_BYTES = 4096, 4


def packets(data: bytes, mtu_bytes: int) -> list[tuple[int, bytes, bool]]:
    """A message cut into packets: (where, what, whether it is the last); one for no bytes."""
    return [
        (at, data[at : at + mtu_bytes], at + mtu_bytes >= len(data)) for at in range(0, max(1, len(data)), mtu_bytes)
    ]


def by_line(address: int, length: int) -> list[tuple[int, int]]:
    """A range cut where lines begin: (address, length) pieces."""
    return aligned(address, length, LINE_BYTES)


def aligned(address: int, length: int, most: int) -> list[tuple[int, int]]:
    """A range cut at the multiples of ``most``: (address, length) pieces."""
    pieces = []
    while length:
        take = min(most - address % most, length)
        pieces.append((address, take))
        address, length = address + take, length - take
    return pieces


def tlps(pcie: PcieParameters, address: int, length: int) -> list[tuple[int, int]]:
    """A posted write cut where TLPs end: (address, length) pieces."""
    most, pieces = pcie.mps_bytes, list[tuple[int, int]]()
    if pcie.tlp_cut == "aligned":
        return aligned(address, length, most)
    for page, rest in aligned(address, length, PAGE_BYTES):
        first = min(most - page % DWORD_BYTES, rest)  # payload is counted in dwords
        pieces += [(page, first), *((page + at, min(most, rest - at)) for at in range(first, rest, most))]
    return pieces
