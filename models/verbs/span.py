"""What somebody is busy with: a label for explanations, and when each hop on the way ended."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Span:
    """A label, and (hop, instant in picoseconds) pairs in the order in which the hops were marked."""

    label: str
    marks: list[tuple[str, int]] = field(default_factory=list)

    def mark(self, hop: str, at_ps: int) -> None:
        """The hop called ``hop`` ended at ``at_ps``. Hot code appends to ``marks`` itself."""
        self.marks.append((hop, at_ps))
