"""The catalogue of mistakes, as an engineer would name them, and the entry to which a seeded fault belongs."""

from __future__ import annotations

import re

FLUSHES = frozenset({"flush", "clwb", "clflush", "clflushopt", "persist", "wbinvd"})
"""Calls that write lines back (``flush`` waits for it, too)."""
FENCES = frozenset({"sfence", "mfence", "fence", "drain"})
"""Calls that wait until written-back lines are durable."""
READS = frozenset({"read", "read_back", "read_pmrsts", "load"})
"""Calls that push earlier writes on, where their return value is not used."""
CLOSES = frozenset({"destroy", "placed", "dereg_mr", "deregister", "disconnect", "close", "reset"})
"""Calls without which packets of an old connection may still land."""

MARKS = frozenset({"mark", "set_bit", "clear_bit"})
"""Calls that set or clear a flag."""

FLUSH, FENCE, READ_BACK = "drop a flush", "drop a fence", "drop the read after write"
SWAP, DDIO, CRC = "swap publish and persist", "wrong DDIO assumption", "skip the CRC"
VERSION, AGAIN, BIT = "reuse a version number", "recovery is not idempotent", "lost bit of a bitmap"
LATE = "late packet after reconnect"
STEP, ORDER, BELIEF = "drop another step", "swap two other steps", "believe a condition"

KINDS = (FLUSH, FENCE, READ_BACK, SWAP, DDIO, CRC, VERSION, AGAIN, BIT, LATE, STEP, ORDER, BELIEF)
"""The catalogue, in the order in which it is printed. A kind that fits nothing in a scheme's text is not planted."""

_RECOVERY = re.compile(r"\.(_?recover|finish_recovery|_?redo|_?replay)")
_RECONNECTING = re.compile(r"\.(_?reconnect|_?disconnect)")
_CALL = re.compile(r"(\w+)\(")


def kind_of(operator: str, function: str, text: str) -> str:
    """The kind of a change: ``operator`` at ``text`` in ``function`` (``Class.method``)."""
    if operator in _ALWAYS:
        return _ALWAYS[operator]
    if operator == "stand still":  # ``taken |= 1 << slot`` is a bit, ``tail += 64`` a number
        return BIT if re.search(r"(\||&|\^|<<|>>)=", text) else VERSION
    if _RECOVERY.search(function):
        return AGAIN
    if _RECONNECTING.search(function):
        return LATE
    first, _, second = text.partition(" <-> ")
    calls = set(_CALL.findall(first)) | set(_CALL.findall(second))
    if operator == "swap":
        return SWAP if calls & FLUSHES else ORDER
    last = _first_call(first)
    if last in MARKS:
        return BIT
    for kind, names in ((FLUSH, FLUSHES), (FENCE, FENCES), (READ_BACK, READS), (LATE, CLOSES)):
        if last in names and (kind is LATE or first.startswith("yield from")):
            return kind
    return STEP


_ALWAYS = {"unfence": FENCE, "bypass": DDIO, "trust": CRC, "lose": BIT, "retry": LATE, "believe": BELIEF}


def _first_call(text: str) -> str:
    """The function that a statement calls: ``flush`` of ``yield from thread.flush(self.place(at), 64)``."""
    found = _CALL.search(text)
    return found[1] if found is not None else ""
