"""The names of shapes over primitives: ``line over read-after-write``, ``log over wflush[level=region] by SEND``."""

from __future__ import annotations

from collections.abc import Mapping

from ..naming.names import NamePart, ParsedName
from ..registry import scheme
from .logs import Log, PairShape
from .registers import BatchShape, LineShape, OtherQp, PageShape, WordShape
from .shape import Shape

SHAPES: Mapping[str, type[Shape]] = {
    kind.name: kind for kind in (WordShape, LineShape, PageShape, Log, PairShape, OtherQp, BatchShape)
}


def shape_name(
    shape: str,
    primitive: str,
    follows: str | None = None,
    device: str | None = None,
    switches: Mapping[str, str] | None = None,
) -> str:
    """The name of a shape over a primitive with its switches, of the verb ``by`` and the memory ``into``."""
    options = {word: choice for word, choice in (("by", follows), ("into", device)) if choice}
    return str(ParsedName(NamePart(shape, options=options), primitive=NamePart(primitive, options=switches or {})))


def shaped(name: str) -> type[Shape]:
    """The shape over a primitive that a name stands for. Raises InputError, also for schemes that are none."""
    found = scheme(name)
    assert issubclass(found, Shape)
    return found
