"""The names of shapes over primitives: ``line over read-after-write``, ``log over wflush[level=region] by SEND``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...sim.errors import InputError, Mistake, unknown
from ..primitives import primitive
from ..scheme import COMPOSED
from .logs import Log, PairShape
from .registers import BatchShape, LineShape, OtherQp, PageShape, WordShape
from .shape import Shape

SHAPES: Mapping[str, type[Shape]] = {
    kind.shape: kind for kind in (WordShape, LineShape, PageShape, Log, PairShape, OtherQp, BatchShape)
}

_NAME = re.compile(
    r"(?P<shape>[\w-]+) over (?P<primitive>[^\[\]]+?)(?:\[(?P<switches>[^\[\]]*)\])?"
    r"(?: by (?P<follows>WRITE_WITH_IMM|WRITE|SEND))?(?: into (?P<device>pm|dram))?"
)


def is_shaped(name: str) -> bool:
    """Whether this names a shape over a primitive rather than a scheme."""
    return " over " in name


def shape_name(
    shape: str,
    primitive: str,
    follows: str | None = None,
    device: str | None = None,
    switches: Mapping[str, str] | None = None,
) -> str:
    """The name that :func:`shaped` reads."""
    chosen = f"[{', '.join(f'{key}={value}' for key, value in switches.items())}]" if switches else ""
    return f"{shape} over {primitive}{chosen}{f' by {follows}' if follows else ''}{f' into {device}' if device else ''}"


def shaped(name: str) -> type[Shape]:
    """The scheme that a name such as ``line over read-after-write`` stands for; not remembered in the registry.

    Raises InputError for a shape, a primitive or a switch that there is not.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        expected = "SHAPE over PRIMITIVE, then perhaps [switch=choice], 'by SEND', 'into pm'"
        raise InputError(Mistake(f"'{name}'", expected, field="scheme"))
    if match["shape"] not in SHAPES:
        raise InputError(unknown(match["shape"], SHAPES, "a shape: {}", field="scheme"))
    pairs = [text.partition("=") for text in (match["switches"] or "").split(",") if text.strip()]
    found = primitive(match["primitive"], {key.strip(): value.strip() for key, _, value in pairs})
    follows = match["follows"]
    if follows is not None and follows not in found.follows:
        expected = f"{', '.join(found.follows)}: so the updates of {found.name} may travel"
        raise InputError(Mistake(f"'{follows}'", expected, field="scheme"))
    kind = SHAPES[match["shape"]]
    made = {
        "name": name,
        "title": f"{kind.text}, over {found.title}",
        "paper": found.source,
        "primitive": found,
        "follows": follows,
        "receive_in": match["device"] or "dram",
    }
    return type(kind.__name__, (kind,), made)


COMPOSED[" over "] = shaped
