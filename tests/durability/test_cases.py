"""Does a saved counterexample replay, and what becomes of one that somebody has edited?"""

from __future__ import annotations

import copy
import json

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore, replay_case
from rpsim.validation.crash.findings import Counterexample

from ..protocols.mutants import registered
from ..small import only_variant, run, scenario, ycsb


def counterexamples(scheme: str, **more) -> list[Counterexample]:
    made = scenario(scheme, ycsb(12), processes=3, keys=3, **more)
    return explore(run(scheme, ycsb(12), processes=3, keys=3, **more), made, only_variant(made)).counterexamples


@pytest.fixture(scope="module")
def lost() -> Counterexample:
    """An acknowledged write that client-active loses on ADR."""
    return next(c for c in counterexamples("client-active") if c.condition is Condition.NO_LOST_ACK)


def saved(case: dict, folder) -> object:
    path = folder / "case-1.json"
    path.write_text(json.dumps(case), encoding="utf-8")
    return path


def edited(lost: Counterexample, folder, **changes) -> object:
    """The case with some fields changed; None takes a field out."""
    case = copy.deepcopy(lost.case) | changes
    return saved({name: value for name, value in case.items() if value is not None}, folder)


@pytest.mark.parametrize("scheme", ["client-active", "saw-mutant-published-first", "saw-mutant-entry-flush-dropped"])
@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_a_saved_case_replays_to_the_picosecond(scheme, platform, tmp_path):
    with registered():
        for found in counterexamples(scheme, platform=platform):
            again = replay_case(saved(found.case, tmp_path))
            assert again.instant_ps == found.instant_ps == found.case["instant_ps"]
            assert (again.condition, again.object, again.operations) == (
                found.condition,
                found.object,
                found.operations,
            )
            assert again.case == found.case


def test_it_replays_the_same_lost_lines_and_the_same_story(lost, tmp_path):
    again = replay_case(saved(lost.case, tmp_path))
    assert again.lost and again.lost == lost.lost
    assert (again.recovered, again.explanation, again.timeline) == (lost.recovered, lost.explanation, lost.timeline)


def test_a_case_survives_a_change_of_its_own_instant(lost, tmp_path):
    """The instant is found again, not believed."""
    assert replay_case(edited(lost, tmp_path, instant_ps=1)).instant_ps == lost.instant_ps


def test_a_case_whose_store_was_mended_violates_nothing(lost, tmp_path):
    mended = lost.case["scenario"] | {"schemes": ["saw"]}
    assert replay_case(edited(lost, tmp_path, scheme="saw", scenario=mended)) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case": 99}, "no case"),
        ({"scenario": None}, "no case"),
        ({"scenario": ["a list"]}, "no case"),
        ({"condition": None}, "without 'condition'"),
        ({"condition": "no_lost_luggage"}, "a case that cannot be used: 'no_lost_luggage' is not"),
        ({"object": None}, "without 'object'"),
        ({"platform": "optane-adr"}, "a variant of its scenario"),
        ({"scheme": "saw"}, "a variant of its scenario"),
    ],
)
def test_a_case_that_does_not_add_up_is_refused_with_its_place(lost, tmp_path, change, message):
    path = edited(lost, tmp_path, **change)
    with pytest.raises(InputError, match=message) as caught:
        replay_case(path)
    assert str(path) in str(caught.value)


def test_a_mistake_in_the_scenario_of_a_case_is_told_as_in_any_scenario(lost, tmp_path):
    wrong = lost.case["scenario"] | {"schemes": ["client-activ"]}
    with pytest.raises(InputError, match=r"client-activ.*client-active"):
        replay_case(edited(lost, tmp_path, scenario=wrong))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b'"case"', b"null"])
def test_what_is_no_case_is_refused(content, tmp_path):
    path = tmp_path / "case-1.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="case"):
        replay_case(path)


def test_a_case_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="case-7"):
        replay_case(tmp_path / "case-7.json")
