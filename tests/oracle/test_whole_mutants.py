"""Would the comparison notice a judge of whole histories that has one thing wrong?"""

from __future__ import annotations

import random
import types

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.histories import whole as together
from rpsim.validation.histories.read import parse_history
from rpsim.validation.oracle.conditions import buffered, buffered_cut, buffered_zones, session
from rpsim.validation.oracle.conditions.durable import Zone, conflict
from rpsim.validation.oracle.models.simple import MODELS

from . import definitions
from .spans import mutant
from .test_whole_histories import plausible, random_whole, rows_of, whole_judge

BUFFERED, CUT, SESSION = Condition.BUFFERED, Condition.BUFFERED_CUT, Condition.SESSION
ZONES, SEARCH, CUTS = buffered_zones, buffered, buffered_cut


@pytest.mark.long
@pytest.mark.parametrize(
    ("condition", "module", "old", "new"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            ("syncs are nothing", BUFFERED, ZONES, "self._eras.last_sync_ps(era, BEFORE_PS)", "BEFORE_PS"),
            ("anything may begin an era", BUFFERED, ZONES, "cells[0].begins_known = True", "pass"),
            ("two values may survive", BUFFERED, ZONES, "if since < until:", "if False:"),
            ("no common instant is needed", BUFFERED, ZONES, "if not _common(", "if False and not _common("),
            ("zones do not conflict", BUFFERED, ZONES, "if pair is not None:", "if False:"),
            ("open reads are before the crash", BUFFERED, ZONES, "options[1:] if op", "options[:1] if op"),
            ("only one choice is tried", BUFFERED, ZONES, "for number in clash.choices:", "for number in ():"),
            ("scoped syncs are nothing", BUFFERED, SEARCH, "ILLEGAL if behind & call.argument else state", "state"),
            ("the dead live on", BUFFERED, SEARCH, "NEVER_PS if op.dead_ps is None else", "NEVER_PS if True else"),
            ("nothing is ever lost", BUFFERED, SEARCH, "(kept, None, nothing)", "(live, None, nothing)"),
            ("cuts at the beginning", CUT, CUTS, "cuts_ps[at] = max(cuts_ps[at], write.invoke_ps)", "pass"),
            ("cuts keep every response", CUT, CUTS, "return op.return_ps < self._cuts_ps[era]", "return True"),
            ("syncs force nothing", CUT, CUTS, "era is not None and _kept_by(", "False and _kept_by("),
            ("the open are never reborn", CUT, CUTS, "if self._eras.spans(op) else None", "if False else None"),
            ("a lane is left out", SESSION, session, "if last == target:", "if last == target or lane == 0:"),
            ("one pass is enough", SESSION, session, "            thorough = not changed\n", "            return\n"),
            ("the initial value is always there", SESSION, session, "if target is None:", "if False:"),
        ]
    ],
)  # fmt: skip
def test_a_broken_judge_is_found_out(
    condition: Condition, module: types.ModuleType, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = mutant(module, old, new)
    broken.NotForZones = buffered_zones.NotForZones
    monkeypatch.setattr(together, module.__name__.rpartition(".")[2], broken)
    if module is SEARCH:  # else zones would answer
        monkeypatch.setattr(together.WholeJudge, "_zones", lambda self, eras: self._search(eras, self.acts, None))
    define = {BUFFERED: definitions.buffered, CUT: definitions.buffered_cut}
    rng = random.Random(15)
    for turn in range(6000):
        if condition is SESSION:  # the definition takes too long for what some of these need
            text = random_whole(rng, 30)
        else:
            text = random_whole(rng, 17, scoped=module is not ZONES) if turn % 2 else plausible(rng, 7)
        if '"key"' not in text or ("crash" not in text and condition is not SESSION):
            continue
        history = parse_history(text, "h")
        rows, asked, crashes = rows_of(history, "register")
        judge = whole_judge(history, "register")
        try:
            holds = judge.judge(condition, judge.acts).verdict is Verdict.HOLDS
        except (AssertionError, LookupError, AttributeError, TypeError):
            return
        if condition is SESSION:
            expected = session.find(judge.eras(judge.acts)).verdict is Verdict.HOLDS
        else:
            expected = define[condition](MODELS["register"], rows, asked, crashes)
        if holds != expected:
            return
    pytest.fail("nobody noticed")


def random_zones(rng: random.Random) -> tuple[Zone, list[Zone]]:
    """A zone, and others that conflict neither with it nor with each other."""
    while True:
        zones = [Zone(rng.randrange(20), rng.randrange(20), n) for n in range(1 + rng.randrange(4))]
        if conflict(zones) is None:
            return zones[0], zones[1:]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MOST_CHOICES", "MOST_CHOICES"),
        ("        if zone.start_ps > left:\n", "        if False:\n"),
        ("for zone in forward[nearest : nearest + 1]]", "for zone in ()]"),
        ("for zone in forward[: bisect_left(forward, (end_ps,))][-1:]]", "for zone in ()]"),
        ("backward if zone.finish_ps < end_ps]", "backward if False]"),
        ("backward if zone.start_ps > begin_ps]", "backward if False]"),
        ("yield max(invoked_ps, ", "yield max(BEFORE_PS, "),
    ],
)
def test_the_instants_at_which_one_more_read_fits(old: str, new: str) -> None:
    """The first row is the code as it is; each of the others has one thing wrong."""
    module = buffered_zones if old == new else mutant(buffered_zones, old, new)
    rng = random.Random(16)
    for _ in range(2000):
        own, others = random_zones(rng)
        invoked = rng.randrange(min(own[:2]) + 1) if rng.random() < 0.5 else min(own.finish_ps, own.start_ps)
        found = list(module._instants(own, others, invoked))
        for at in range(21):
            longer = Zone(min(own.finish_ps, at), max(own.start_ps, at), own.value)
            fits = at >= invoked and conflict([longer, *others]) is None
            if any(low <= at <= high for low, high in found) != fits:
                assert old != new, (own, others, invoked, at, found)
                return
    assert old == new, "nobody noticed"
