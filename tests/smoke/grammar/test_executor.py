"""Do all commands that share their work take the same executor, and end in one line when its workers are gone?"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import rpsim.sim.jobs.cluster
from rpsim.app.commands import forms
from rpsim.app.main import main
from rpsim.sim.jobs.runner import Workers

from ...answers import result_of

FEW = ["--set", "workload.operations=4", "--set", "workload.keys=2", "--set", "workload.warmup=0"]
CELL = ["read-after-write", "no-flush", "--platforms", "adr, ddio on", "--shapes", "word", "--sizes", "64 B", "--quick"]
COMMANDS = {
    "run": ["run", "quickstart", *FEW],
    "crash": ["crash", "quickstart", *FEW, "--set", "schemes=[saw]", "--set", "vary.ddio=['on']", "--set", "expect={}"],
    "matrix primitives": ["matrix", "primitives", *CELL],
    "reproduce hardware": ["reproduce", "hardware", "--component", "pcie", "--quick"],
}
"""A small piece of work of each; `matrix`, `mutate` and `reproduce PAPER` have it from the same two functions."""


class Counted(ThreadPoolExecutor):
    """Threads in place of a cluster's workers; counts the jobs."""

    jobs = 0

    def submit(self, fn, /, *args, **more) -> Future:
        Counted.jobs += 1
        return super().submit(fn, *args, **more)


class Gone(ThreadPoolExecutor):
    """Workers that die."""

    def submit(self, fn, /, *args, **more) -> Future:
        found: Future = Future()
        found.set_exception(BrokenExecutor("killed"))
        return found


def cluster_of(monkeypatch: pytest.MonkeyPatch, kind: type[ThreadPoolExecutor]) -> None:
    """Have ``--dask`` mean these threads."""

    @contextmanager
    def dask_workers(address: str, option: str) -> Iterator[Workers]:
        assert (address, option) == ("tcp://here:8786", "--dask")
        with kind(1) as threads:
            yield Workers(1, threads, (BrokenExecutor,), f"the Dask cluster at {address} is gone, or its workers die")

    monkeypatch.setattr(rpsim.sim.jobs.cluster, "dask_workers", dask_workers)


def test_every_command_with_jobs_takes_a_cluster_unless_its_work_cannot_travel() -> None:
    here = {name for name, table in forms().items() if {"--jobs", "--dask"} & {one.flag for one in table.options}}
    there = {name for name, table in forms().items() if "--dask" in {one.flag for one in table.options}}
    # files that only this machine has (design), measurements in rounds (measure, calibrate), pages
    assert here - there == {"design", "measure", "calibrate", "calibrate compare", "list schemes"}
    assert {"sweep", "crash", "mutate", "matrix schemes", "matrix methods", "reproduce"} | COMMANDS.keys() <= there


@pytest.mark.long
@pytest.mark.parametrize("form", COMMANDS)
def test_a_cluster_gives_the_same_answer(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster_of(monkeypatch, Counted)
    Counted.jobs = 0
    answers = []
    for number, where in enumerate((["--jobs", "1"], ["--dask", "tcp://here:8786"])):
        assert main([*COMMANDS[form], *where, "--no-report", "--json", "--out", f"out-{number}"]) in (0, 1)
        answers.append(_timeless(result_of(capsys.readouterr().out)))
        assert (Counted.jobs > 1) == (number == 1)
    assert answers[0] == answers[1]


def _timeless(answer: dict) -> dict:
    """Without what only one of two equal answers may have: where it is, and how long it took."""
    rows = [
        {key: value for key, value in row.items() if key not in ("states_per_second", "counterexamples")}
        for row in answer.get("schemes", ())
    ]
    return {**answer, "results": "", "schemes": rows}


@pytest.mark.parametrize("form", COMMANDS)
def test_workers_that_are_gone_are_one_line(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster_of(monkeypatch, Gone)
    assert main([*COMMANDS[form], "--dask", "tcp://here:8786"]) == 1
    said = capsys.readouterr()
    assert said.err == "rpsim: the Dask cluster at tcp://here:8786 is gone, or its workers die\n" and said.out == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size] == []
