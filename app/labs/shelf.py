"""Labs found and read: the shipped ones by number, a lecturer's own by folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...sim.cursor import Cursor
from ...sim.errors import InputError, Mistake, nearest
from ...sim.files import decode_text, read_bytes
from ...sim.yaml_source import parse_yaml
from .definition import FENCE, FILE, HEAD, HOME, STARTER, Lab, LabCheck, Question
from .kinds import KINDS
from .task import Kinds


def shipped() -> dict[str, Path]:
    """The folders of the shipped labs by number, in the order of their numbers."""
    found = [path.parent for path in HOME.glob(f"*/{FILE}")]
    return {str(int(path.name.partition("-")[0])): path for path in sorted(found)}


def find(name: str) -> Lab:
    """A shipped lab by its number, or one of a lecturer's own by its folder; raises InputError for anything else."""
    known = shipped()
    if name in known:
        return read(known[name], name)
    folder = Path(name)
    if (folder / FILE).is_file():
        return read(folder, name)
    if folder.is_dir() and not name.isdigit():
        raise InputError(Mistake(f"a folder without {FILE}", f"a folder with {FILE}, as rpsim lab new makes it", name))
    expected = f"a lab: {', '.join(known)}, or the folder of one of your own"
    raise InputError(Mistake(f"'{name}'", expected, field="rpsim lab", nearest=_close(name, known)))


def _close(name: str, known: Mapping[str, Path]) -> str | None:
    words = {path.name.partition("-")[2]: number for number, path in known.items()}
    close = nearest(name, [*words, *known, "check", "new"])
    if close is None and name.isdigit():
        return max(known, key=int)  # a number beyond the last
    return words.get(close, close) if close else None


def read(folder: Path, name: str) -> Lab:
    """Read a lab's file; raises InputError with every mistake, by line."""
    path = folder / FILE
    text = decode_text(read_bytes(path, "a lab"), str(path), "a lab")
    lines = text.split("\n")
    end = next((n for n, line in enumerate(lines) if n and line.rstrip() == FENCE), 0)
    if lines[0].rstrip() != FENCE or not end:
        raise InputError(Mistake("no head", f"YAML between two lines {FENCE}, then the text", str(path), 1))
    at = Cursor.over(parse_yaml("\n".join(["", *lines[1:end], ""]), str(path)), "a map with title and checks")
    at.keys(HEAD, ("title", "minutes", "able", "checks", "hints"), "a lab")
    checks = [_check(one, KINDS) for one in at["checks"].items("a list of checks", least=1)]
    lab = Lab(
        name=name,
        title=at["title"].text("what the lab is called", blank=False),
        minutes=at["minutes"].whole(1, 1000),
        able=tuple(one.text("a sentence") for one in at["able"].items("a list of sentences", least=1)),
        questions=_questions(at),
        checks=tuple(checks),
        hints=tuple(one.text("a sentence") for one in at["hints"].items("a list of hints")),
        text="\n".join(lines[end + 1 :]).strip("\n"),
        place=folder,
    )
    names = [check.id for check in checks]
    for twice in sorted({one for one in names if names.count(one) > 1}):
        at["checks"].wrong("each id once", f"'{twice}' twice")
    if not (folder / STARTER).is_dir():
        at.wrong(f"a folder {STARTER} beside {FILE}", "none")
    at.finish()
    return lab


def _questions(at: Cursor) -> dict[str, Question]:
    found: dict[str, Question] = {}
    if "questions" not in at:
        return found
    for key, one in at["questions"].fields("a map of questions").items():
        if not one.is_map("a map with ask, and choices or unit"):
            continue
        one.keys(("ask", "choices", "unit"), ("ask",), "a question")
        choices = one["choices"].items("a list of words", least=2) if "choices" in one else []
        unit = one["unit"].text("a unit") if "unit" in one else ""
        found[key] = Question(one["ask"].text("a question"), tuple(c.word("a word") for c in choices), unit)
    return found


def _check(at: Cursor, kinds: Kinds) -> LabCheck:
    common = ("id", "title", "kind", "points", "messages")
    if not at.is_map(f"a map with {', '.join(common)}"):
        return LabCheck("", "", "", 0, {}, {})
    name = at["kind"].choice(kinds, "a kind of check: {}")
    kind = kinds[name]
    at.keys((*common, *kind.needed, *kind.optional), ("id", "title", "kind", "points", *kind.needed), "a check")
    messages = at["messages"].fields("a map from what went wrong to what is said") if "messages" in at else {}
    return LabCheck(
        id=at["id"].text("a name", blank=False),
        title=at["title"].text("what is checked", blank=False),
        kind=name,
        points=at["points"].whole(1, 1000),
        given={key: at[key].data for key in (*kind.needed, *kind.optional) if key in at},
        messages={key: one.text("what is said") for key, one in messages.items()},
    )
