"""Python of the student's: a function that makes colliding images, and tests that have to find planted mistakes."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....sim.errors import InputError, Mistake
from ..task import LabFinding, LabTask

WORD = 8
TRIALS = 5
PATIENCE_S = 240


def _function(path: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"lab_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise InputError(Mistake(found, "Python that can be imported", str(path))) from error
    if not callable(getattr(module, name, None)):
        raise InputError(Mistake(f"no function {name}", f"def {name}(old, new)", str(path)))
    function: Callable[..., Any] = getattr(module, name)
    return function


def collision(task: LabTask) -> LabFinding:
    """``function(old, new)`` mixes two values, word by word, into a third that has the CRC32 of the new one."""
    path = task.file(task.given("file"))
    function, size = _function(path, task.given("function")), task.given("bytes")
    for seed in range(TRIALS):
        draw = random.Random(seed)
        old, new = draw.randbytes(size), draw.randbytes(size)
        mixed = function(old, new)
        if not isinstance(mixed, bytes | bytearray) or len(mixed) != size:
            otherwise = "{function} has to return {size} bytes."
            return _wrong(task, ["no image"], otherwise, function=task.given("function"), size=size)
        if mixed == new:
            return _wrong(task, ["new"], "This is the new value itself: nothing is torn.")
        if mixed == old:
            return _wrong(task, ["old"], "This is the old value: nothing of the new one is there.")
        words = range(0, size, WORD)
        torn = [at for at in words if mixed[at : at + WORD] not in (old[at : at + WORD], new[at : at + WORD])]
        if torn:
            otherwise = "The word at byte {at} is neither the old one nor the new one: a tear leaves whole words."
            return _wrong(task, ["words"], otherwise, at=torn[0])
        if zlib.crc32(mixed) != zlib.crc32(new):
            otherwise = "Its CRC32 is {mixed:08x}; that of the new value is {new:08x}."
            values = {"mixed": f"{zlib.crc32(mixed):08x}", "new": f"{zlib.crc32(new):08x}"}
            return _wrong(task, ["checksum"], otherwise.replace(":08x", ""), **values)
    return LabFinding(True)


def _wrong(task: LabTask, names: list[str], otherwise: str, **values: object) -> LabFinding:
    return LabFinding(False, (task.say(names, otherwise, **values),))


def tests(task: LabTask) -> LabFinding:
    """The student's tests pass with the student's own module, and fail with each of the lab's broken ``twins``."""
    file, module = task.file(task.given("file")), task.file(task.given("module"))
    status, told = _pytest(file, module)
    if status == 5:  # pytest: no tests collected
        return _wrong(task, ["none"], "There is no test in {file}.", file=file.name)
    if status != 0:
        otherwise = "{file} fails with your own {module}. Mend one of the two first."
        said = task.say(["own"], otherwise, file=file.name, module=module.name)
        return LabFinding(False, (said,), tuple(told))
    for twin, what in task.given("twins").items():
        status, _ = _pytest(file, task.material(twin))
        if status == 0:
            otherwise = "A store with this mistake passes your tests: {what}"
            return _wrong(task, [twin], otherwise, what=what)
    return LabFinding(True)


def _pytest(file: Path, module: Path) -> tuple[int, list[str]]:
    """pytest's status and last lines on a test beside a module of the name that it imports."""
    with tempfile.TemporaryDirectory(prefix="rpsim-lab-") as scratch:
        shutil.copy(file, Path(scratch, file.name))
        shutil.copy(module, Path(scratch, "log.py"))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file.name]
        try:
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            return 1, [f"pytest did not end within {PATIENCE_S} s"]
    if "No module named pytest" in done.stderr:
        raise InputError(Mistake("no pytest", "it, as pip install 'rpsim[test]' brings it", field="rpsim lab"))
    return done.returncode, [line[:80] for line in done.stdout.splitlines()][-30:]
