"""The lists that options of ``rpsim matrix`` hold: names, platforms, seeds."""

from __future__ import annotations

import argparse
import re

from ....sim.errors import InputError, Mistake


def listed(text: str | None) -> list[str]:
    """The items of a list: separated by semicolons or, where there are none, by commas outside of brackets."""
    parts = text.split(";") if text and ";" in text else re.split(r",(?![^\[\]]*\])", text or "")
    return [part.strip() for part in parts if part.strip()]


def platforms(options: argparse.Namespace) -> list[str]:
    """The platforms of ``--platforms``: labels have commas in them, so a semicolon separates them."""
    text = options.platforms
    if text is None:
        return ["quick" if options.quick else "usual"]
    return [part.strip() for part in text.split(";") if part.strip()] if ";" in text or "ddio" in text else listed(text)


def seeds(options: argparse.Namespace) -> list[int]:
    """The seeds of ``--seed``: a number, or several with commas. Raises InputError."""
    texts = listed(options.seed) or ["1"]
    wrong = [text for text in texts if not re.fullmatch(r"\d{1,19}", text)]
    if wrong or len(set(texts)) < len(texts):
        found = f"'{wrong[0]}'" if wrong else f"'{options.seed}': one of them twice"
        raise InputError(Mistake(found, "whole numbers, each once, as in 1 or 1,2,3", field="--seed"))
    return [int(text) for text in texts]


def one_seed(options: argparse.Namespace) -> int:
    """The seed of ``--seed``, for commands with a single run. Raises InputError for several."""
    first, *more = seeds(options)
    if more:
        raise InputError(Mistake(f"'{options.seed}'", "one seed; several go with --schemes", field="--seed"))
    return first
