"""Every kind of page in a real browser: nothing on the console, plots drawn, the slider moves, a click tells more."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.pages import notebook
from rpsim.app.pages.report import report

from ..words import fakes
from .browser import Browser, found

PROGRAM = found()
pytestmark = [pytest.mark.long, pytest.mark.skipif(PROGRAM is None, reason="no chromium here")]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ONE = ["--set", "vary={platform: [optane-adr], ddio: ['on']}", "--set", "schemes=[client-active]"]
FEW = ["--set", "workload.operations=20", "--set", "workload.keys=4", *ONE]
CELL = ["read-after-write", "--platforms", "adr, ddio on", "--shapes", "word", "--sizes", "64 B"]
LAB = [str(EXAMPLES / "connectx4-send.json"), "--platform", "connectx4-lab"]

COMMANDS = {
    "run": ["run", "quickstart", *FEW],
    "crash": ["crash", "quickstart", *FEW],
    "matrix": ["matrix", "primitives", *CELL, "--quick"],
    "history": ["check", str(EXAMPLES / "lost-update.jsonl"), "--html", "page.html"],
    "scoreboard": ["reproduce", "hardware", "--component", "nic", "--quick"],
    "sweep": ["sweep", "quickstart", *FEW, "--over", "workload.value=64 B..256 B*2", "--seeds", "2"],
    "calibration": ["calibrate", "compare", *LAB, "--html", "page.html"],
}
"""The command that makes each kind of page, small."""


@pytest.fixture(scope="module")
def browser():
    made = Browser(PROGRAM)
    yield made
    made.close()


def made(kind: str) -> Path:
    """Run the command here, and find its page."""
    more = [] if kind == "history" else ["--jobs", "1"]
    assert main([*COMMANDS[kind], *more]) in (0, 1)
    (page,) = Path().rglob("*.html")
    return page


def plots(browser: Browser) -> tuple[int, int]:
    """How many places for plots there are, and in how many something is drawn."""
    places = "document.querySelectorAll('div.plot').length"
    drawn = "[...document.querySelectorAll('div.plot')].filter(one => one.querySelector('svg .trace')).length"
    return browser.evaluate(places), browser.evaluate(drawn)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_page_opens_without_errors_and_draws_its_plots(kind, browser, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    browser.open(made(kind))
    assert browser.errors == []
    assert browser.evaluate("document.querySelector('h1').textContent").strip()
    assert "rpsim" in browser.evaluate("document.querySelector('footer').textContent")
    places, drawn = plots(browser)
    assert drawn == places and (places > 0) == (kind not in ("matrix", "history"))
    if kind == "crash":
        check_slider(browser)
    elif kind == "matrix":
        browser.evaluate("document.querySelector('#heat td').click()")
        assert "LLC" in browser.evaluate("document.getElementById('detail').textContent")
    elif kind == "sweep":
        first = "[...document.querySelectorAll('#points tbody tr')].map(row => row.cells[0].textContent.trim()).join()"
        for order in ("64 B,128 B,256 B", "256 B,128 B,64 B"):
            browser.evaluate("document.querySelector('#points th button').click()")
            assert browser.evaluate(first) == order
    assert browser.errors == []


def check_slider(browser: Browser) -> None:
    """The power failure moves by the slider, by a button and by a click into the picture, and the page follows."""
    when = "document.getElementById('crash-when').textContent"
    lines = "document.getElementById('crash-lines').textContent"
    browser.evaluate("window.slider = document.getElementById('crash-step')")
    last = int(browser.evaluate("slider.max"))
    assert last > 2
    seen = []
    for step in (0, last // 2, last):
        browser.evaluate(f"slider.value = {step}; slider.dispatchEvent(new Event('input', {{bubbles: true}}))")
        seen.append((browser.evaluate(when), browser.evaluate(lines)))
    assert len({time for time, _ in seen}) == 3 and len({table for _, table in seen}) > 1
    browser.evaluate("document.getElementById('crash-back').click()")
    assert int(browser.evaluate("slider.value")) == last - 1 and browser.evaluate(when) != seen[-1][0]
    assert browser.evaluate("document.querySelectorAll('#crash-lanes rect').length") > 2


def test_a_notebook_shows_the_slider_in_a_frame(browser, tmp_path):
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><meta charset='utf-8'>{notebook.of_crash('<b>', fakes.outcomes(), [])}")
    browser.open(page)
    browser.evaluate("window.inside = document.querySelector('iframe').contentDocument")
    assert browser.evaluate("inside.title") == "<b>" and "client-active" in browser.evaluate("inside.body.textContent")
    assert browser.evaluate("inside.querySelectorAll('#crash-lanes rect').length") > 2
    assert "VIOLATED" in browser.evaluate("inside.querySelector('pre').textContent") and browser.errors == []


def in_a_window(browser: Browser, page: Path, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(page)


def test_long_names_leave_a_narrow_page_as_wide_as_its_window_and_no_legend_hides_any(browser, tmp_path):
    outcomes = fakes.outcomes()
    for number, outcome in enumerate(outcomes):
        outcome.scheme = f"hotpot-public[page=64 B, number={number}]"
        outcome.slider = outcome.slider and outcome.slider | {"scheme": outcome.scheme, "title": "txn w k1 = v1, " * 6}
    summary = {"unexpected": [], "schemes": [{"counterexamples": [{"case": "c"}] * 9} for _ in outcomes]}
    page = tmp_path / "report.html"
    page.write_text(report(fakes.scenario(), outcomes, summary), encoding="utf-8")
    in_a_window(browser, page, 800)
    try:
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.evaluate("document.querySelectorAll('#plot-latency .legendtext').length") == len(outcomes)
        below = (
            "[...document.querySelectorAll('#plot-latency .legendtext, #plot-throughput .legendtext')].filter(one => "
            "one.getBoundingClientRect().bottom > one.closest('.plot').getBoundingClientRect().bottom + 1).length"
        )
        assert browser.evaluate(below) == 0
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_lanes_of_several_machines_say_whose_they_are(browser, tmp_path):
    outcome = fakes.outcomes()[0]
    lines = outcome.slider["lines"]
    outcome.slider["lines"] = [line | {"node": f"node[{turn}]", "label": "redo"} for turn, line in enumerate(lines)]
    page = tmp_path / "report.html"
    summary = {"unexpected": [], "schemes": [{"counterexamples": [{"case": "c"}] * 9}]}
    page.write_text(report(fakes.scenario(), [outcome], summary), encoding="utf-8")
    browser.open(page)
    names = "[...document.querySelectorAll('#crash-lanes text.mono')].map(one => one.textContent)"
    assert browser.evaluate(names) == [f"node[{turn}] redo" for turn in range(len(lines))]


def test_names_with_tags_in_them_run_nothing(browser, tmp_path):
    evil = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 2'><b>"
    outcomes = fakes.outcomes()
    for outcome in outcomes:
        outcome.scheme = outcome.crash.scheme = evil
        outcome.slider = outcome.slider and outcome.slider | {"scheme": evil}
    summary = {"unexpected": [], "schemes": [{"counterexamples": [{"case": evil}] * 9} for _ in outcomes]}
    page = tmp_path / "report.html"
    page.write_text(report(fakes.scenario(title=evil), outcomes, summary), encoding="utf-8")
    browser.open(page)
    assert browser.errors == [] and browser.evaluate("typeof window.evil") == "undefined"
    assert browser.evaluate("document.querySelector('h1').textContent") == evil
    assert browser.evaluate("document.querySelectorAll('h1 b, td b, th b, legend b').length") == 0


def test_an_error_on_the_console_is_seen(browser, tmp_path):
    page = tmp_path / "wrong.html"
    for wrong in ("nobody()", "console.error('no')", "new Image().src = 'nowhere.png'"):
        page.write_text(f"<script>{wrong}</script>")
        browser.open(page)
        browser.evaluate("new Promise(done => setTimeout(done, 200))")
        assert len(browser.errors) == 1
