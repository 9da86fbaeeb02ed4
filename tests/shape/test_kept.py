"""A scoreboard that was stopped goes on from there, and a point is kept for exactly what it hangs on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.validation.published.curves import board
from rpsim.validation.published.curves.board import PointTask, chosen, perform, run, tasks
from rpsim.validation.published.curves.kept import Kept, name
from rpsim.validation.published.curves.sweep import again, sweep, touches, variations

CURVES = [curve for curve in chosen("nic") if curve.id in ("cx3-send", "cx3-read")]


@pytest.fixture
def simulated(monkeypatch):
    """The points that were really run, each a made-up number."""
    ran: list[PointTask] = []

    def once(task):
        ran.append(task)
        return 1.0 + len(task.values)

    monkeypatch.setattr(board, "simulate", once)
    return ran


def test_a_board_that_was_stopped_goes_on_from_there(tmp_path, simulated):
    path, todo = tmp_path / "not there yet" / "points.jsonl", tasks(CURVES)

    class Stop(Exception):
        pass

    def tell(what):
        if len(simulated) == 3:
            raise Stop

    with pytest.raises(Stop):
        perform(todo, tell=tell, kept=Kept(path))
    path.write_text(path.read_text() + '{"point": "half a li')  # stopped while writing
    found = perform(todo, kept=Kept(path))
    assert [task for task, _ in found] == todo == simulated
    assert perform(todo, kept=Kept(path)) == found and len(simulated) == len(todo)


def test_a_point_is_kept_for_what_it_hangs_on(monkeypatch):
    curve = CURVES[0]
    one = PointTask(curve, 2)
    others = [
        PointTask(curve, 128),
        PointTask(curve, 2, (("nic.staging", "1 MiB"),)),
        *(
            PointTask(replace(curve, **changed), 2)
            for changed in (
                {"platform": "optane-adr"},
                {"settings": {"ddio": "off"}},
                {"experiment": "write-one-way"},
                {"given": {"mtu": 1024}},
                {"unit": "ns"},
            )
        ),
    ]
    assert len({name(task) for task in [one, *others]}) == 1 + len(others)
    assert name(one) == name(PointTask(replace(curve, points={}, title="another", missed="so"), 2))
    before = name(one)
    monkeypatch.setattr("rpsim.validation.published.curves.kept.fingerprint", lambda: "other code")
    assert name(one) != before


def test_a_sweep_runs_each_point_that_a_parameter_may_touch_once(simulated, tmp_path):
    as_it_is, kept = run(CURVES), Kept(tmp_path / "points.jsonl")
    simulated.clear()
    swept = sweep(CURVES, as_it_is, kept=kept)
    wanted = again(CURVES)
    assert simulated == [task for todo in wanted.values() for task in todo]
    assert [(one.path, one.text) for one in swept] == list(wanted) == list(variations(CURVES))
    for path, text in wanted:
        assert all(touches(path, task.curve) and task.values == ((path, text),) for task in wanted[path, text])
    simulated.clear()
    assert sweep(CURVES, as_it_is, kept=Kept(tmp_path / "points.jsonl")) == swept and not simulated


def test_a_variation_says_which_points_it_loses_and_wins(monkeypatch):
    """Simulated as published as it is, with one parameter twice that: all predicted points are lost, and won back."""

    def right(task):
        published = task.curve.points[task.x]
        return published * 2 if dict(task.values).get("pcie.posted_write") else published

    monkeypatch.setattr(board, "simulate", right)
    by_path = {one.path: one for one in sweep(CURVES, run(CURVES))}
    assert len(by_path["pcie.posted_write"].lost) == sum(len(curve.points) for curve in CURVES)
    assert by_path["nic.staging"].lost == by_path["nic.staging"].won == by_path["pcie.posted_write"].won == ()
    monkeypatch.setattr(board, "simulate", lambda task: right(task) * 2 / (2 if task.values else 1))
    assert not {one.path: one for one in sweep(CURVES, run(CURVES))}["nic.staging"].lost
    assert len({one.path: one for one in sweep(CURVES, run(CURVES))}["nic.staging"].won) == 6
