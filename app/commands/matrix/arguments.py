"""The lists that arguments and options of ``rpsim matrix`` hold: names, platforms, seeds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ....sim.errors import InputError, Mistake

_SET_BY = {"crash.fault": "--faults", "workload.value": "--sizes", "vary": "--platforms"}
"""The options that set fields of a scenario, by the first words of the field."""


@contextmanager
def options_as_given() -> Iterator[None]:
    """A mistake in a fault, a size or a platform names the option, which the user wrote, and not the scenario's field.

    Raises InputError.
    """
    try:
        yield
    except InputError as error:
        raise InputError(map(_as_given, error.mistakes)) from error


def _as_given(one: Mistake) -> Mistake:
    for place in f"{one.file} {one.field}".split():
        for field, flag in _SET_BY.items():
            if place == field or place.startswith(f"{field}."):
                return replace(one, file=None, field=flag)
    return one


def listed(text: str | None) -> list[str]:
    """The items of a list: separated by semicolons or, where there are none, by commas outside of brackets."""
    parts = text.split(";") if text and ";" in text else re.split(r",(?![^\[\]]*\])", text or "")
    return [part.strip() for part in parts if part.strip()]


def named(options: argparse.Namespace) -> list[str]:
    """The names that are the command's arguments, each perhaps several with commas between them.

    Raises InputError for a name that stands there twice.
    """
    names = [name for text in options.subject for name in listed(text)]
    twins = dict.fromkeys(name for name in names if names.count(name) > 1)
    if twins:
        raise InputError([Mistake(f"'{name}' twice", "each name once", field="rpsim matrix") for name in twins])
    return names


def platforms(text: str | None, usual: str) -> list[str]:
    """The platforms of ``--platforms``: labels have commas and spaces in them, so a semicolon separates them."""
    if text is None:
        return [usual]
    if all(" " not in part.strip() for part in text.split(",")):
        return listed(text)
    return [part.strip() for part in text.split(";") if part.strip()]
