"""What does the explorer find on whole small runs, over every crash instant, and can it be relied upon?"""

from __future__ import annotations

from dataclasses import asdict

import pytest

from rpsim.models.durability.places import Path
from rpsim.models.durability.views import Content
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.registry import scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.trace import NEVER, Stage
from rpsim.validation.crash.explore import explore, slider
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.outcomes import Outcomes
from rpsim.validation.testing.checks import scenario_of

from ..small import PLATFORMS, get, only_variant, put, run, scenario, ycsb

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE

JUDGED = (COMMITTED, LOST, DURABLE)

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
both = pytest.mark.parametrize("scheme", ["client-active", "saw"])


def small_run(scheme, platform, ddio, schedule=0):
    """Twelve operations of three clients on four keys."""
    return run(scheme, ycsb(12), platform, ddio, processes=3, keys=4, schedule=schedule)


@everywhere
def test_client_active_loses_acknowledged_writes_on_every_platform(platform, ddio):
    found = Explorer(small_run("client-active", platform, ddio)).walk()
    assert {found.verdict(condition) for condition in JUDGED} == {Verdict.VIOLATED}
    assert found.first[LOST].acknowledged
    assert found.violating_states[LOST] > 0


@everywhere
def test_saw_loses_nothing_acknowledged_and_shows_nothing_torn_on_any_platform(platform, ddio):
    for schedule in range(4):
        found = Explorer(small_run("saw", platform, ddio, schedule)).walk()
        assert found.exhaustive
        assert (found.verdict(COMMITTED), found.verdict(LOST)) == (Verdict.HOLDS, Verdict.HOLDS)
        assert (found.violating_states[COMMITTED], found.violating_states[LOST]) == (0, 0)


@both
@everywhere
def test_a_timed_view_never_says_that_anything_holds(scheme, platform, ddio):
    result = small_run(scheme, platform, ddio)
    timed, adversarial = Explorer(result, timed=True).walk(), Explorer(result).walk()
    assert Verdict.HOLDS not in {timed.verdict(condition) for condition in JUDGED}
    assert "one image" in timed.over and "all images" in adversarial.over
    assert timed.first.keys() <= adversarial.first.keys()  # one timing is one of those that may be


@both
@everywhere
def test_every_instant_at_which_anything_changes_is_looked_at(scheme, platform, ddio):
    result = small_run(scheme, platform, ddio)
    expected = {0}
    for operation in result.history.operations:
        expected |= {operation.invoke_ps, operation.return_ps}
    for chunk in result.system.trace.chunks:
        may_ps, must_ps = chunk.reached_ps[Stage.ACCEPTED], min(chunk.flushed_ps.values(), default=NEVER)
        if platform == "optane-eadr" and chunk.path != Path.DMA_NO_DDIO:  # visible is durable
            must_ps = min(must_ps, chunk.forced_ps[Stage.VISIBLE])
        expected |= {may_ps, must_ps} - {NEVER}
    explorer = Explorer(result)
    instants = [at_ps for at_ps, _, _ in explorer.instants()]
    assert instants == sorted(instants)
    assert expected <= set(instants)  # with DDIO off, a READ's completion counts as well
    assert explorer.walk().instants == len(instants)


def read_of_an_unflushed_entry(platform: str, ddio: str):
    """A put whose server pauses between publishing and flushing, and a get that comes in the pause."""
    quiet = run("saw", [put(0, "k0")], platform, ddio)
    (entry,) = [chunk for chunk in quiet.system.trace.chunks if chunk.path == Path.STORE]
    stored_ns = -(-entry.reached_ps[Stage.VISIBLE] // 1000)
    pause = {"core": "server[0] core 0", "at": f"{stored_ns} ns", "for": "20 us"}
    return run("saw", [put(0, "k0"), get(1, "k0", stored_ns)], platform, ddio, processes=2, outages=[pause])


@everywhere
def test_saw_is_not_durable_in_the_strict_sense_where_a_get_may_see_what_is_not_flushed_yet(platform, ddio):
    result = read_of_an_unflushed_entry(platform, ddio)
    writer, reader = result.history.operations
    assert reader.result == 1 and reader.return_ps < writer.return_ps
    found = Explorer(result).walk()
    assert (found.verdict(COMMITTED), found.verdict(LOST)) == (Verdict.HOLDS, Verdict.HOLDS)
    if platform == "optane-adr":  # the get returned v1 and its entry is still in the cache, which the power cut empties
        assert found.verdict(DURABLE) is Verdict.VIOLATED
        assert found.first[DURABLE].instant_ps == reader.return_ps
        assert found.first[DURABLE].outcome.value == 0
    else:  # what a READ has returned was visible, and what is visible in a cache survives
        assert found.verdict(DURABLE) is Verdict.HOLDS


def report_of(scheme: str, seed: int, **more):
    made = scenario(scheme, ycsb(12), processes=3, keys=4, seed=seed, **more)
    variant = only_variant(made)
    result = run(scheme, ycsb(12), processes=3, keys=4, seed=seed, **more)
    report = asdict(explore(result, made, variant))
    report.pop("seconds")
    return report, result.history


@both
def test_one_seed_gives_one_report(scheme):
    more = {"crash": {"schedules": 3}}
    assert report_of(scheme, 5, **more) == report_of(scheme, 5, **more)


def test_another_seed_gives_another_history():
    assert report_of("saw", 5)[1] != report_of("saw", 6)[1]


def test_a_sample_of_instants_leaves_undecided_what_it_does_not_refute():
    result = small_run("saw", "optane-adr", "on")
    found = Explorer(result).walk(sample=5)
    assert (found.instants, found.exhaustive) == (5, False)
    assert found.over == f"a sample of 5 of {len(Explorer(result).instants())} instants"
    assert {found.verdict(condition) for condition in JUDGED} == {Verdict.UNDECIDED}


def test_a_budget_that_runs_out_leaves_undecided_what_was_not_refuted_by_then():
    found = Explorer(small_run("saw", "optane-adr", "on")).walk(budget=7)
    assert 7 <= found.states < 12 and not found.exhaustive
    assert {found.verdict(condition) for condition in JUDGED} == {Verdict.UNDECIDED}


def test_a_scenario_says_after_how_many_images_an_object_is_given_up():
    def report(most):
        made = scenario_of(scheme("saw"), ddio="on", workload={"mix": "update-only", "operations": 4, "keys": 1})
        made = Draft.of(made).set({"crash.images": most}).build()
        (variant,) = made.variants()
        return explore(run_variant(made, variant), made, variant, examples=())

    assert report(None).exhaustive
    few = report(1)
    assert not few.exhaustive and "1 image at most" in few.over


def test_a_budget_that_suffices_changes_nothing():
    result = small_run("saw", "optane-adr", "on")
    assert Explorer(result).walk(budget=10_000) == Explorer(result).walk()


def test_progress_rises_to_one():
    seen: list[float] = []
    Explorer(small_run("saw", "optane-adr", "on")).walk(progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1


def test_equal_images_share_a_recovery_and_never_a_verdict():
    """The old value is right until the put has returned, and wrong afterwards: the same bytes, read once."""
    result = run("client-active", [put(0, "k0")], whole_lines=True)
    found = Explorer(result, conditions=[LOST]).walk()
    (operation,) = result.history.operations
    assert found.first[LOST].instant_ps == operation.return_ps
    assert found.recoveries_run <= 3 < found.states  # old entry; new entry with the object or without it


@everywhere
@pytest.mark.parametrize("scheme", ["client-active", "saw"])
def test_recovery_as_one_opaque_whole_finds_the_same(scheme, platform, ddio):
    """Every image of all that whole recovery looks at, for all objects at once: same verdicts, same first instants."""
    result = run(scheme, ycsb(6), platform, ddio, processes=2, keys=2)
    units, whole = Explorer(result).walk(), Explorer(result, whole=True).walk()
    assert whole.exhaustive
    assert {c: (v.instant_ps, v.object) for c, v in whole.first.items()} == {
        c: (v.instant_ps, v.object) for c, v in units.first.items()
    }
    assert whole.states > units.states


def test_a_store_that_recovers_in_its_own_way_is_explored_as_a_whole(monkeypatch):
    """It need not even have units."""
    result = run("saw", [put(0, "k0"), put(1, "k1")], processes=2, keys=2)

    def own(self, thread):
        self.recovered = yield from thread.load(self.index.address, self.index.length)

    def none(self, object):
        raise AssertionError("nobody asks for units")

    expected = Explorer(result).walk().first.keys()
    kind = type(result.scheme.server)
    monkeypatch.setattr(kind, "recover", own)
    monkeypatch.setattr(kind, "units_of", none)
    assert Explorer(result).walk().first.keys() == expected


class OneLine:
    """A restart that reads one line, and gives back its first byte."""

    def initial(self, key):
        return bytes(64)

    def read(self, object, source, *, decide=None):
        return source((0, 0))[0]


@pytest.mark.parametrize("whole", [False, True], ids=["object by object", "as a whole"])
@pytest.mark.parametrize("scheme", ["client-active", "efactory"])
def test_what_is_read_if_all_has_made_it_is_what_a_restart_reads_there(scheme, whole):
    """Of the tree, which has run most of it: the crash slider asks at every instant."""
    explorer = Explorer(small_run(scheme, "optane-adr", "off"), whole=whole)
    before = explorer.restart.runs
    instants = [at_ps for at_ps, _, _ in explorer.instants()][::10]
    found = [explorer.newest(subject, at_ps) for at_ps in instants for subject in explorer.subjects()]
    runs = explorer.restart.runs - before
    assert found == [
        explorer.restart.read(subject.object, lambda key, at_ps=at_ps: explorer.views.newest(key, at_ps), whole=whole)
        for at_ps in instants
        for subject in explorer.subjects()
    ]
    assert runs < len(found) < explorer.restart.runs


def test_the_crash_slider_of_machines_without_memory_that_lasts_has_no_domain():
    found = scenario("rdma-dram", ycsb(4), "pmr-testbed", keys=2)
    result = run_variant(found, only_variant(found))
    report = explore(result, found, only_variant(found))
    assert slider(report, result, found, only_variant(found))["domain"] == "none"


class CutShort(Exception):
    """In the place of what an exploration raises where it has to begin anew."""


def test_a_restart_that_was_cut_short_is_run_again():
    """Not taken for one that looks at nothing and reads nothing, whatever memory holds."""
    fails = [True]

    def contents(key, at_ps, cut):
        if fails:
            raise CutShort
        return iter((Content(bytes([7]) * 64, cut, ()), Content(bytes([8]) * 64, cut, ())))

    outcomes = Outcomes("k0", OneLine(), contents, lambda key: True)
    with pytest.raises(CutShort):
        list(outcomes.at(0))
    fails.clear()
    assert [found.value for found in outcomes.at(0)] == [7, 8]
