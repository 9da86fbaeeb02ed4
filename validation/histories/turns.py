"""Searches of several objects in turns, so that a hard one cannot hide a violation of an easy one."""

from __future__ import annotations

from collections.abc import Sequence

from ...protocols.guarantees import Condition, Verdict
from ..oracle.known import NEVER_PS
from ..oracle.search.general import Search
from .fitting import Subject
from .judges import Opinion, SearchJudge, Terms

SLICE = 1_000
"""Steps that each search takes in the first round; each round gives twice as many as the one before."""


def take_turns(
    searches: Sequence[tuple[Subject, SearchJudge]], condition: Condition, terms: Terms
) -> list[tuple[Subject, Opinion]]:
    """The opinions on all objects, in their order; on fewer if one is violated: then the others change nothing.

    What all of them hold in memory together is bounded: past that the largest gives up.
    """
    running: dict[int, Search] = {}
    found: dict[int, Opinion] = {}
    quota = SLICE
    waiting = list(range(len(searches)))
    while waiting:
        unfinished = []
        for turn in waiting:
            subject, judge = searches[turn]
            search = running.pop(turn, None) or judge.start(condition, subject.acts, NEVER_PS, None)
            answer = search.advance(quota)
            if answer is None:
                running[turn] = search
                unfinished.append(turn)
            else:
                found[turn] = judge.opinion(answer, subject.acts)
        if any(opinion.verdict is Verdict.VIOLATED for opinion in found.values()):
            break
        while sum(search.bytes for search in running.values()) > terms.budget.bytes:
            largest = max(running, key=lambda turn: running[turn].bytes)
            subject, judge = searches[largest]
            found[largest] = judge.opinion(running.pop(largest).give_up("memory"), subject.acts)
            unfinished.remove(largest)
        waiting = unfinished
        quota *= 2
    return [(searches[turn][0], found[turn]) for turn in sorted(found)]
