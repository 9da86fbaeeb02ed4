"""Are counterexamples as small as they can be: no operation, and no lost line, can be spared?"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.workload import Planned, schedule_data
from rpsim.sim.trace import Stage
from rpsim.validation.crash.case import Case, Sought, find, tell
from rpsim.validation.crash.derived import LeftState, history_until
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer, Violation
from rpsim.validation.crash.shrink import shrink

from ..protocols.mutants import registered
from ..small import PLATFORMS, get, only_variant, put, run, scenario, ycsb

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE


@dataclass
class Shrunk:
    """A violation of a run, and the case that it was shrunk to."""

    violation: Violation
    case: Case

    def without(self, left_out: int) -> Case | None:
        """The violation once more with one of the operations left out, if it is still there."""
        case, operations = self.case, self.case.history.operations
        planned = [
            Planned(o.process, o.f, o.object, o.f == "put", o.invoke_ps, o.argument)
            for o in operations
            if o.number != left_out
        ]
        workload = schedule_data(case.scenario.workload, planned)
        sought = Sought(self.violation.condition, self.violation.object, self.violation.acknowledged)
        return find(LeftState, Draft.of(case.scenario).with_(workload=workload).build(), case.variant, sought)

    def with_line_restored(self, restored) -> bool:
        """Whether it is still a violation if the newest content of one line had made it."""
        case, at_ps = self.case, self.case.violation.instant_ps
        views = case.evidence.explorer.views
        image = {key: content.data for key, content in case.violation.outcome.image}
        image[restored] = views.newest(restored, at_ps)
        value = case.evidence.explorer.restart.read(
            case.violation.object, lambda key: image[key] if key in image else views.newest(key, at_ps)
        )
        return self.violates(value)

    def violates(self, value) -> bool:
        return self.violation.condition in history_until(self.case.evidence.result, self.case.violation).judge(value)

    @property
    def lost(self) -> list:
        return [key for key, content in self.case.violation.outcome.image if content.is_less]


def shrunk(scheme, condition, platform="optane-adr", ddio="on", work=None, schedule=0, **more) -> Shrunk:
    made = scenario(scheme, work or ycsb(16), platform, ddio, **more)
    result = run(scheme, work or ycsb(16), platform, ddio, schedule=schedule, **more)
    violation = Explorer(result).walk().first[condition]
    return Shrunk(violation, shrink(LeftState, made, only_variant(made), result, violation))


@pytest.fixture(autouse=True)
def _mutants_are_known():
    with registered():
        yield


def assert_minimal(found: Shrunk) -> None:
    operations = found.case.history.operations
    assert found.violates(found.case.violation.outcome.value)
    if len(operations) > 1:  # a scenario without operations is none
        assert [o.number for o in operations if found.without(o.number) is not None] == []
    assert [key for key in found.lost if found.with_line_restored(key)] == []


CLIENT_ACTIVE = [("client-active", condition, *where) for condition in (COMMITTED, LOST) for where in PLATFORMS]
ON_ADR = [
    ("saw-mutant-flush-dropped", LOST, "optane-adr", "off"),
    ("saw-mutant-published-first", LOST, "optane-adr", "on"),
    ("saw-mutant-entry-flush-dropped", LOST, "optane-adr", "on"),
    ("saw-mutant-first-fence-dropped", COMMITTED, "optane-adr", "on"),
    ("saw-mutant-fences-dropped", LOST, "optane-eadr", "off"),
]


@pytest.mark.parametrize(("scheme", "condition", "platform", "ddio"), CLIENT_ACTIVE + ON_ADR)
def test_no_operation_and_no_lost_line_can_be_spared(scheme, condition, platform, ddio):
    """From sixteen operations of three clients to one or two."""
    found = shrunk(scheme, condition, platform, ddio, processes=3, keys=3)
    assert len(found.case.history.operations) <= 2
    assert_minimal(found)


def test_a_violation_that_takes_two_puts_keeps_both():
    """A durable entry that points to nothing yet hurts an acknowledged value only if there was one."""
    found = shrunk("saw-mutant-published-first", LOST, processes=3, keys=3)
    assert [(o.f, o.object) for o in found.case.history.operations] == [("put", found.violation.object)] * 2


def test_a_violation_that_takes_a_pause_keeps_it_and_the_reader_in_it():
    """SAW on ADR: a get returns what is not durable yet while the server's core is away."""
    quiet = run("saw", [put(0, "k0")])
    stored_ns = max(chunk.reached_ps[Stage.VISIBLE] for chunk in quiet.system.trace.chunks) // 1000 + 1
    pause = {"core": "server[0] core 0", "at": f"{stored_ns} ns", "for": "20 us"}
    idle = {"core": "server[0] core 0", "at": "20 us", "for": "1 us"}
    work = [put(0, "k0"), get(1, "k0", stored_ns), get(2, "k1", at_ns=15_000), put(2, "k1")]
    found = shrunk("saw", DURABLE, work=work, processes=3, keys=2, outages=[pause, idle])
    assert [o.f for o in found.case.history.operations] == ["put", "get"]
    assert len(found.case.scenario.outages) == 1
    assert found.without(1) is None and found.without(2) is None
    assert_minimal(found)


def test_lines_that_need_not_be_lost_are_put_back():
    """An object of three lines, none of them flushed: one that is missing is enough."""
    found = shrunk("saw-mutant-flush-dropped", LOST, work=[put(0, "k0")], value="130 B", whole_lines=True)
    assert len(found.case.evidence.result.system.trace.chunks[0].data) > 2 * 64
    assert len(found.lost) == 1
    assert_minimal(found)


@pytest.mark.parametrize("whole_lines", [True, False])
def test_lines_that_need_not_be_lost_are_put_back_where_visible_is_durable_too(whole_lines):
    """One packet for two lines, torn between them: the second one missing is enough."""
    work = [put(0, "k0")]
    found = shrunk("client-active", LOST, "optane-eadr", "on", work=work, value="64 B", whole_lines=whole_lines)
    assert len(found.lost) == 1
    assert_minimal(found)


@everywhere
def test_the_story_begins_at_time_zero_and_ends_with_the_power_failure_and_recovery(platform, ddio):
    told = tell(shrunk("client-active", LOST, platform, ddio, processes=3, keys=3).case)
    assert told.timeline[0].time_ps == 0
    times = [row.time_ps for row in told.timeline]
    assert times == sorted(times) and times[-1] == told.instant_ps
    assert [row.mark for row in told.timeline if row.mark] == ["CRASH", *["LOST"] * len(told.lost)]
    assert told.timeline[-1].side == "recovery"
    assert "had returned at" in told.explanation


def test_what_a_hurry_finds_is_what_patience_finds(monkeypatch):
    """The mutant's loss shows in whole lines, late in a run of many operations."""
    patient, hurried = [], []
    original = LeftState.find.__func__

    def noted(cls, *words, since_ps=0, **more):
        (hurried if since_ps and not more.get("telling") else patient).append(since_ps)
        return original(cls, *words, since_ps=since_ps, **more)

    monkeypatch.setattr(LeftState, "find", classmethod(noted))
    monkeypatch.setattr("rpsim.validation.crash.shrink.EARLIER_PS", 1_000)
    work = [put(0, "k0"), *(get(process, f"k{process}", 10_000 + turn) for turn in range(8) for process in (1, 2))]
    work += [put(1, "k1", at_ns=30_000 + turn) for turn in range(2)]
    found = shrunk("saw-mutant-published-first", LOST, work=work, processes=3, keys=3)
    assert hurried and all(hurried)
    monkeypatch.setattr("rpsim.validation.crash.shrink.MANY", 1_000)
    hurried.clear()
    again = shrunk("saw-mutant-published-first", LOST, work=work, processes=3, keys=3)
    assert not hurried
    assert tell(found.case).case == tell(again.case).case


def test_after_too_many_images_few_are_looked_at_and_those_with_whole_lines():
    """An unflushed object of three lines may be torn in more ways than are tried, and may be old as a whole."""
    work = [put(0, "k0"), put(0, "k0", 20_000), get(0, "k0", 40_000), put(0, "k0", 60_000)]
    result = run("saw-mutant-flush-dropped", work, value="130 B")
    asked = [Condition.MONOTONIC]
    found = Explorer(result, conditions=asked, most=40).walk()
    assert found.over == "40 images at most of an object at an instant" and not found.exhaustive
    whole = Explorer(result, conditions=asked, torn=False).walk()
    assert whole.exhaustive and whole.states < found.states
    assert found.verdict(asked[0]) is not Verdict.HOLDS
    late = Explorer(result, conditions=asked, since_ps=30_000_000, most=40).walk()
    assert 0 < late.instants < found.instants and late.first.keys() == found.first.keys()


@pytest.mark.long
def test_a_scenario_may_have_schemes_with_different_operations():
    """A page of zeros over zeros: one line of it is lost, and its 64 stores are one row."""
    text = {
        "scenario": "mixed", "title": "mixed", "platform": "optane-adr", "ddio": "on",
        "schemes": ["tailwind", "hotpot-public"], "crash": {"fault": "all power"},
        "workload": {"kind": "ycsb", "mix": "a", "keys": 2, "value": "16 B", "operations": 4},
    }  # fmt: skip
    made = Draft.given(text, "mixed").build()
    variant = next(one for one in made.variants() if one.scheme == "hotpot-public")
    report = explore(run_variant(made, variant), made, variant, examples=(Condition.COMMITTED,))
    (example,) = report.counterexamples
    assert example.case["scenario"]["schemes"] == ["hotpot-public"] and len(example.lost) == 1
    assert sum("and 63 more lines" in row.text for row in example.timeline) == 1


def test_what_shows_in_more_images_than_a_trial_looks_at_is_told_as_it_was_found(monkeypatch):
    made = scenario("client-active", ycsb(12), processes=3, keys=3)
    variant = only_variant(made)
    result = run_variant(made, variant)
    violation = Explorer(result).walk().first[LOST]
    found = LeftState.find.__func__
    gives_up = classmethod(lambda *given, telling=False, **how: found(*given, telling=True, **how) if telling else None)
    monkeypatch.setattr(LeftState, "find", gives_up)
    case = shrink(LeftState, made, variant, result, violation)
    assert case.violation.condition is LOST and tell(case).operations > 1 and not tell(case).shrunk
