"""Do docs/architecture.md and docs/limits.md list what there is: steps, rules, places, conditions?"""

from __future__ import annotations

import contextlib
import importlib
import runpy
import sys
from pathlib import Path

import pytest

from rpsim.models.durability.places import PLACES, Domain, Place, survives
from rpsim.models.durability.rules import EXECUTION, RULES, RequestKind
from rpsim.models.nic.nic import Nic
from rpsim.protocols.guarantees import Condition
from rpsim.sim.clock import Clock
from rpsim.validation.crash.explorer import IMAGES_PER_STATE
from rpsim.validation.oracle import FINDERS

from .pages import EXAMPLES, ROOT, code, rows, section

# the architecture page ------------------------------------------------------------------------------------

ARCHITECTURE = ROOT / "docs" / "architecture.md"


def test_the_table_of_rules_is_the_table_of_rules():
    shown = [tuple(map(code, row)) for row in rows(section(ARCHITECTURE, "Ordering rules"))]
    assert [row for row in shown if row[0] not in set(RequestKind)] == [
        (r.name, str(r.event), r.where, str(r.scope), r.stage.name, r.source) for r in RULES
    ]


def test_the_table_of_execution_is_the_table_of_execution():
    shown = [tuple(map(code, row)) for row in rows(section(ARCHITECTURE, "Ordering rules"))]
    kinds = [kind for kind in RequestKind if kind is not RequestKind.SEND]
    assert [row for row in shown if row[0] in kinds] == [
        (str(first), *(str(EXECUTION[first, second].order) for second in kinds)) for first in kinds
    ]


def test_the_tables_of_places_and_domains_are_the_code_s():
    shown = rows(section(ARCHITECTURE, "Places and domains"))
    assert {row[0]: [code(cell) for cell in row[1:]] for row in shown if len(row) == 6} == {
        str(path): [str(place) for place in places] for path, places in PLACES.items()
    }
    assert {code(row[0]): row[1].replace("`", "") for row in shown if len(row) == 2} == {
        str(domain): ", ".join(place for place in Place if survives(place, domain)) or "nothing" for domain in Domain
    }


def test_the_conditions_are_all_explained():
    shown = {code(row[0]) for row in rows(section(ROOT / "docs" / "conditions.md", "Conditions"))}
    assert shown == {str(condition) for condition in Condition} >= {str(condition) for condition in FINDERS}


def test_the_explorer_gives_up_where_the_pages_say():
    for page in (ROOT / "docs" / "explorer.md", ROOT / "docs" / "limits.md"):
        assert f"{IMAGES_PER_STATE} images" in " ".join(page.read_text(encoding="utf-8").split())


def functions() -> list[tuple[str, str, str]]:
    """(instant or nothing, qualified name, file) of each step of a WRITE."""
    found = [[code(cell) for cell in row] for row in rows(section(ARCHITECTURE, "The way of one WRITE"))]
    return [(row[0], row[1], row[2]) if len(row) == 4 else ("", row[0], row[1]) for row in found]


@pytest.mark.parametrize(("_", "name", "file"), functions(), ids=lambda value: value if "." in value else "")
def test_the_functions_on_the_way_are_there(_, name, file):
    found = importlib.import_module("rpsim." + file.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    assert Path(found.__code__.co_filename).resolve() == ROOT / file


def test_the_instants_on_the_way_are_those_of_the_run(monkeypatch):
    """Every function of the page's table is at work at the instant that the table says, on the general way."""
    monkeypatch.setattr(Nic, "takes_plain_way", False)
    table = {(int(ns), name, file) for ns, name, file in functions() if ns}
    files = {str(ROOT / file): file for _, _, file in table}
    seen: set[tuple[int, str, str]] = set()
    clock: list[Clock] = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_code.co_qualname == "Clock.run_until":
            clock.append(frame.f_locals["self"])
        elif clock and event in ("call", "return") and frame.f_code.co_filename in files:
            seen.add(((clock[0].now_ps + 500) // 1000, frame.f_code.co_qualname, files[frame.f_code.co_filename]))

    sys.setprofile(watch)
    try:
        with contextlib.redirect_stdout(None):
            runpy.run_path(str(EXAMPLES / "one_write.py"))
    finally:
        sys.setprofile(None)
    assert table <= seen
