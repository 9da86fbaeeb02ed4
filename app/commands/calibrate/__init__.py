"""``rpsim calibrate``: fit a platform to measurements of a real machine.

``compare.py`` puts them side by side and fits nothing, ``hops.py`` fits the hops of adapters to published curves.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ....sim.errors import InputError, Mistake
from ...options import HTML, OF_PLATFORM, OF_PLATFORM_ONCE, Command, Field, Option
from ..measure import base_of

if TYPE_CHECKING:
    from ....models.profiles.platform import Platform
    from ....validation.measuring.calibrate.calibration import Calibration
    from ....validation.measuring.calibrate.knobs import Knob
    from ....validation.measuring.conditions import Measurement

MEASUREMENTS = "files: JSON of measurements, or what perftest printed (ib_write_lat and the like)"
LARGEST = Option("--largest", "leave out larger messages (default: 64KiB)", "SIZE")
ANSWER = (
    Field("platform", "string", "the platform"),
    Field("settings", "object", "its settings"),
    Field("parameters", "array", "what was fitted, before and after, with its uncertainty"),
    Field("not_fitted", "array", "what was not, and why"),
    Field("not_told_apart", "array", "parameters that the measurements do not tell apart"),
    Field("error", "object", "relative errors, of the points fitted to and of those held out"),
    Field("points", "array", "every point as measured and as simulated, before and after"),
    Field("left_out", "array", "measurements that are not compared, and why"),
    Field("rounds", "integer", "how many rounds the fit took"),
    Field("simulations", "integer", "how many measurements were simulated"),
    Field("profile", "string|null", "the profile that was written"),
)
OF_COMPARISON = tuple(option for option in OF_PLATFORM if option.flag not in ("--write", "--force"))

COMMAND = Command(
    "fit a platform to measurements of a real machine, or compare",
    "MEASUREMENTS",
    f"{MEASUREMENTS}; or the word compare before them; or hops alone",
    several=True,
    options=(
        *OF_PLATFORM,
        HTML,
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
        LARGEST,
    ),
    answer=ANSWER,
    parts={
        "compare": Command(
            "fit nothing: the measurements beside the platform",
            "MEASUREMENTS",
            MEASUREMENTS,
            several=True,
            options=(*OF_COMPARISON, HTML, LARGEST),
            answer=ANSWER,
            work="compare",
        ),
        "hops": Command(
            "fit the adapter's residual hops to the published curves that are marked for it",
            answer=(
                Field("parameters", "object", "the fitted values"),
                Field("points", "array", "every point of the curves"),
                Field("rms_error", "number", "the relative error of all of them"),
            ),
            work="hops",
        ),
    },
    moved={"--compare": "rpsim calibrate compare", **OF_PLATFORM_ONCE},
)


def main(options: argparse.Namespace) -> int:
    """Fit, print, write; returns 1 if the fit predicts the held-out points no better than before, else 0."""
    from .... import __version__
    from ....validation.measuring.calibrate import calibration
    from ....validation.measuring.calibrate.profile import check_target, profile_text, write_profile
    from ....validation.measuring.calibrate.runner import Runner
    from ...terminal.progress import bar

    base = base_of(options)
    platform = base.platform()
    if options.write is not None:
        check_target(Path(options.write), options.force, inputs=options.subject)
    largest = prepared(options)
    what = f"calibrate {platform.name}"
    share, knobs = _share(options.hold_out), _knobs(options, base.platform())
    measurements = read(options)
    with bar(what) as shown, Runner(base, options.jobs) as runner:
        found = calibration.calibrate(
            measurements,
            runner,
            knobs=knobs,
            share=share,
            largest_bytes=largest,
            on_step=lambda step: shown.set_description(f"{what}: {step}"),
        )
    if options.write is not None:
        path, files = Path(options.write), [Path(name) for name in options.subject]
        write_profile(path, profile_text(found, options.platform, path, files, __version__))
    show(options, found, what, options.write)
    return 0 if helped(found) else 1


def prepared(options: argparse.Namespace) -> int:
    """Refuse a page that cannot be written; the largest message that counts, in bytes."""
    from ....validation.measuring.calibrate.profile import check_target

    if options.html is not None:
        check_target(Path(options.html), True, "--html", options.subject)
    return _size(options.largest)


def read(options: argparse.Namespace) -> tuple[Measurement, ...]:
    """The measurements of all files."""
    from ....validation.measuring.documents import merged
    from ....validation.measuring.reading import read_measurements

    return merged(read_measurements(Path(name)) for name in options.subject)


def show(options: argparse.Namespace, found: Calibration, what: str, profile: str | None) -> None:
    """Write the page, if one is wanted, and print; ``profile`` is the file that was written."""
    from ....validation.measuring.calibrate.profile import write_whole
    from ...terminal.calibration import document, text
    from ...terminal.envelope import envelope
    from ...terminal.text import plural

    if options.html is not None:
        from ...pages.calibration import page

        names = [Path(name).name for name in options.subject]
        write_whole(Path(options.html), page(found, names, options.platform))
    if options.json:
        print(envelope(options, document(found, options.platform, profile)), end="")
    else:
        written = [f"{name}: {path}" for name, path in (("page", options.html), ("profile", profile)) if path]
        head = f"{what}: {plural(len(found.points), 'measurement')} of {plural(len(options.subject), 'file')}"
        print("\n".join([head, "", *text(found), *([""] if written else []), *written]))


def helped(found: Calibration) -> bool:
    """Whether the held out points (all points, if none was held out) are predicted no worse than before."""
    from ....validation.measuring.calibrate.calibration import rms

    judged = found.of(True) or list(found.points)
    return rms(judged) <= rms(judged, after=False)


def _share(text: str | None) -> float:
    from ....validation.measuring.calibrate.calibration import HELD_OUT

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
    from ....sim.units import parse_bytes
    from ....validation.measuring.calibrate.calibration import LARGEST_BYTES

    try:
        return LARGEST_BYTES if text is None else parse_bytes(text)
    except ValueError as error:
        raise InputError(Mistake(str(error), "a size, as in 4KiB", field="--largest")) from None


def _knobs(options: argparse.Namespace, platform: Platform) -> list[Knob] | None:
    """The parameters that ``--fit`` names, with the bounds that ``--bounds`` states."""
    from ....validation.measuring.calibrate.knobs import knob

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
