"""Whether a value of a history file is what an operation takes or returns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...protocols.objects import LOOKS
from ..oracle.models.simple import Takes


def suits(takes: Takes, value: Any, given: bool, again: bool = False, asked: Any = None) -> bool:
    """Whether ``value`` may stand there (``given``: whether there is one at all).

    ``again`` says that it is the invocation's value once more; ``asked`` is the invocation's value.
    """
    match takes:
        case Takes.NOTHING:
            return not given or value is None
        case Takes.ANY:
            return True
        case Takes.SAME:
            return not given or value is None or again
        case Takes.SUCCESS:
            return not given or isinstance(value, bool) or again
        case Takes.VALUE:
            return given
        case Takes.ITEM:
            return given and value is not None
        case Takes.TXN | Takes.POSTING:
            if not given:
                return asked is not None and all(m[0] not in LOOKS for m in asked)
            return _transaction(value, asked, _KINDS[takes])
        case _:
            return given and _shaped(takes, value)


def _shaped(takes: Takes, value: Any) -> bool:
    match takes:
        case Takes.TRUTH:
            return isinstance(value, bool)
        case Takes.NUMBER:
            return _whole(value)
        case Takes.SIZE:
            return value is None or (_whole(value) and value >= 0)
        case Takes.TEXT:
            return isinstance(value, str)
        case Takes.LIST:
            return isinstance(value, list)
        case Takes.PAIR:
            return _two(value)
        case Takes.ENTRY:
            return _two(value) and _key(value[0])
        case Takes.RANGE:
            return _two(value) and all(end is None or _key(end) for end in value)
        case Takes.PLACE_TEXT:
            return _two(value) and _whole(value[0]) and value[0] >= 0 and isinstance(value[1], str)
        case Takes.PLACE_LENGTH:
            return _two(value) and all(_whole(part) and part >= 0 for part in value)
        case Takes.BLOCK:
            return value is None or _whole(value) or (_two(value) and all(map(_whole, value)))
    return False


_KINDS = {Takes.TXN: ("r", "w", "append"), Takes.POSTING: ("look", "add", "out", "in", "w")}
"""The kinds of micro-operations. A ``w`` of null leaves the object absent; among postings there is no other."""


def _transaction(value: Any, asked: Any, kinds: Collection[str]) -> bool:
    """Micro-operations; those of a result are the invocation's, with what was read in place of null."""
    if not isinstance(value, list):
        return False
    for micro in value:
        if not isinstance(micro, list) or len(micro) != 3 or micro[0] not in kinds:
            return False
        if micro[0] == "add" and not (_two(micro[2]) and _whole(micro[2][1])):
            return False
        if isinstance(micro[1], list | dict):
            return False
    if asked is None:
        return bool(value)
    same = [(kind, key, kind in LOOKS or argument) for kind, key, argument in value]
    return same == [(kind, key, kind in LOOKS or argument) for kind, key, argument in asked]


def _two(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _key(value: Any) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)
