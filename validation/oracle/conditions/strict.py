"""``strict``: strict linearizability (Aguilera, Frolund, HPL-2003-241): an operation of a process killed by a crash
takes effect before that crash or never. Otherwise as ``durable``.

So an update that had not returned when its process was killed, and whose value somebody read, counts as returned at
the crash: what surfaces only after a later read has shown the old value is a violation. One read of an object after
the crash cannot tell that from ``durable``.
"""

from __future__ import annotations

from ..known import Flaw, ObjectHistory, Recovered
from . import durable


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """Why the history, with the read after recovery at its end, is not strictly linearizable, or None."""
    return durable.find_by(known, recovered, known.killed_ps)
