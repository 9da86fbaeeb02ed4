"""Is the documentation site's source whole? (``make docs`` builds it, and takes every warning for an error.)"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from rpsim.app.commands import forms, tables
from rpsim.app.commands.explain import entries
from rpsim.app.site import commands, fields, glossary, labs, layout, notebooks
from rpsim.scenarios.schema.schema import Scenario
from rpsim.scenarios.schema.workloads import Ycsb

from .pages import ROOT


@cache
def pages():
    return layout.texts()


def links(text):
    """What a page links to, its blocks of code left out."""
    return re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def tables_of_contents(text):
    return [
        name.rpartition("<")[2].removesuffix(">")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.S)
        for name in block.splitlines()
        if name and not name.startswith(":")
    ]


@pytest.mark.long
def test_links_between_pages_lead_to_pages():
    for name, text in pages().items():
        folder = name.rpartition("/")[0]
        for to in (to.partition("#")[0] for to in links(text) if "://" not in to):
            parts = [*folder.split("/"), *to.split("/")] if to else name.split("/")
            whole = []
            for part in filter(None, parts):
                whole = whole[:-1] if part == ".." else [*whole, part]
            path = "/".join(whole)
            assert path in pages() or (layout.DOCS / path).is_file(), f"{name}: {to}"


@pytest.mark.long
def test_every_page_is_in_one_table_of_contents():
    listed = ["index.md"]
    for name, text in pages().items():
        folder = name.rpartition("/")[0]
        listed += [f"{folder}/{one}" if folder else one for one in tables_of_contents(text)]
    assert sorted(listed) == sorted(pages())


def test_a_page_that_is_not_named_stands_with_its_folder():
    text = "# x\n## Look up\n- [eFactory](deep/a.md), [Schemes](s/README.md)\n"
    pages = dict.fromkeys(["deep/a.md", "deep/b.md", "s/README.md", "s/c.md", "other.md"], "")
    made = layout.contents(text, pages)
    assert tables_of_contents(made) == ["deep/a.md", "s/README.md", "deep/b.md"] and "eFactory <deep/a.md>" in made


@pytest.mark.long
def test_the_four_parts_are_there():
    captions = re.findall(r":caption: (.*)", pages()["index.md"])
    assert captions == ["Learn", "Do", "Look up", "Understand"]


def test_a_link_follows_its_page_and_one_to_another_file_becomes_its_name(tmp_path):
    known = {(layout.DOCS / "check.md").resolve(): "check.md"}
    text = "[a](../CHANGELOG.md) [b](check.md#models) [c](https://x.org/y)\n```text\n[d](check.md)\n```\n"
    made = layout.linked(text, layout.DOCS, layout.Path("deep"), known)
    assert made == "`CHANGELOG.md` [b](../check.md#models) [c](https://x.org/y)\n```text\n[d](check.md)\n```\n"


def test_every_command_and_option_is_on_the_page():
    made = commands.pages()
    assert all(f"\n## rpsim {name}\n" in made["commands.md"] for name in tables())
    for name, command in forms().items():
        mark = "###" if " " in name else "##"
        own = made["commands.md"].partition(f"\n{mark} rpsim {name}\n")[2].partition(f"\n{mark} ")[0]
        assert own and f"\n## rpsim {name}\n" in made["json.md"], name
        for option in command.options:
            assert f"| `{option.flag}" in own, (name, option.flag)
            assert option.help.replace("|", "\\|") in own.replace("`", ""), (name, option.flag)


def test_every_field_is_on_the_page_with_its_type():
    [text] = fields.pages().values()
    assert {Scenario, Ycsb} <= set(fields.maps())
    for model in fields.maps():
        for name, field in model.model_fields.items():
            row = re.search(rf"^\| `{field.alias or name}` \| (.*) \| (.*) \| (.*) \|$", text, re.M)
            assert row and row[1] and row[2], (model, name)
    assert "| `keys` | " in text.partition("\n## Ycsb\n")[2].partition("\n## ")[0]


def test_every_word_is_an_entry_of_the_glossary():
    made = glossary.page((ROOT / "docs/glossary.md").read_text(encoding="utf-8"), entries())
    terms = [
        line
        for line in made.splitlines()
        if re.match(r"[\w/]", line) and not line.startswith(("This page", "entry of", "histories."))
    ]
    for entry in entries():
        assert set(map(str.casefold, glossary.words(entry))) <= set(map(str.casefold, terms)), entry
    targets = re.findall(r"\{term\}`[^<]*<([^>]*)>`", made)
    assert targets and set(targets) <= {name for entry in entries() for name in glossary.words(entry)}


def test_words_in_their_usual_sense_are_not_linked():
    linked = glossary.automatic(entries())
    assert {"WPQ", "persistence domain", "scheme"} <= set(linked) and not {"place", "case", "past"} & set(linked)


def test_labs_on_the_site_have_no_hints_and_no_messages():
    made = "\n".join([*labs.pages().values(), *map(labs.notebook, labs.all_labs())])
    for lab in labs.all_labs():
        assert all(hint not in made for hint in lab.hints)
        assert all(text not in made for check in lab.checks for text in check.messages.values())
        assert lab.title in made and all(f"`{name}`" in made for name in lab.questions)


def test_cells_of_notebooks_are_python_or_commands():
    found = notebooks.texts()
    assert {"tutorials/first-hour", "tutorials/primitive", "tutorials/histories", "tutorials/sweep"} <= set(found)
    assert {f"labs/{number}" for number in range(1, 11)} <= set(found)
    for name, text in found.items():
        cells = notebooks.cells(text)
        assert len(cells) >= 3, name
        for cell in cells:
            ast.parse("\n".join(line for line in cell.splitlines() if not line.startswith("!")))
        assert name.startswith("tutorials/") or {f"!rpsim lab {name[5:]}\n", f"!rpsim lab {name[5:]} check\n"} <= set(
            cells
        )
