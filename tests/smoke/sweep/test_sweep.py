"""`rpsim sweep`: every run once, whatever is killed; the same bytes from processes, shards and resumed sweeps."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from rpsim.app.commands.sweep.results import RUNS
from rpsim.app.main import main
from rpsim.scenarios.sweep import grid as grids
from rpsim.scenarios.sweep import point
from rpsim.sim.jobs.spread import known_answers

from ...answers import result_of

SMALL = (
    "quickstart", "--set", "schemes=[saw]", "--set", "platform=optane-adr", "--set", "ddio=on",
    "--set", "workload.operations=8", "--set", "workload.keys=4", "--set", "roles.client.processes=1",
)  # fmt: skip
OVER = ("--over", "workload.value=64 B..256 B*2", "--over", "workload.mix=a,c", "--seeds", "2")
COUNT = 3 * 2 * 2


@pytest.fixture(autouse=True)
def _in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def swept(*more: str, out: str = "results") -> Path:
    """The folder of a small sweep that has run in this process."""
    assert main(["sweep", *SMALL, *OVER, "--jobs", "1", "--out", out, "--no-report", *more]) == 0
    wanted = f"shard-{more[1].replace('/', '-of-')}" if "--shard" in more else ""
    return next(path for path in Path(out).iterdir() if wanted in path.name)


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / RUNS).read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small sweep, never disturbed."""
    out = tmp_path_factory.mktemp("undisturbed")
    return swept(out=str(out))


def same_files(one: Path, other: Path) -> None:
    names = {path.name for path in one.iterdir()} - {"manifest.json"}
    assert names == {"sweep.json", RUNS, "runs.csv", "summary.json"}
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_every_combination_runs_once_in_the_order_of_the_grid(undisturbed: Path) -> None:
    rows = lines(undisturbed)
    places = [(*row["over"].values(), row["seed"]) for row in rows]
    assert places == [(v, m, s) for v in ("64 B", "128 B", "256 B") for m in "ac" for s in (1, 2)]
    assert len({row["job"] for row in rows}) == COUNT
    assert all(row["answer"]["throughput_ops_per_s"] > 0 for row in rows)
    puts = {row["over"]["workload.value"]: row["answer"]["latency_ns"]["put"]["p50"] for row in rows[::4]}
    assert puts["64 B"] < puts["128 B"] < puts["256 B"]


def test_a_run_of_a_sweep_is_what_rpsim_run_says(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ["--set", "workload.value=128 B", "--set", "workload.mix=a", "--seed", "2", "--no-report", "--trace", "0"]
    capsys.readouterr()
    assert main(["run", *SMALL, *values, "--json"]) == 0
    (one,) = result_of(capsys.readouterr().out)["schemes"]
    row = next(
        r
        for r in lines(undisturbed)
        if r["over"] == {"workload.value": "128 B", "workload.mix": "a"} and r["seed"] == 2
    )
    assert {**row["answer"], "scheme": row["scheme"], "platform": row["platform"]} == one


def test_what_is_known_is_not_run_again_and_the_bytes_are_the_same(
    undisturbed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep that was killed: some answers in workers' files, one of them broken off, one there twice."""
    rows = [json.dumps({"job": row["job"], "answer": row["answer"]}) + "\n" for row in lines(undisturbed)]
    workers = Path("results") / f"{undisturbed.name}.partial" / "workers"
    workers.mkdir(parents=True)
    (workers / "one.jsonl").write_text("".join(rows[:5]) + rows[5][:-20])
    (workers / "two.jsonl").write_text(rows[3] + rows[8])
    begun = []
    perform = point.performed
    monkeypatch.setattr(
        point, "performed", lambda *given, **more: begun.append(given[0].seed) or perform(*given, **more)
    )
    same_files(swept(), undisturbed)
    assert len(begun) == COUNT - 6
    same_files(swept(), undisturbed)
    assert len(begun) == COUNT - 6, "all is known now"
    assert [path.name for path in Path("results").iterdir()] == [undisturbed.name]
    capsys.readouterr()
    assert (
        main(
            [
                "sweep",
                *SMALL,
                *OVER[:2],
                "--over",
                "workload.mix=a",
                "--seeds",
                "3",
                "--jobs",
                "1",
                "--no-report",
                "--json",
            ]
        )
        == 0
    )
    assert result_of(capsys.readouterr().out)["runs"] == 9
    assert len(begun) == COUNT - 6 + 3, "of a sweep that overlaps only the new runs are run"


def test_a_changed_code_or_scenario_is_run_again(undisturbed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (row, *_) = lines(undisturbed)
    axes = [grids.Axis("workload.value", ("64 B",))]
    made = grids.make_grid("quickstart", axes, [*SMALL[2::2], "workload.mix=a"])
    assert grids.run_digest(point.simulate, made.runs[0]) == row["job"]
    other = grids.make_grid("quickstart", axes, [*SMALL[2::2], "workload.mix=a", "workload.zipf=0.5"])
    assert grids.run_digest(point.simulate, other.runs[0]) != row["job"]
    renamed = grids.make_grid("quickstart", axes, [*SMALL[2::2], "workload.mix=a", "title=another"])
    assert grids.run_digest(point.simulate, renamed.runs[0]) == row["job"], "a title changes no run"
    monkeypatch.setattr("rpsim.sim.jobs.code._fingerprint", lambda modules: "other code")
    assert grids.run_digest(point.simulate, made.runs[0]) != row["job"]


def test_merged_shards_are_the_sweep(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = [swept("--shard", f"{i}/3", out="shards") for i in (1, 2, 3)]
    assert [len(lines(shard)) for shard in shards] == [4, 4, 4]
    assert main(["sweep", "merge", *map(str, shards), "--no-report"]) == 0
    same_files(Path("results") / undisturbed.name, undisturbed)
    capsys.readouterr()
    assert main(["sweep", "merge", str(shards[0]), str(shards[2]), "--no-report"]) == 2
    said = capsys.readouterr().err
    assert said == "rpsim sweep merge: found 2 of 3 shards (4 runs missing), expected also 2/3\n"
    (shards[1] / RUNS).write_text("")
    assert main(["sweep", "merge", *map(str, shards), "--no-report"]) == 2


def test_a_crash_sweep_has_verdicts_and_ends_with_1_where_one_is_not_expected(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = [*SMALL[:1], *SMALL[3:], "--over", "schemes=saw,client-active", "--crash", "--jobs", "1"]
    few += ["--set", "expect={}"]
    assert main(["sweep", *few]) == 0
    said = capsys.readouterr().out
    assert "all" in said and "as expected" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    (folder,) = Path("results").iterdir()
    found = {row["scheme"]: row["answer"]["crash"]["verdicts"]["no_lost_ack"] for row in lines(folder)}
    assert found == {"saw": "holds", "client-active": "violated"}
    page = (folder / "report.html").read_text()
    assert "no_lost_ack" in page and "Plotly.newPlot" in page
    assert main(["sweep", *few, "--set", "expect={saw: {no_lost_ack: violated}}", "--no-report"]) == 1
    assert "no_lost_ack holds, but the scenario" in " ".join(capsys.readouterr().out.split())


WRONG = [
    (["--over", "workload.kyes=1,2"], "--over workload.kyes: found the unknown key 'kyes'", "did you mean 'keys'?"),
    (["--over", "workload.value=4 KiB..64 B*2"], "--over workload.value: found the empty range", ""),
    (["--over", "workload.zipf=0.9,-1"], "--over workload.zipf: found -1", ""),
    (["--over", "schemes=saw,sav"], "--over schemes: found 'sav'", "did you mean 'saw'?"),
    (["--over", "workload.zipf=1", "--over", "workload.zipf=2"], "--over workload.zipf: found it a second time", ""),
    (["--over", "workload.keys=4,8"], "--over workload.keys: found it together with --set workload.keys", ""),
    (["--over", "seed=1,2"], "--over seed: found the seed", "--seeds N"),
    (["--over", "workload.zipf=1..100000+1"], "--over workload.zipf: found more than 10,000 values", ""),
    (["--over", "workload.zipf"], "--over: found 'workload.zipf', expected FIELD=...", ""),
    ([], "rpsim sweep: found no --over", ""),
    (["--seeds", "2", "--shard", "3/2"], "--shard: found '3/2', expected I/N with I from 1 to N", ""),
    (["--seeds", "2", "--dask", "nowhere://x"], "--dask: found 'nowhere://x'", ""),
    (["--seeds", "2", "--dask", "x", "--jobs", "2"], "--dask: found it together with --jobs", ""),
]


@pytest.mark.parametrize(("arguments", "begins", "has"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_wrong_input_is_one_line_and_leaves_nothing(
    arguments: list[str], begins: str, has: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "nowhere://x" in arguments:
        pytest.importorskip("distributed")
    small = SMALL if "schemes=saw,sav" not in arguments else SMALL[:1]
    assert main(["sweep", *small, *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.removeprefix("rpsim: ").startswith(begins)
    assert has in said.err
    assert list(Path().iterdir()) == []


def test_folders_that_are_no_shards_of_one_sweep_are_refused(
    undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path("other")
    other.mkdir()
    about = json.loads((undisturbed / "sweep.json").read_text())
    (other / "sweep.json").write_text(json.dumps({**about, "seeds": [1, 2, 3]}))
    (other / RUNS).write_text("")
    (Path("empty")).mkdir()
    for folders, message in (
        ([], "rpsim sweep merge: found no DIR"),
        (["nowhere"], "nowhere: found no such folder"),
        (["empty"], "empty: found a folder without sweep.json"),
        ([str(undisturbed), "other"], "other: found another sweep (it differs in seeds)"),
    ):
        assert main(["sweep", "merge", *folders]) == 2
        said = capsys.readouterr()
        assert said.err.startswith(message) and said.err.count("\n") == 1 and said.out == ""
    assert main(["sweep", "merge", str(undisturbed), "--seeds", "2", "--crash"]) == 2
    assert "--seeds: found it with rpsim sweep merge, expected rpsim sweep: it goes" in capsys.readouterr().err


def test_an_impossible_point_is_reported_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rpsim.sim.errors import InputError, Mistake

    perform = point.performed

    def some(scenario, variant, **more):
        if scenario.workload.zipf == 0.5:
            raise InputError(Mistake("no room", "less"))
        return perform(scenario, variant, **more)

    monkeypatch.setattr(point, "performed", some)
    assert main(["sweep", *SMALL, "--over", "workload.zipf=0.5,0.9", "--jobs", "1"]) == 1
    assert "impossible: workload.zipf = 0.5, saw: found no room" in capsys.readouterr().out
    (folder,) = Path("results").iterdir()
    assert [next(iter(row["answer"])) for row in lines(folder)] == ["error", "operations"]


@pytest.mark.long
def test_parquet_has_the_rows_of_the_csv() -> None:
    duckdb = pytest.importorskip("duckdb")
    folder = swept("--parquet")
    assert duckdb.execute(
        f"SELECT count(*), min(throughput_ops_per_s) > 0 FROM '{folder}/runs.parquet'"
    ).fetchone() == (
        COUNT,
        True,
    )


# killed --------------------------------------------------------------------------------------------------------------
JOBS = 60
PROGRAM = f"""
import sys
from pathlib import Path
from rpsim.sim.jobs.runner import JobRunner
from rpsim.sim.jobs.spread import Spread
sys.path.insert(0, sys.argv[2])
from sweeping import slowly

if __name__ == "__main__":
    jobs = list(range({JOBS}))
    with JobRunner(2) as runner:
        for _ in Spread(Path(sys.argv[1])).completed(runner, slowly, jobs, [f"job {{n}}" for n in jobs]):
            pass
"""


def ended(command: list[str], seconds: float | None) -> bool:
    """Whether a command ends within so long; else all of its processes are killed by -9."""
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        said = process.communicate(timeout=seconds)[1]
        assert process.returncode == 0, said
        return True
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False


def answers_in(folder: Path) -> list[str]:
    """The digests of the answers that whole lines have, as often as they are there."""
    text = "".join(path.read_text() for path in sorted(folder.glob("*.jsonl")))
    return [json.loads(line)["job"] for line in text.splitlines() if line.endswith("}")]


@pytest.mark.long
def test_no_answer_is_lost_or_computed_twice_however_often_all_is_killed(tmp_path: Path) -> None:
    """The jobs are quick, so that a kill is likely between a job's end and the report of it."""
    program, folder = tmp_path / "program.py", tmp_path / "answers"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder), str(Path(__file__).parent)]
    draw, before = random.Random(26), 0
    for _ in range(4):
        if ended(command, draw.uniform(0.4, 1.2)):
            break
        found = answers_in(folder)
        assert len(found) == len(set(found)) >= before, "an answer that is written is known to every later start"
        before = len(found)
    assert ended(command, None)
    assert sorted(answers_in(folder)) == sorted(f"job {number}" for number in range(JOBS))
    assert known_answers(folder.glob("*.jsonl")) == {f"job {number}": {"number": number} for number in range(JOBS)}


def rpsim_sweep(*more: str) -> list[str]:
    return [sys.executable, "-m", "rpsim", "sweep", *SMALL, *more, "--no-report"]


@pytest.mark.slow
def test_a_thousand_runs_killed_five_times_give_the_bytes_of_an_undisturbed_sweep() -> None:
    over = ["--over", "workload.value=64 B..512 B*2", "--over", "workload.zipf=0.1..0.5+0.1", "--seeds", "50"]
    began = time.monotonic()
    assert ended(rpsim_sweep(*over, "--out", "undisturbed", "--jobs", "2"), None)
    whole_s = time.monotonic() - began
    draw, kills = random.Random(1), 0
    while kills < 5:
        assert not ended(rpsim_sweep(*over, "--jobs", "2"), draw.uniform(0.1, 0.35) * whole_s), "it ended too early"
        kills += 1
        partial = next(Path("results").glob("*.partial"), None)
        found = [] if partial is None else answers_in(partial / "workers")
        assert len(found) == len(set(found))
        if len(found) > 900:
            break
    assert ended(rpsim_sweep(*over, "--jobs", "2"), None)
    (undisturbed,), (folder,) = Path("undisturbed").iterdir(), Path("results").iterdir()
    assert len(lines(folder)) == 4 * 5 * 50
    same_files(folder, undisturbed)


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced() -> None:
    over = ["--over", "workload.zipf=0.1..0.5+0.1", "--seeds", "20", "--set", "workload.value=64 B"]
    with subprocess.Popen(
        rpsim_sweep(*over, "--jobs", "2"), stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        killed = set()
        while process.poll() is None and len(killed) < 2:
            partial = next(Path("results").glob("*.partial"), None)
            files = (
                []
                if partial is None
                else [path for path in (partial / "workers").glob("*.jsonl") if path.stat().st_size]
            )
            pids = {int(path.name.split("-")[-2]) for path in files} - killed - {process.pid}
            for pid in sorted(pids)[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.1)
        assert process.wait() == 0
    assert killed
    (folder,) = Path("results").iterdir()
    assert len(lines(folder)) == 100


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_one_of_which_is_killed(undisturbed: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        over = ["--over", "workload.zipf=0.1..0.5+0.1", "--seeds", "60", "--set", "workload.value=64 B"]
        command = [*rpsim_sweep(*over), "--dask", cluster.scheduler_address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while not (files := written()) and process.poll() is None:
                time.sleep(0.1)
            victim = int(files[0].name.split("-")[-2])
            assert victim in {worker.pid for worker in cluster.workers.values()}
            os.kill(victim, signal.SIGKILL)
            assert process.wait() == 0
    (on_cluster,) = Path("results").iterdir()
    assert len(lines(on_cluster)) == 300
    assert ended(rpsim_sweep(*over, "--jobs", "2", "--out", "here"), None)
    (here,) = Path("here").iterdir()
    same_files(on_cluster, here)


def written() -> list[Path]:
    """The files of workers that have an answer."""
    return [path for path in Path("results").glob("*.partial/workers/*.jsonl") if path.stat().st_size]


def test_workers_that_die_again_and_again_are_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform, begun = point.performed, []

    def dying(*given, **more):
        begun.append(given[0].seed)
        if len(begun) > 2:
            raise BrokenExecutor("a process in the process pool was terminated abruptly")
        return perform(*given, **more)

    monkeypatch.setattr(point, "performed", dying)
    assert main(["sweep", *SMALL, "--seeds", "5", "--jobs", "1"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "workers die again and again" in said.err and "2 of 5 runs are kept" in said.err
    assert len(begun) == 2 + 3
    monkeypatch.setattr(point, "performed", perform)
    assert main(["sweep", *SMALL, "--seeds", "5", "--jobs", "1", "--no-report"]) == 0
    (folder,) = Path("results").iterdir()
    assert len(lines(folder)) == 5


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (
            "distributed",
            ["--dask", "tcp://127.0.0.1:8786"],
            "rpsim: --dask: found no package distributed, expected the extra",
        ),
        ("duckdb", ["--parquet"], "rpsim: --parquet: found no package duckdb, expected the extra [data]"),
    ],
)
def test_an_extra_that_is_not_installed_is_named(
    module: str, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["sweep", *SMALL, "--seeds", "2", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(message) and said.count("\n") == 1
    assert list(Path().iterdir()) == []
