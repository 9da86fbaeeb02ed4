"""A scoreboard that was stopped goes on from there, and a point is kept for exactly what it hangs on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.sim.jobs.kept import Kept
from rpsim.validation.published.curves import board
from rpsim.validation.published.curves.board import PointTask, chosen, perform, run, tasks
from rpsim.validation.published.curves.sweep import again, sweep, touches, variations
from rpsim.validation.published.experiments.point import Point

CURVES = [curve for curve in chosen("nic") if curve.id in ("cx3-send", "cx3-read")]


@pytest.fixture
def simulated(monkeypatch):
    """The points that were really run, each a made-up number."""
    ran: list[Point] = []

    def once(point):
        ran.append(point)
        return 1.0 + len(point.values)

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
        perform(todo, on_step=tell, kept=Kept(path))
    path.write_text(path.read_text() + '{"job": "half a li')  # stopped while writing
    found = perform(todo, kept=Kept(path))
    assert [task for task, _ in found] == todo and simulated == [task.point for task in todo]
    assert perform(todo, kept=Kept(path)) == found and len(simulated) == len(todo)


def test_a_point_is_kept_for_what_it_hangs_on():
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
    assert len({task.point.digest for task in [one, *others]}) == 1 + len(others)
    told_otherwise = PointTask(replace(curve, points={}, title="another", missed="so"), 2)
    assert one.point.digest == told_otherwise.point.digest


def test_a_sweep_runs_each_point_that_a_parameter_may_touch_once(simulated, tmp_path):
    as_it_is, kept = run(CURVES), Kept(tmp_path / "points.jsonl")
    simulated.clear()
    swept = sweep(CURVES, as_it_is, kept=kept)
    wanted = again(CURVES)
    assert simulated == [task.point for todo in wanted.values() for task in todo]
    assert [(one.path, one.text) for one in swept] == list(wanted) == list(variations(CURVES))
    for path, text in wanted:
        assert all(touches(path, task.curve) and task.values == ((path, text),) for task in wanted[path, text])
    simulated.clear()
    assert sweep(CURVES, as_it_is, kept=Kept(tmp_path / "points.jsonl")) == swept and not simulated


def test_a_variation_says_which_points_it_loses_and_wins(monkeypatch):
    """Simulated as published as it is, with one parameter twice that: all predicted points are lost, and won back."""

    published = {task.point: task.curve.points[task.x] for task in tasks(CURVES)}

    def right(point):
        return published[replace(point, values=())] * (2 if dict(point.values).get("pcie.posted_write") else 1)

    monkeypatch.setattr(board, "simulate", right)
    by_path = {one.path: one for one in sweep(CURVES, run(CURVES))}
    assert len(by_path["pcie.posted_write"].lost) == sum(len(curve.points) for curve in CURVES)
    assert by_path["nic.staging"].lost == by_path["nic.staging"].won == by_path["pcie.posted_write"].won == ()
    monkeypatch.setattr(board, "simulate", lambda point: right(point) * 2 / (2 if point.values else 1))
    assert not {one.path: one for one in sweep(CURVES, run(CURVES))}["nic.staging"].lost
    assert len({one.path: one for one in sweep(CURVES, run(CURVES))}["nic.staging"].won) == 6
