"""What the checker finds of eFactory, of eFactory with one repair, and of that with one step broken on purpose.

- The paper (Du et al., ICPP'21, section 4.3.1) fills in the metadata, updates the index entry, and then persists both.
  On ADR the entry may leave the cache by itself before the metadata is flushed: then it points to nothing, and with the
  metadata the way to all older versions is gone. With the metadata flushed first, what is read is never taken back.
- A put that nobody has read yet may be lost, as the paper says, on all platforms: its completion proves arrival in
  the adapter. It takes a background thread that is not quick enough.
- eADR makes the server's stores durable as they become visible: neither the order nor any flush of metadata matters
  there. Values that came by DMA are in the cache with DDIO on, and in the I/O write cache, which counts as lost, with
  DDIO off: there the flush of the value matters.
"""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer

from ...small import PLATFORMS, get, only_variant, put, run, scenario, ycsb
from .efactory_mutants import MUTANTS, REPAIRED, registered

COMMITTED, MONOTONIC = Condition.COMMITTED, Condition.MONOTONIC
LOST, DURABLE = Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, MONOTONIC, LOST, DURABLE}
ADR, EADR_ON, EADR_OFF = "adr", "eadr, ddio on", "eadr, ddio off"

# Two puts of one key, each read before and after it is verified; the second read of the first sees its flag.
WORK = [
    put(0, "k0"), get(1, "k0", at_ns=9000), get(0, "k0", at_ns=12_000),
    put(1, "k0", at_ns=15_000), get(2, "k0", at_ns=17_000), get(2, "k0", at_ns=18_000),
]  # fmt: skip
AWAY = {"core": "server[0] core 1", "at": "0 ns", "for": "1 ms"}
"""The background thread's core has other things to do."""

CORRUPTED, LATE = {COMMITTED, LOST, DURABLE}, {LOST, DURABLE}

REFUTED = {
    # A torn value passes for the new version, which replaces one that had been acknowledged: nothing has an age.
    "efactory-mutant-crc-ignored": {ADR: CORRUPTED, EADR_ON: CORRUPTED, EADR_OFF: CORRUPTED},
    "efactory-mutant-flag-first": {ADR: CORRUPTED, EADR_ON: set(), EADR_OFF: CORRUPTED},
    # The entry is lost with what had been read through it; or the metadata is, and the entry is not.
    "efactory-mutant-metadata-unflushed": {ADR: JUDGED, EADR_ON: set(), EADR_OFF: set()},
    "efactory-mutant-newest-trusted": {ADR: CORRUPTED, EADR_ON: CORRUPTED, EADR_OFF: CORRUPTED},
    # Nothing torn and nothing older: the put is simply never seen, though its bytes and its acknowledgement came.
    "efactory-mutant-hasty-timeout": {ADR: LATE, EADR_ON: LATE, EADR_OFF: LATE},
}

SMALLEST = {
    # The header is durable, no byte of the value has come, and recovery takes the version for whole.
    "efactory-mutant-crc-ignored": {COMMITTED: (1, []), LOST: (1, ["log+0x180 in nic"])},
    # The flag survives, the value that it promises waits in the cache.
    "efactory-mutant-flag-first": {COMMITTED: (1, ["log+0x180 in llc"]), LOST: (2, ["log+0x200 in llc"])},
    # A get had returned the new version; the entry still points to the old one.
    "efactory-mutant-metadata-unflushed": {
        MONOTONIC: (2, ["index[15]+0x20 in llc"]),
        LOST: (1, ["index[15]+0x20 in llc"]),
    },
    "efactory-mutant-newest-trusted": {COMMITTED: (1, []), LOST: (2, [])},
    # All lines are there.
    "efactory-mutant-hasty-timeout": {LOST: (1, []), DURABLE: (1, [])},
}


@pytest.fixture(autouse=True)
def _mutants_are_known():
    with registered():
        yield


def where(platform: str, ddio: str) -> str:
    return ADR if platform == "optane-adr" else f"eadr, ddio {ddio}"


def refuted(scheme, work, *args, **more):
    """What is refuted when every crash point of the run has been looked at."""
    found = Explorer(run(scheme, work, *args, **more), conditions=JUDGED).walk()
    assert found.exhaustive
    return found.first.keys() & JUDGED


# eFactory itself ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_efactory_may_lose_what_nobody_has_read_and_on_adr_also_what_somebody_has(platform, ddio):
    found = refuted("efactory", WORK, platform, ddio, processes=3, keys=2, outages=[AWAY])
    assert found == (JUDGED if platform == "optane-adr" else LATE)


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_with_the_metadata_flushed_first_nothing_is_torn_and_nothing_taken_back(platform, ddio):
    assert refuted(REPAIRED, WORK, platform, ddio, processes=3, keys=2, outages=[AWAY]) == LATE


@pytest.mark.long
@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("value", ["24 B", "64 B"])
def test_neither_when_many_clients_meet(platform, ddio, value):
    """Three words a value in all their combinations, and eight."""
    few = {"24 B": 100, "64 B": 12}[value]
    assert refuted(REPAIRED, ycsb(few), platform, ddio, processes=6, keys=2, value=value) <= LATE


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_neither_when_a_value_has_several_lines_that_are_taken_whole(platform, ddio):
    found = refuted(REPAIRED, ycsb(40), platform, ddio, processes=6, keys=2, value="256 B", whole_lines=True)
    assert found <= LATE


def smallest(scheme, work, **more):
    """The counterexamples on ADR, DDIO on, by condition."""
    made = scenario(scheme, work, **more)
    report = explore(run(scheme, work, **more), made, only_variant(made))
    violated = {condition for condition, verdict in report.verdicts.items() if verdict is Verdict.VIOLATED}
    return violated & JUDGED, {
        example.condition: (example.operations, [f"{fate.label} in {fate.place}" for fate in example.lost])
        for example in report.counterexamples
    }


@pytest.mark.long
def test_the_entry_that_is_durable_before_the_metadata_takes_a_read_value_away():
    """One get and one put that is under way: the line of metadata is lost, the entry that points to it is not."""
    _, found = smallest("efactory", WORK, processes=3, keys=2)
    assert {condition: operations for condition, (operations, _) in found.items()} == {
        COMMITTED: 1, DURABLE: 1, MONOTONIC: 2, LOST: 2,
    }  # fmt: skip
    assert [[line.split(" in ")[0] for line in lines] for _, lines in found.values()] == [
        ["log+0x140"], ["log+0x140"], ["log+0x140"], ["log+0x1c0"],
    ]  # fmt: skip


def test_a_put_that_returned_is_lost_while_its_value_is_still_on_its_way():
    _, found = smallest(REPAIRED, [put(0, "k0")], processes=3, keys=2, outages=[AWAY])
    assert found[LOST] == (1, ["log+0x180 in nic"])


# the mutants -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_refuted_wherever_the_broken_step_matters(mutant, platform, ddio):
    # Whether the background thread is quick enough for this work, undisturbed, is a matter of times.
    own = refuted(REPAIRED, WORK, platform, ddio, processes=3, keys=2)
    assert own in (set(), LATE)
    assert refuted(mutant, WORK, platform, ddio, processes=3, keys=2) == REFUTED[mutant][where(platform, ddio)] | own


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_smallest_counterexample_shows_the_broken_step(mutant):
    violated, found = smallest(mutant, WORK, processes=3, keys=2)
    assert violated == REFUTED[mutant][ADR]
    assert {condition: found[condition] for condition in SMALLEST[mutant]} == SMALLEST[mutant]


def test_a_write_that_was_given_up_is_not_seen_even_without_a_power_failure():
    history = run("efactory-mutant-hasty-timeout", [put(0, "k0"), get(0, "k0")]).history
    written, read = history.operations
    assert written.outcome == "ok"
    assert read.result == 0
