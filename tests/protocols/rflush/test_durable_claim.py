"""RF-S26 tells the durable calls from their broken twins: in its own set-up each of them is refuted.

Some are told apart elsewhere: what takes reads, connections that break, or a primitive that leaves an operator behind.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.validation.published.papers.measure import explored
from rpsim.validation.published.papers.paper import load_paper
from rpsim.validation.published.papers.runs import needed, scenario

from .durable_twins import TWINS, registered

CONDITIONS = ("no_lost_ack", "monotonic", "durable")
LATE = [
    ("removed-before-durable", 1), ("recovered-by-slot", 1), ("not-recovered", 1), ("out-of-order", 1),
    ("removed-in-any-order", 1), ("recovered-unflushed", 1), ("batch-cut-short", 2),
]  # fmt: skip
"""Each with the least batch that shows it."""


@pytest.fixture(autouse=True)
def _twins_are_known():
    with registered():
        yield


def found(twin: str, log: str, batch: int) -> set[str]:
    """What is refuted of a twin where the claim looks at WFlush-RPC, at one of its points."""
    paper = load_paper("rflush")
    (claim,) = (claim for claim in paper.claims if claim.id == "RF-S26")
    runs = [run for run in needed(paper, [claim], figures=False) if run.scheme == "wflush-rpc"]
    (run,) = (run for run in runs if dict(run.at)["log"] == log and dict(run.at)["batch"] == str(batch))
    verdicts = explored(scenario(paper, replace(run, scheme=TWINS[twin].name)), CONDITIONS)
    return {name for name in CONDITIONS if verdicts[name] == 0}


@pytest.mark.long
@pytest.mark.parametrize(("twin", "batch"), LATE)
def test_a_twin_is_refuted_where_a_worker_is_late_and_power_fails_in_recovery_too(twin, batch):
    assert found(twin, "late", batch) == {"no_lost_ack", "durable"}


@pytest.mark.long
def test_removals_that_are_not_durable_are_found_where_slots_come_round():
    assert found("removal-unflushed", "late", 1) == {"no_lost_ack", "durable"}


@pytest.mark.long
def test_what_recovery_has_not_removed_is_found_by_a_second_failure():
    assert found("recovered-and-kept", "twice", 1) == {"durable"}
