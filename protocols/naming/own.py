"""Schemes in files of a user's own, which names say by path: ``my/store.py:my-store over read-after-write``.

In a checkout the examples of the documentation are found by their names alone.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ...sim.errors import InputError, Mistake
from ...sim.files import nearest_file, printable

PACKAGE = __name__.rsplit(".", 2)[0]
LOADED: set[str] = set()
"""The modules of files that have been loaded."""
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


def example_of(name: str) -> Path | None:
    """The file among the documentation's examples that has a scheme of this name."""
    # Not from __file__: what a job computes depends on the example that it names, not on all of them.
    root = Path(sys.modules[PACKAGE.partition(".")[0]].__path__[0])
    files = sorted((root / "docs" / "examples").glob("*.py"))
    return next((file for file in files if name in _NAMED.findall(file.read_text(encoding="utf-8"))), None)
