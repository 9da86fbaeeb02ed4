"""Are jobs run once each, in any executor, and is an answer kept for exactly the code and data that made it?"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rpsim.sim.errors import InputError, Mistake
from rpsim.sim.jobs.code import Code, imported
from rpsim.sim.jobs.kept import Kept
from rpsim.sim.jobs.runner import JobRunner, report

from .test_house import FLOORS, imports, module_of, package_files, tree_of


# the runner ------------------------------------------------------------------------------------------------
def halved(number: int) -> float:
    """A job."""
    if number % 2:
        raise InputError(Mistake(f"{number}", "an even number"))
    report(0.5)
    time.sleep(0.4 / (1 + number))
    return number / 2


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_answers_come_in_the_order_of_the_jobs_and_errors_from_wherever_they_are_raised(workers: int) -> None:
    shares: list[tuple[int, float]] = []
    with JobRunner(workers) as runner:
        assert list(runner.in_order(halved, [0, 2, 4], lambda *one: shares.append(one))) == [0.0, 1.0, 2.0]
        assert dict(runner.completed(halved, [6, 8])) == {0: 3.0, 1: 4.0}
        with pytest.raises(InputError, match="found 3, expected an even number"):
            list(runner.in_order(halved, [2, 3, 4]))
    assert {(0, 0.5), (0, 1.0), (1, 1.0), (2, 1.0)} <= set(shares)


def test_one_worker_runs_a_job_when_its_answer_is_wanted() -> None:
    begun: list[int] = []
    with JobRunner() as runner:
        for number, _ in runner.completed(begun.append, [5, 6, 7]):
            assert begun == [5, 6, 7][: number + 1]


def test_any_executor_does_and_jobs_that_were_not_begun_are_given_up() -> None:
    begun: list[int] = []
    free = threading.Event()

    def job(number: int) -> int:
        begun.append(number)
        if number:
            free.wait()
        return number

    with ThreadPoolExecutor(1) as threads:
        with JobRunner(executor=threads) as runner:
            answers = runner.completed(job, [0, 1, 2, 3])
            assert next(answers) == (0, 0)
            answers.close()
        free.set()
        assert threads.submit(abs, -1).result() == 1, "it is its owner who shuts it down"
    assert set(begun) <= {0, 1}


def test_an_answer_is_kept_at_once_and_a_line_that_was_broken_off_costs_only_itself(tmp_path: Path) -> None:
    file, names = tmp_path / "new" / "kept.jsonl", ["a", "b", "c"]

    def stopped(number: int) -> int:
        if number == 2:
            raise KeyboardInterrupt
        return number

    with JobRunner() as runner:
        with pytest.raises(KeyboardInterrupt):
            list(Kept(file).completed(runner, stopped, [0, 1, 2], names))
        file.write_text(file.read_text()[:-5])
        for known in ([0], [0, 1, 2]):
            begun: list[int] = []
            found = dict(Kept(file).completed(runner, lambda n, begun=begun: begun.append(n) or n, [0, 1, 2], names))
            assert found == {0: 0, 1: 1, 2: 2}
            assert begun == [number for number in (0, 1, 2) if number not in known]


# what an answer depends on ---------------------------------------------------------------------------------
TREE = {
    "__init__.py": "",
    "job.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .typed import T\n\n"
    "from .deep import (\n    inner,  # which is a module\n)\ndef f():\n    from . import late\n",
    "deep/__init__.py": "",
    "deep/inner.py": "from pathlib import Path\nHERE = Path(__file__).resolve().parents[1] / 'numbers'\n",
    "numbers/more/one.yaml": "1",
    "numbers/code/__init__.py": "",
    "numbers/code/not.yaml": "",
    "late.py": "import json\nTEXT = (Path(__file__).parent / 'late.txt').read_text()\n",
    "late.txt": "",
    "typed.py": "",
    "other.py": "from .job import f\nfrom pathlib import Path\nROOT = Path(__file__).parent\n",
    "other.yaml": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package made up."""
    for path, text in TREE.items():
        file = tmp_path / "pack" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "pack"


def fingerprint(tree: Path, module: str = "job") -> str:
    return Code().fingerprint({f"pack.{module}": tree / f"{module}.py"})


def test_a_job_reaches_what_it_imports_and_the_data_that_this_finds_and_nothing_else(tree: Path) -> None:
    names = list(Code().reached({"pack.job": tree / "job.py"}))
    own = ["__init__.py", "deep/__init__.py", "deep/inner.py", "job.py", "late.py", "late.txt", "numbers/more/one.yaml"]
    assert names == [f"pack/{name}" for name in own]


@pytest.mark.parametrize("path", TREE)
def test_the_fingerprint_of_a_job_changes_with_just_the_files_that_it_reaches(tree: Path, path: str) -> None:
    before = fingerprint(tree)
    reached = f"pack/{path}" in Code().reached({"pack.job": tree / "job.py"})
    with (tree / path).open("a") as file:
        file.write("# changed\n")
    assert (fingerprint(tree) != before) == reached


def test_a_users_own_file_is_reached_wherever_it_lies(tree: Path, tmp_path: Path) -> None:
    """Its module is named as if it lay in the package, so that its relative imports are found there."""
    own = tmp_path / "far" / "away" / "own.py"
    own.parent.mkdir(parents=True)
    own.write_text("from .used import f\n", encoding="utf-8")
    job = {"pack.job": tree / "job.py"}
    alone = Code().reached(job)
    for roots in ({**job, "pack.sub.own": own}, {"pack.sub.own": own, **job}):
        assert Code().reached(roots).items() >= {**alone, "pack.sub.own in own.py": own}.items()


def test_a_new_data_file_changes_the_fingerprint(tree: Path) -> None:
    before = fingerprint(tree)
    (tree / "numbers/two.yaml").write_text("2")
    assert fingerprint(tree) != before


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("validation/matrix/judging.py", True),
        ("validation/oracle/conditions/durable.py", True),
        ("models/platforms/parts/connectx-3.yaml", True),
        ("validation/mutation/reasons.yaml", False),
        ("validation/litmus/shipped.py", False),
        ("protocols/efactory/saw.py", False),
    ],
)
def test_a_changed_judge_is_another_job_and_what_is_not_reached_is_not(
    tmp_path: Path, root: Path, changed: str, matters: bool
) -> None:
    """The fate of a fault in a primitive; the whole of rpsim is copied."""
    for path in root.glob("*.py"):
        shutil.copy(path, tmp_path)
    for floor in FLOORS:
        shutil.copytree(root / floor, tmp_path / floor, ignore=shutil.ignore_patterns("__pycache__"))
    roots = {"rpsim.validation.mutation.step_fates": tmp_path / "validation/mutation/step_fates.py"}
    before = Code().fingerprint(roots)
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert (Code().fingerprint(roots) != before) == matters


NEVER = ("app/", "tests/", "docs/", "validation/litmus/", "validation/published/c")
"""Where nothing lies that a kept answer may depend on."""
DISCOVERED = ("protocols/", "validation/published/experiments/")
"""Registries import all that there is, and that what it needs; the digest of a job names what counts for it."""
CODE = (".py", ".pyc")
JOBS = {
    "a point of a curve": (
        "from rpsim.validation.published.experiments import point as made\n"
        "made.simulate(made.Point('connectx3-perftest', (), 'write-one-way', (), 'us', 2))\n"
        "from rpsim.validation.published.experiments import verbs as more",
        {"models/nic/nic.py", "models/platforms/connectx3-perftest.yaml"},
    ),
    "a run of a paper": (
        "from rpsim.validation.published.papers import measure as made\n"
        "load = {'kind': 'ycsb', 'mix': 'a', 'keys': 2, 'operations': 4, 'value': '16 B'}\n"
        "fields = {'scenario': 'job', 'schemes': ['saw'], 'platform': 'optane-adr', 'workload': load}\n"
        "made.measure(made.Draft.given(fields, 'a job'))",
        {"scenarios/run/experiment.py", "models/platforms/optane-adr.yaml", "models/nic/nic.py"},
    ),
    "a scheme in a trial": (
        "from rpsim.validation.mutation import fates as made\nmade.shown_of(('saw', made.trials()[1].name))",
        {"validation/mutation/trying.py", "validation/crash/explorer.py", "validation/oracle/check.py"},
    ),
    "a primitive in a setting": (
        "from rpsim.validation.mutation import step_fates as made\n"
        "made.shown_of(('no-flush', made.settings()[0].name))",
        {"validation/matrix/judging.py", "validation/crash/explorer.py", "validation/oracle/check.py"},
    ),
}
WATCHED = """
import json, sys
from pathlib import Path
opened = []
sys.addaudithook(lambda event, found: event == "open" and isinstance(found[0], str) and opened.append(found[0]))
{job}
from rpsim.sim.jobs.code import Code
loaded = [module.__file__ for name, module in sys.modules.items() if name.startswith("rpsim.") and module.__file__]
roots = [made, *(module for name, module in globals().items() if name == "more")]
reached = Code().reached({{module.__name__: Path(module.__file__) for module in roots}})
found = [module for name, module in sys.modules.items() if name.startswith("rpsim.protocols.")]
brought = Code().reached({{module.__name__: Path(module.__file__) for module in found}})
print(json.dumps([[*map(str, reached.values())], [*map(str, brought.values())], loaded, opened]))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", JOBS)
def test_a_job_loads_and_reads_nothing_beyond_what_its_digest_follows(name: str, root: Path) -> None:
    job, expected = JOBS[name]
    command = [sys.executable, "-c", WATCHED.format(job=job)]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    reached, brought, loaded, opened = ({_below(root, path) for path in paths} - {None} for paths in answer)
    assert expected <= reached
    assert not [path for path in reached if path.startswith(NEVER) or path.endswith("reasons.yaml")]
    here = {path for path in loaded - reached - brought if not path.startswith((*DISCOVERED, "sim/jobs/"))}
    assert here == set()
    ours = {path for path in opened - reached if not path.startswith((".venv/", "rpsim.egg-info/"))}
    assert {path for path in ours if not path.endswith(CODE)} == set()


def _below(root: Path, path: str) -> str | None:
    """A path from the root of the checkout on, if it is in there."""
    whole = Path(path).resolve()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else None


@pytest.mark.long
def test_imports_are_found_as_the_parser_finds_them(root: Path) -> None:
    for path in package_files(root)[::5]:
        for_types = {
            line
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        runs = {name for line, name, _ in imports(root, path) if line not in for_types}
        assert runs <= set(imported(module_of(root, path), path)), path
