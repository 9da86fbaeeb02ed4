"""The story of a state that a power failure may leave: who did what, which line is lost, why nothing forced it on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Protocol

from ...models.durability.ordering import Scope, events_that_force
from ...models.durability.places import IN_WORDS, PLACES, WAYS, Path, Place, Way
from ...models.durability.rules import Target
from ...models.durability.views import Content, LineKey, Piece
from ...models.system import System
from ...scenarios.history import History, Operation, shown
from ...scenarios.run.results import RunResult
from ...scenarios.schema.schema import Scenario
from ...sim.bytespace import LINE_BYTES, lines
from ...sim.trace import NEVER, Chunk, Stage
from ...sim.units import format_us
from .explorer import Explorer, Violation
from .findings import LineFate, TimelineRow
from .nested import OutcomeAgain
from .subjects import label


class ViolatingState(Protocol):
    """A state that violates a condition, and the run that it was derived from: what is told of it needs no more."""

    @property
    def result(self) -> RunResult: ...
    @property
    def explorer(self) -> Explorer: ...
    @property
    def violation(self) -> Violation: ...


def fates(state: ViolatingState) -> list[LineFate]:
    """The lines that did not make it."""
    image, at_ps = state.violation.outcome.image, state.violation.instant_ps
    return lost_lines(state.result.system, image, at_ps)


def lost_lines(system: System, image: Iterable[tuple[LineKey, Content]], at_ps: int) -> list[LineFate]:
    """The lines of an image of a power failure that are not as they were, and where the rest may still have been."""
    return [_fate(system, key, content, at_ps) for key, content in image if content.is_less]


def _fate(system: System, key: LineKey, content: Content, at_ps: int) -> LineFate:
    node, device = system.devices()[key[0]]
    address = key[1] * LINE_BYTES
    piece = content.torn or content.absent[0]
    return LineFate(
        node=node.name,
        device=device.name,
        address=address,
        label=device.name_of(piece.chunk.address if piece.chunk.address > address else address),
        writer=piece.chunk.writer,
        place=str(_place(piece, at_ps)),
        reason=why_not_forced(piece, at_ps),
    )


def _place(piece: Piece, at_ps: int) -> Place:
    """Where nothing had forced it on from; of a store that no cache would have saved: the cache."""
    if piece.chunk.path == Path.STORE and not piece.tied:
        return Place.LLC
    forced = max((stage for stage in Stage if piece.chunk.forced_ps[stage] <= at_ps), default=Stage.ACCEPTED)
    return PLACES[piece.chunk.path][forced]


def why_not_forced(piece: Piece, at_ps: int) -> str:
    """Which events would have forced a piece further than it was, in words."""
    place = _place(piece, at_ps)
    way = WAYS[piece.chunk.path]
    if Place.FLASH in way.places:
        return _why_not_on_flash(place, way)
    if way.barrier:
        return _why_not_kept(piece, place, way)
    flush = "no flush of the line had completed"
    if place in (Place.NIC, Place.PCIE):
        reason = f"no {events_that_force(Scope.QP_EARLIER)} of its queue pair had forced it on"
        return reason if piece.tied else f"{reason}, and {flush}"
    if place is Place.STORE_BUFFER:
        return f"no {events_that_force(Scope.CORE_EARLIER)} of its core had drained it"
    if place is Place.WC_BUFFER:
        return f"no {events_that_force(Scope.CORE_NT_EARLIER)} of its core had drained it"
    return flush


def _why_not_on_flash(place: Place, way: Way) -> str:
    """The same of a write to a file or a drive."""
    if place is Place.PAGE_CACHE:
        return "no fsync, fdatasync or O_DSYNC had written it back"
    return "it had not completed" if place is Place.PCIE else f"no {way.barrier} had completed behind it, nor FUA"


def _why_not_kept(piece: Piece, place: Place, way: Way) -> str:
    """The same of a write to a device beside the adapter: no flush reaches it."""
    barrier = f"no {way.barrier} had completed"
    if place not in (Place.NIC, Place.PCIE, Place.STORE_BUFFER):
        return barrier
    by_adapter = way.places[Stage.ACCEPTED] is Place.NIC
    scope, whose = (Scope.QP_EARLIER, "queue pair") if by_adapter else (Scope.CORE_EARLIER, "core")
    reason = f"no {events_that_force(scope, Target.PMR)} of its {whose} had forced it on"
    return reason if piece.tied else f"{reason}, and {barrier}"


def timeline(scenario: Scenario, state: ViolatingState, lost: Sequence[LineFate]) -> list[TimelineRow]:
    """What happened up to the power failure, what it may leave, and what recovery makes of that."""
    at_ps = state.violation.instant_ps
    history = state.result.history
    rows = [row for operation in history.operations for row in _operation_rows(history, operation, at_ps)]
    rows += _hardware_rows(state)
    for outage in scenario.outages:
        if outage.at_ps <= at_ps:
            node, core = outage.core.split(" ", 1)
            rows.append(TimelineRow(outage.at_ps, node, f"{core} pauses for {format_us(outage.for_ps)} us"))
    for held in scenario.held or ():
        text = f"packets of queue pair {held.queue_pair} stay in the adapter for {format_us(held.for_ps)} us"
        rows.append(TimelineRow(0, "{}[{}]".format(*held.machine), text))
    rows.sort(key=lambda row: row.time_ps)
    rows += _unwritten(state)
    rows.append(TimelineRow(at_ps, "", "power failure", "CRASH"))
    alike: dict[tuple[str, str, str], list[LineFate]] = {}
    for fate in lost:
        alike.setdefault((fate.node, fate.place, fate.reason), []).append(fate)
    for (node, place, reason), fates in alike.items():
        text = f"{fates[0].label}{_and_more(fates)} may still be in {IN_WORDS[Place(place)]}: {reason}"
        rows.append(TimelineRow(at_ps, node, text, "LOST"))
    rows += _again(state)
    rows += _unnoticed(state)
    rows.append(TimelineRow(at_ps, "recovery", f"recovery: {label(state.violation.object)} -> {_recovered(state)}"))
    return rows


def _recovered(state: ViolatingState) -> str:
    """What was found in the end."""
    value = state.violation.outcome.value
    if isinstance(value, tuple) and any(isinstance(step, tuple) for step in value):  # a transaction's reads
        return ", ".join(shown(step[2]) if _is_step(step) else shown(step) for step in value)
    return shown(value)


def _is_step(value: object) -> bool:
    """Whether it is a step of a transaction: (kind, object, value)."""
    return isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], str)


def _and_more(several: Sequence[object]) -> str:
    """`` and 3 more lines`` behind the name of the first."""
    more = len(several) - 1
    return f" and {more} more line{'s' * (more > 1)}" if more else ""


def _again(state: ViolatingState) -> list[TimelineRow]:
    """Where power failed again while recovery ran: what was lost of what it had written."""
    at_ps, outcome = state.violation.instant_ps, state.violation.outcome
    if not isinstance(outcome, OutcomeAgain):
        return []
    texts = []
    devices = state.result.system.devices()
    for again_ps, then in outcome.again:
        texts.append(f"recovery runs, and power fails again {format_us(again_ps)} us into it")
        for key, content in then:
            for piece in (*content.absent, *((content.torn,) if content.torn else ())):
                name = devices[key[0]][1].name_of(piece.chunk.address)
                where = IN_WORDS[_place(piece, again_ps)]
                what = "torn" if piece is content.torn else "lost"
                reason = why_not_forced(piece, again_ps)
                texts.append(f"{piece.chunk.writer} to {name}: {what}, it may still be in {where} ({reason})")
    return [TimelineRow(at_ps, "recovery", text) for text in texts]


def _of_several(words: str, names: Sized) -> str:
    """The words behind the names, with their verb in the plural where there are several."""
    return words.replace(" is ", " are ", 1) if len(names) > 1 else words


def _unwritten(state: ViolatingState) -> list[TimelineRow]:
    """What the read looked at although nobody had written it so far."""
    at_ps, pieces = state.violation.instant_ps, state.explorer.views.pieces
    keys = [key for key, _ in state.violation.outcome.image if all(p.enters_ps > at_ps for p in pieces.get(key, ()))]
    fresh = [key for key in keys if not any(state.explorer.restart.initial(key))]
    if not fresh:
        return []
    node, device = state.result.system.devices()[fresh[0][0]]
    more = _and_more(fresh)
    text = f"{device.name_of(fresh[0][1] * LINE_BYTES)}{more}: nothing written yet"
    return [TimelineRow(at_ps, node.name, text)]


def _unnoticed(state: ViolatingState) -> list[TimelineRow]:
    """Checksums that matched although some of what they guard was torn."""
    outcome, devices = state.violation.outcome, state.result.system.devices()
    torn = {key for key, content in outcome.image if content.torn}
    rows = []
    for guarded in outcome.matched:
        if not torn.isdisjoint(guarded.line_keys()):
            node, device = devices[guarded.device]
            name = device.name_of(guarded.offset)
            text = f"the CRC32 of the {guarded.length} bytes at {name} matches, torn as they are: CRC32 is linear"
            rows.append(TimelineRow(state.violation.instant_ps, node.name, text, "MATCH"))
    return rows


def _operation_rows(history: History, operation: Operation, at_ps: int) -> list[TimelineRow]:
    side = f"client {operation.process}"
    rows = []
    if operation.invoke_ps <= at_ps:
        rows.append(TimelineRow(operation.invoke_ps, side, f"{operation.text}  invoke"))
    if operation.return_ps is not None and operation.return_ps <= at_ps:
        found = operation.found if history.returns(operation.f) and operation.outcome == "ok" else ""
        what = operation.text if operation.f == "txn" else f"{operation.f} {operation.object}"
        text = f"{what}{found}  {operation.outcome}"
        rows.append(TimelineRow(operation.return_ps, side, text))
    return rows


def _hardware_rows(state: ViolatingState) -> list[TimelineRow]:
    """What happened to the lines that recovery and the read looked at, up to the power failure."""
    at_ps = state.violation.instant_ps
    looked_at = {key for key, _ in state.violation.outcome.image}
    devices = state.result.system.devices()
    happened: dict[tuple[int, str, str, str], dict[str, None]] = {}  # each once, in order; what happened to many, once
    for chunk in state.result.system.trace.chunks:
        if not any((chunk.device, line) in looked_at for line in lines(chunk.address, len(chunk.data))):
            continue
        node, device = devices[chunk.device]
        name = device.name_of(chunk.address)
        for when_ps, before, behind in _chunk_events(chunk):
            if when_ps <= at_ps:
                happened.setdefault((when_ps, node.name, before, behind), {})[name] = None
    return [
        TimelineRow(when_ps, side, f"{before}{next(iter(names))}{_and_more([*names])}{_of_several(behind, names)}")
        for (when_ps, side, before, behind), names in happened.items()
    ]


def _chunk_events(chunk: Chunk) -> list[tuple[int, str, str]]:
    """What happens to a chunk: when, and the words before and behind its name."""
    events = []
    way = WAYS[chunk.path]
    if way.places[Stage.ACCEPTED] is Place.NIC:
        events.append((chunk.reached_ps[Stage.ACCEPTED], "", " staged in the NIC"))
        forced_ps = chunk.forced_ps[Stage.VISIBLE]
        if forced_ps < NEVER:
            events.append((forced_ps, "", f" is visible: {chunk.forced_by}"))
    else:
        events.append((chunk.reached_ps[Stage.ACCEPTED], f"{way.verb} to ", ""))
    if chunk.flushed_ps:
        events.append((max(chunk.flushed_ps.values()), "", " flushed"))
    return events
