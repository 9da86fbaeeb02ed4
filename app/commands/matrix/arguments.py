"""The lists that arguments and options of ``rpsim matrix`` hold: names, platforms, seeds."""

from __future__ import annotations

import argparse
import re


def listed(text: str | None) -> list[str]:
    """The items of a list: separated by semicolons or, where there are none, by commas outside of brackets."""
    parts = text.split(";") if text and ";" in text else re.split(r",(?![^\[\]]*\])", text or "")
    return [part.strip() for part in parts if part.strip()]


def named(options: argparse.Namespace) -> list[str]:
    """The names that are the command's arguments, each perhaps several with commas between them."""
    return [name for text in options.subject for name in listed(text)]


def platforms(text: str | None, usual: str) -> list[str]:
    """The platforms of ``--platforms``: labels have commas and spaces in them, so a semicolon separates them."""
    if text is None:
        return [usual]
    if all(" " not in part.strip() for part in text.split(",")):
        return listed(text)
    return [part.strip() for part in text.split(";") if part.strip()]
