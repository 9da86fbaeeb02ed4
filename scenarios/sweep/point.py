"""One run of a sweep, simulated: what ``rpsim run`` says of a scheme on a platform, as plain data."""

from __future__ import annotations

from typing import Any

from ...sim.errors import InputError
from ..run.failing import performed
from .grid import SweptRun

APART = ("scheme", "platform")
"""Fields of a run's summary that tell it apart; they stand beside an answer, not in it."""


def simulate(run: SweptRun) -> dict[str, Any]:
    """The summary of a run, without wall times: equal runs have equal answers.

    Where the scenario turns out to be impossible at this point, its only field is ``error``.
    """
    try:
        result = performed(run.scenario, run.variant, recorded=False, metered=True)
    except InputError as error:
        return {"error": str(error)}
    return {name: value for name, value in result.summary().items() if name not in APART}
