"""A user's own sequential model, in a Python file: ``--model path/to/file.py:Name``.

``Name`` is a ``Model`` record (``rpsim.validation.oracle.models.model``), or a class with ``initial``, the state at
first, and a method for each operation that takes the state and the invocation's value and returns the state after it
and the result::

    class Counter:
        initial = 0
        reads = ("total",)              # operations that never change the state (optional)

        def add(self, state, value):
            return state + value, None  # None: whatever the history says it returned

        def total(self, state, value):
            return state, state

States are never changed in place: numbers, texts, tuples, frozensets. A method that returns ``ILLEGAL`` instead says
that the operation could not have returned from that state.
"""

from __future__ import annotations

import importlib.util
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ...protocols.objects import Signature
from ...sim.errors import InputError, Mistake, nearest
from ...sim.files import nearest_file
from ...sim.yaml_source import describe
from ..oracle.models.model import ILLEGAL, UNKNOWN, Call, Model, State, Takes
from .entries import freeze, show

_SHAPE = "a class with `initial` and a method (state, value) -> (state, result) for each operation"


def user_model(name: str) -> Model:
    """The model that ``path/to/file.py:Name`` is; InputError where that is none."""
    path_text, _, wanted = name.rpartition(":") if ":" in name else (name, "", "")
    path = Path(path_text)
    if not path.is_file():
        expected = "a Python file, as in path/to/file.py:Name"
        raise InputError(Mistake(f"no file '{path_text}'", expected, field="--model", nearest=nearest_file(path)))
    module = _load(path)
    known = [n for n, v in vars(module).items() if isinstance(v, Model) or _is_model_class(v, module)]
    if not wanted or not hasattr(module, wanted):
        what = f"no name after {path_text}" if not wanted else f"no '{wanted}' in {path_text}"
        expected = f"one of {', '.join(known)}" if known else _SHAPE
        raise InputError(Mistake(what, expected, field="--model", nearest=nearest(wanted, known)))
    found = getattr(module, wanted)
    if isinstance(found, Model):
        return found
    if not inspect.isclass(found) or not hasattr(found, "initial"):
        raise InputError(Mistake(f"{wanted}, {_kind(found)}", _SHAPE, str(path), field="--model"))
    return _from_class(found, path)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"rpsim_user_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(Mistake(f"'{path}'", "a Python file, as in path/to/file.py:Name", field="--model"))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(Mistake(f"{error.msg}", "Python", str(path), error.lineno, "--model")) from None
    except Exception as error:
        raise InputError(Mistake(_what(error), "a file that can be imported", str(path), _line(error, path))) from None
    return module


def _is_model_class(value: Any, module: ModuleType) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__ and hasattr(value, "initial")


def _from_class(found: type[Any], path: Path) -> Model:
    try:
        one = found()
    except Exception as error:
        expected = "a class made without arguments"
        raise InputError(Mistake(_what(error), expected, str(path), _line(error, path))) from None
    methods = {n: getattr(one, n) for n in dir(one) if not n.startswith("_") and callable(getattr(one, n))}
    if not methods:
        raise InputError(Mistake(f"{found.__name__} without methods", _SHAPE, str(path), field="--model"))
    reads = tuple(getattr(one, "reads", ()))
    for read in reads:
        if read not in methods:
            mistake = Mistake(describe(read), f"operations among {', '.join(methods)}", str(path), None, "reads")
            raise InputError(mistake)
    _hashable(one.initial, "initial", path)

    def step(state: State, call: Call) -> State:
        return _step(methods[call.f], path, state, call)

    operations = {name: Signature(Takes.ANY, Takes.ANY) for name in methods}
    initial: State = one.initial
    return Model(found.__name__, operations, initial, step, lambda call: call.f in reads)


def _step(method: Callable[[State, Any], Any], path: Path, state: State, call: Call) -> State:
    try:
        answer: object = method(state, call.argument)
    except Exception as error:
        what = f"{_what(error)} in {call.f}({show(state)}, {show(call.argument)})"
        raise InputError(Mistake(what, "a new state and a result", str(path), _line(error, path))) from None
    if answer is ILLEGAL:
        return ILLEGAL
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = f"{call.f} returning {describe(answer)}"
        raise InputError(Mistake(what, "a pair: the new state and the result", str(path)))
    after: State = answer[0]
    result = answer[1]
    _hashable(after, f"the state after {call.f}", path)
    if call.result is UNKNOWN or result is None:
        return after
    told: State = freeze(list(result)) if isinstance(result, list | tuple) else freeze(result)
    return after if call.result == told else ILLEGAL


def _hashable(state: Any, what: str, path: Path) -> None:
    try:
        hash(state)
    except TypeError:
        expected = "a state that is never changed in place (a number, text, tuple or frozenset)"
        raise InputError(Mistake(f"{what}: {describe(state)}", expected, str(path))) from None


def _kind(found: Any) -> str:
    return "a class without `initial`" if inspect.isclass(found) else describe(found)


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"


def _line(error: BaseException, path: Path) -> int | None:
    """The last line of the user's file on the way to ``error``."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
    lines += [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    return lines[-1] if lines else None
