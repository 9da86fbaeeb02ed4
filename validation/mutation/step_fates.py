"""The fate of one fault in a flush primitive: it is tried in each setting until a verdict finds it."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from ...models.primitives.writer import dump_primitive
from ...protocols.primitives import primitive
from .fates import SECONDS, FateVerdict, FaultOutcome, guarded, spent
from .shown import Shown
from .steps import ALL_WAYS, Refused, StepFault, TrialSetting, ask, settings, step_faults

StepTask = tuple[str, int, tuple[tuple[str, tuple[str, ...]], ...]]
"""A primitive, the number of the fault, and by setting the ways that are kept there without it."""


def shown_of(pair: tuple[str, str]) -> dict[str, Any]:
    """The ways in which a primitive without a fault is broken in a setting, and the seconds of a processor."""
    (name, setting), began = pair, time.process_time()
    try:
        found = ask(primitive(name), _setting(setting))
    except Refused:
        found = Shown(ALL_WAYS, exhaustive=False)
    return {"broken": sorted(found.broken), "exhaustive": found.exhaustive} | spent(began)


def fate_of(task: StepTask) -> dict[str, Any]:
    """The fate of a fault as plain data, with the seconds of a processor."""
    began = time.process_time()
    return _fate(task).row() | spent(began)


def _fate(task: StepTask) -> FateVerdict:
    name, number, keeps = task
    found, mutant = FateVerdict(), step_fault(name, number).mutant
    for setting, kept in keeps:
        one, began = Shown(frozenset()), time.process_time()
        with guarded(found, name, setting):
            try:
                one = ask(mutant, _setting(setting), kept)
            except Refused as error:
                found.note(FaultOutcome.BROKEN, name, f"{setting}: {error}")
        broken = sorted(one.broken.intersection(kept))
        if broken:
            return FateVerdict(FaultOutcome.FOUND, f"{setting}: {broken[0]}", name)
        if time.process_time() - began >= 0.9 * SECONDS:
            break
    return found.ended()


def _setting(name: str) -> TrialSetting:
    return {setting.name: setting for setting in settings()}[name]


@cache
def faults_of(name: str) -> tuple[StepFault, ...]:
    """All faults of a shipped primitive."""
    return tuple(step_faults(name))


def step_fault(name: str, number: int) -> StepFault:
    """A fault by its number."""
    return faults_of(name)[number]


@cache
def text_of(name: str) -> str:
    """A shipped primitive as YAML."""
    return dump_primitive(primitive(name))
