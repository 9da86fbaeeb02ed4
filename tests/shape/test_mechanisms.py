"""Is each mechanism of the list turned off somewhere, and does its table say which curves need it?"""

from __future__ import annotations

import dataclasses
import functools

import pytest

from rpsim.app.commands.reproduce import without as words
from rpsim.models.profiles.platform import load_platform, platform_names
from rpsim.sim.errors import InputError
from rpsim.validation.published.curves import mechanisms
from rpsim.validation.published.curves.board import Board, Result, chosen

curves = functools.cache(chosen)
KNOWN = {one.name: one for one in mechanisms.read_mechanisms()}


@pytest.mark.long  # the first one reads all curves
@pytest.mark.parametrize("name", KNOWN)
def test_a_mechanism_is_on_in_a_profile_and_touches_a_curve(name):
    assert any(mechanisms.off_on(KNOWN[name], load_platform(platform)) for platform in platform_names())
    assert mechanisms.touched(curves(), KNOWN[name])


def test_a_profile_that_does_not_state_a_parameter_is_left_alone():
    assert mechanisms.off_on(KNOWN["sockets-link"], load_platform("fast20")) == {}
    assert mechanisms.off_on(KNOWN["sockets-link"], load_platform("fast20-sockets"))
    ids = mechanisms.touched(curves(), KNOWN["sockets-link"])
    assert {curve.platform for curve in curves() if curve.id in ids} == {"fast20-sockets"}


def test_the_table_says_what_is_lost(monkeypatch):
    some = [curve for curve in curves() if curve.id in ("far-dram-read", "far-dram-ntstore")]
    board = Board([Result(curve, dict(curve.points)) for curve in some])

    def perform(todo, jobs, on_step, kept):
        """Without it, reads of 16 threads come out at twice the rate."""
        assert {task.values for task in todo} == {(("interconnect.link", "100000 GB/s"),)}
        factor = {("far-dram-read", 16): 2.0}
        return [(task, task.curve.points[task.x] * factor.get((task.curve.id, task.x), 1.0)) for task in todo]

    monkeypatch.setattr(mechanisms, "perform", perform)
    (found,) = mechanisms.without(some, board, [KNOWN["sockets-link"]])
    assert found.lost() == ["far-dram-read[16]"]
    assert found.won() == []
    assert found.needed_by() == [("far-dram-read", 5, 5, 4)]
    said = words.text([found])
    assert said[2].split() == ["sockets-link", "2", "11", "11", "10", "1", "0"]
    assert "    needed by far-dram-read (5 of 5 met, 4 without)" in said
    assert words.document([found])[0]["needed_by"] == [
        {"curve": "far-dram-read", "points": 5, "met": 5, "met_without": 4}
    ]


def test_every_means_all_of_them_once():
    assert [one.name for one in mechanisms.chosen_mechanisms(["every", "dram-rows"])] == list(KNOWN)
    assert [one.name for one in mechanisms.chosen_mechanisms(["dram-rows", "dram-rows"])] == ["dram-rows"]


def test_an_unknown_mechanism_has_a_nearest():
    with pytest.raises(InputError, match="did you mean 'dram-rows'"):
        mechanisms.chosen_mechanisms(["dram-row"])


def test_a_bad_list_says_where(tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text("mechanisms:\n  - {name: a, title: b, components: [medai]}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        mechanisms.read_mechanisms(path)
    assert "list.yaml:2: mechanisms[0].off" in str(caught.value)
    assert "did you mean 'media'?" in str(caught.value)


def test_a_mechanism_stays_a_row():
    """Whoever adds one adds a row: a name, a title, parameters with what turns them off."""
    assert {field.name for field in dataclasses.fields(mechanisms.Mechanism)} == {"name", "title", "off", "components"}
