"""The labs as pages and as notebooks: both from ``lab.md``, without checks, hints and solutions."""

from __future__ import annotations

import re

from ..labs.definition import Lab, Question
from ..labs.shelf import read, shipped
from ..pages.markdown import table, wrapped

_COMMANDS = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^(#+ )", re.MULTILINE)

HEAD = """# Labs

Ten labs that check themselves: predict, run, explain. `rpsim lab 1` shows the first and puts its files into a folder,
`rpsim lab 1 check` checks them, `rpsim lab 1 hint` helps. Each is also a notebook.
[For lecturers](../teaching.md) there are plans for courses, and forms for grading.
"""


def pages() -> dict[str, str]:
    """A page for each lab, and the one that lists them."""
    labs = all_labs()
    rows = [[one.name, f"[{one.title}]({one.name}.md)", str(one.minutes), str(one.points)] for one in labs]
    first = "\n".join([HEAD, *table(["lab", "title", "minutes", "points"], rows), ""])
    return {"labs/README.md": first} | {f"labs/{one.name}.md": page(one) for one in labs}


def all_labs() -> list[Lab]:
    """The shipped labs, in their order."""
    return [read(path, number) for number, path in shipped().items()]


def page(lab: Lab) -> str:
    """The lab's page, with its notebook to download."""
    text = _COMMANDS.sub(r"```sh\n\1```", lab.text)
    notebook = f"{{download}}`As a notebook <../notebooks/labs/{lab.name}.ipynb>`"
    return "\n".join([*_head(lab), notebook, "", *_questions(lab), _TITLE.sub(r"#\1", text)])


def notebook(lab: Lab) -> str:
    """The lab as a text notebook in MyST's form: its commands are cells, from the starter files to the check."""
    before = [
        "# Start",
        "",
        "This lays the starter files out beside the notebook:",
        "",
        *_cell(f"!rpsim lab {lab.name}"),
    ]
    after = [
        "# Check",
        "",
        *_cell(f"!rpsim lab {lab.name} check"),
        "",
        "Stuck?",
        "",
        *_cell(f"!rpsim lab {lab.name} hint"),
    ]
    text = _COMMANDS.sub(lambda found: "\n".join(_cell(_shell(lab, found[1]))), lab.text)
    parts = [*_head(lab), *_questions(lab), *before, "", text, "", *after, ""]
    return "\n".join(parts)


def _shell(lab: Lab, lines: str) -> str:
    """Commands of a terminal as those of a cell; what runs in the lab's folder is told so."""
    words = [line for line in lines.splitlines() if line.strip()]
    return "\n".join(f"!{line}" if line.startswith("rpsim ") else f"!cd {lab.desk} && {line}" for line in words)


def _cell(code: str) -> list[str]:
    return ["```{code-cell}", *code.splitlines(), "```"]


def _head(lab: Lab) -> list[str]:
    able = [line for one in lab.able for line in wrapped(f"- {one}")]
    return [f"# Lab {lab.name}: {lab.title}", "", f"{lab.minutes} minutes. Afterwards you are able to", "", *able, ""]


def _questions(lab: Lab) -> list[str]:
    if not lab.questions:
        return []
    rows = [[f"`{name}`", one.ask, _choices(one)] for name, one in lab.questions.items()]
    return ["## Questions", "", "Answer these in `answers.yaml`:", "", *table(["question", "is", "answer"], rows), ""]


def _choices(question: Question) -> str:
    return ", ".join(question.choices) or (f"a number of {question.unit}" if question.unit else "a number")
