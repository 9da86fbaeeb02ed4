"""CPU time of a thread by purpose, and the counters of its round trips, system calls and wake-ups.

Times are picoseconds of work given to the core. Waiting for a core that other threads have is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

USEFUL = ("software", "verbs", "copy", "crc", "flush", "memory", "kernel")
"""Purposes that advance a thread: request handling, work requests and completions, copying, checksums,
flushes and fences, loads and stores, system calls and context switches."""
SPENT = (*USEFUL, "polling", "asleep")
"""All purposes: also rounds of a loop that finds nothing, and sleep without a core."""
COUNTED = ("posts", "round_trips", "flush_lines", "fences", "sleeps")


class Account:
    """The account of one thread. ``round_trips`` counts batches: all posts before the next poll make one."""

    __slots__ = (*(f"{name}_ps" for name in SPENT), "smt_ps", *COUNTED, "under_way")

    def __init__(self) -> None:
        self.software_ps = 0
        self.verbs_ps = 0
        self.copy_ps = 0
        self.crc_ps = 0
        self.flush_ps = 0
        self.memory_ps = 0
        self.kernel_ps = 0
        self.polling_ps = 0
        self.asleep_ps = 0
        self.smt_ps = 0
        """How much longer the work took because a sibling had the core's other half."""
        self.posts = 0
        self.round_trips = 0
        self.flush_lines = 0
        self.fences = 0
        self.sleeps = 0
        self.under_way = 0
        """1 from a post to the next poll that returns a completion, else 0."""

    @property
    def useful_ps(self) -> int:
        """The sum of the times in :data:`USEFUL`."""
        return sum(getattr(self, f"{name}_ps") for name in USEFUL)


def total(accounts: Iterable[Account]) -> Account:
    """The sum of several accounts."""
    summed = Account()
    names = [name for name in Account.__slots__ if name != "under_way"]
    for account in accounts:
        for name in names:
            setattr(summed, name, getattr(summed, name) + getattr(account, name))
    return summed
