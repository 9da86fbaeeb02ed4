"""Does the explorer find what brute force finds: every instant, every image, every recovery, judged from scratch?

The naive explorer below has no tree, no incremental judging and no opinion about which instants matter. It shares with
the real one what may be on the medium (``Views.contents``) and what recovery does with it (``Restart.read``), both of
which have tests of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rpsim.models.views import LineKey, Views
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import History
from rpsim.scenarios.results import RunResult
from rpsim.sim.trace import NEVER
from rpsim.validation.explorer import Explorer
from rpsim.validation.oracle import CONDITIONS, check
from rpsim.validation.restart import Restart

from ..protocols.mutants import MUTANTS, registered
from ..small import PLATFORMS, get, put, run

SCHEMES = ("saw", "client-active", *MUTANTS)
Image = dict[LineKey, bytes]


def images(views: Views, lines: list[LineKey], at_ps: int, cut=None) -> Iterator[Image]:
    """Everything that all these lines may hold together."""
    if not lines:
        yield {}
        return
    for content in views.contents(lines[0], at_ps, cut or {}):
        for others in images(views, lines[1:], at_ps, content.cut):
            yield {lines[0]: content.data, **others}


def instants(result: RunResult) -> list[int]:
    """Whenever anything happened, the picosecond before it, and the beginning."""
    found = {0}
    for chunk in result.system.trace.chunks:
        found |= {*chunk.reached_ps, *chunk.forced_ps, *chunk.flushed_ps.values()} - {NEVER}
    for operation in result.history.operations:
        found |= {operation.invoke_ps, operation.return_ps}
    return sorted(found | {at_ps - 1 for at_ps in found if at_ps})


def cut_off(history: History, at_ps: int) -> History:
    """What clients had seen by then."""
    seen = [operation for operation in history.operations if operation.invoke_ps <= at_ps]
    pending = {"return_ps": None, "result": None, "outcome": None}
    return replace(history, operations=[o if o.return_ps <= at_ps else replace(o, **pending) for o in seen])


def brute_force(result: RunResult) -> dict[Condition, int]:
    """The conditions that are violated, and the earliest instants that show it.

    Of ``no_lost_ack``, as the explorer documents, the earliest after an update of the object has returned, if any.
    """
    restart = Restart(result)
    views = restart.views()
    lines = sorted(views.pieces)
    objects = sorted({operation.object for operation in result.history.operations})
    recovered: dict[tuple, object] = {}  # the same whole image gives the same value: the one short cut
    found: dict[Condition, set[tuple[bool, int]]] = {}
    for at_ps in instants(result):
        history = cut_off(result.history, at_ps)
        for image in images(views, lines, at_ps):
            for name in objects:
                key = (name, *image.items())
                if key not in recovered:
                    recovered[key] = restart.read(name, lambda k, image=image: image.get(k) or restart.initial(k))
                own = replace(history, operations=[o for o in history.operations if o.object == name])
                acknowledged = any(o.f == "put" and o.outcome == "ok" for o in own.operations)
                for condition, finding in check(own, at_ps, {name: recovered[key]}, CONDITIONS).items():
                    if finding.verdict is Verdict.VIOLATED:
                        late = condition is Condition.NO_LOST_ACK and not acknowledged
                        found.setdefault(condition, set()).add((late, at_ps))
    return {condition: min(states)[1] for condition, states in found.items()}


def agree(result: RunResult) -> dict[Condition, int]:
    """Both explorers' answer."""
    walked = Explorer(result, conditions=CONDITIONS).walk()
    assert walked.exhaustive
    found = {condition: violation.instant_ps for condition, violation in walked.first.items()}
    assert found == brute_force(result)
    return found


@pytest.fixture(autouse=True)
def _mutants_are_known():
    with registered():
        yield


@pytest.mark.parametrize("number", range(48))
def test_on_a_random_little_workload_of_whole_lines(number):
    """Up to four operations on up to three keys, lines that do not tear, sometimes with pausing cores."""
    draw = random.Random(number)
    platform, ddio = PLATFORMS[number % 4]
    keys, processes = draw.randint(1, 3), draw.randint(1, 3)
    operations = [
        draw.choice([put, put, get])(draw.randrange(processes), f"k{draw.randrange(keys)}", draw.randrange(12_000))
        for _ in range(draw.randint(1, 4))
    ]
    value = draw.choice(["8 B", "24 B", "32 B"] if len(operations) > 2 else ["8 B", "24 B", "64 B"])
    more = {"processes": processes, "keys": keys, "value": value, "seed": number, "whole_lines": True}
    agree(run(draw.choice(SCHEMES), operations, platform, ddio, schedule=number % 3, **more))


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_one_put_whose_line_may_be_torn_into_words(scheme, platform, ddio):
    agree(run(scheme, [put(0, "k0"), get(1, "k0", at_ns=4000)], platform, ddio, processes=2))


def test_they_agree_on_something():
    """The comparison would be empty if nothing were ever violated, or everything always at once."""
    saw = agree(run("saw", [put(0, "k0"), put(1, "k0")], processes=2))
    other = agree(run("client-active", [put(0, "k0"), put(1, "k0")], processes=2, whole_lines=True))
    assert saw == {} and set(other) >= {Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE}
    assert len(set(other.values())) > 1
