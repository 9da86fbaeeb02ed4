"""Plain Wing, Gong with Lowe's memory of configurations, as others have it: to compare verdicts and steps with."""

from __future__ import annotations

from ..models.simple import ILLEGAL, Model
from .general import Interval

FOREVER = 1 << 62


class TooHard(Exception):
    """It took more steps than allowed."""


def plain(model: Model, spans: list[Interval], most: int = 10**9) -> tuple[bool, int]:
    """Whether there is an order, and how many transitions of the model it took to know."""
    rows = sorted(spans, key=lambda span: span.invoke_ps)
    ends = [FOREVER if span.return_ps is None else span.return_ps for span in rows]
    goal = sum(1 << i for i, span in enumerate(rows) if span.return_ps is not None)
    steps = 0
    met = {(0, model.initial)}
    stack = [(0, model.initial)]
    while stack:
        done, state = stack.pop()
        if done & goal == goal:
            return True, steps
        first = min(end for i, end in enumerate(ends) if not done >> i & 1)
        for i, span in enumerate(rows):
            if span.invoke_ps > first:
                break
            if done >> i & 1:
                continue
            steps += 1
            after = model.step(state, span.call)
            new = done | 1 << i, after
            if after is not ILLEGAL and new not in met:
                met.add(new)
                stack.append(new)
        if steps > most:
            raise TooHard
    return False, steps
