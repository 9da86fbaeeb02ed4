"""Do the pages of schemes say what the code and its runs say? (The site is made with them.)

What exploring crashes has found is kept in docs/measured/schemes. With RPSIM_RENEW=1 the slow test writes it,
``RPSIM_RENEW=1 pytest -m slow tests/words/test_scheme_pages.py -k NAME`` for one scheme; ``make slow`` compares.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rpsim.app.main import main
from rpsim.app.pages.composed import pages as composed
from rpsim.app.pages.schemes import CONDITIONS, GUARANTEES, Found, explored, page
from rpsim.app.site import measured
from rpsim.protocols.registry import modes, schemes, structures


@pytest.fixture(scope="module")
def made():
    return measured.schemes()


def test_every_scheme_structure_mode_and_part_has_a_page(made):
    names = {*schemes(), *composed()}
    assert set(made) == {f"schemes/{name}.md" for name in ("README", *names)}
    assert all(f"[{name}]({name}.md)" in made["schemes/README.md"] for name in names)
    assert not list((measured.KEPT.parent / "schemes").glob("*.md"))  # made when the site is built, not kept


def test_every_scheme_says_what_survives_and_nothing_else_is_kept(made):
    kept = {path.stem for path in (measured.KEPT / "schemes").iterdir()}
    assert kept == set(schemes())
    for name in kept:
        assert made[f"schemes/{name}.md"].count(GUARANTEES) == bool(measured.survivals(name))
        file = measured.of_scheme(name)
        assert file.read_text(encoding="utf-8") == measured.text_of_survivals(measured.survivals(name))
        words = {condition for one in measured.survivals(name) for condition in one.verdicts}
        assert words <= set(map(str, CONDITIONS))


@pytest.mark.slow
@pytest.mark.parametrize("name", schemes())
def test_what_survives_is_what_is_kept(name):
    today = measured.text_of_survivals(explored(schemes()[name]))
    if os.environ.get("RPSIM_RENEW"):
        measured.of_scheme(name).write_text(today, encoding="utf-8", newline="\n")
    assert measured.of_scheme(name).read_text(encoding="utf-8") == today


def test_a_page_has_bytes_steps_costs_verdicts_and_their_counterexamples(made):
    text = made["schemes/wflush-rpc.md"]
    assert "| `sequence` | 4 | 4 |" in text and "client->>server: WRITE of 256 B" in text
    assert "| put | server |" in text
    assert "| server[0] power | optane-adr, ddio off | holds* | holds | violated | violated |  |" in text
    assert "- committed, server[0] power, rflush-testbed, ddio on: get k3 -> torn" in " ".join(text.split())


def test_a_star_needs_a_single_writer_where_the_claim_does():
    kind = schemes()["wflush-rpc"]
    where = "server[0] power", "optane-adr, ddio off"
    stars = [
        page(kind, [Found(*where, one_writer, {"no_lost_ack": "holds"}, {})]).count("| holds* |")
        for one_writer in (True, False)
    ]
    assert stars == [1, 0]


def test_a_scheme_of_which_nothing_is_kept_has_a_page_without_verdicts(monkeypatch, tmp_path):
    monkeypatch.setattr(measured, "KEPT", tmp_path)
    assert not measured.survivals("wflush-rpc")
    assert GUARANTEES not in page(schemes()["wflush-rpc"], measured.survivals("wflush-rpc"))


def test_every_reading_of_a_mode_and_every_source_of_an_option_is_on_its_page(made):
    for name, mode in modes().items():
        text = " ".join(made[f"schemes/{name}.md"].split())
        assert all(option in text and one.source in text for option, one in mode.options.items())
    assert "read so" in made["schemes/rnvm-rcb.md"]
    assert all(f"on {next(iter(modes()))}" in made[f"schemes/{name}.md"] for name in list(structures())[:1])


def test_there_are_no_pages_of_anything_else(capsys, tmp_path):
    assert main(["list", "platforms", "--pages", str(tmp_path)]) == 2
    assert "expected rpsim list schemes or rpsim list commands" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# papers ---------------------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_paper_comes_out_as_its_file_has_recorded_it():
    for path in sorted((measured.KEPT / "papers").iterdir()):
        paper = measured.load_paper(path.stem)
        rows, swept = measured.results(paper)
        kept = json.loads(path.read_text(encoding="utf-8"))
        assert {claim.id for claim, _ in rows} == set(kept["claims"])  # of a new claim nothing is kept yet
        for claim, found in rows:
            assert found.met == claim.recorded(), f"{path.name}: {claim.id} came to {found.simulated}; keep it anew"
        assert set(swept) == ({"as it is", *(f"{name} = {value}" for name, value in paper.sweep)} if swept else set())


def test_a_papers_page_has_every_claim_and_is_made_of_what_is_kept():
    made = measured.reproductions()
    assert {Path(name).stem for name in made} == {path.stem for path in (measured.KEPT / "papers").iterdir()}
    for name, text in made.items():
        assert not (measured.KEPT.parent / name).exists()
        paper = measured.load_paper(Path(name).stem)
        told = {claim.id for claim, _ in measured.results(paper)[0]}
        told |= {claim.id for claim in paper.claims if claim.expression is None}
        assert all(f"| {claim} |" in text for claim in told)


def test_what_is_kept_of_a_paper_is_what_reproduce_has_written():
    path = measured.of_paper("efactory")
    kept = json.loads(path.read_text(encoding="utf-8"))

    def rows(found):
        return [
            {"id": n, "simulated": " to ".join(map(repr, v)) if isinstance(v, list) else v} for n, v in found.items()
        ]

    sweep = [{"parameter": name, "claims": rows(found)} for name, found in kept["sweep"].items()]
    again = measured.text_of_results({"claims": rows(kept["claims"]), "sweep": sweep})
    assert again == path.read_text(encoding="utf-8")
