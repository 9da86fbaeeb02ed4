"""SmallBank and TATP over a store with a redo record: what failures leave of transactions, and of the money."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Verdict
from rpsim.protocols.objects import OPENING
from rpsim.validation.testing.checks import crash_report

from .ledger import Forger, Hasty, Ledger, Plain

AT = {"platform": "optane-adr", "ddio": "on", "fault": "server[0] power"}
BANK = {"kind": "transactions", "benchmark": "smallbank", "customers": 3, "value": "8 B", "operations": 6}
CALLS = {"kind": "transactions", "benchmark": "tatp", "customers": 1, "value": "8 B", "operations": 6}


@pytest.mark.parametrize(("kind", "load"), [(Ledger, BANK), (Plain, BANK), (Ledger, CALLS), (Plain, CALLS)])
def test_whole_transactions_are_left(kind, load):
    report = crash_report(kind, workload=load, clients=2, conditions=["buffered"], **AT)
    assert set(report.verdicts.values()) == {Verdict.HOLDS}


@pytest.mark.long
def test_half_a_transaction_is_found():
    report = crash_report(Hasty, workload=BANK, clients=2, conditions=["buffered"], **AT)
    assert report.verdicts["durable"] is report.verdicts["buffered"] is Verdict.VIOLATED


def test_half_a_transaction_of_tatp_is_found():
    steps = [["r", "k0"], ["r", "k5"], ["w", "k0"], ["w", "k5"]]
    load = {"kind": "schedule", "keys": 21, "value": "8 B", "operations": [{"process": 0, "f": "txn", "steps": steps}]}
    report = crash_report(Hasty, workload=load, clients=1, **AT)
    assert report.verdicts["durable"] is Verdict.VIOLATED


def test_money_that_appears_is_told():
    operations = [{"process": 0, "f": "txn", "steps": [["r", "k1"], ["add", "k1", 130]]}]
    load = {"kind": "schedule", "keys": 2, "value": "8 B", "operations": operations}
    report = crash_report(Forger, workload=load, clients=1, **AT)
    assert report.verdicts["durable"] is Verdict.VIOLATED
    told = [one.explanation for one in report.counterexamples if one.condition == "no_lost_ack"]
    assert told and told[0].endswith(f"their numbers come to {OPENING + 131}, and can only come to {OPENING + 130}")
