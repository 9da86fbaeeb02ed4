"""Has the code of a verb, or of a store's operation, become heavier?

ceilings.json has for each of them, and for each minor version of Python, the calls and bytecodes an operation that were
counted when it was last renewed, and how much more is let through. Where less is enough now, or more is meant, renew
it: ``RPSIM_RENEW=1 python -m pytest tests/smoke/test_ceilings.py``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import pytest

from rpsim.models.cpu import Thread
from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Opcode
from rpsim.validation.rigs.pair import Pair
from rpsim.validation.speed.counting import counts
from rpsim.validation.speed.operations import PLATFORM, STORES, VERBS, count, requests

CEILINGS = Path(__file__).parent / "ceilings.json"
MARGIN = 0.02
"""The library's own code (SimPy's, the standard library's) differs a little from one patch release to the next."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def too_heavy(found, ceiling):
    """What of the figures of an operation lies above its ceiling, in words."""
    return [
        f"{kind}: {found[kind]:,.1f} an operation, at most {most['ceiling']:,.1f} (it was {most['counted']:,.1f})"
        for kind, most in ceiling.items()
        if found[kind] > most["ceiling"]
    ]


@pytest.mark.long
@pytest.mark.xdist_group("ceilings")  # they write one file
@pytest.mark.parametrize("name", [*VERBS, *STORES])
def test_an_operation_is_no_heavier_than_it_was(name):
    known = json.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else {}
    if not os.environ.get("RPSIM_RENEW") and name not in known.get(PYTHON, {}):
        pytest.skip(f"no ceiling has been set for Python {PYTHON}")
    found = count((VERBS | STORES)[name])._asdict()
    if os.environ.get("RPSIM_RENEW"):
        known.setdefault(PYTHON, {})[name] = {
            kind: {"counted": round(value, 1), "ceiling": round(value * (1 + MARGIN), 1)}
            for kind, value in found.items()
        }
        CEILINGS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        pytest.skip("renewed")
    assert too_heavy(found, known[PYTHON][name]) == []


def test_ten_more_calls_a_verb_are_too_heavy(monkeypatch):
    post_send, nothing = Thread.post_send, [lambda: None] * 10

    def heavier(thread, qp, work):
        for one in nothing:
            one()
        return post_send(thread, qp, work)

    before = count(VERBS["write_64_inline"])
    monkeypatch.setattr(Thread, "post_send", heavier)
    after = count(VERBS["write_64_inline"])
    assert after.calls == before.calls + 11
    ceiling = {kind: {"counted": x, "ceiling": x * (1 + MARGIN)} for kind, x in before._asdict().items()}
    assert [line.partition(":")[0] for line in too_heavy(after._asdict(), ceiling)] == ["calls", "bytecodes"]
    assert too_heavy(before._asdict(), ceiling) == []


def test_code_that_the_garbage_collector_calls_is_not_counted():
    def told(phase, info):
        pass

    def much_garbage():
        return [[{}] for _ in range(3 * gc.get_threshold()[0])]

    alone = counts(much_garbage)
    gc.callbacks.append(told)
    try:
        assert counts(much_garbage) == alone
    finally:
        gc.callbacks.remove(told)
    assert gc.isenabled()


def three():
    return sum(number for number in range(3))


def test_calls_are_frames_entered_and_bytecodes_instructions():
    def nothing():
        pass

    def two():
        nothing()
        nothing()

    empty, both = counts(nothing), counts(two)
    assert (empty.calls, both.calls) == (1, 3)
    own = both.bytecodes - 2 * empty.bytecodes
    assert own > 4
    # three() is entered, and its generator once for each number and once to end.
    assert counts(three).calls == 5
    assert counts(three) == counts(three)


def test_instructions_are_those_that_the_compiler_wrote():
    import dis

    def straight(left=3, right=4):
        both = left + right
        return [both, left, both]

    for _ in range(100):  # the interpreter specializes it
        straight()
    assert counts(straight) == (1, len(list(dis.get_instructions(straight))))


def test_who_traced_before_traces_again():
    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        counts(three)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_each_cas_swaps():
    pair = Pair(load_platform(PLATFORM))
    for first in (0, 100):
        pair.run(requests(pair, Opcode.IBV_WR_ATOMIC_CMP_AND_SWP, 8, 100, first=first))
    assert int.from_bytes(pair.server.host.load(pair.clock.now_ps, pair.target, 8)[0], "little") == 200
