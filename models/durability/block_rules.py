"""The ordering rules of drives, which are written in blocks by commands: a table as that of
``models.durability.rules``.
"""

from __future__ import annotations

from ...sim.trace import Stage
from .rules import Event, Rule, Scope, Target

BLOCK_RULES: tuple[Rule, ...] = (
    Rule(
        "write-accepted",
        Event.BLOCK_WRITE,
        Scope.COMMAND,
        Stage.VISIBLE,
        "NVMe base specification 1.4, section 6.15: reads that follow a completed write return its data",
        only_target=Target.DRIVE,
    ),
    Rule(
        "fua-persists",
        Event.BLOCK_FUA,
        Scope.COMMAND,
        Stage.QUEUED,
        "NVMe base specification 1.4, section 6.15, FUA: on non-volatile media before the completion",
        only_target=Target.DRIVE,
    ),
    Rule(
        "block-read-returns-accepted",
        Event.BLOCK_READ,
        Scope.RETURNED,
        Stage.VISIBLE,
        "a read returns what the drive has accepted",
        only_target=Target.DRIVE,
    ),
    Rule(
        "block-flush-commits",
        Event.BLOCK_FLUSH,
        Scope.DRIVE_EARLIER,
        Stage.QUEUED,
        "NVMe base specification 1.4, section 6.8: all commands completed before the FLUSH was submitted",
        only_target=Target.DRIVE,
    ),
)
"""Apart from those of memory, since the litmus language, which every rule there has a test in, knows no blocks."""
