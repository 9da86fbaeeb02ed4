"""Does the checker refute a SAW that is broken on purpose, and for the right reason?

A checker that never says no proves nothing. Each mutant breaks one step of SAW's persist; what comes out on each
platform was found by running it, and follows from what the broken step would have done there:

- ADR: only the write pending queues survive, so both flushes, their order and their fences matter.
- eADR with DDIO on: what is visible is durable. The receive completion of the persist request has made the object
  visible, and the doorbell of the reply drains the server's stores, so that no flush is needed and none can be missed.
- eADR with DDIO off: the object waits in the I/O write cache, which counts as lost, until it is flushed; the index
  entry is a store of the CPU and safe in its cache.
"""

from __future__ import annotations

import pytest

from rpsim.models.durability.places import Path
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.sim.trace import Stage
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer

from ..small import PLATFORMS, get, only_variant, put, run, scenario, ycsb
from .mutants import MUTANTS, registered

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
ADR, EADR_ON, EADR_OFF = "adr", "eadr, ddio on", "eadr, ddio off"
EVERYTHING, NOTHING = {COMMITTED, LOST, DURABLE}, set()

WORK = [put(0, "k0"), put(1, "k0", at_ns=3000), get(2, "k0", at_ns=9000), put(0, "k0", at_ns=20_000)]

REFUTED = {
    "saw-mutant-flush-dropped": {ADR: EVERYTHING, EADR_ON: NOTHING, EADR_OFF: EVERYTHING},
    "saw-mutant-published-first": {ADR: EVERYTHING, EADR_ON: NOTHING, EADR_OFF: EVERYTHING},
    "saw-mutant-reply-first": {ADR: EVERYTHING, EADR_ON: NOTHING, EADR_OFF: EVERYTHING},
    # Undisturbed, the entry is flushed before the reply has crossed the wire. It takes a pause: see below.
    "saw-mutant-entry-flush-after-reply": {ADR: NOTHING, EADR_ON: NOTHING, EADR_OFF: NOTHING},
    # What it does is right, and it only does it too late: undisturbed it is done before the reply has crossed the wire.
    "saw-mutant-all-after-reply": {ADR: NOTHING, EADR_ON: NOTHING, EADR_OFF: NOTHING},
    # The object is durable before anything points to it: what is found is whole, but may be the old one.
    "saw-mutant-entry-flush-dropped": {ADR: {LOST, DURABLE}, EADR_ON: NOTHING, EADR_OFF: NOTHING},
    "saw-mutant-fences-dropped": {ADR: EVERYTHING, EADR_ON: NOTHING, EADR_OFF: EVERYTHING},
    "saw-mutant-first-fence-dropped": {ADR: EVERYTHING, EADR_ON: NOTHING, EADR_OFF: EVERYTHING},
}

SMALLEST = {
    # The object of a put that had returned is missing; its entry survived.
    "saw-mutant-flush-dropped": {COMMITTED: (1, ["log+0xc0 in llc"]), LOST: (1, ["log+0xc0 in llc"])},
    # The second put's durable entry has replaced that of the first, which had returned, and points to nothing yet.
    "saw-mutant-published-first": {COMMITTED: (1, ["log+0xc0 in llc"]), LOST: (2, ["log+0x100 in llc"])},
    # Likewise: the entry may leave the cache by itself, long before anybody flushes the object.
    "saw-mutant-reply-first": {COMMITTED: (1, ["log+0xc0 in llc"]), LOST: (2, ["log+0x100 in llc"])},
    "saw-mutant-entry-flush-dropped": {LOST: (1, ["index[15]+0x20 in llc"])},
    # Nobody waited for either line, and one that is missing is enough.
    "saw-mutant-fences-dropped": {COMMITTED: (1, ["log+0xc0 in llc"]), LOST: (1, ["index[15]+0x20 in llc"])},
    "saw-mutant-first-fence-dropped": {COMMITTED: (1, ["log+0xc0 in llc"]), LOST: (2, ["log+0x100 in llc"])},
}


@pytest.fixture(autouse=True)
def _mutants_are_known():
    with registered():
        yield


def where(platform: str, ddio: str) -> str:
    return ADR if platform == "optane-adr" else f"eadr, ddio {ddio}"


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_refuted_wherever_the_broken_step_matters(mutant, platform, ddio):
    found = Explorer(run(mutant, WORK, platform, ddio, processes=3, keys=2)).walk()
    assert found.exhaustive
    assert found.first.keys() & EVERYTHING == REFUTED[mutant][where(platform, ddio)]


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_saw_itself_is_not_refuted_by_the_same_operations(platform, ddio):
    found = Explorer(run("saw", WORK, platform, ddio, processes=3, keys=2)).walk()
    assert found.exhaustive
    assert found.first == {}


@pytest.mark.parametrize("mutant", SMALLEST)
def test_the_smallest_counterexample_names_the_line_that_the_broken_step_left_behind(mutant):
    made = scenario(mutant, WORK, processes=3, keys=2)
    variant = only_variant(made)
    report = explore(run(mutant, WORK, processes=3, keys=2), made, variant)
    violated = {condition for condition, verdict in report.verdicts.items() if verdict is Verdict.VIOLATED}
    assert violated & EVERYTHING == REFUTED[mutant][ADR]
    for condition, (operations, lines) in SMALLEST[mutant].items():
        (found,) = [example for example in report.counterexamples if example.condition is condition]
        assert found.operations == operations
        assert [f"{fate.label} in {fate.place}" for fate in found.lost] == lines
        assert all(fate.reason == "no flush of the line had completed" for fate in found.lost)


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("mutant", ["saw-mutant-reply-first", "saw-mutant-entry-flush-after-reply"])
def test_a_reply_before_the_flush_loses_what_it_acknowledged_if_the_core_pauses_in_between(mutant, platform, ddio):
    """Undisturbed, the flush is done before the reply has crossed the wire; nothing promises that."""
    work = [put(0, "k0")]
    quiet = run(mutant, work, platform, ddio)
    (operation,) = quiet.history.operations
    chunks = quiet.system.trace.chunks
    (published_ps,) = [chunk.reached_ps[Stage.VISIBLE] for chunk in chunks if chunk.path == Path.STORE]
    flushed_ps = min(ps for chunk in chunks for ps in chunk.flushed_ps.values() if ps > published_ps)
    assert flushed_ps < operation.return_ps
    pause = {"core": "server[0] core 0", "at": f"{flushed_ps - 1} ps", "for": "10 us"}
    paused = Explorer(run(mutant, work, platform, ddio, outages=[pause])).walk()
    object_at_risk = mutant == "saw-mutant-reply-first" and where(platform, ddio) == EADR_OFF
    if platform == "optane-adr" or object_at_risk:
        assert paused.first[LOST].acknowledged
        assert paused.first[LOST].instant_ps == operation.return_ps
    else:
        assert LOST not in paused.first
    assert LOST not in Explorer(run("saw", work, platform, ddio, outages=[pause])).walk().first


@pytest.mark.long
@pytest.mark.parametrize("mutant", ["saw-mutant-reply-first", "saw-mutant-entry-flush-after-reply"])
def test_disturbed_schedules_find_the_pause_by_themselves(mutant):
    """Cores pause after doorbells and fences too: what comes after a reply may come much later."""
    work = ycsb(30, "update-only")
    schedules = [Explorer(run(mutant, work, processes=3, keys=2, schedule=number)).walk() for number in range(1, 4)]
    assert any(found.loses(LOST, acknowledged=True) for found in schedules)
    for number in range(1, 4):
        assert LOST not in Explorer(run("saw", work, processes=3, keys=2, schedule=number)).walk().first


def test_what_is_done_after_the_reply_is_not_done_if_the_core_pauses_in_between():
    """Nothing is missing that had been written: it had not been written yet."""
    mutant, work = "saw-mutant-all-after-reply", [put(0, "k0")]
    chunks = run(mutant, work).system.trace.chunks
    flushed_ps = min(ps for chunk in chunks for ps in chunk.flushed_ps.values())
    pause = {"core": "server[0] core 0", "at": f"{flushed_ps - 1} ps", "for": "20 us"}
    paused = Explorer(run(mutant, work, outages=[pause])).walk()
    assert paused.first[LOST].acknowledged
    assert LOST not in Explorer(run("saw", work, outages=[pause])).walk().first
