"""rpsim from Python: ``rpsim.run``, ``rpsim.crash``, ``rpsim.check`` and ``rpsim.load``.

Each does what the command of that name does, without writing files, and returns its answer as plain fields. Wrong
input raises :class:`rpsim.InputError`, whose text has one line for each mistake. With ``jobs`` above one a script needs
the usual ``if __name__ == "__main__":``, since the variants of a scenario then run in processes of their own.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from ..scenarios.arguments import ScenarioFields
from ..scenarios.build import Draft, plain
from ..scenarios.schema.load import explored
from ..scenarios.schema.schema import Scenario
from ..sim.errors import InputError, Mistake
from ..sim.units import parse_duration_ps
from ..validation.histories.check import check_history, uncollected
from ..validation.histories.read import parse_history, read_history
from ..validation.oracle.search.general import BUDGET
from .answers import CheckAnswer, CrashAnswer, RunAnswer, check_answer, crash_answer, run_answer
from .arguments import listed, whole
from .commands.run import check_size
from .terminal.work import Job, JobOutcome, perform_all

ScenarioLike = str | os.PathLike[str] | Draft | Scenario
"""A shipped scenario's name, the path of a file, or one that was put together in Python."""
_OPTIONS = {"--condition": "argument conditions", "--model": "argument model"}
"""What options of ``rpsim check`` are called here."""


def load(
    scenario: ScenarioLike, /, *, set: Mapping[str, Any] | None = None, **fields: Unpack[ScenarioFields]
) -> Scenario:
    """A scenario as ``run`` and ``crash`` take it, with some fields otherwise.

    ``scenario`` is a shipped name, a path, a :class:`rpsim.Draft` or a scenario. ``fields`` are keys of a scenario's
    file (``schemes=["saw"], platform="optane-adr", seed=7``), each in place of the whole field; ``set`` has single
    ones by their paths (``{"workload.keys": 50}``). Sizes and times are text with a unit. Raises InputError with all
    mistakes at once.
    """
    if isinstance(scenario, Scenario):
        draft = Draft.of(scenario)
    else:
        draft = scenario if isinstance(scenario, Draft) else Draft.opened(scenario)
    return draft.with_(**fields).set(set or {}).build()


def run(
    scenario: ScenarioLike,
    /,
    *,
    jobs: int = 1,
    set: Mapping[str, Any] | None = None,
    **fields: Unpack[ScenarioFields],
) -> RunAnswer:
    """Simulate every variant of a scenario; arguments as for :func:`load`, ``jobs`` processes at a time."""
    made = load(scenario, set=set, **fields)
    return run_answer(made, _perform(made, jobs, crash=False))


def crash(
    scenario: ScenarioLike,
    /,
    *,
    jobs: int = 1,
    set: Mapping[str, Any] | None = None,
    **fields: Unpack[ScenarioFields],
) -> CrashAnswer:
    """Run every variant of a scenario, cut the power at every instant, run recovery and judge.

    Arguments as for :func:`load`; ``jobs`` processes share the work. The view is adversarial unless the scenario says
    otherwise. Raises InputError for wrong arguments, and for more objects than can be explored.
    """
    made = explored(load(scenario, set=set, **fields))
    check_size(made)
    return crash_answer(made, _perform(made, jobs, crash=True))


def check(
    history: str | os.PathLike[str] | Iterable[Mapping[str, Any]],
    /,
    *,
    model: str | None = None,
    conditions: Sequence[str] = (),
    budget: int = BUDGET,
    loss: str | None = None,
) -> CheckAnswer:
    """Judge a history: a file (JSON Lines, or what Jepsen writes), or events as dicts (docs/check.md; ``time`` in ns).

    ``model`` is the sequential model (default: the first that fits), ``conditions`` are those to judge (default: all
    that apply), ``budget`` is how many steps a search may take, ``loss`` the time of ``bounded_loss`` (``"250 us"``).
    Raises InputError; an event's number stands for its line.
    """
    if not isinstance(history, str | os.PathLike):
        history = listed("history", history, object, "events as dicts, or the path of a file")
    names = [str(name) for name in listed("conditions", conditions, str, "names of conditions")]
    if model is not None and not isinstance(model, str):
        raise InputError(Mistake(repr(model), "the name of a model", field="argument model"))
    whole("budget", budget, "a whole number of steps")
    try:
        loss_ps = None if loss is None else parse_duration_ps(loss)
    except ValueError:
        raise InputError(Mistake(f"'{loss}'", "a time with its unit, e.g. '250 us'", field="argument loss")) from None
    with uncollected():
        if isinstance(history, str | os.PathLike):
            read = read_history(Path(history))
        else:
            read = parse_history("".join(map(_line, itertools.count(1), history)), "history")
        try:
            report = check_history(read, model, names, budget, loss_ps=loss_ps)
        except InputError as error:
            said = [replace(one, field=_OPTIONS.get(one.field or "", one.field)) for one in error.mistakes]
            raise InputError(said) from None
    return check_answer(report)


def _line(number: int, event: object) -> str:
    """An event as a line of a history; raises InputError for one that JSON cannot hold."""
    try:
        return json.dumps(plain(event)) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        expected = "an event of texts, numbers, truths, lists and maps"
        raise InputError(Mistake(f"what JSON cannot hold ({error})", expected, "history", number)) from None


def _perform(scenario: Scenario, jobs: int, *, crash: bool) -> list[JobOutcome]:
    whole("jobs", jobs, "a whole number of processes")
    variants = len(scenario.variants())
    spare = max(1, jobs // variants)
    todo = [Job(scenario, (), None, index, crash, spare) for index in range(variants)]
    return perform_all(todo, jobs, scenario.name)
