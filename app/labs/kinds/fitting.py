"""A platform profile of the student's: does it predict measurements better than the profile that it came from?"""

from __future__ import annotations

from pathlib import Path

from ...terminal.text import table
from ..task import LabFinding, LabTask


def _rms(platform: str, measurements: Path) -> float:
    """The root mean square of the relative errors, in percent."""
    from ....validation.measuring.calibrate import calibration
    from ....validation.measuring.calibrate.runner import Base, Runner
    from ....validation.measuring.documents import merged
    from ....validation.measuring.reading import read_measurements

    with Runner(Base(platform, ()), 1) as runner:
        found = calibration.compare(merged([read_measurements(measurements)]), runner, calibration.LARGEST_BYTES)
    return 100 * calibration.rms(list(found.points))


def profile(task: LabTask) -> LabFinding:
    """Its error on ``measurements``, which the student has not seen, is at most ``better`` times that of ``base``."""
    path = task.file(task.given("file"))
    measurements = task.material(task.given("measurements"))
    mine, base = _rms(path.as_posix(), measurements), _rms(task.given("base"), measurements)
    rows = [(task.given("base"), f"{base:.1f}"), (path.name, f"{mine:.1f}")]
    shown = table(("platform", "error, percent"), rows)
    if mine <= task.given("better") * base:
        return LabFinding(True, (), tuple(shown))
    names = ["no change"] if abs(mine - base) < 0.01 * base else ["worse"] if mine > base else ["not enough"]
    otherwise = "On measurements that were held back, {file} errs too much."
    return LabFinding(False, (task.say(names, otherwise, file=path.name),), tuple(shown))
