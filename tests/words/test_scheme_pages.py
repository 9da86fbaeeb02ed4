"""Are docs/schemes/*.md what the schemes' code and their runs say? ``rpsim list schemes --pages docs/schemes``.

What exploring crashes finds takes longer, and is compared by the slow test alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.pages.schemes import GUARANTEES, contents, explored, page
from rpsim.protocols.registry import schemes

FOLDER = Path(__file__).parents[2] / "docs/schemes"


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", schemes())
def test_a_page_says_what_the_code_does(name):
    assert text_of(name).partition(GUARANTEES)[0].rstrip() == page(schemes()[name]).rstrip()


@pytest.mark.slow
@pytest.mark.parametrize("name", schemes())
def test_a_page_says_what_survives(name):
    kind = schemes()[name]
    assert text_of(name) == page(kind, explored(kind))


def test_the_first_page_lists_them_all():
    assert text_of("README") == contents(schemes().values())
    assert {path.stem for path in FOLDER.glob("*.md")} == {"README", *schemes()}


def test_there_are_no_pages_of_anything_else(capsys, tmp_path):
    assert main(["list", "platforms", "--pages", str(tmp_path)]) == 2
    assert "--pages is for nothing else" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
