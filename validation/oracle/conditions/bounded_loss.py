"""``bounded_loss``: an update that a crash loses had returned at most a stated time before it.

As ``no_lost_ack``, asked only of updates that had returned longer before the crash. Values from before time zero were
durable, however long the time is.
"""

from __future__ import annotations

from ..known import Flaw, ObjectHistory
from .no_lost_ack import find_older


def find(known: ObjectHistory, bound_ps: int) -> Flaw | None:
    """The first loss of an update that had returned more than ``bound_ps`` before the crash, or None."""
    return find_older(known, bound_ps)
