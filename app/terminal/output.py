"""The results folder: one per scenario, seed and command, complete or not there at all."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.errors import InputError, Mistake
from ...sim.files import keep_inputs

if TYPE_CHECKING:
    from .work import JobOutcome

OPERATION_COLUMNS = (
    "scheme", "platform", "operation", "process", "f", "object",
    "invoke_ps", "return_ps", "latency_ns", "outcome", "result",
)  # fmt: skip


def writable(out: str) -> Path:
    """A folder that exists or can be made. Raises InputError when it cannot be one that we may write into."""
    path = Path(out)
    above = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not above.is_dir():
        raise InputError(Mistake(f"the file {above}", "a folder, or a name for a new one", field="--out"))
    try:  # what the system says of access is not all: a file system may be read-only, or made by the kernel
        os.rmdir(tempfile.mkdtemp(prefix=".rpsim-", dir=above))
    except OSError:
        raise InputError(Mistake(f"{above}, which is not writable", "a folder to write into", field="--out")) from None
    return path


def folder(out: str, name: str, resolved: Mapping[str, Any], seed: int, command: str) -> Path:
    """The results folder of a command: its name ends in a hash of all that determines the results.

    Raises InputError when ``out`` cannot be a folder that we may write into, before any work is done.
    """
    path = writable(out)
    what = json.dumps({"command": command, "scenario": resolved, "seed": seed}, sort_keys=True, default=str)
    return path / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A hidden folder beside ``target`` to write into; takes its name, and its place, when all went well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
        if target.exists():
            target.rename(old)
        draft.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def as_json(document: object) -> str:
    """The one way in which rpsim writes JSON: keys in the order of their making, ASCII, a newline at the end."""
    return json.dumps(document, indent=1, default=str) + "\n"


def write_json(path: Path, document: object) -> None:
    path.write_text(as_json(document), encoding="utf-8", newline="\n")


def as_trace(events: Iterable[Mapping[str, Any]]) -> str:
    """Events in the Trace Event Format, as ui.perfetto.dev takes it, one a line."""
    return '{"displayTimeUnit": "ns", "traceEvents": [\n' + ",\n".join(map(_compact, events)) + "\n]}\n"


_compact = json.JSONEncoder(separators=(",", ":")).encode


def write_text(name: str, content: str, option: str, inputs: Iterable[str | Path] = ()) -> None:
    """Write a file that an option names, complete or not at all; raises InputError if it cannot be written, or is one
    of the command's ``inputs``.
    """
    target = Path(name)
    if os.path.isdir(target):
        raise InputError(Mistake(f"the folder {target}", "a file to write", field=option))
    keep_inputs(target, inputs, option)
    draft = target.with_name(f".{target.name}.draft")
    try:
        draft.write_text(content, encoding="utf-8", newline="\n")
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        what = f"{name}, which cannot be written ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(what, "a file to write", field=option)) from None


def write_operations(path: Path, outcomes: Iterable[JobOutcome]) -> None:
    """Every operation of every run, one a row."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(OPERATION_COLUMNS)
        for outcome in outcomes:
            table.writerows((outcome.scheme, outcome.platform, *row) for row in outcome.operations)


def manifest(command: str, wall_time_s: float, **more: object) -> dict[str, Any]:
    """Where results come from, and the only file of their folder that knows of wall time; ``more``: the command's."""
    from ... import __version__

    return {
        "rpsim_version": __version__,
        "git_revision": git_revision(),
        "command": command,
        **more,
        "wall_time_s": round(wall_time_s, 3),
    }


def footer(target: Path, page: str = "") -> list[str]:
    """Where to look further, as the last lines on the terminal: the page, if one was written, then the folder."""
    report = [f"report:  {(target / page).as_posix()}"] if page else []
    return [*report, f"results: {target.as_posix()}"]


def states_per_second(outcome: JobOutcome) -> float | None:
    """Crash states judged in a second of wall time, or None where nothing was explored."""
    report = outcome.crash
    return round(report.states / report.seconds, 1) if report and report.seconds > 0 else None


def git_revision() -> str | None:
    """The commit that is checked out where this code lies, or None where it is no checkout."""
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(home), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
