"""Is what we ship whole? The sdist and the wheel made from it, unpacked and used outside the checkout.

`make test` builds both and names their folder in RPSIM_DIST; without it they are built here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("wheel")  # one build, whatever the number of workers

FLOORS = ("sim", "models", "protocols", "scenarios", "validation", "app")


def made(part: str) -> bool:
    """Is a folder or file by this name a tool's, not ours?"""
    return part.startswith(".") or part == "build"


def shipped_files(root: Path) -> set[str]:
    """What a wheel of this tree has to hold, as paths inside it: nothing on a floor is there for itself alone.

    But for what make built there (validation/verbs_bench/build).
    """
    at_root = [
        *root.glob("*.py"),
        root / "py.typed",
        *(root / "docs").glob("conditions.md"),
        *(root / "docs").glob("glossary.md"),
    ]
    on_floors = [path for floor in FLOORS for path in (root / floor).rglob("*") if path.is_file()]
    labs = [path for path in (root / "labs").rglob("*") if path.is_file() and "solutions" not in path.parts]
    kept = [path.relative_to(root) for path in at_root + on_floors + labs if path.suffix not in {".pyc", ".pyo"}]
    return {f"rpsim/{path.as_posix()}" for path in kept if not any(map(made, path.parts))}


def wheel_complaints(root: Path, names: list[str]) -> list[str]:
    """Files of the tree that the wheel lacks, and files of the wheel that are not the package's."""
    code = {name for name in names if ".dist-info/" not in name}
    return [f"not in the wheel: {name} (package_data in setup.cfg?)" for name in sorted(shipped_files(root) - code)] + [
        f"in the wheel and not in the package: {name}" for name in sorted(code - shipped_files(root))
    ]


@pytest.fixture(scope="module")
def dist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with one sdist and one wheel."""
    if "RPSIM_DIST" in os.environ:
        return root / os.environ["RPSIM_DIST"]
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (only,) = dist.glob("*.whl")
    return only


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel, without its dependencies, has been installed by pip."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", folder, wheel], check=True, capture_output=True)
    return folder


def run(installed: Path, tmp_path: Path, *command: str | Path) -> str:
    """What a command prints that finds the installed copy before the checkout; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_wheel_holds_the_package_and_nothing_else(root: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert wheel_complaints(root, archive.namelist()) == []


@pytest.mark.long
def test_a_wheel_that_lacks_a_file_or_has_one_too_many_is_reported(tmp_path: Path) -> None:
    there = ("__init__.py", "py.typed", "models/platforms/new.yaml", "tests/t.py")
    for path in (*there, "sim/__pycache__/a.pyc", "sim/build/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert wheel_complaints(tmp_path, ["rpsim/__init__.py", "rpsim/py.typed", "rpsim/tests/t.py", "sim/a.py"]) == [
        "not in the wheel: rpsim/models/platforms/new.yaml (package_data in setup.cfg?)",
        "in the wheel and not in the package: rpsim/tests/t.py",
        "in the wheel and not in the package: sim/a.py",
    ]


@pytest.mark.long
def test_the_wheel_s_metadata_is_complete(wheel: Path) -> None:
    import rpsim

    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
        (licence,) = [name for name in archive.namelist() if name.endswith("/LICENSE")]
        assert b"rpsim contributors" in archive.read(licence)
    assert metadata["Version"] == rpsim.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "rpsim" in metadata.get_payload()  # the README


@pytest.mark.long
def test_the_sdist_can_be_built_and_tested(root: Path, dist: Path) -> None:
    (only,) = dist.glob("*.tar.gz")
    with tarfile.open(only) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = {path.relative_to(root).as_posix() for path in (root / "tests").rglob("*.py")}
    assert tests | {"Makefile", "constraints.txt", "setup.cfg", "pyproject.toml", "LICENSE", ".ci/run"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "dist/"))]


@pytest.mark.long
def test_rpsim_is_imported_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    place = run(installed, tmp_path, sys.executable, "-c", "import rpsim.app.main as m; print(m.__file__)")
    assert Path(place.strip()) == installed / "rpsim" / "app" / "main.py"


@pytest.mark.long
def test_the_command_and_the_module_are_the_same(installed: Path, tmp_path: Path) -> None:
    by_script = run(installed, tmp_path, installed / "bin" / "rpsim", "--help")
    assert "usage: rpsim" in by_script
    assert run(installed, tmp_path, sys.executable, "-m", "rpsim", "--help") == by_script


@pytest.mark.long
def test_the_installed_copy_finds_its_schemes_platforms_and_scenarios(installed: Path, tmp_path: Path) -> None:
    rpsim = installed / "bin" / "rpsim"
    assert {"client-active", "saw"} <= set(run(installed, tmp_path, rpsim, "list", "schemes").split())
    assert {"optane-adr", "optane-eadr"} <= set(run(installed, tmp_path, rpsim, "list", "platforms").split())
    assert "quickstart" in run(installed, tmp_path, rpsim, "list", "scenarios").split()
