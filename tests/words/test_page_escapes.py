"""What users name is text on every page: a title, a scheme, a file, a primitive; in the page and in its scripts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from rpsim.app.pages import paper
from rpsim.app.pages.matrix import page as matrix_page
from rpsim.app.pages.report import report
from rpsim.app.pages.template import render
from rpsim.app.terminal.summary import costs
from rpsim.protocols.guarantees import MEANINGS, Condition
from rpsim.validation.published.scoreboard import summarise

from . import fakes

EVIL = "</script><script>evil()</script><b>&"


class Read(HTMLParser):
    """The scripts of a page, and its text; ``stray`` are elements that only a name can have brought."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.stray = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.scripts += [""] if tag == "script" else []

    def handle_endtag(self, tag):
        while self.open.pop() != tag:  # meta and link have no end
            pass

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        else:
            self.texts.append(data)
            self.stray += data == "&"


def constant(found: Read, name: str) -> object:
    """The value of a constant of a page's scripts."""
    (line,) = [line for text in found.scripts for line in text.splitlines() if line.startswith(f"const {name} = ")]
    return json.loads(line.removeprefix(f"const {name} = ").removesuffix(";"))


@pytest.fixture(autouse=True)
def _without_plotly(monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "plotly")


def test_a_report_says_of_each_condition_in_its_table_what_it_means():
    outcomes = fakes.outcomes()
    summary = {"unexpected": [], "schemes": [{"counterexamples": [{"case": "case.json"}] * 9} for _ in outcomes]}
    page = report(fakes.scenario(), outcomes, summary)
    judged = {str(condition) for outcome in outcomes for condition in outcome.crash.verdicts}
    assert judged and set(MEANINGS) == set(Condition)
    for condition in judged:
        text = f"<b>{condition}</b>: {MEANINGS[Condition(condition)]}."
        assert page.count(text) == 1 and f'title="{MEANINGS[Condition(condition)]}">{condition}</th>' in page


def test_a_report_of_a_scenario_and_schemes_with_tags_in_their_names():
    outcomes = fakes.outcomes()
    for outcome in outcomes:
        outcome.scheme = outcome.crash.scheme = EVIL
        outcome.slider = outcome.slider and outcome.slider | {"scheme": EVIL}
    numbered = [{"case": EVIL} for _ in range(9)]
    summary = {"unexpected": [], "schemes": [{"counterexamples": numbered} for _ in outcomes]}
    found = Read(report(fakes.scenario(title=EVIL), outcomes, summary))
    assert found.scripts[0] == "plotly" and len(found.scripts) == 3 and not found.stray
    assert not any("evil" in text for text in found.scripts[:1])
    assert found.texts.count(EVIL) > 9, "the heading, and every table and story"
    assert {slider["scheme"] for slider in constant(found, "SLIDERS")} == {EVIL}
    names = [trace["name"] for trace in constant(found, "FIGURES")["latency"]["data"]]
    assert all(name.startswith("&lt;/script&gt;&lt;script&gt;evil()") for name in names), "plotly reads tags, too"


def test_a_matrix_with_tags_in_a_primitives_name():
    entry = {"subject": EVIL, "shapes": {}}
    found = Read(matrix_page([SimpleNamespace(findings={})], {"seed": EVIL, "rows": [entry]}))
    assert constant(found, "ROWS") == [entry] and len(found.scripts) == 1 and not found.stray
    assert any(EVIL in text for text in found.texts)


def test_a_matrix_says_what_its_shapes_and_conditions_are():
    finding = SimpleNamespace(verdicts={"no_lost_ack": "holds"}, counterexample=None)
    entry = {"subject": "mine", "shapes": {"word": {}}}
    page = matrix_page([SimpleNamespace(findings={"word": finding})], {"seed": 1, "rows": [entry]})
    assert "<b>word</b>, 8 B in place." in page
    assert f"<b>no_lost_ack</b>: {MEANINGS[Condition.NO_LOST_ACK]}." in page


def test_a_paper_with_tags_in_its_title():
    example = SimpleNamespace(title=EVIL, name=EVIL, source=EVIL, about=EVIL, figures={}, readings=())
    claim = SimpleNamespace(id=EVIL, words=EVIL, kind="value", unit=EVIL, why="")
    found_ = SimpleNamespace(met=False, status="predict", chosen=False, published=1.0, simulated=2.0, reason=EVIL)
    summary = summarise([])
    found = Read(paper.page(example, [(claim, found_)], summary, {}, {}))
    assert len(found.scripts) == 2 and not found.stray and EVIL in found.texts
    assert constant(found, "FIGURES") == {}


@pytest.mark.parametrize("template", ["calibration.html", "hardware.html"])
def test_a_title_with_tags(template):
    lists = dict.fromkeys(("fitted", "left", "series", "head", "points", "missed", "swept", "curves"), ())
    words = dict.fromkeys(("title", "kind", "heading", "summary", "verdict", "apart"), EVIL)
    found = Read(render(template, **lists, **words, held_out=None, figures={EVIL: EVIL}))
    assert len(found.scripts) == 2 and not found.stray and EVIL in found.texts
    assert constant(found, "FIGURES") == {EVIL: EVIL}


def test_a_report_has_what_operations_cost_as_the_terminal_has():
    outcomes = fakes.outcomes(crash=False)
    texts = "".join(Read(report(fakes.scenario(), outcomes, {})).texts)
    for line in costs(outcomes)[1:]:
        assert line in texts
