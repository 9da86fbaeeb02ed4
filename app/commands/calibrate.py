"""``rpsim calibrate``: fit a platform to measurements of a real machine; with ``--compare`` put them side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake
from ..options import OF_PLATFORM, Command, Option
from .measure import base_of

if TYPE_CHECKING:
    from ...models.profiles.platform import Platform
    from ...validation.measuring.calibrate.calibration import Calibration
    from ...validation.measuring.calibrate.knobs import Knob

COMMAND = Command(
    "fit a platform to measurements of a real machine, or compare",
    "MEASUREMENTS",
    "files: JSON of measurements, or what perftest printed (ib_write_lat and the like)",
    several=True,
    options=(
        *OF_PLATFORM,
        Option("--out", "write what was fitted as a platform profile", "PROFILE"),
        Option(
            "--compare",
            "fit nothing: the measurements beside the platform",
            without=("--out", "--fit", "--bounds", "--hold-out"),
        ),
        Option("--html", "write a page: measured and simulated, curve by curve", "FILE"),
        Option(
            "--fit",
            "fit this one (A+B: two, scaled together); may be repeated (default: what the measurements determine)",
            "PARAMETER",
            several=True,
        ),
        Option(
            "--bounds",
            "where a parameter of --fit may lie (default: a twentieth to twenty times); may be repeated",
            "P=LOW..HIGH",
            several=True,
            needs="--fit",
        ),
        Option("--hold-out", "how much is held out to judge by (default: 25%%; 0: none)", "SHARE"),
        Option("--largest", "leave out larger messages (default: 64KiB)", "SIZE"),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Fit or compare, print, write; returns 1 if the fit predicts the held-out points no better than before, else 0."""
    from ... import __version__
    from ...validation.measuring.calibrate import calibration
    from ...validation.measuring.calibrate.profile import check_target, profile_text, write_profile, write_whole
    from ...validation.measuring.calibrate.runner import Runner
    from ...validation.measuring.documents import merged
    from ...validation.measuring.reading import read_measurements
    from ..terminal.calibration import document, text
    from ..terminal.output import as_json
    from ..terminal.progress import bar
    from ..terminal.text import plural

    base = base_of(options)
    platform = base.platform()
    largest = _size(options.largest)
    files = [Path(name) for name in options.subject]
    if options.out is not None:
        check_target(Path(options.out), options.force)
    if options.html is not None:
        check_target(Path(options.html), True, "--html")
    what = f"{'compare' if options.compare else 'calibrate'} {platform.name}"
    if options.compare:
        measurements = merged(read_measurements(file) for file in files)
        with bar(what), Runner(base, options.jobs) as runner:
            found = calibration.compare(measurements, runner, largest)
    else:
        share, knobs = _share(options.hold_out), _knobs(options, base.platform())
        measurements = merged(read_measurements(file) for file in files)
        with bar(what) as shown, Runner(base, options.jobs) as runner:
            found = calibration.calibrate(
                measurements,
                runner,
                knobs=knobs,
                share=share,
                largest_bytes=largest,
                on_step=lambda step: shown.set_description(f"{what}: {step}"),
            )
    if options.out is not None:
        path = Path(options.out)
        write_profile(path, profile_text(found, options.platform, path, files, __version__))
    if options.html is not None:
        from ..pages.calibration import page

        write_whole(Path(options.html), page(found, [file.name for file in files], options.platform))
    if options.json:
        print(as_json(document(found, options.platform, options.out)), end="")
    else:
        written = [f"{name}: {path}" for name, path in (("page", options.html), ("profile", options.out)) if path]
        head = f"{what}: {plural(len(found.points), 'measurement')} of {plural(len(files), 'file')}"
        print("\n".join([head, "", *text(found), *([""] if written else []), *written]))
    return 0 if helped(found) else 1


def helped(found: Calibration) -> bool:
    """Whether the held out points (all points, if none was held out) are predicted no worse than before."""
    from ...validation.measuring.calibrate.calibration import rms

    judged = found.of(True) or list(found.points)
    return rms(judged) <= rms(judged, after=False)


def _share(text: str | None) -> float:
    from ...validation.measuring.calibrate.calibration import HELD_OUT

    if text is None:
        return HELD_OUT
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.5:
        raise InputError(Mistake(f"'{text}'", "a share from 0 to 50%", field="--hold-out"))
    return share


def _size(text: str | None) -> int:
    from ...sim.units import parse_bytes
    from ...validation.measuring.calibrate.calibration import LARGEST_BYTES

    try:
        return LARGEST_BYTES if text is None else parse_bytes(text)
    except ValueError as error:
        raise InputError(Mistake(str(error), "a size, as in 4KiB", field="--largest")) from None


def _knobs(options: argparse.Namespace, platform: Platform) -> list[Knob] | None:
    """The parameters that ``--fit`` names, with the bounds that ``--bounds`` states."""
    from ...validation.measuring.calibrate.knobs import knob

    bounds = {}
    for item in options.bounds:
        path, _, ends = item.partition("=")
        low, dots, high = ends.partition("..")
        if not dots or not path:
            raise InputError(
                Mistake(f"'{item}'", "PARAMETER=LOW..HIGH, as in pcie.dma_read=400ns..1us", field="--bounds")
            )
        bounds[path] = (low, high)
    if not options.fit:
        return None
    groups = [tuple(item.split("+")) for item in options.fit]
    named = [path for group in groups for path in group]
    for path in {path for path in named if named.count(path) > 1}:
        raise InputError(Mistake(f"'{path}' twice", "each parameter once", field="--fit"))
    for path in bounds:
        if path not in {group[0] for group in groups}:
            raise InputError(
                Mistake(f"bounds of {path}", "a parameter that --fit names (the first of a sum)", field="--bounds")
            )
    return [knob(platform, group, bounds.get(group[0])) for group in groups]
