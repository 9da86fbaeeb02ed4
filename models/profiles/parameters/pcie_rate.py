"""The rate of TLPs on a PCIe link, from its generation and its lanes, as pcie-model has it.

The companion of Neugebauer et al., SIGCOMM'18, takes from the raw rate the encoding, the skip ordered sets, and one
acknowledgement and one flow-control update in each of the base specification's intervals (tables 3-7 to 3-9 and 2-46
to 2-48), whose formula is here. TLP headers are not part of it (``models.pcie.link``).
"""

from __future__ import annotations

GIGATRANSFERS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32}
"""By generation, a lane and second."""
DLLP_BYTES = 8
"""An acknowledgement or a flow-control update, framing included."""
SKP_SYMBOLS, SKP_INTERVAL_SYMBOLS = 4, 1538
TLP_OVERHEAD_BYTES = 28
"""The overhead that the specification's formula adds to the payload, in symbols."""
_INTERNAL_DELAY = {1: 19, 2: 70, 3: 115, 4: 115, 5: 115}
"""Symbol times, by generation; for the 4th and 5th as for the 3rd, as in pcie-model."""
LANES = (1, 2, 4, 8, 12, 16, 32)


def raw_bits_per_s(generation: int, lanes: int) -> int:
    """After encoding: 8b/10b in the first two generations, 128b/130b from the third on."""
    transfers = int(GIGATRANSFERS[generation] * 10**9) * lanes
    return transfers * 8 // 10 if generation < 3 else transfers * 128 // 130


def update_interval_symbols(generation: int, lanes: int, mps_bytes: int) -> int:
    """At most so long an acknowledgement, or a flow-control update, may be put off, in symbol times."""
    payload = mps_bytes + TLP_OVERHEAD_BYTES
    return payload * _factor_tenths(lanes, mps_bytes) // (10 * lanes) + _INTERNAL_DELAY[generation]


def tlp_bits_per_s(generation: int, lanes: int, mps_bytes: int) -> int:
    """The rate that is left for TLPs, headers included, in whole Mb/s: the intervals are not known more exactly."""
    interval = update_interval_symbols(generation, lanes, mps_bytes)
    whole = interval * SKP_INTERVAL_SYMBOLS
    left = whole - 2 * DLLP_BYTES * SKP_INTERVAL_SYMBOLS - SKP_SYMBOLS * interval
    return raw_bits_per_s(generation, lanes) * left // whole // 10**6 * 10**6


def _factor_tenths(lanes: int, mps_bytes: int) -> int:
    """The specification's AckFactor, in tenths."""
    if mps_bytes <= 256:
        return 14 if lanes <= 4 else 25 if lanes == 8 else 30
    return 10 if lanes <= 8 else 20
