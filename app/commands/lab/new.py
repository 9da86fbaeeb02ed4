"""``rpsim lab new``: a lab of a lecturer's own to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from ....sim.errors import InputError, Mistake


def main(options: argparse.Namespace) -> int:
    """Write a new lab; returns 0."""
    return start(options, options.subject, options.above)


def start(options: argparse.Namespace, name: str, above: str) -> int:
    """Write a new lab into the folder ``above``; raises InputError for a name that is none, or that is taken."""
    from importlib.resources import files

    from ...terminal.envelope import envelope
    from ...terminal.output import replacing
    from ...terminal.text import paragraph

    target = Path(above) / name
    if not Path(name).name.replace("-", "").replace("_", "").isalnum() or name in ("check", "new", "hint"):
        raise InputError(Mistake(f"'{name}'", "a name of letters, digits, '-' and '_'", field="rpsim lab new"))
    if target.exists():
        raise InputError(Mistake("a name that is taken", "a name that nothing has", str(target)))
    templates = files("rpsim.app").joinpath("templates")
    try:
        with replacing(target) as draft:
            for folder in ("starter", "solution"):
                (draft / folder).mkdir()
            text = templates.joinpath("lab.md").read_text(encoding="utf-8").replace("NAME", target.name)
            (draft / "lab.md").write_text(text, encoding="utf-8", newline="\n")
            for folder, verdict in (("starter", "holds"), ("solution", "violated")):
                put = templates.joinpath("lab-put.yaml").read_text(encoding="utf-8").replace("VERDICT", verdict)
                (draft / folder / "put.yaml").write_text(put, encoding="utf-8", newline="\n")
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a name for a new folder", str(target))) from None
    if options.json:
        print(envelope(options, made(options, target.as_posix())), end="")
    else:
        here = target.as_posix()
        text = f"{here}: a lab to start from; rpsim lab {here} shows it, rpsim lab {here} test tries it"
        print("\n".join(paragraph(text, 0, 2)))
    return 0


def made(options: argparse.Namespace, folder: str) -> dict[str, str]:
    """The answer: also that of ``rpsim new lab``, which has the fields of ``rpsim new``."""
    return {"lab": folder} if options.command == "lab" else {"kind": "lab", "name": options.name, "file": folder}
