"""The guarantees of schemes: after which faults, and the small scenario that each kind of fault is explored with."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from ...protocols.guarantees import Verdict

POWER = "server[0] power"
FAULTS = ("no fault", "client[0] process", "server[0] process", POWER, "server[0] power in recovery")
"""The faults that ``every`` stands for, the mildest first."""

QUICK = ("vary.ddio=[on]",)
"""Settings that make a first look smaller: fewer platforms. Smaller runs would find less, and vary with the seed."""


def scenario_of(fault: str) -> str:
    """The name of the scenario that a fault is explored with."""
    words = fault.split()
    if fault.strip() in ("no fault", "none"):
        return "no-fault"
    if words[-2:] == ["in", "recovery"]:
        return "power-in-recovery"
    return "server-power" if words and words[-1] == "power" and not words[0].startswith("client") else "survivors"


def file_of(name: str) -> str:
    """The path of one of these scenarios."""
    return str(files(__package__) / f"{name}.yaml")


def joined(verdicts: Iterable[str]) -> str:
    """The verdict of several explorations of the same together: violated if one is, else undecided if one is."""
    found = set(verdicts)
    return next((str(v) for v in (Verdict.VIOLATED, Verdict.UNDECIDED) if v in found), str(Verdict.HOLDS))
