"""Are the documents true? Links, files, commands, snippets and printed outcomes are compared with the real thing.

A block of a page after ``<!-- file: path -->`` is that file, whole. One after ``<!-- output: path -->`` is an excerpt
of that file (a line ``...`` leaves some out), and the file is what the program prints: test_docs_outcomes.py
compares, and with RPSIM_RENEW=1 in its environment it writes the files anew.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from itertools import dropwhile, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from rpsim.app.commands import forms
from rpsim.app.commands.completion import SHELLS
from rpsim.app.commands.explain import known
from rpsim.app.commands.measure import plan_path
from rpsim.app.commands.new import KINDS as STARTING_POINTS
from rpsim.app.commands.reproduce import subjects
from rpsim.app.grammar import COMMANDS, parse
from rpsim.app.labs.shelf import shipped as shipped_labs
from rpsim.app.main import main
from rpsim.app.site.layout import DOCS, made
from rpsim.protocols.primitives import known_primitives
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run import experiment
from rpsim.scenarios.schema import listed, schema, workloads
from rpsim.scenarios.schema.failures import Failure
from rpsim.scenarios.schema.load import load_scenario
from rpsim.scenarios.sweep.axes import parse_axes
from rpsim.scenarios.sweep.grid import make_grid
from rpsim.validation.litmus.shipped import chosen

from .pages import EXAMPLES, PAGES, ROOT, blocks, commands, prose

LATER = {"tests/shape/", "models/pcie_switch.py"}
"""A folder whose tests are to come, and what docs/adding-hardware.md says to make."""

WRITTEN = {
    "report.html",
    "summary.json",
    "runs.json",
    "manifest.json",
    "operations.csv",
    "case-1.json",
    "trace-case-1.json",
    "trace-case-N.json",
    "trace.json",
    "my-flush.yaml",
    "results.json",
    "my-store.yaml",
    "my_store.py",
}
WRITTEN |= {"matrix.json", "matrix.html", "sweep.json", "runs.csv"}
"""What runs write: no files of the checkout. tests/smoke/test_cli.py asks for each of them."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


# what is named is there -----------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def made_pages() -> set[Path]:
    """The pages that are made from the code when the site is built."""
    return {DOCS / name for name in made()}


@every_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    for link in (link for link in links if not link.startswith("https://")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if target.resolve() in made_pages():
            continue  # the site has it
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


@cache
def names_of_files() -> set[str]:
    """The names of all files and folders of the checkout, but for those that tools have made."""
    names: set[str] = set()
    for _, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in (".venv", ".git", "__pycache__")]
        names |= {*folders, *files}
    return names


@pytest.mark.long
@every_page
def test_files_named_in_the_text_exist(page):
    everything = names_of_files()
    for word in re.findall(r"`([\w./-]+)`", prose(page)):
        if "/" in word and not word.startswith((".venv/", "results/", "build/", "/dev/")):
            assert (ROOT / word).exists() or word in LATER, f"{page.name}: {word}"
        elif re.search(r"\.(py|ya?ml|md|json|html|csv|cfg|toml|txt)$", word):
            assert word in everything | WRITTEN, f"{page.name}: {word}"


@every_page
def test_pages_speak_of_the_project_only_and_fit(page):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|tmp|home)\b", text)
    for block in blocks(page):
        width = 80 if block.language == "text" else 120
        assert max(map(len, block.text.splitlines())) <= width, f"{page.name}: {block.text}"
    for number, written in enumerate(text.splitlines(), start=1):
        assert len(written) <= 130 or written.startswith("|"), f"{page.name}:{number} is too long"


def test_pictures_are_pictures():
    (svg,) = (ROOT / "docs" / "images").glob("*.svg")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    for picture in (ROOT / "docs" / "images").glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 200_000


# snippets and excerpts --------------------------------------------------------------------------------------

MARKED = [block for page in PAGES for block in blocks(page) if block.marker]


@pytest.mark.parametrize("block", MARKED, ids=lambda block: f"{block.page.name}: {block.marker[1]}")
def test_a_marked_block_is_what_it_says(block):
    kind, path = block.marker
    real = (ROOT / path).read_text(encoding="utf-8")
    if kind == "file":
        assert block.text == real
        return
    at = 0
    for piece in re.split(r"^\.\.\.\n", block.text, flags=re.MULTILINE):
        found = real.find("\n" + piece, at) if not real.startswith(piece) else 0
        assert found >= 0, f"not in {path}:\n{piece}"
        at = found + 1


@every_page
def test_yaml_and_python_blocks_are_marked_or_valid(page):
    for block in blocks(page):
        if block.language == "yaml":
            assert yaml.safe_load(block.text)
        if block.language == "python":
            ast.parse(block.text)
        if block.language in ("yaml", "text"):
            assert block.marker, f"{page.name}: nothing says where this comes from:\n{block.text}"


@pytest.mark.parametrize("path", [EXAMPLES / "pause.yaml"], ids=lambda path: path.name)
def test_example_scenarios_do_what_they_expect(path, tmp_path, capsys):
    assert main(["crash", str(path), "--out", str(tmp_path), "--no-report", "--jobs", "1"]) == 0
    assert "as expected" in capsys.readouterr().out


# commands ---------------------------------------------------------------------------------------------------


def check_rpsim(words: list[str], copied: frozenset[str]) -> None:
    for name, command in {**COMMANDS, **forms()}.items():
        if words[1:] in (name.split(), [*name.split(), *command.argument.split()]):
            return  # rpsim run SCENARIO: it is spoken of
    options = parse(words[1:]) if "--help" not in words else None
    if options is None or copied & set(re.split(r"[\s=]", " ".join(words))):
        return
    if options.command in ("run", "crash"):
        path = ROOT / options.subject
        load_scenario(str(path) if path.suffix else options.subject, options.overrides, options.seed)
    elif options.command == "sweep":
        if options.part != "merge":
            assert make_grid(options.subject, parse_axes(options.over), options.overrides).runs, words
    elif options.command == "litmus":
        assert chosen([str(ROOT / one) if (ROOT / one).exists() else one for one in options.subject]), words
    elif options.command == "reproduce":
        assert options.part or options.subject.partition("/")[0] in subjects(), words
    elif options.command == "replay":
        assert (ROOT / options.subject).is_file(), words
    elif options.command == "measure":
        assert plan_path(options.subject).is_file(), words
    elif options.command in ("calibrate", "check"):
        assert options.part == "hops" or all((ROOT / path).exists() for path in options.subject), words
    elif options.command == "mutate":
        assert options.subject in (None, *known_primitives()) or scheme(options.subject), words
    elif options.command == "explain":
        assert known(" ".join(options.subject)), words
    elif options.command == "completion":
        assert options.subject in SHELLS, words
    elif options.command == "new":
        assert options.subject in STARTING_POINTS and options.name, words
    elif options.command == "lab":
        assert options.part or options.subject in (None, "my-lab", *shipped_labs()), words
    else:
        assert options.command in ("bench", "matrix", "design", "list"), words


def check_rpsim_verbs(words: list[str]) -> None:
    usage = (ROOT / "validation" / "verbs_bench" / "options.c").read_text(encoding="utf-8")
    assert f"rpsim-verbs {words[1]} " in usage, words
    for option, value in pairwise(words):
        assert not option.startswith("--") or f"{option} " in usage, words
        assert option != "--plan" or (ROOT / value).is_file(), words


@pytest.mark.long
@every_page
def test_command_lines_would_run(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for line_of_words, copied in commands(page):
        words = list(dropwhile(lambda word: re.fullmatch(r"[A-Z_]+=\S+", word), line_of_words))
        if words[0] == "rpsim":
            check_rpsim(words, copied)
        elif words[0] == "make":
            if words[1] == "-C":
                assert (ROOT / words[2] / "Makefile").is_file(), words
                del words[1:3]
            asked = {word for word in words[1:] if "=" not in word and word != "&&"} - {"make"}
            assert asked <= targets, words
        elif words[0] == "rpsim-verbs":
            check_rpsim_verbs(words)
        elif words[0] == "cp":
            assert (ROOT / words[1]).is_file() and (ROOT / words[2]).is_dir(), words
            assert not (ROOT / words[2] / Path(words[1]).name).exists(), f"{words}: there is such a file already"
        else:
            assert words[0] in (".venv/bin/python", "pytest", "git"), words


def test_whoever_reads_the_first_twenty_lines_of_the_readme_can_run_it():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake demo " in (first := "\n".join(text.splitlines()[:20])) and "\nmake test " in first
    assert len(text.splitlines()) <= 60 and text.count("![") == 1


def test_every_field_of_a_scenario_is_explained():
    text = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    models = (schema.Scenario, schema.RoleCount, schema.CrashSection, schema.Outage, Failure)
    for model in (*models, workloads.Ycsb, workloads.ClientGroup, listed.ScheduledOperation):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}`" in text or f"kind `{name}" in text or name == "kind", (model, name)
    pauses = experiment.PAUSE_EVERY, experiment.PAUSE_SHORTEST_PS // 10**6, experiment.PAUSE_LONGEST_PS // 10**6
    assert pauses == (8, 1, 20) and "every 8th on average" in text and "1 to 20 us" in " ".join(text.split())
