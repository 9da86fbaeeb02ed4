"""How many NVM devices machines need that each have their own, and how many if they share them.

Source: rNVM, section 10.2, "Cost Comparison". The text prints the second sum without dividing it by a device's size;
it can only be meant divided, since the first is.
"""

from __future__ import annotations

from collections.abc import Sequence


def symmetric_devices(sizes: Sequence[int], device: int) -> int:
    """n1 = max(sum of ceil(S_i / S_0), m): each of m machines has devices for its own data, and one at least.

    ``sizes`` are the bytes of each machine's data, ``device`` those of a device. Raises ValueError for negative bytes
    and a device without room.
    """
    _check(sizes, device)
    return max(sum(-(-size // device) for size in sizes), len(sizes))


def asymmetric_devices(sizes: Sequence[int], device: int) -> int:
    """n2 = ceil(sum of S_i / S_0): the devices are at back-ends, and shared. Raises as :func:`symmetric_devices`."""
    _check(sizes, device)
    return -(-sum(sizes) // device)


def _check(sizes: Sequence[int], device: int) -> None:
    if device <= 0 or any(size < 0 for size in sizes):
        raise ValueError(f"sizes {list(sizes)} on devices of {device} bytes")
