"""``rpsim new``: a commented starting point."""

from __future__ import annotations

import argparse
import keyword
import os
import re
from pathlib import Path

from ...sim.errors import InputError, Mistake, nearest
from ..options import Command, Field
from .lab import new as lab

COMMAND = Command(
    "a commented starting point: scenario, primitive, scheme, litmus, lab",
    "KIND NAME",
    "scenario, primitive, scheme, litmus or lab, and a name for it: files of that name are written",
    answer=(
        Field("kind", "string", "the kind of starting point"),
        Field("name", "string", "its name"),
        Field("file", "string", "the file, or the folder of a lab, that was written"),
        Field("scenario", "string?", "of a scheme: the scenario beside it"),
    ),
)

KINDS: dict[str, tuple[tuple[str, str], ...]] = {
    "scenario": (("scenario.yaml", ".yaml"),),
    "primitive": (("primitive.yaml", ".yaml"),),
    "scheme": (("scheme.txt", ".py"), ("scheme-scenario.yaml", ".yaml")),
    "litmus": (("litmus.yaml", ".yaml"),),
    "lab": (),
}
"""The kinds of starting points: the templates of each, and how the names of the files made of them end."""
NEXT = {
    "scenario": "rpsim crash {} runs it",
    "primitive": "rpsim matrix primitives {} --platforms quick judges and times it",
    "scheme": "rpsim crash {} explores it",
    "litmus": "rpsim litmus {} judges it",
}
"""What to do with the last of the files that were written."""


def main(options: argparse.Namespace) -> int:
    """Write it, each file under its final name only when it is whole.

    Raises InputError for a kind that there is not, a name that is none, and a file that is there already.
    """
    from importlib.resources import files

    from ..terminal.envelope import envelope
    from ..terminal.text import paragraph

    kind, name = options.subject, options.name
    if kind not in KINDS:
        raise InputError(Mistake(f"'{kind}'", f"a kind: {', '.join(KINDS)}", nearest=nearest(kind, KINDS)))
    if name is None:
        raise InputError(Mistake("no NAME", f"a name for the new {kind}", field=f"rpsim new {kind}"))
    if kind == "lab":
        return lab.start(options, name, ".")
    plain = Path(name).with_suffix("") if name.endswith(tuple(end for _, end in KINDS[kind])) else Path(name)
    if not re.fullmatch(r"[A-Za-z][\w-]*", plain.name):
        raise InputError(
            Mistake(f"'{plain.name}'", "a name of letters, digits, '-' and '_', a letter first", field="NAME")
        )
    if kind == "scheme":
        _refuse_known(plain.name)
    code = plain.with_name(plain.name.replace("-", "_") + ".py")
    written: list[Path] = []
    for template, end in KINDS[kind]:
        path = code if end == ".py" else plain.with_name(plain.name + end)
        text = files("rpsim.app").joinpath("templates").joinpath(template).read_text(encoding="utf-8")
        try:
            text = text.replace("CLASS", _class_name(plain.name, text))
            _write_new(path, text.replace("FILE", code.as_posix()).replace("NAME", plain.name))
        except InputError:
            for other in written:
                other.unlink()
            raise
        written.append(path)
    if options.json:
        named = dict(zip(("file", "scenario"), map(str, written), strict=False))
        print(envelope(options, {"kind": kind, "name": plain.name, **named}), end="")
    else:
        text = f"{', '.join(map(str, written))}: a {kind} to start from; {NEXT[kind].format(written[-1])}"
        print("\n".join(paragraph(text, 0, 2)))
    return 0


def _class_name(name: str, text: str) -> str:
    """The class of a scheme of this name, MyStore of my-store; a longer one where ``text`` has that name already."""
    short = "".join(word[0].upper() + word[1:] for word in re.split("[-_]+", name) if word)
    return f"{short}Scheme" if keyword.iskeyword(short) or re.search(rf"\b{short}\b", text) else short


def _refuse_known(name: str) -> None:
    """InputError for the name of a scheme that rpsim has."""
    from ...protocols.registry import schemes

    if name in schemes():
        raise InputError(Mistake(f"'{name}'", "a name that no scheme of rpsim has", field="NAME"))


def _write_new(path: Path, text: str) -> None:
    """A whole file of a name that nothing has."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.link(draft, path)
    except FileExistsError:
        found = "a file that is there already"
        raise InputError(Mistake(found, "a name that nothing has: it would be overwritten", str(path))) from None
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a name for a new file", str(path))) from None
    finally:
        draft.unlink(missing_ok=True)
