"""The trials of a seeded fault: small runs in which nothing fails, explorations of others, and random lives.

A trial returns the broken ways. Of a scheme with a fault it ends with the first one that the scheme keeps without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from .places import ACCEPTED, ADR, AWAY, EADR, Place, other_place, usual_place
from .shown import Shown, ways
from .trying import (
    AFTER_CLIENT,
    AFTER_POWER,
    AFTER_SERVER,
    ALIVE,
    RETURNS,
    SERVED,
    Ask,
    Life,
    Load,
    client_power_of,
    of_lives,
    of_machines,
    of_nobody,
    of_pairs,
    of_power,
    of_successors,
    of_survivors,
    process_of,
    ways_of_machines,
    ways_of_pairs,
)


@dataclass(frozen=True)
class Trial:
    """``ask`` returns the ways that a scheme breaks; the first broken one of those it ought to keep (if given) ends it.

    ``all_ways`` are those in which something can be broken. ``place`` is a platform with its switches, or a fault that
    a machine survives. ``dear`` trials come last.
    """

    name: str
    ask: Ask
    all_ways: frozenset[str]
    place: str
    dear: bool = False


LIVES = 20
"""The number of random lives with crashes in one trial."""
SEEDS = 4
"""The number of workloads of each size that are performed without a failure."""

_ALONE = {
    "one update": Load("update-only", 1, 1, "16 B", clients=1),
    "three updates": Load("update-only", 3, 1, "16 B", clients=1),
}
"""One after the other: a scheme may keep more where no two are ever under way, so it is a place of its own; there a
scheme without a fault is seen with cores pausing as well, so that nothing counts as kept because of a quick core."""
_LOADS = {
    "six updates": Load("update-only", 6, 2, "32 B"),
    "mix a": Load("a", 12, 2, "72 B"),
    "sixteen updates": Load("update-only", 16, 2, "16 B", clients=3),
    "forty of mix a": Load("a", 40, 2, "16 B", clients=3),
}
"""Values are of few words, and one of more than a line: of 32 words some torn image has the CRC32 of the whole."""
_DELETING = {
    "four with deletes": Load("update-only", 4, 1, "16 B", clients=1, deletes=0.5),
    "twelve with deletes": Load("a", 12, 2, "16 B", deletes=0.5),
    "forty with deletes": Load("a", 40, 2, "16 B", clients=3, deletes=0.4),
}
_THREADS = {"two threads": Load("update-only", 6, 1, "16 B", clients=3, threads=2)}
_WAITING = {
    "six that wait": Load("update-only", 6, 4, "16 B", clients=1, work="20 us"),
    "six that wait, two threads": Load("update-only", 6, 2, "16 B", clients=1, threads=2, work="20 us"),
    "three batches": Load("a", 9, 6, "16 B", clients=1, batch=3, work="2 us"),
}
"""One client's updates that a server is long about: what was acknowledged and is left to recovery waits in a log, whose
slots are used again. A platform with DDIO off: who waits for an adapter's flush alone keeps nothing with it on."""
_RUNS = (
    Load("a", 30, 2, "16 B", clients=3, deletes=0.5),
    Load("update-only", 40, 1, "16 B", clients=4),
    Load("a", 30, 5, "16 B", clients=4, deletes=0.2),
    Load("a", 30, 1, "4 KiB", clients=3),
    Load("a", 30, 1, "16 B", clients=4, threads=2),
)
_LONG = 64, Life(steps=44, updates=18, operations=0.7, crashes=0.04, writing=0.7)
"""More, and long enough for a log that is cleaned to be cleaned again after a failure."""


@cache
def trials() -> tuple[Trial, ...]:
    """All trials, those first that find most for their time."""
    six, mixed, sixteen, forty = _LOADS.items()
    slow = _WAITING["six that wait"]
    alive = frozenset({*map(str, ALIVE), RETURNS, SERVED})
    whole = Trial("nothing fails", of_nobody(_RUNS, SEEDS), alive, "nothing fails")
    everywhere, few = (ACCEPTED, ADR, EADR, AWAY), (ACCEPTED, ADR, EADR)
    found = [whole, *(_power(*load, place, alone=True) for load in _ALONE.items() for place in everywhere)]
    found += [_power(*load, AWAY, waiting=True) for load in _WAITING.items()]
    found += [_power(*load, place) for load in (six, mixed) for place in everywhere]
    more = (sixteen, *_DELETING.items(), *_THREADS.items())
    found += [_power(*load, place) for load in more for place in few]
    found += [_power(*mixed, place, schedules=(1, 2)) for place in (ACCEPTED, ADR)]
    found += [_power(*forty, EADR, schedules=(0, 1, 2))]
    found += [*(_lives("lives", place, LIVES, Life()) for place in few)]
    found += [_lives("longer lives", place, *_LONG) for place in (ACCEPTED, ADR)]
    found.append(_power("three that wait", replace(slow, operations=3, keys=1), AWAY, again=True, waiting=True))
    quick = replace(slow, operations=3, keys=1, work="5 us")
    everything = frozenset(map(str, AFTER_SERVER))
    found.append(_executed("a successor, then power", of_successors(quick, AFTER_SERVER), everything))
    short = Load("a", 12, 2, "32 B")
    for name, conditions, ask in (
        ("a client's power", AFTER_CLIENT, of_survivors(client_power_of, short, AFTER_CLIENT)),
        ("a client's process", AFTER_CLIENT, of_survivors(lambda _: "client[0] process", short, AFTER_CLIENT)),
        ("a server's process", AFTER_SERVER, of_survivors(process_of, short, AFTER_SERVER)),
    ):
        found.append(_executed(name, ask, frozenset({*map(str, conditions), RETURNS})))
    one = Load("update-only", 1, 1, "16 B", clients=1)
    for where, rest in ((usual_place, ""), (other_place, f", {ACCEPTED}")):
        for reads, mix in ((" while somebody reads", "c"), ("", "update-only")):
            several = of_machines(replace(one, mix=mix, operations=3), AFTER_SERVER, where)
            found.append(_executed(f"one of several machines{reads}{rest}", several, ways_of_machines(AFTER_SERVER)))
        pairs = of_pairs(one, AFTER_SERVER, where)
        found.append(_executed(f"one machine after another{rest}", pairs, ways_of_pairs(AFTER_SERVER)))
    two = Load("update-only", 3, 1, "16 B")
    found += [_power("three updates of two", two, place, again=True) for place in (ACCEPTED, ADR)]
    return tuple(found)


def _power(
    name: str,
    load: Load,
    at: Place,
    schedules: Sequence[int] = (0,),
    *,
    again: bool = False,
    alone: bool = False,
    waiting: bool = False,
) -> Trial:
    place = f"{at}" + (", one client" if alone else ", updates that wait" if waiting else "")
    what = f"{name}, cores pausing" if any(schedules) else f"{name}, power fails in recovery" if again else name
    ask = of_power(load, at, schedules, paused=alone or waiting or any(schedules), again=again)
    return Trial(f"{what}, {at}", ask, ways(AFTER_POWER), place, dear=again)


def _lives(name: str, place: Place, lives: int, life: Life) -> Trial:
    return Trial(f"{name}, {place}", of_lives(place, lives, life), ways(AFTER_POWER), str(place))


def _executed(name: str, ask: Ask, all_ways: frozenset[str]) -> Trial:
    """Each instant is a run of its own: a trial is in one place alone (``usual_place``), and counts by itself."""
    return Trial(name, ask, all_ways, name, dear=True)


Sound = Mapping[str, frozenset[str]]
"""By trial: the ways of breaking conditions that a scheme does not show without any fault."""


def kept(shown: Mapping[str, Shown]) -> Sound:
    """The ways that a scheme keeps in each trial, from the results of all of them.

    A fault takes time, or saves some, and so meets other instants: a way that the scheme itself breaks in any trial at
    the same place does not count as kept in this one. Where a trial could not explore everything, nothing is kept.
    """
    found: dict[str, frozenset[str]] = {}
    tried = [trial for trial in trials() if trial.name in shown]
    for trial in tried:
        there = [shown[other.name].broken for other in tried if other.place == trial.place]
        found[trial.name] = trial.all_ways.difference(*there) if shown[trial.name].exhaustive else frozenset()
    return found
