"""The ordering rules of steps that only primitives have: a table as that of ``models.durability.rules``.

A step that does the work of a verb, a core or a drive has that one's event: a PCIe read of some bytes is a READ's, a
``clwb`` a core's.
"""

from __future__ import annotations

from ...sim.trace import Stage
from .rules import POSTED, Event, Placement, RequestKind, Rule, Scope, Target

_ALL = POSTED | {RequestKind.ATOMIC_WRITE}

PRIMITIVE_RULES: tuple[Rule, ...] = (
    Rule(
        "drain-empties-staging",
        Event.STAGING_DRAINED,
        Scope.QP_EARLIER,
        Stage.TRANSIT,
        "Duan et al., SC'21, figure 3: the adapter pushes what its SRAM holds to the host",
        covers=_ALL,
    ),
    Rule(
        "zero-read-pushes-writes",
        Event.ZERO_LENGTH_READ,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "PCIe base specification 3.0, section 2.2.5: a zero-length read as a flush of earlier posted writes",
        not_placement=Placement.RELAXED,
        switches=("read_back_publishes", "!relaxed_reads"),
        covers=_ALL,
    ),
    Rule(
        "write-back-queues",
        Event.LINES_QUEUED,
        Scope.FLUSH_TARGET,
        Stage.QUEUED,
        "as CLWB and SFENCE by a core (Intel SDM, volume 2), asked for by the root complex",
        covers=_ALL,
        only_target=Target.MEMORY,
    ),
    Rule(
        "write-back-stores",
        Event.LINES_STORED,
        Scope.FLUSH_TARGET,
        Stage.QUEUED,
        "the medium has them: the primitive's own wait for it",
        covers=_ALL,
        shows=False,
        only_target=Target.MEMORY,
    ),
)
"""Apart from those of memory: the litmus language names verbs, and these belong to steps (docs/primitives.md)."""
