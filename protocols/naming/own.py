"""Schemes in files of a user's own, which names say by path: ``my/store.py:my-store over read-after-write``.

In a checkout the examples of the documentation are found by their names alone.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ...sim.errors import InputError, Mistake
from ...sim.files import nearest_file, printable

PACKAGE = __name__.rsplit(".", 2)[0]
LOADED: set[str] = set()
"""The modules of files that have been loaded."""
_FRAME = re.compile(r'^ +File "(.+)", line (\d+)', re.MULTILINE)
"""A frame in the text of a traceback."""
_NAMED = re.compile(r"^class \w+\(.*\bname=\"([\w-]+)\"", re.MULTILINE)


def load_file(path: str | Path) -> ModuleType:
    """The module in a file, as if it lay in ``protocols/``, so that its relative imports find rpsim's; loaded once.

    Raises InputError for a file that is not there, and for everything that its import raises.
    """
    file = Path(path)
    if not file.is_file():
        expected = "the path of a file with a scheme"
        raise InputError(Mistake("no such file", expected, printable(str(path)), nearest=nearest_file(file)))
    place = str(file.resolve())
    name = f"{PACKAGE}.{file.stem}"
    loaded = sys.modules.get(name)
    if (loaded is not None and loaded.__file__ != place) or (Path(__file__).parents[1] / file.name).exists():
        name = f"{name}_{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    spec = spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == place]
        line = error.lineno if isinstance(error, SyntaxError) else own[-1] if own else None
        found = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        raise InputError(Mistake(found, "Python code that can be imported", str(path), line)) from error
    LOADED.add(name)
    return module


def mistake_in(error: BaseException) -> Mistake | None:
    """Where code of a file that has been loaded raised an error, or had rpsim raise one; None if none was at work.

    An error of a worker process brings its traceback as text, so that is what is read.
    """
    own = _own_files()
    # An error that is raised again, in a process that waits or by the clock, has a traceback for each time.
    for text in reversed("".join(traceback.format_exception(error)).split("Traceback (most recent call last):\n")):
        frames = [(file, int(line)) for file, line in _FRAME.findall(text)]
        turns = [turn for turn, (file, _) in enumerate(frames) if file in own]
        if turns:
            (file, line), (last, at) = frames[turns[-1]], frames[-1]
            raised = "" if last in own else f" (raised in {Path(last).name}:{at}, which it called)"
            what = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
            return Mistake(f"{what}{raised}", "code that runs without an error of its own", _shown(file), line)
    return None


def error_of(code: Callable[..., object], found: str, expected: str) -> Exception:
    """The error for a class or a function that is not as rpsim needs it: InputError if it is a user's own."""
    try:
        file, line = str(inspect.getsourcefile(code)), inspect.getsourcelines(code)[1]
    except (TypeError, OSError):  # code that stands in no file
        file, line = "", 0
    name = getattr(code, "__qualname__", repr(code))
    if file not in _own_files():
        return TypeError(f"{name}: found {found}, expected {expected}")
    return InputError(Mistake(found, expected, _shown(file), line, name))


def _own_files() -> set[str]:
    return {str(sys.modules[name].__file__) for name in LOADED}


def _shown(file: str) -> str:
    """A path as a user who works in this folder writes it."""
    here = Path(file)
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


def example_of(name: str) -> Path | None:
    """The file among the documentation's examples that has a scheme of this name."""
    # Not from __file__: what a job computes depends on the example that it names, not on all of them.
    root = Path(sys.modules[PACKAGE.partition(".")[0]].__path__[0])
    files = sorted((root / "docs" / "examples").glob("*.py"))
    return next((file for file in files if name in _NAMED.findall(file.read_text(encoding="utf-8"))), None)
