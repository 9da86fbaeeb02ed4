"""How threads of a node tell each other of work, and how long they wait: without an event for every turn of a loop."""

from __future__ import annotations

import zlib

import pytest

from rpsim.models.cpu import Signal
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System


@pytest.fixture
def system():
    return System(load_platform("optane-adr"), {"server": [NodeSpec(2, ("dram",))]}, seed=1)


def threads(system):
    node = system.nodes["server"][0]
    return node.thread(0, "requests"), node.thread(1, "background")


def test_who_waits_goes_on_when_the_other_has_stored_and_it_has_looked_once_more(system):
    signal, seen = Signal(system.clock), []
    first, second = threads(system)

    def notify():
        yield system.clock.timeout(1_000_000)
        yield from first.notify(signal)

    def wait():
        yield from second.wait(signal)
        seen.append(system.clock.now_ps)

    system.clock.start(wait())
    system.clock.start(notify())
    system.clock.run_until()
    cpu = system.platform.cpu
    assert seen == [1_000_000 + cpu.store_ps + cpu.spin_loop_ps]


def test_waiting_for_ever_costs_nothing_and_keeps_nothing_going(system):
    system.clock.start(threads(system)[0].wait(Signal(system.clock)))
    system.clock.run_until()  # comes back
    assert system.clock.now_ps == 0


def test_a_signal_stays_raised_until_it_is_taken_and_counts_once(system):
    signal = Signal(system.clock)
    signal.set()
    signal.set()
    taken = []

    def wait():
        yield from threads(system)[0].wait(signal)
        taken.append(system.clock.now_ps)

    system.clock.start(wait())
    system.clock.start(wait())
    system.clock.run_until()
    assert len(taken) == 1


def test_a_deadline_has_passed_after_its_instant_and_not_at_it(system):
    deadline = threads(system)[0].deadline("1.5 us")
    passed = []
    for at_ps in (0, 1_500_000, 1_500_001):
        system.clock.call_at(at_ps, lambda: passed.append(deadline.passed))
    system.clock.run_until()
    assert passed == [False, False, True]


def test_the_checksum_of_bytes_at_hand_takes_as_long_as_that_of_memory_less_the_loads(system):
    found = []

    def code():
        found.append((yield from threads(system)[0].crc32_of(b"x" * 1000)))

    system.clock.run_until(system.clock.start(code()))
    assert found == [zlib.crc32(b"x" * 1000)]
    assert system.clock.now_ps == 1000 * system.platform.cpu.crc32_ps_per_byte


def test_a_core_that_a_node_has_not_is_named(system):
    node = system.nodes["server"][0]
    with pytest.raises(ValueError, match=f"server.* has no core {len(node.cores)}: its {len(node.cores)} cores"):
        node.thread(len(node.cores), "one too many")
    with pytest.raises(ValueError, match="has no core -1"):
        node.thread(-1, "none")
