"""Are docs/platforms/*.md what the profiles and the curves say? ``rpsim reproduce hardware --pages docs/platforms``.

What the simulator says in the section on validation moves with every timing; ``make slow`` compares that too.
"""

from __future__ import annotations

import re

import pytest

from rpsim.app.pages.platforms import VALIDATION, pages
from rpsim.models.profiles.platform import load_platform, platform_names
from rpsim.models.profiles.vary import varied
from rpsim.validation.published.curves import reading, reading_runs
from rpsim.validation.published.curves.board import Board, Result, chosen, run
from rpsim.validation.published.scoreboard import Bound

from .pages import ROOT

FOLDER = ROOT / "docs" / "platforms"


@pytest.fixture(scope="module")
def published():
    """The pages but for the simulated numbers: every point comes out as it was published."""
    results = [
        Result(curve, {x: 1.0 if isinstance(value, Bound) else value for x, value in curve.points.items()})
        for curve in chosen()
    ]
    return pages(Board(results))


def points(text):
    """Point, role and what was published of every row of the table of validation."""
    return re.findall(r"^\| (`[^|]+) \| (\w+) \| ([^|]+) \|", text.partition(VALIDATION)[2], re.M)


@pytest.mark.long
def test_there_is_a_page_for_every_profile_and_no_other(published):
    assert {path.name for path in FOLDER.iterdir()} == set(published)


@pytest.mark.parametrize("name", platform_names())
def test_a_page_is_what_the_profile_says_up_to_what_was_simulated(name, published):
    made, kept = published[f"{name}.md"], (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert kept.partition(VALIDATION)[0] == made.partition(VALIDATION)[0]
    assert points(kept) == points(made)


@pytest.mark.slow
def test_the_pages_have_the_numbers_of_today():
    for name, text in pages(run(chosen(), jobs=2)).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text


# without effect -------------------------------------------------------------------------------------------------------

OTHERWISE = {
    "pcie.generation": "4", "pcie.lanes": "8", "pcie.rcb": "128 B", "llc.line": "128 B", "imc.channels": "2",
    "cpu.cores": "3", "drives.haishen5_flash.hold_up": "99 ms",
}  # fmt: skip
EFFECTIVE = [
    ("cpu.crc32_per_byte", "3 ns", reading_runs.verbs),
    ("fabric.propagation", "900 ns", reading_runs.verbs),
    ("cpu.os.wake", "9 us", reading_runs.sockets),
    ("nic.rnr_timer", "900 us", reading_runs.verbs),
    ("nic.post_next_wqe", "900 ns", reading_runs.verbs),
    ("cpu.os.reg_mr_page", "2 us", reading_runs.verbs),
    ("media.optane.controller.ait_miss", "3 us", reading_runs.verbs),
    ("cpu.os.tick", "9 us", reading_runs.scheduling),
    ("nic.arbitration", "20 ns", reading_runs.verbs),
    ("pcie.replay", "9 us", reading_runs.verbs),
    ("media.dram.refresh", "5 us", reading_runs.verbs),
    ("media.optane.read_behind_writes", "0", reading_runs.verbs),
    ("cpu.os.stray", "9 us", reading_runs.scheduling),
    ("nic.rx_occupancy", "3 us", reading_runs.losses),
    ("peers.haishen5.mmio_read", "9 us", reading_runs.storage),
    ("drives.haishen5_flash.cache_read", "90 us", reading_runs.storage),
    ("drives.haishen5_flash.read", "500 us", reading_runs.storage),
    ("kernel.epoll", "9 us", reading_runs.sockets),
    ("interconnect.crossing", "90 ns", reading_runs.numa),
    ("interconnect.link", "1 GB/s", reading_runs.numa),
    ("interconnect.header", "64 B", reading_runs.numa),
    ("interconnect.directory", "none", reading_runs.numa),
    ("memory.far_pm.socket", "socket0", reading_runs.numa),
]


@pytest.mark.long
def test_what_is_listed_as_without_effect_has_none():
    listed = {path for name in platform_names() for path in reading.unread(load_platform(name))}
    assert listed == OTHERWISE.keys()
    for path, text in OTHERWISE.items():
        assert varied(load_platform("pmr"), {path: text}) != load_platform("pmr"), path
    for one in reading_runs.RUNS:
        assert one(lambda platform: varied(platform, OTHERWISE)) == one(lambda platform: platform), one.__name__


@pytest.mark.long
@pytest.mark.parametrize(("path", "text", "run"), EFFECTIVE, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_not_listed_changes_results(path, text, run):
    assert reading.general(path) in reading.everything_read()
    assert run(lambda platform: varied(platform, {path: text})) != run(lambda platform: platform)


def test_a_read_is_noted_and_a_copy_is_not():
    seen: list[str] = []
    platform = reading.noted(load_platform("pmr"), seen.append)
    assert varied(platform, {"nic.doorbell": "1 us"}) != platform
    assert platform.nic in {platform.nic: 1} and not seen
    assert platform.drives["haishen5_flash"].read_ps == load_platform("pmr").drives["haishen5_flash"].read_ps
    assert platform.cpu.crc_ps_per_byte > 0  # a property
    assert set(seen) == {"drives.*.read", "cpu.crc32", "cpu.crc32_per_byte"}
