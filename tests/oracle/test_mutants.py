"""Would the comparison notice a broken oracle? Each mutant has one thing wrong and must give a wrong answer."""

from __future__ import annotations

import inspect
import random
import types

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.validation.oracle import CONDITIONS, incremental, known
from rpsim.validation.oracle.conditions import committed, durable, monotonic, no_lost_ack, strict

from .histories import UPDATES, Case, feed, random_case, violated

CASES = 2_500
"""Half as many again as it takes to find out the last of the mutants."""
MOST = 8


def mutant(module: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """``module`` with one piece of its text replaced."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} must stand once in {module.__name__}"
    broken = types.ModuleType(module.__name__)
    broken.__package__ = module.__package__
    exec(compile(source.replace(old, new), f"mutant of {module.__name__}", "exec"), broken.__dict__)
    return broken


def gives_a_wrong_answer(condition: Condition, module: types.ModuleType, cases: int = CASES) -> bool:
    """Whether ``find`` or ``RegisterHistory`` of ``module`` ever contradicts the definition, or stumbles."""
    rng = random.Random(2)
    for _ in range(cases):
        case = random_case(rng.randrange, MOST)
        try:
            found = answer(module, case, condition, rng)
        except (AssertionError, StopIteration, LookupError):
            return True
        if found != (condition in violated(case)):
            return True
    return False


def answer(module: types.ModuleType, case: Case, condition: Condition, rng: random.Random) -> bool:
    if hasattr(module, "RegisterHistory"):
        register = module.RegisterHistory("x", UPDATES, case.loaded)
        feed(case, register, rng.randrange)
        return condition in register.judge(case.recovered)
    objects = known.cut(case.history, case.crash_ps, case.loaded_objects())
    one = objects.get("x", known.ObjectHistory("x", UPDATES, case.loaded))
    return module.find(one, case.recovered) is not None


@pytest.mark.long
@pytest.mark.parametrize(
    ("condition", "module"),
    [
        (Condition.COMMITTED, committed),
        (Condition.NO_LOST_ACK, no_lost_ack),
        (Condition.DURABLE, durable),
        (Condition.MONOTONIC, monotonic),
        (Condition.STRICT, strict),
        *((condition, incremental) for condition in CONDITIONS),
    ],
)
@pytest.mark.parametrize("cases", [CASES, pytest.param(20_000, marks=pytest.mark.slow)], ids=["some", "many"])
def test_the_oracle_itself_gives_no_wrong_answer(condition: Condition, module: types.ModuleType, cases: int) -> None:
    assert not gives_a_wrong_answer(condition, module, cases)


@pytest.mark.long
@pytest.mark.parametrize(
    ("condition", "module", "old", "new"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            (
                "no test for backward zones",
                Condition.DURABLE,
                durable,
                "if nearest >= 0 and zone",
                "if False and zone",
            ),
            (
                "no test for two forward zones",
                Condition.DURABLE,
                durable,
                "if right.finish_ps < left.start_ps:",
                "if False:",
            ),
            (
                "zones that touch conflict",
                Condition.DURABLE,
                durable,
                "if right.finish_ps < left.start_ps:",
                "if right.finish_ps <= left.start_ps:",
            ),
            (
                "a pending write that was read is dropped",
                Condition.DURABLE,
                durable,
                "finish_ps[value] = min(finish_ps[value], return_ps(read))",
                "pass",
            ),
            (
                "the read after recovery is left out",
                Condition.DURABLE,
                durable,
                "start_ps[recovered] = NEVER_PS",
                "pass",
            ),
            (
                "torn reads pass",
                Condition.DURABLE,
                durable,
                "if flaw is not None:\n        return flaw",
                "if flaw is not None:\n        return None",
            ),
            (
                "a value may be read before its write",
                Condition.COMMITTED,
                committed,
                "if write is not None and write.invoke_ps <= ended_ps:",
                "if write is not None:",
            ),
            (
                "a write at the instant of the return is too late",
                Condition.COMMITTED,
                committed,
                "write.invoke_ps <= ended_ps",
                "write.invoke_ps < ended_ps",
            ),
            (
                "the read after recovery is not looked at",
                Condition.COMMITTED,
                committed,
                "or known.may_hold(recovered)",
                "or True",
            ),
            (
                "any acknowledged value will do",
                Condition.NO_LOST_ACK,
                no_lost_ack,
                "known.acknowledged_ps.get(value, NEVER_PS)",
                "NEVER_PS",
            ),
            (
                "a pending write is older than everything",
                Condition.NO_LOST_ACK,
                no_lost_ack,
                "known.acknowledged_ps.get(value, NEVER_PS)",
                "known.acknowledged_ps.get(value, BEFORE_PS)",
            ),
            (
                "touching updates are ordered",
                Condition.NO_LOST_ACK,
                no_lost_ack,
                "older_ps >= latest.invoke_ps",
                "older_ps > latest.invoke_ps",
            ),
            ("garbage loses nothing", Condition.NO_LOST_ACK, no_lost_ack, "if known.loaded:", "if False:"),
            (
                "clusters inside a zone are not walked",
                Condition.DURABLE,
                incremental,
                "range(cluster + 1, begun)",
                "range(0)",
            ),
            (
                "the nearest forward zone is not asked",
                Condition.DURABLE,
                incremental,
                "if nearest >= 0 and start_of",
                "if False and start_of",
            ),
            (
                "the runner-up is forgotten",
                Condition.DURABLE,
                incremental,
                "self._runner_up_ps if cluster == self._last else self._last_ps",
                "self._last_ps",
            ),
            (
                "forward zones are not kept",
                Condition.DURABLE,
                incremental,
                "insort(self._forward, cluster)",
                "pass",
            ),
            (
                "a write invoked at the instant of its read is too late",
                Condition.COMMITTED,
                incremental,
                "if readers and all(",
                "if False and all(",
            ),
            (
                "a read of a write that failed later is forgotten",
                Condition.COMMITTED,
                incremental,
                "if value in self._clusters:  # somebody read it",
                "if False:",
            ),
            (
                "touching is certain",
                Condition.MONOTONIC,
                monotonic,
                "age_ps < written_ps",
                "age_ps <= written_ps",
            ),
            (
                "reads prove nothing",
                Condition.MONOTONIC,
                monotonic,
                "existed_ps[read.result] = min(",
                "_ = min(",
            ),
            (
                "the first read is the one to beat",
                Condition.MONOTONIC,
                monotonic,
                "youngest[-1] if turn and written_ps[youngest[-1]] >= at_ps else turn",
                "0",
            ),
            (
                "an absent object has no age",
                Condition.MONOTONIC,
                incremental,
                "known.loaded and value is None and",
                "False and",
            ),
            (
                "touching is certain, event by event",
                Condition.MONOTONIC,
                incremental,
                "NEVER_PS) < self._youngest_read_ps",
                "NEVER_PS) <= self._youngest_read_ps",
            ),
            (
                "a read of what failed later counts",
                Condition.MONOTONIC,
                incremental,
                "self._youngest_read_ps = max(map(self._written_ps, known.reads), default=_NOTHING_READ)",
                "pass",
            ),
            ("answers outlive events", Condition.DURABLE, incremental, "self._answers = {}", "pass"),
        ]
    ],
)
def test_a_broken_oracle_is_found_out(condition: Condition, module: types.ModuleType, old: str, new: str) -> None:
    assert gives_a_wrong_answer(condition, mutant(module, old, new))
