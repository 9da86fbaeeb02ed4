"""Tests of the log: `pytest` in this folder. The fixture `rpsim` explores every crash of a small run."""

from log import Log

SMALL = {"keys": 1, "operations": 2}


def test_the_log_loses_nothing(rpsim):
    rpsim.assert_holds(Log, "optane-adr", "no_lost_ack", "committed", ddio="on", clients=1, workload=SMALL)


def test_nor_if_the_power_fails_again(rpsim):
    rpsim.assert_holds(
        Log, "optane-adr", "no_lost_ack", ddio="on", clients=1, workload=SMALL, fault="server[0] power in recovery"
    )
