"""Does `rpsim bench` measure what it says? How fast anything is is nobody's test."""

from __future__ import annotations

import pytest

from rpsim.app.commands.bench import aims
from rpsim.app.commands.bench.speed import AIMS, LESS_IS_BETTER, document, judged, text
from rpsim.app.main import main
from rpsim.validation.naive.model import naive
from rpsim.validation.speed import bench, components, operations, sweep
from rpsim.validation.speed.counting import Counts
from rpsim.validation.speed.naive import write_workload

from ..answers import result_of


@pytest.mark.parametrize("size_bytes", bench.SIZES)
def test_both_models_do_the_same_writes(size_bytes):
    count = 150
    system, code = bench.write_workload(size_bytes, count, traced=False)
    system.clock.run_until(system.clock.start(code))
    seen = naive(write_workload(size_bytes, count, operations.WINDOW, operations.PLATFORM)).seen
    assert len(seen) == count
    assert max(one.at_ps for one in seen) == system.clock.now_ps


def test_only_traced_writes_are_traced():
    chunks = []
    for traced in (False, True):
        system, code = bench.write_workload(64, 20, traced)
        system.clock.run_until(system.clock.start(code))
        chunks.append(len(system.trace.chunks))
    assert chunks == [0, 20]


def test_a_long_history_is_linearizable_unless_its_end_is_another():
    history, contents = bench.long_history(500)
    assert len(history.operations) == 500
    assert contents[0]


def figures(factor: float) -> bench.Figures:
    size = bench.SizeFigures(100_000 * factor, 90_000 * factor, 8 / factor, 0.9, 20 * factor, 6.0)
    one = operations.OperationFigures(70_000 * factor, 11.9 / factor, Counts(9_999.9, 9_999_999))
    rows = [dict.fromkeys(table, one) for table in (operations.VERBS, operations.STORES, operations.RPCS)]
    states = 40_000 * factor, 1_000 * factor, 200 * factor
    faults = 100 * factor, 20_000 / factor
    return bench.Figures(1e6, dict.fromkeys(bench.SIZES, size), *rows, 600, *states, *faults, 1e6, 150)


def test_what_is_missed_is_named():
    profile = {size: [("models/nic/nic.py", "ring", 1.0, 0.25)] for size in bench.SIZES}
    good, bad = (text(document(figures(factor), profile)) for factor in (1.0, 0.5))
    assert not [line for line in good if "missed" in line]
    missed = [line for line in bad if line.endswith("missed")]
    assert any("raw timeouts a verb" in line and "at most 12" in line for line in missed)
    assert any("crash states a second, in units" in line for line in missed)
    assert any("WRITE 64 B, inline  " in line and "12  missed" in line for line in bad)
    assert not any("missed" in line for line in bad if line.strip().startswith(("CAS", "READ 64 KiB")))
    assert all(len(line) <= 80 for line in good + bad)


def test_a_missed_aim_is_the_exit_status_and_is_named():
    fine, slow = (judged(document(figures(factor), {})) for factor in (1.0, 0.5))
    assert (aims.status(fine), aims.status(slow)) == (0, 1)
    assert aims.closing(fine) == [f"all {len(fine)} aims met"]
    said = " ".join(" ".join(aims.closing(slow)).split())
    assert said.startswith("MISSED: ") and "64 B WRITEs a second: raw timeouts a verb (16, at most 12)" in said
    assert "WRITE 64 B, inline, raw timeouts" in said
    rows = aims.document(slow)
    assert {row["name"] for row in rows["aims"] if not row["met"]} == set(rows["missed"])


def test_every_aim_is_in_the_answer():
    answer = document(figures(1.0), {})
    for _, path, _ in AIMS:
        found = answer
        for part in path.split("."):
            found = found[part]
        assert isinstance(found, float | int)
    assert {path for _, path, _ in AIMS} >= LESS_IS_BETTER


@pytest.mark.slow
def test_the_command_prints_the_fields_that_scripts_lean_on(capsys):
    status = main(["bench", "--quick", "--json"])
    answer = result_of(capsys.readouterr().out)
    assert status == bool(answer["missed"])
    for field in ("verbs_per_second", "verbs_per_second_traced", "timeouts_per_verb", "arithmetic_over_naive"):
        assert answer[field] == answer["sizes"]["64"][field]
        assert answer["sizes"]["4096"][field] > 0
    for field in (
        "crash_states_per_second",
        "crash_states_per_second_opaque",
        "crash_states_per_second_redo_log",
        "executed_faults_per_second",
        "timeouts_per_executed_fault",
        "oracle_operations_per_second",
        "help_milliseconds",
    ):
        assert answer[field] > 0
    assert answer["verbs"].keys() == operations.VERBS.keys()
    assert answer["stores"].keys() == operations.STORES.keys()
    assert answer["rpcs"].keys() == operations.RPCS.keys()
    assert abs(sum(row["share"] for row in answer["profile"]["64"])) <= 1


@pytest.mark.long
def test_each_verb_and_each_store_has_its_figures(capsys, monkeypatch):
    monkeypatch.setattr(operations, "VERBS", {"cas": operations.VERBS["cas"]})
    monkeypatch.setattr(operations, "STORES", {"saw": operations.STORES["saw"]})
    monkeypatch.setattr(operations, "RPCS", {"farm_64": operations.RPCS["farm_64"]})
    assert main(["bench", "operations", "--quick", "--json"]) in (0, 1)
    answer = result_of(capsys.readouterr().out)
    assert {kind: list(answer[kind]) for kind in ("verbs", "stores", "rpcs")} == {
        "verbs": ["cas"],
        "stores": ["saw"],
        "rpcs": ["farm_64"],
    }
    for one, row in (("verb", answer["verbs"]["cas"]), ("operation", answer["stores"]["saw"])):
        figures = f"{one}s_per_second", f"timeouts_per_{one}", f"calls_per_{one}", f"bytecodes_per_{one}"
        assert tuple(row) == figures
        assert min(row.values()) > 0


@pytest.mark.long
def test_every_component_has_its_share_and_every_feature_its_ratio(capsys, monkeypatch):
    monkeypatch.setattr(components, "ROUNDS", 1)
    assert main(["bench", "components", "--quick", "--json"]) == 0
    answer = result_of(capsys.readouterr().out)
    for size in ("64", "4096"):
        shares = answer["components"][size]
        assert sum(shares.values()) == pytest.approx(1, abs=0.01)
        assert {"adapter", "PCIe", "cores"} <= shares.keys()
        everything = answer["components_with_everything"][size]
        assert sum(everything.values()) == pytest.approx(1, abs=0.01)
        assert everything["memory controllers and media"] > max(0.02, shares.get("memory controllers and media", 0.0))
        assert answer["features"][size].keys() == components.FEATURES.keys()
        assert min(answer["features"][size].values()) > 0


def test_the_files_that_a_write_passes_belong_to_a_component():
    assert components.of_component(64, 100).get("other models", 0) < 0.1
    assert components.component("models/nic/nic.py") == "adapter"
    assert components.component("models/something_new.py") == "other models"


def test_a_thread_that_spins_in_vain_costs_no_event():
    few, many = (operations.counts(operations.RPCS["idle_polling"].prepare(count)) for count in (1_000, 100_000))
    assert few == many and many.calls < 50


@pytest.mark.parametrize(("two", "missed"), [(5.0, False), (6.0, True)])
def test_a_sweep_by_two_processes_is_compared_with_one(two, missed, monkeypatch, capsys):
    figures = sweep.SweepFigures(16, {1: 10.0, 2: two}, {1: 10.0, 2: 11.0})
    monkeypatch.setattr(sweep, "measure", lambda effort, on_step: figures)
    assert main(["bench", "sweep"]) == missed
    said = capsys.readouterr().out
    assert ("MISSED: 1 of 1 aim: two processes over one" in said) == missed and "+10%" in said
    assert max(map(len, said.splitlines())) <= 80
    assert main(["bench", "sweep", "--json"]) == missed
    answer = result_of(capsys.readouterr().out)
    assert answer["two_processes_over_one"] == round(10 / two, 2)
    assert answer["missed"] == ["two processes over one"] * missed
