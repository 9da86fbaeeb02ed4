"""Does a run's trace follow the Trace Event Format, nest as viewers ask, and say what happened when?"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from rpsim.app.main import main
from rpsim.app.terminal.output import as_trace
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.perfetto import trace_events
from rpsim.sim.trace import Stage

from ..answers import result_of


def scenario(ddio: str = "on", operations: int = 24, **crash: Any):
    return Draft.new(
        "a test",
        scenario="traced",
        vary={"platform": ["optane-adr"], "ddio": [ddio]},
        schemes=["saw"],
        roles={"client": {"machines": 2, "processes": 2}},
        workload={"kind": "ycsb", "mix": "a", "keys": 4, "value": "64 B", "operations": operations, "zipf": 0.0},
        crash=crash,
    ).build()


def valid(events: list[dict[str, Any]]) -> None:
    """What the format asks of the kinds of events that are written, and viewers of slices on one track."""
    named, tracks = set(), defaultdict(list)
    for event in events:
        assert event["ph"] in ("X", "i", "M") and event["pid"] > 0 and event["tid"] >= 0
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"]["name"]
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        assert event["name"] and event["ts"] >= 0 and event["cat"]
        assert ("thread_name", event["pid"], event["tid"]) in named
        assert ("process_name", event["pid"], 0) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            start = round(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, -round(event["dur"] * 1000)))
        else:
            assert event["s"] in ("t", "g")
    for slices in tracks.values():
        above: list[int] = []
        for start, minus in sorted(slices):
            while above and above[-1] <= start:
                above.pop()
            assert not above or start - minus <= above[-1], "slices of a track overlap without nesting"
            above.append(start - minus)


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_a_run_as_a_trace(ddio: str) -> None:
    one = scenario(ddio)
    (variant,) = one.variants()
    result = run_variant(one, variant)
    events = trace_events(result)
    valid(events)
    assert json.loads(as_trace(events))["traceEvents"] == events
    slices = [event for event in events if event["ph"] == "X"]
    operations = {event["args"]["operation"]: event for event in slices if "operation" in event["args"]}
    assert len(operations) == 24
    for operation in result.history.operations:
        event = operations[operation.number]
        assert (event["args"]["start_ps"], event["args"]["end_ps"]) == (operation.invoke_ps, operation.return_ps)
        assert event["ts"] == operation.invoke_ps // 1000 / 1000
    processes = {event["args"]["name"].split(":")[0] for event in events if event["name"] == "process_name"}
    assert processes == {"client 0", "client 1", "client 2", "client 3", "server[0]"}
    tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    cache = "llc" if ddio == "on" else "iio_wc"
    assert {f"pm: {cache}", "pm: wpq", "ordering edges", "operations"} <= tracks
    assert any(name.startswith("stores of") for name in tracks)


def test_a_chunk_is_drawn_in_each_place_when_it_was_there() -> None:
    one = scenario("off", operations=2)
    (variant,) = one.variants()
    result = run_variant(one, variant)
    events = [event for event in trace_events(result) if event["ph"] == "X"]
    for chunk in result.system.trace.chunks:
        own = [event for event in events if event["args"].get("chunk") == chunk.number]
        starts = [event["args"]["start_ps"] for event in own]
        assert starts == sorted(starts)
        if chunk.reached_ps[Stage.ACCEPTED] <= max(o.return_ps or 0 for o in result.history.operations):
            assert starts[0] == chunk.reached_ps[Stage.ACCEPTED]
            assert own[0]["args"]["writer"] == chunk.writer


def test_only_the_first_operations_are_drawn_if_so_many_are_asked_for() -> None:
    one = scenario(operations=60)
    (variant,) = one.variants()
    result = run_variant(one, variant)
    events = trace_events(result, operations=10, first_pid=501)
    valid(events)
    assert sum("operation" in event.get("args", {}) for event in events) == 10
    assert min(event["pid"] for event in events) == 501
    until_ps = max(o.return_ps or 0 for o in result.history.operations[:10])
    assert all(event["args"]["at_ps"] <= until_ps for event in events if event["ph"] == "i")


def test_marks_are_seen_by_all() -> None:
    one = scenario(operations=2)
    (variant,) = one.variants()
    events = trace_events(run_variant(one, variant), marks=[(5_000_000, "CRASH: power failure")])
    (mark,) = [event for event in events if event["ph"] == "i" and event["s"] == "g"]
    assert (mark["ts"], mark["name"]) == (5.0, "CRASH: power failure")


@pytest.mark.long
def test_the_commands_write_traces(tmp_path, capsys) -> None:
    small = ["--set", "workload.operations=12", "--set", "workload.keys=3", "--set", "schemes=[client-active]",
             "--set", "vary={platform: [optane-adr], ddio: ['on']}", "--no-report", "--out", str(tmp_path)]  # fmt: skip
    assert main(["run", "quickstart", *small, "--trace", "5", "--json"]) == 0
    folder = result_of(capsys.readouterr().out)["results"]
    drawn = json.loads((tmp_path / folder / "trace.json").read_text())
    valid(drawn["traceEvents"])
    main(["crash", "quickstart", *small, "--set", "expect={}", "--trace", "0", "--json"])
    (folder,) = {path.parent for path in tmp_path.glob("*/case-1.json")}
    assert not (folder / "trace.json").exists()
    drawn = json.loads((folder / "trace-case-3.json").read_text())
    valid(drawn["traceEvents"])
    names = [event["name"] for event in drawn["traceEvents"]]
    assert any(name.startswith("CRASH") for name in names) and any(name.startswith("LOST") for name in names)
    again = tmp_path / "again.json"
    assert main(["replay", str(folder / "case-3.json"), "--perfetto", str(again), "--json"]) == 0
    assert json.loads(again.read_text()) == drawn
    capsys.readouterr()
    assert main(["replay", str(folder / "case-3.json"), "--trace", str(tmp_path / "no" / "where.json")]) == 2
    assert "--trace" in capsys.readouterr().err
