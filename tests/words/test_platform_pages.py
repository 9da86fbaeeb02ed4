"""Do the pages of platforms say what the profiles and the curves say? (The site is made with them.)

What was simulated is kept in docs/measured/hardware.json. With RPSIM_RENEW=1 what is missing there is run and written,
by the slow test all of it; ``make slow`` compares.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from rpsim.app.pages.platforms import VALIDATION, pages
from rpsim.app.site import measured
from rpsim.models.profiles.platform import load_platform, platform_names
from rpsim.models.profiles.vary import varied
from rpsim.validation.published.curves import reading, reading_runs
from rpsim.validation.published.curves.board import Board, chosen, run


@pytest.fixture(scope="module")
def made():
    return measured.platforms()


@pytest.mark.long
def test_what_was_simulated_is_kept_for_every_point_and_no_other():
    kept = {result.curve.id: result for result in measured.board().results}
    missing = [
        replace(curve, points=left)
        for curve in chosen()
        if (left := {x: y for x, y in curve.points.items() if x not in kept[curve.id].simulated})
    ]
    if missing and os.environ.get("RPSIM_RENEW"):
        for new in run(missing, jobs=2).results:
            old = kept[new.curve.id]
            found = {**old.simulated, **new.simulated}
            kept[new.curve.id] = replace(old, simulated={x: found[x] for x in old.curve.points})
        measured.FILE.write_text(measured.text(Board(list(kept.values()))), encoding="utf-8")
    board = measured.board()
    assert all(list(result.simulated) == list(result.curve.points) for result in board.results)
    assert measured.FILE.read_text(encoding="utf-8") == measured.text(board)


@pytest.mark.slow
def test_the_kept_numbers_are_those_of_today():
    today = measured.text(run(chosen(), jobs=2))
    if os.environ.get("RPSIM_RENEW"):
        measured.FILE.write_text(today, encoding="utf-8")
    assert measured.FILE.read_text(encoding="utf-8") == today


@pytest.mark.long
def test_there_is_a_page_for_every_profile_with_every_number_and_every_point(made):
    assert set(made) == {"platforms/README.md", *(f"platforms/{name}.md" for name in platform_names())}
    points = {f"`{result.curve.id}[{x}]`" for result in measured.board().results for x in result.simulated}
    told = set()
    for name in platform_names():
        numbers, _, validation = made[f"platforms/{name}.md"].partition(VALIDATION)
        shown = re.findall(r"^\| `([^`]+)` \| [^|]* \| (published|assumption|fitted) \|", numbers, re.M)
        assert sorted(shown) == sorted((one.path, one.origin) for one in load_platform(name).parameters())
        told |= set(re.findall(r"^\| (`[^`|]+\]`)", validation, re.M))
    assert told == points


def test_a_point_without_a_number_is_left_out(tmp_path, monkeypatch):
    file = tmp_path / "hardware.json"
    file.write_text("{}")
    monkeypatch.setattr(measured, "FILE", file)
    assert not measured.board().claims() and pages(Board([]))["README.md"].startswith("# Platforms")


# without effect -------------------------------------------------------------------------------------------------------

OTHERWISE = {
    "pcie.generation": "4", "pcie.lanes": "8", "pcie.rcb": "128 B", "llc.line": "128 B",
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
    ("imc.channels", "1", reading_runs.scheduling),
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
