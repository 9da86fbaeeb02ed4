"""``persistent``: persistent atomicity (Guerraoui, Levy, "Robust emulations of shared memory in a crash-recovery
model", ICDCS 2004): an operation of a process killed by a crash takes effect before that process's next invocation, or
never.

Otherwise as ``durable``, which it is where processes that were killed never come back under their old ids. An operation
that was tried by several processes takes effect before the last of them goes on.
"""

from __future__ import annotations

from ..known import Flaw, ObjectHistory, Recovered
from . import durable


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """Why the history, with the read after recovery at its end, is not persistently atomic, or None."""
    return durable.find_by(known, recovered, known.reborn_ps)
