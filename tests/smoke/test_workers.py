"""Whatever ends a command, its worker processes end with it, and nothing half-written is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")

WORKERS = "--multiprocessing-fork"
"""What multiprocessing writes on the command line of a process that it spawns for work."""
RPSIM = (sys.executable, "-m", "rpsim")
LONG_RUN = ("run", "quickstart", "--set", "workload.operations=200000")
ONE_VARIANT = ("schemes=[saw]", "vary.platform=[optane-adr]", "vary.ddio=[on]", "crash.schedules=9")
COMMANDS = {
    "matrix": ("matrix", "--quick"),
    "reproduce hardware": ("reproduce", "hardware"),
}
MORE = {
    "run": LONG_RUN,
    "crash, schedules side by side": ("crash", "quickstart", *(w for one in ONE_VARIANT for w in ("--set", one))),
    "matrix methods": ("matrix", "methods"),
    "matrix schemes": ("matrix", "schemes", "saw"),
    "design": ("design", "--platform", "adr, ddio on"),
    "reproduce PAPER": ("reproduce", "efactory"),
    "mutate": ("mutate", "efactory"),
}
"""All start workers by the same code (`test_house.py` holds that), so that two tell as much from day to day."""
EVERY = [
    *(pytest.param(words, id=name) for name, words in COMMANDS.items()),
    *(pytest.param(words, id=name, marks=pytest.mark.slow) for name, words in MORE.items()),
]


@pytest.mark.long
@pytest.mark.parametrize("command", EVERY)
def test_workers_end_with_a_command_that_is_killed(tmp_path: Path, command: Sequence[str]) -> None:
    with started([*RPSIM, *command, "--jobs", "2"], tmp_path) as process:
        process.kill()
        process.wait()
        assert left_of(process.pid) == []


BENCH = "from rpsim.validation.speed.bench import memory_of_traced as growth; growth(10**7)"
MEASURE = """
from rpsim.validation.measuring.calibrate.runner import Base, Runner
from rpsim.validation.measuring.conditions import Conditions
points = [Conditions(str(size), "WRITE", size_bytes=size, iterations=10**6) for size in (8, 64)]
with Runner(Base("optane-adr"), 2) as runner:
    runner.measurements(points)
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [BENCH, MEASURE], ids=["bench", "measure and calibrate"])
def test_workers_end_with_a_program_that_is_killed(tmp_path: Path, program: str) -> None:
    with started([sys.executable, "-c", program], tmp_path) as process:
        process.kill()
        process.wait()
        assert left_of(process.pid) == []


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with started([*RPSIM, *LONG_RUN, "--jobs", "2"], tmp_path, heeding=number) as process:
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
        assert left_of(process.pid) == []
    assert process.returncode == status
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


ENDED_MEANWHILE = """
import os, signal, time
from multiprocessing import util
from rpsim.sim.jobs.runner import Processes

def spawned(*command):
    pid = spawn(*command)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.5)
    return pid

if __name__ == "__main__":
    with Processes(2) as processes:
        spawn, util.spawnv_passfds = util.spawnv_passfds, spawned
        processes.submit(abs, 1).result()
"""


def test_a_worker_that_has_just_been_started_says_nothing_when_its_parent_is_ended(tmp_path: Path) -> None:
    (tmp_path / "ended.py").write_text(ENDED_MEANWHILE)
    command = [sys.executable, "ended.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGTERM
    assert "Traceback" not in ended.stderr


@contextmanager
def started(
    command: Sequence[str], folder: Path, heeding: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own, once a worker of it is there; nothing of it is left at the end."""

    def heed() -> None:  # a shell's background jobs, and what they start, ignore SIGINT
        signal.signal(heeding, signal.SIG_DFL)

    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed,  # noqa: PLW1509
    )
    try:
        while not any(WORKERS in one for one in living(process.pid)):
            assert process.poll() is None, "it ended before it had any worker"
            time.sleep(0.1)
        yield process
    finally:
        if living(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def left_of(session: int) -> list[str]:
    """Those processes of a session that are there still after some seconds."""
    for _ in range(50):
        if not living(session):
            break
        time.sleep(0.2)
    return living(session)


def living(session: int) -> list[str]:
    """The processes of a session that are not merely waiting to be reaped."""
    ended = subprocess.run(["ps", "-e", "-ww", "-o", "sess=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    return [row[2] for row in rows if row[0] == str(session) and not row[1].startswith("Z")]
