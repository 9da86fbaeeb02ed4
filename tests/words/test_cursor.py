"""A cursor reads a document as types and goes on after a mistake; libyaml and PyYAML read every file alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rpsim.app.main import main
from rpsim.models.profiles.profiles import FOLDER
from rpsim.sim import yaml_source
from rpsim.sim.cursor import Cursor, Gathered
from rpsim.sim.errors import InputError, Mistake
from rpsim.sim.json_source import parse_json
from rpsim.sim.yaml_source import parse_yaml, read_yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("models", "protocols", "scenarios", "validation")
SHIPPED = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.yaml")]


def over(text: str) -> Cursor:
    return Cursor.over(parse_yaml(text, "f.yaml"), "a map")


def said(at: Cursor) -> list[str]:
    return [str(mistake) for mistake in at.mistakes]


def test_what_is_right_is_read_and_nothing_is_noted():
    at = over("name: a b\nsizes: [1, 2]\nhow: fast\nlate: 7 ns\nshare: 0.5\non: true\nmore: {x: {}}\n")
    at.keys(("name", "sizes", "how", "late", "share", "on", "more"), needed=("name",))
    assert at["name"].text("a name") == "a b"
    assert [one.whole(1) for one in at["sizes"].items("sizes")] == [1, 2]
    assert at["how"].choice(("slow", "fast")) == "fast"
    assert at["late"].parsed(len, "a time") == 4
    assert (at["share"].number(), at["on"].truth()) == (0.5, True)
    assert at["more"].fields("more")["x"].map("a map") == {}
    assert [one.path for one in at["how"].listed("words")] == [("how",)]
    assert at.get("absent", 3).whole() == 3
    assert "name" in at and "absent" not in at
    assert at.sound() and not at.mistakes
    at.finish()


@pytest.mark.parametrize(
    ("read", "stand_in", "told"),
    [
        (lambda at: at["a"].text("words"), "", "f.yaml:1: a: found 1, expected words"),
        (lambda at: at["b"].text("words", blank=False), "", "f.yaml:2: b: found ' ', expected words"),
        (lambda at: at["b"].whole(2, 5), 2, "f.yaml:2: b: found ' ', expected a whole number from 2 to 5"),
        (lambda at: at["a"].whole(2), 2, "f.yaml:1: a: found 1, expected a whole number from 2"),
        (lambda at: at["c"].whole(), 0, "f.yaml:3: c: found true, expected a whole number from 0"),
        (lambda at: at["c"].number(), 1.0, "f.yaml:3: c: found true, expected a number"),
        (lambda at: at["a"].truth(), False, "f.yaml:1: a: found 1, expected true or false"),
        (lambda at: at["c"].word("a word"), "", "f.yaml:3: c: found true, expected a word"),
        (lambda at: at["a"].parsed(int, "text"), 0, "f.yaml:1: a: found 1, expected text"),
        (lambda at: at["b"].parsed(int, "a number"), 0, "f.yaml:2: b: found ' ', expected a number"),
        (lambda at: at["c"].choice((1, 2)), 1, "f.yaml:3: c: found true, expected one of 1, 2"),
        (lambda at: at["d"].choice(["x"]), "x", "f.yaml:4: d: found a list of 1, expected one of x"),
        (lambda at: at["d"].items("two", least=2), [], "f.yaml:4: d: found a list of 1, expected two"),
        (lambda at: at["d"].items("none", most=0), [], "f.yaml:4: d: found a list of 1, expected none"),
        (lambda at: at["d"].fields("a map"), {}, "f.yaml:4: d: found a list of 1, expected a map"),
        (lambda at: at["absent"].map("a map"), {}, "f.yaml:1: absent: found nothing, expected a map"),
        (lambda at: at["d"][0]["x"].text("a word"), "", "f.yaml:4: d[0].x: found nothing, expected a word"),
    ],
)
def test_a_mistake_is_noted_and_a_stand_in_is_given(read, stand_in, told):
    at = over("a: 1\nb: ' '\nc: true\nd: [near]\n")
    assert read(at) == stand_in
    assert said(at) == [told]


def test_all_mistakes_are_raised_at_once_and_each_place_knows_of_its_own():
    at = over("nmae: x\nlist:\n- {kind: fst}\n- {kind: fast}\n")
    assert at.keys(("name", "list"), ("name", "size"), "a thing") == {"name"}
    for one in at["list"].items("a list"):
        one["kind"].choice(("fast", "slow"))
    assert [one.sound() for one in at["list"].items("a list")] == [False, True]
    with pytest.raises(InputError) as caught:
        at.finish()
    assert str(caught.value).splitlines() == [
        "f.yaml:1: nmae: found the unknown key 'nmae', expected one of name, list; did you mean 'name'?",
        "f.yaml:1: found no size, expected a thing with name, size",
        "f.yaml:3: list[0].kind: found 'fst', expected one of fast, slow; did you mean 'fast'?",
    ]
    with pytest.raises(InputError, match=r"^[^\n]*$"):
        at.finish(most=1)


def test_mistakes_of_what_is_named_are_taken_over():
    at = over("use: other\n")
    at["use"].adopt(InputError([Mistake("'x'", "y", nearest="z"), Mistake("'p'", "q", "other.yaml", 3)]))
    assert said(at) == [
        "f.yaml:1: use: found 'x', expected y; did you mean 'z'?",
        "other.yaml:3: found 'p', expected q",
    ]
    assert not at["use"].sound()


def test_several_documents_are_read_as_one():
    mistakes = Gathered()
    for file in ("a.yaml", "b.yaml"):
        Cursor.over(parse_yaml("x: 1\n", file), "a map", mistakes)["x"].text("words")
    assert [mistake.file for mistake in mistakes] == ["a.yaml", "b.yaml"]
    with pytest.raises(InputError, match="found a list of 1, expected a map of things"):
        Cursor.over(parse_yaml("[1]", "f"), "a map of things")


def test_json_has_lines_too():
    at = Cursor.over(parse_json('{"a": [\n1,\n"x"]}', "f.json", "a document"), "a map")
    assert [one.whole() for one in at["a"].items("a list")] == [1, 0]
    assert said(at) == ["f.json:3: a[1]: found 'x', expected a whole number from 0"]
    with pytest.raises(InputError, match=r"f\.json:2: found the end of the file, expected JSON"):
        parse_json("{\n", "f.json", "a document")
    with pytest.raises(InputError, match=r"f\.json: found lists nested too deeply, expected a document"):
        parse_json("[" * 200_000, "f.json", "a document")


# libyaml --------------------------------------------------------------------------------------------------------


def read_as(text: str) -> object:
    try:
        source = parse_yaml(text, "f.yaml")
    except InputError as error:
        return str(error)
    return source.data, source.lines


AWKWARD = (
    "a: b\tc", "{a: b?c}", "{a?: b}", "a: !x b", "a: !!strx", "!&!str a", "%YAML 1.2\n---", "---", "--- a", "...",
    "a: 1\n---\nb", "|\n\ufeff", "\ufeffa: 1", ">#", ">-#", "|2+#", "|#\n x", "\x85---", "a: \u2028b", "a: &x [*x]",
    "a: *b", "a: {b: [1, 2", "a: 'b", "a\nb: c", "a: 1\n b: 2", "- a\nb: c", "? a\n: b", "? [a]\n: b", "a: 1\na: 2",
    "<<: {a: 1}", "a: 010", "a: !!int '3'", "a: \x07", "", "# a", "a: ''", "a: ~", "''", "a: |\n  b\n  c\n",
    "a: >-\n  b\n  c\n", 'a: "\\u00e9"', "a: \udc80", "{" * 100, "[" * 300_000, "- " * 100_000 + "a",
    "{a: " * 100_000, "? " * 100_000, "\n".join(" " * level + "a:" for level in range(1_500)),
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("text", AWKWARD, ids=lambda text: ascii(text[:20]))
def test_awkward_texts_are_read_alike_without_libyaml(monkeypatch, text):
    found = read_as(text)
    monkeypatch.setattr(yaml_source, "_FAST", None)
    assert read_as(text) == found


@pytest.mark.long
def test_shipped_files_are_read_alike_without_libyaml(monkeypatch):
    texts = [path.read_text(encoding="utf-8") for path in SHIPPED]
    found = [read_as(text) for text in texts]
    monkeypatch.setattr(yaml_source, "_FAST", None)
    assert len(texts) > 80 and [read_as(text) for text in texts] == found


def test_a_file_is_parsed_once_until_it_changes(monkeypatch, tmp_path, capsys):
    parsed: list[str] = []
    compose = yaml.compose

    def counted(text: str, Loader: type) -> object:
        parsed.append(text)
        return compose(text, Loader=Loader)

    monkeypatch.setattr(yaml, "compose", counted)
    monkeypatch.setattr(yaml_source, "_kept", {})
    assert main(["list", "platforms"]) == 0
    files = len(list(FOLDER.rglob("*.yaml")))
    assert capsys.readouterr().out and 10 < len(parsed) == len(set(parsed)) <= files
    path = tmp_path / "x.yaml"
    path.write_text("a: 1")
    first = read_yaml(path)
    assert read_yaml(path) is first and len(parsed) <= files + 1
    path.write_text("a: 2")
    assert read_yaml(path).data == {"a": 2} and first.data == {"a": 1}
