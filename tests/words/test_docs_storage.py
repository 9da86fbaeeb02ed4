"""Does docs/hardware/storage.md list the rules that there are?"""

from __future__ import annotations

from rpsim.models.durability.block_rules import BLOCK_RULES

from .pages import ROOT, code, rows, section

PAGE = ROOT / "docs" / "hardware" / "storage.md"


def test_the_table_of_rules_is_the_table_of_rules():
    shown = [tuple(map(code, row)) for row in rows(section(PAGE, "What is certain"))]
    assert [row for row in shown if row[0] != "rule"] == [
        (r.name, str(r.event), str(r.scope), r.stage.name, r.source) for r in BLOCK_RULES
    ]
