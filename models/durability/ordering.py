"""The one door by which components report what code observed: the table of ``models.durability.rules`` says what that
forces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...sim.trace import Chunk, Flush, Stage, Trace
from .block_rules import BLOCK_RULES
from .primitive_rules import PRIMITIVE_RULES
from .rules import RULES, Circumstances, Event, RequestKind, Rule, Scope, Switches, Target

__all__ = ["RULES", "Circumstances", "Covered", "Event", "Ordering", "Rule", "Scope", "events_that_force"]

ANYWHERE = Circumstances()


@dataclass(frozen=True, slots=True)
class Covered:
    """The part of an update that a FLUSH covers: which of its lines."""

    chunk: Chunk
    kind: RequestKind
    lines: Sequence[int]


class Ordering:
    """Applies the table to one system's trace; the component models report events, nothing else."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._holding: dict[tuple[Event, int], tuple[Rule, ...]] = {}
        self._known: list[Circumstances] = []  # keeps their identities from being used again

    def rules(self, event: Event, here: Circumstances) -> tuple[Rule, ...]:
        """The rules that speak of ``event`` in these circumstances (components keep theirs: looked up by identity)."""
        key = event, id(here)
        found = self._holding.get(key)
        if found is None:
            self._known.append(here)
            table = (*RULES, *PRIMITIVE_RULES, *BLOCK_RULES)
            found = self._holding[key] = tuple(rule for rule in table if rule.event is event and rule.holds(here))
        return found

    def happened(
        self,
        event: Event,
        at_ps: int,
        *,
        here: Circumstances = ANYWHERE,
        qp: Sequence[tuple[int, int]] = (),
        releases: Sequence[tuple[int, int]] = (),
        core: Sequence[tuple[int, int]] = (),
        core_nt: Sequence[tuple[int, int]] = (),
        returned: Sequence[Chunk] = (),
        reader: int | None = None,
        flushes: Sequence[Flush] = (),
        covered: Sequence[Covered] = (),
        device: int | None = None,
        issued_ps: int = 0,
        command: Sequence[tuple[int, int]] = (),
    ) -> None:
        """``event`` was observed at ``at_ps``: force the moves that the rules demand.

        ``qp`` (and ``releases``, of ATOMIC WRITEs), ``core`` and ``core_nt`` are (channel, number of chunks before the
        event); ``reader`` is the channel of the core that loads; ``device`` is the number of the peer device that
        was read at ``issued_ps``, behind this core's stores to it, or of the drive that was; ``command`` is the
        versions that a command wrote.
        """
        trace = self.trace
        for rule in self._holding.get((event, id(here))) or self.rules(event, here):
            if rule.scope is Scope.QP_EARLIER:
                for channel in qp:
                    trace.force_channel(*channel, rule.stage, at_ps, rule.name)
                if RequestKind.ATOMIC_WRITE in rule.covers:
                    for channel in releases:
                        trace.force_channel(*channel, rule.stage, at_ps, rule.name)
            elif rule.scope is Scope.RETURNED:
                trace.force_observed(returned, at_ps, rule.name, reader)
            elif rule.scope is Scope.FLUSHED:
                trace.retire(flushes, at_ps)
            elif rule.scope is Scope.FLUSH_TARGET:
                self._flushed(rule, covered, at_ps)
            elif rule.scope is Scope.COMMAND:
                for channel in command:
                    trace.force_channel(*channel, rule.stage, at_ps, rule.name)
            elif rule.scope in (Scope.DEVICE_EARLIER, Scope.DRIVE_EARLIER):
                if device is not None:
                    trace.barrier(device, issued_ps, at_ps, rule.name, returned)
                for channel in core:  # pushed there by the event itself
                    trace.force_channel(*channel, rule.stage, at_ps, rule.name)
            else:
                for channel in core if rule.scope is Scope.CORE_EARLIER else core_nt:
                    trace.force_channel(*channel, rule.stage, at_ps, rule.name)

    def _flushed(self, rule: Rule, covered: Iterable[Covered], at_ps: int) -> None:
        """Force the pieces that a FLUSH covers: by lines where the rule is about the memory's queue, as
        persistence is.
        """
        for piece in covered:
            if piece.kind not in rule.covers:
                continue
            if rule.shows:
                self.trace.force_chunk(piece.chunk, Stage.VISIBLE, at_ps, rule.name)
            if rule.stage is Stage.QUEUED:
                for line in piece.lines:
                    piece.chunk.flush(line, at_ps)
                    if not rule.shows:
                        self.trace.persisted.setdefault((piece.chunk.number, line), at_ps)


def events_that_force(scope: Scope, target: Target = Target.MEMORY) -> str:
    """The events that would have forced the writes in ``scope`` to memory of this kind, in words: for explanations."""
    usual = Switches()
    rules = (
        rule
        for rule in RULES
        if rule.scope is scope
        and rule.only_target in (None, target)
        and all(name.startswith("!") or getattr(usual, name) for name in rule.switches)
    )
    names = list(dict.fromkeys(rule.event.value for rule in rules))
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
