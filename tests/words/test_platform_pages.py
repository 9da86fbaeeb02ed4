"""Are docs/platforms/*.md what the profiles and the curves say? ``rpsim reproduce hardware --pages docs/platforms``.

What the simulator says in the section on validation moves with every timing; ``make slow`` compares that too.
"""

from __future__ import annotations

import re

import pytest

from rpsim.app.pages.platforms import VALIDATION, pages
from rpsim.models.profiles.platform import load_platform, platform_names
from rpsim.validation.published.curves import reading
from rpsim.validation.published.curves.board import Board, Result, chosen, run
from rpsim.validation.published.scoreboard import Bound

from .pages import ROOT

FOLDER = ROOT / "docs" / "platforms"


def published_board():
    """A board on which every point came out as it was published: the pages but for the simulated numbers."""
    return Board(
        [
            Result(curve, {x: 1.0 if isinstance(value, Bound) else value for x, value in curve.points.items()})
            for curve in chosen()
        ]
    )


def points(text):
    """Point, role and what was published of every row of the table of validation."""
    return re.findall(r"^\| (`[^|]+) \| (\w+) \| ([^|]+) \|", text.partition(VALIDATION)[2], re.M)


def test_there_is_a_page_for_every_profile_and_no_other():
    assert {path.name for path in FOLDER.iterdir()} == set(pages(published_board()))


@pytest.mark.parametrize("name", platform_names())
def test_a_page_ends_with_what_was_compared_on_the_profile(name):
    made, kept = pages(published_board())[f"{name}.md"], (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert points(kept) == points(made)
    assert kept.index("## Scope and limitations") < kept.index("## Numbers") < kept.index(VALIDATION)


@pytest.mark.slow
def test_the_pages_have_the_numbers_of_today():
    for name, text in pages(run(chosen(), jobs=2)).items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text


def test_a_number_that_no_model_reads_is_told(monkeypatch):
    platform = load_platform("optane-adr")
    assert "nic.doorbell" not in reading.unread(platform)
    monkeypatch.setattr(reading, "_attributes", lambda: frozenset({("nic", "poll_ps")}))
    assert "nic.doorbell" in reading.unread(platform) and "nic.poll" not in reading.unread(platform)
