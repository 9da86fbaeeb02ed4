"""Power failures at every instant of a small run of LevelDB, and stores that are broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.crash.explorer import Explorer

from ...small import only_variant, put, scenario
from .storing import Buffered, LogForgotten, ManifestFirst, Synced, WithoutCrc, registered

COMMITTED, NO_LOST_ACK = Condition.COMMITTED, Condition.NO_LOST_ACK
WORK = [put(0, f"k{number % 2}") for number in range(5)]
"""The third put begins a second memtable, whose log is a new one."""


def verdicts(kind: type[Any], puts: int = 5, *, torn: bool = False) -> dict[Condition, Verdict]:
    """What an exploration finds. ``torn``: lines may be, and without a journal the drive may have a file's size before
    its data.
    """
    platform = load_platform("pmr-testbed", line_atomicity="word" if torn else "whole")
    platform = replace(platform, kernel=replace(platform.kernel, journal=not torn))
    with registered(kind) as name:
        made = scenario(name, WORK[:puts], "pmr-testbed", keys=2, value="16 B")
        result = run_variant(made, only_variant(made), platform=platform)
    result.system.clock.run_until(result.system.clock.now_ps + 10**9)  # the background thread comes to its end
    store = result.scheme.roles["server"][0].store
    assert store.flushes or puts < len(WORK), "no memtable has become a table"
    found = Explorer(result, conditions=(COMMITTED, NO_LOST_ACK)).walk()
    assert found.exhaustive or found.first
    return {condition: found.verdict(condition) for condition in (COMMITTED, NO_LOST_ACK)}


@pytest.mark.long
def test_what_is_synced_outlives_a_power_failure_at_every_instant() -> None:
    assert verdicts(Synced) == {COMMITTED: Verdict.HOLDS, NO_LOST_ACK: Verdict.HOLDS}


@pytest.mark.long
@pytest.mark.parametrize("broken", [ManifestFirst, LogForgotten])
def test_a_store_that_forgets_before_it_knows_is_caught(broken: type[Any]) -> None:
    assert verdicts(broken)[NO_LOST_ACK] is Verdict.VIOLATED


@pytest.mark.long
def test_without_a_sync_acknowledged_writes_are_lost_and_none_is_torn() -> None:
    assert verdicts(Buffered, 2, torn=True) == {COMMITTED: Verdict.HOLDS, NO_LOST_ACK: Verdict.VIOLATED}


def test_without_checksums_recovery_takes_torn_records_for_writes() -> None:
    assert verdicts(WithoutCrc, 2, torn=True)[COMMITTED] is Verdict.VIOLATED
