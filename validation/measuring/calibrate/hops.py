"""The fit of the adapter's residual hops: least squares over the points whose role is ``fit``, and nothing else.

The time that the path of a WRITE takes beyond its published parts (PCIe, wire, switch) is the adapter's own: the ways
of a message out and of a packet in, and of the acknowledgement. They are found by Gauss-Newton on the relative errors
of the ConnectX-3 WRITE curve (perftest) and of the 64 B WRITE completion of Kalia et al., SoCC'20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ....models.profiles.platform import load_platform
from ....sim.units import PS_PER_NS, format_duration, parse_duration_ps
from ...published.curves.board import PointTask
from ...published.curves.curves import Curve, load_curves
from ...published.experiments.point import simulate
from ...published.scoreboard import Bound, ClaimStatus
from .solver import Vector, root_mean_square, shortest_step, slopes

PARAMETERS = (
    "nic.tx_processing",
    "nic.rx_processing",
    "nic.ack_generation",
    "nic.ack_processing",
    "nic.post_line",
    "pcie.dma_read",
)
"""The residual hops, and two that the steps of the curve separate: a further line of inline data, and the fetch of a
payload. A step of the fit ends at 0, or at the ends of the parameter's range. The two ways, and the two halves of the
acknowledgement, show in sum only: the fit moves both alike."""
CURVES = ("cx3-write", "cx3-write-completion")
LARGEST_BYTES = 2048
"""The MTU of the log: beyond it the slowest of PCIe and wire decides, and no hop."""
ROUNDS = 6
STEP_PS = 5_000
SMALL_PS = 500

Progress = Callable[[int, float], None]
"""Called with the number of a round and the root of the mean square of its errors."""


@dataclass(frozen=True)
class Fit:
    """The result of the fit."""

    curves: tuple[str, ...]
    values_ps: Mapping[str, int]
    before_ps: Mapping[str, int]
    errors: Mapping[str, float]
    rms_before: float

    @property
    def rms_error(self) -> float:
        """Root of the mean square of the relative errors."""
        return root_mean_square(np.array(list(self.errors.values())))

    def texts(self) -> dict[str, str]:
        """The parameters as profiles have them."""
        return {path: format_duration(value) for path, value in self.values_ps.items()}

    def parameters(self) -> list[tuple[str, str, str]]:
        """A tuple (path of a parameter, its value, its value before) for each."""
        return [(path, text, format_duration(self.before_ps[path])) for path, text in self.texts().items()]

    def rows(self) -> dict[str, float]:
        """The relative error of each point, by the point's name."""
        return {point: round(error, 4) for point, error in self.errors.items()}


def fit(progress: Progress | None = None) -> Fit:
    """Fit the residual hops; raises ValueError where a curve of the fit set is missing or is none."""
    curves = [curve for curve in load_curves("nic") if curve.id in CURVES]
    if {curve.id for curve in curves} != set(CURVES) or any(curve.role is not ClaimStatus.FIT for curve in curves):
        raise ValueError(f"the fit needs the curves {', '.join(CURVES)} with the role fit")
    start = _start(curves[0].platform)
    values = np.array([start[path] for path in PARAMETERS], dtype=float)
    bounds = _bounds(curves[0].platform)
    names, errors = _errors(curves, values)
    before = root_mean_square(errors)
    far = np.full(len(values), np.inf)

    def moved(places: Sequence[Vector]) -> list[Vector]:
        return [_errors(curves, place)[1] for place in places]

    for number in range(ROUNDS):
        step = shortest_step(slopes(moved, values, errors, np.full(len(values), float(STEP_PS)), far), errors)
        values = np.round(np.clip(values + step, *bounds) / PS_PER_NS) * PS_PER_NS
        _, errors = _errors(curves, values)
        if progress:
            progress(number + 1, root_mean_square(errors))
        if np.abs(step).max() < SMALL_PS:
            break
    found = {path: int(value) for path, value in zip(PARAMETERS, values, strict=True)}
    return Fit(CURVES, found, start, dict(zip(names, map(float, errors), strict=True)), before)


def _start(platform: str) -> dict[str, int]:
    known = {parameter.path: parameter.value for parameter in load_platform(platform).parameters()}
    return {path: int(known[path]) for path in PARAMETERS}


def _bounds(platform: str) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest that each parameter may be."""
    known = {parameter.path: parameter.range for parameter in load_platform(platform).parameters()}
    ranges = [known[path] or ("0 ns", "1 us") for path in PARAMETERS]
    low, high = ([parse_duration_ps(ends[index]) for ends in ranges] for index in (0, 1))
    return np.array(low, dtype=float), np.array(high, dtype=float)


def _errors(curves: list[Curve], values: np.ndarray) -> tuple[list[str], np.ndarray]:
    texts = tuple((path, f"{int(value)} ps") for path, value in zip(PARAMETERS, values, strict=True))
    names, errors = [], []
    for curve in curves:
        for x, published in curve.points.items():
            if isinstance(published, Bound) or isinstance(x, str) or x > LARGEST_BYTES:
                continue
            names.append(f"{curve.id}[{x}]")
            errors.append(simulate(PointTask(curve, x, texts).point) / published - 1)
    return names, np.array(errors)
