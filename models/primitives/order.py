"""The order that a primitive's packet brings to the responder's adapter: which steps, about which updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .language import Step
from .messages import FLAG
from .plan import AdapterProgram

Range = tuple[int, int]
"""Address and length."""
Interrupted = Callable[[tuple[Step, ...], "PrimitiveOrder", Callable[[], None]], int]
"""Takes a chain of the CPU, its order, and what to call at its end; returns the number by which its CQE names it."""


@dataclass(frozen=True)
class PrimitiveOrder:
    """The order of one packet: ``ranges`` are where its updates belong, ``flag`` the word that a step writes once they
    are there.
    """

    program: AdapterProgram
    ranges: tuple[Range, ...]
    flag: tuple[int, bytes] | None = None
    interrupt: Interrupted | None = None
    notify: Callable[[Step, Any, int], None] | None = None

    @property
    def header_bytes(self) -> int:
        """The bytes of its packet beside the headers of every packet: the flag's among them, if a step names it."""
        return self.program.header_bytes + (FLAG.size if self.program.names_flag else 0)

    @property
    def span(self) -> Range:
        """From the first byte of its updates to the last."""
        if len(self.ranges) == 1:
            return self.ranges[0]
        start = min(address for address, _ in self.ranges)
        return start, max(address + length for address, length in self.ranges) - start

    def address(self, word: str) -> Range:
        """The address of ``data``, ``first byte``, ``last byte`` or ``flag``."""
        return address_of(word, self.span, self.flag)


def address_of(word: str, span: Range, flag: tuple[int, bytes] | None) -> Range:
    """The range that an ``address`` parameter names. Raises ValueError for a flag where there is none."""
    start, length = span
    if word == "flag":
        if flag is None:
            raise ValueError("a step names the flag, and the updates come without one")
        return flag[0], len(flag[1])
    if word == "first byte":
        return start, 1
    return (start + max(length, 1) - 1, 1) if word == "last byte" else span
