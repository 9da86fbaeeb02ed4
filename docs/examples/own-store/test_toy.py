"""Is what the store acknowledged still there after a power failure? ``pytest`` in this folder; one of these fails."""

from toy import Mended, Toy

from rpsim.validation.testing.machine import crash_machine


def test_the_toy_loses_nothing(rpsim):
    rpsim.assert_holds(Toy, "optane-adr", "no_lost_ack", ddio="off")


def test_mended_it_does_not(rpsim):
    rpsim.assert_holds(Mended, "optane-adr", "no_lost_ack", ddio="off")


TestManyCrashes = crash_machine(Mended, "optane-adr", "no_lost_ack", ddio="off").TestCase
