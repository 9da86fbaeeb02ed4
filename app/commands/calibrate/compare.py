"""``rpsim calibrate compare``: measurements beside a platform as it is."""

from __future__ import annotations

import argparse

from ....validation.measuring.calibrate import calibration
from ....validation.measuring.calibrate.runner import Runner
from ...terminal.progress import bar
from ..measure import base_of
from . import prepared, read, show


def main(options: argparse.Namespace) -> int:
    """Compare, print, write; returns 0."""
    base = base_of(options)
    what = f"compare {base.platform().name}"
    largest = prepared(options)
    measurements = read(options)
    with bar(what), Runner(base, options.jobs) as runner:
        found = calibration.compare(measurements, runner, largest)
    show(options, found, what, None)
    return 0
