"""Cores, as a platform profile describes them: times are what the issuing core is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Cpu:
    """The cores of a node. Times are what the issuing core is held."""

    cores: int
    store_ps: int
    """A store to a cached line."""
    load_ps: int
    """A load that hits."""
    flush_instruction: Literal["clflush", "clflushopt", "clwb"]
    """The best this processor has."""
    clwb_invalidates: bool
    clwb_ps: int
    """Issue, per line; the way to the write pending queue is ``Media.clwb_to_wpq_ps`` and awaited by sfence."""
    clflushopt_ps: int
    clflush_ps: int
    """Per line, the way to the write pending queue included: clflush is in order with later stores."""
    ntstore_ps: int
    """Issue, per line."""
    sfence_ps: int
    """The fence itself, without what it waits for."""
    memcpy_bits_per_s: int
    crc32_ps_per_byte: int
    poll_loop_ps: int
    """One round of a loop that polls an empty completion queue."""
    spin_loop_ps: int
    """One round of a loop that looks at a cached word."""
    request_ps: int
    """Server software per request: parse, dispatch, look up, build the reply; without flushes, copies and CRCs."""
