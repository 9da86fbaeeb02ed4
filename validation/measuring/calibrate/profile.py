"""The fitted values as a platform profile, over the platform that they were fitted from, with their origin."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ....models.profiles.platform import load_platform, platform_names
from ....sim.errors import InputError, Mistake
from ....sim.files import keep_inputs
from .calibration import Calibration, Fitted, rms


def check_target(path: Path, force: bool, option: str = "--write", inputs: Sequence[str] = ()) -> None:
    """Raise InputError unless a file may be written there that is no input; called before the work, not after."""
    if path.is_dir():
        raise InputError(Mistake(f"the folder {path}", "a name for a file", field=option))
    if not path.absolute().parent.is_dir():
        raise InputError(Mistake(f"'{path}' in a folder that is not there", "a folder that is there", field=option))
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise InputError(Mistake(f"'{path}' in a folder that is not writable", "one to write into", field=option))
    keep_inputs(path, inputs, option)
    if path.exists() and not force:
        raise InputError(Mistake(f"{path}, which is there already", "a new name, or --force", field=option))


def write_whole(path: Path, text: str) -> None:
    """Write a file under its name only once it is complete."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_profile(path: Path, text: str) -> None:
    """Write a profile, once it is known that it can be read. Raises InputError where it cannot."""
    draft = path.with_name(f".{path.stem}.{os.getpid()}.yaml")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        load_platform(str(draft.absolute()))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def profile_text(found: Calibration, base: str, path: Path, files: Sequence[Path], version: str) -> str:
    """The YAML text of the fitted profile."""
    names = ", ".join(file.name for file in files)
    data: dict[str, Any] = {
        "platform": path.stem,
        "title": f"{base if base in platform_names() else found.platform.name}, calibrated to {names}",
        "extends": extended(base, path),
        "description": _description(found, files, version),
    }
    for one in found.fitted:
        for place, leaf in _leaves(one, names).items():
            group = data
            *groups, last = place.split(".")
            for key in groups:
                group = group.setdefault(key, {})
            group[last] = leaf
    return yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True)


def extended(base: str, path: Path) -> str:
    """How a profile at ``path`` names the platform that it extends: by name, or by the way to its file."""
    if base in platform_names():
        return base
    way = os.path.relpath(Path(base).absolute(), path.absolute().parent)
    return way if "/" in way or way.endswith((".yaml", ".yml")) else f"./{way}"


def _description(found: Calibration, files: Sequence[Path], version: str) -> str:
    sources = "; ".join(f"{file.name} (sha256 {_digest(file)})" for file in files)
    fitted, out = found.of(False), found.of(True)
    settings = ", ".join(f"{key} {value}" for key, value in found.platform.settings.items())
    text = (
        f"Fitted by rpsim {version} to {len(fitted)} measurements of {sources}. Error (rms) {rms(fitted):.2%}, before "
        f"the fit {rms(fitted, after=False):.2%}"
    )
    if out:
        text += f"; of {len(out)} held out {rms(out):.2%}, before {rms(out, after=False):.2%}"
    return text + (f". With {settings}." if settings else ".")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _leaves(one: Fitted, names: str) -> dict[str, dict[str, Any]]:
    """The entry of a profile for each parameter of a knob."""
    knob, error = one.knob, one.certainty.error
    texts, was = knob.rounded(one.slower), knob.rounded(1.0)
    certain = math.isfinite(error) and error < one.slower
    ends = [knob.rounded(one.slower + sign * error) for sign in (-1, 1)] if certain else []
    leaves = {}
    for path, what in zip(knob.paths, knob.kinds, strict=True):
        leaf: dict[str, Any] = {"value": texts[path], "source": f"fitted to {names}; it was {was[path]}"}
        notes = []
        if len(knob.paths) > 1:
            others = ", ".join(other for other in knob.paths if other != path)
            notes.append(f"shows only in sum with {others}")
        if one.at_bound:
            notes.append(f"at the {one.at_bound} bound of the fit")
        if not certain:
            notes.append("the measurements hardly determine it")
        if notes:
            leaf["note"] = "; ".join(notes)
        if certain:
            low, high = ends if what == "time" else reversed(ends)
            leaf["range"] = [low[path], high[path]]
        leaves[path] = leaf
    return leaves
