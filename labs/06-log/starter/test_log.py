"""Tests of the log: `pytest` in this folder. The fixture `rpsim` explores every crash of a small run."""

from log import Log


def test_the_log_works_where_caches_survive(rpsim):
    rpsim.assert_holds(Log, "optane-eadr", "no_lost_ack", ddio="on")
