"""Witnesses: runs of the simulator that show an outcome which the rules allow.

The explorer finds possible outcomes; a witness shows one in the components, at instants of a clock. It is searched for:
each run draws delays, dawdling programs, the order in which queue pairs leave staging and how long they are held up
there, and the network's disturbances; of each run every instant and every cut of the adversarial view is looked at.
Runs that nearly show it are tried again with B's operations moved to the instants at which something changed in sight
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....models.durability.contents import Piece
from ....models.durability.places import IN_WORDS, PLACES, Place
from ....sim.trace import NEVER, Chunk, Stage
from ..language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test
from .setting import CannotRun, LitmusSystem, Perturbation, check
from .simulate import LitmusRun, Sight, deaths, play, sights

TRIES = 64
"""So many runs of a test on a profile are tried before a search gives up."""
SCHEDULES = (
    Perturbation(),
    Perturbation(fine=True),
    Perturbation(held_ps=20_000_000, hurried=True),
    Perturbation(slowest=64.0, hurried=True),
    Perturbation(held_ps=3_000_000, hurried=True),
    Perturbation(slowest=64.0, held_ps=500_000, hurried=True),
    Perturbation(slowest=16.0, held_ps=100_000_000, fine=True),
    Perturbation(bad_network=True, fine=True),
)
"""Tried in turn, each with a seed of its own; two of three are tried again with B's operations moved."""


@dataclass(frozen=True)
class OutcomeWitness:
    """A run that shows the outcome of a case; ``lines`` is its timeline: the instant, the core, the step."""

    test: Test
    case: LitmusCase
    seed: int
    schedule: Perturbation
    at_ps: int
    lines: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Searched:
    """The result of a search: a witness for a case, or why there is none."""

    test: Test
    case: LitmusCase
    witness: OutcomeWitness | None
    runs: int
    reason: str = ""


def search(test: Test, cases: Sequence[LitmusCase] | None = None, tries: int = TRIES) -> list[Searched]:
    """A witness for each of these cases, in their order; ``cases`` None: all that are expected to be allowed."""
    found: dict[int, Searched] = {}
    cases = [case for case in test.cases if case.expected is OutcomeFinding.ALLOWED] if cases is None else cases
    for profile in dict.fromkeys(case.profile for case in cases):
        mine = [case for case in cases if case.profile == profile]
        try:
            check(test, profile)
        except CannotRun as error:
            found.update((id(case), Searched(test, case, None, 0, str(error))) for case in mine)
            continue
        for case, (witness, runs) in _search(test, profile, mine, tries):
            found[id(case)] = Searched(test, case, witness, runs, "" if witness else case.unseen)
    return [found[id(case)] for case in cases]


def _search(
    test: Test, profile: LitmusProfile, cases: Sequence[LitmusCase], tries: int
) -> Iterator[tuple[LitmusCase, tuple[OutcomeWitness | None, int]]]:
    left = list(cases)
    runs = 0
    for seed, schedule in _schedules(test, profile, tries):
        runs += 1
        played = {
            dies: play(test, profile, seed, schedule=schedule, dies=dies) for dies in deaths(c.crash for c in left)
        }
        for case in list(left):
            run = played[case.crash is CrashMoment.A]
            sight = _seen(run, case)
            if sight is not None:
                left.remove(case)
                lines = tuple(timeline(run, case, sight))
                yield case, (OutcomeWitness(test, case, seed, schedule, sight.at_ps, lines), runs)
        if not left:
            return
        if all(case.unseen for case in left) and runs >= len(SCHEDULES):
            break
    for case in left:
        yield case, (None, runs)


def _schedules(test: Test, profile: LitmusProfile, tries: int) -> Iterator[tuple[int, Perturbation]]:
    """The runs to try: seeds and schedules in turn; between them one in which B looks whenever something changes."""
    for seed in range(tries):
        schedule = SCHEDULES[seed % len(SCHEDULES)]
        yield seed, schedule
        if test.b and seed % 3:
            run = play(test, profile, seed, schedule=schedule)
            yield seed, replace(schedule, b_at_ps=_aims(run, np.random.default_rng(seed)))


def _aims(run: LitmusRun, random: np.random.Generator) -> tuple[int, ...]:
    """Instants for B's operations, upwards: of those at which something became visible, and just before and after."""
    changes = sorted({chunk.reached_ps[Stage.VISIBLE] for chunk in run.setting.system.trace.chunks} - {NEVER})
    if not changes:
        return ()
    operations = len(run.setting.test.b)
    if random.integers(4):  # all at once, right after a change
        return (int(random.choice(changes)) + int(random.integers(1, 1000)),) * operations
    drawn = random.choice(changes, operations) + random.integers(-200_000, 200_000, operations)
    return tuple(sorted(max(0, int(at_ps)) for at_ps in drawn))


def _seen(run: LitmusRun, case: LitmusCase) -> Sight | None:
    persistent = case.outcome.of("pm")
    return next((sight for sight in sights(run, case.crash, persistent) if case.outcome.holds(sight.values)), None)


# the timeline ------------------------------------------------------------------------------------------------


def timeline(run: LitmusRun, case: LitmusCase, sight: Sight) -> list[tuple[int, str, str]]:
    """The events until then, in order of time: both programs, and how far each update got in this run."""
    setting = run.setting
    found = [entry for entry in run.log if entry[0] <= sight.at_ps]
    for chunk in setting.system.trace.chunks:
        name = written(setting, chunk)
        places = PLACES[chunk.path]
        for stage in (Stage.ACCEPTED, Stage.VISIBLE):
            at_ps = chunk.reached_ps[stage]
            if at_ps <= sight.at_ps:
                what = "becomes visible" if stage is Stage.VISIBLE else f"is in {IN_WORDS[places[stage]]}"
                found.append((at_ps, f"{_owner(setting, chunk)}'s memory", f"{name} {what}"))
    found.sort(key=lambda entry: entry[0])
    shown = ", ".join(f"{name}={sight.values[name]}" for name in sorted(case.outcome.names))
    if case.crash in (CrashMoment.NONE, CrashMoment.A):
        return [*found, (sight.at_ps, "the end", shown)]
    lost = [
        f"{written(setting, piece.chunk)} may still be in {IN_WORDS[_place(piece, sight)]}: lost"
        for piece in sight.lost
    ]
    gone = {piece.chunk.number for piece in sight.lost}
    kept = [
        f"{written(setting, chunk)} may have gone on by then: it survives"
        for chunk in setting.system.trace.chunks
        if chunk.reached_ps[Stage.ACCEPTED] <= sight.at_ps < chunk.reached_ps[Stage.VISIBLE]
        and chunk.number not in gone
    ]
    more = [(sight.at_ps, "B's memory", text) for text in dict.fromkeys([*kept, *lost])]
    return [*found, (sight.at_ps, "B", f"loses power: {shown}"), *more]


def _place(piece: Piece, sight: Sight) -> Place:
    """The first place where a piece may still have been."""
    forced_ps = piece.chunk.forced_ps
    stage = max((stage for stage in Stage if forced_ps[stage] <= sight.at_ps), default=Stage.ACCEPTED)
    return PLACES[piece.chunk.path][stage]


def _owner(setting: LitmusSystem, chunk: Chunk) -> str:
    """The machine whose memory a chunk is for."""
    node, _ = setting.system.devices()[chunk.device]
    return "B" if node is setting.server else "C"


def written(setting: LitmusSystem, chunk: Chunk) -> str:
    """The values that a chunk writes, by variables: ``x=1``."""
    texts = []
    for name, address in setting.address.items():
        device = setting.memory_of(name)
        at = address - device.base - chunk.address
        if device.number == chunk.device and at >= 0 and at + setting.width <= len(chunk.data):
            texts.append(f"{name}={setting.value(name, bytes(chunk.data[at : at + setting.width]))}")
    return " and ".join(texts) or f"{len(chunk.data)} bytes"
