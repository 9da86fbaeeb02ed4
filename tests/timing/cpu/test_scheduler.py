"""Cores that threads share by time slices, against closed forms and limits: CFS' slices, SMT, threads that move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.cpu import Signal, Thread
from rpsim.models.cpu.accounting import total
from rpsim.models.cpu.core import Core
from rpsim.models.cpu.scheduler import FairCore
from rpsim.models.durability.views import Views
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System

US, MS = 10**6, 10**9


def machine(cores=1, outages=None, pinned=True, fair=True, **os):
    """A node with time slices; the keywords change the operating system's parameters."""
    platform = load_platform("optane-adr")
    platform = replace(platform, cpu=replace(platform.cpu, os=replace(platform.cpu.os, **os)))
    spec = NodeSpec(cores, fair=fair, pinned=pinned, shared=True)
    return System(platform, {"server": [spec]}, 1, outages).nodes["server"][0]


def run(node, codes, until_ps=None):
    """Each (thread, code); returns when each came to its end, in the same order."""
    ends, clock = [None] * len(codes), node.system.clock

    def program(number, code):
        yield from code
        ends[number] = clock.now_ps

    for number, code in enumerate(codes):
        clock.start(program(number, code))
    clock.run_until(until_ps)
    return ends


# slices ---------------------------------------------------------------------------------------------------------


def test_a_thread_alone_takes_what_it_takes():
    node = machine(switch_ps=0)
    assert run(node, [node.thread(0, "a").work(7 * US)]) == [7 * US]


@pytest.mark.parametrize(("threads", "slice_ms"), [(2, 12), (3, 8), (8, 3), (12, 3)])
def test_threads_of_one_core_take_turns_in_slices(threads, slice_ms):
    """n threads with 2 slices of work each: the k-th ends with its second slice, n + k slices and switches from now.

    A slice is 24 ms / n, never less than 3 ms (Linux 5.10, kernel/sched/fair.c), up to the next tick.
    """
    node = machine(switch_ps=10 * US, tick_every_ps=1 * MS)
    work_ps = 2 * slice_ms * MS - 20 * US  # what the switches of its two turns leave
    ends = run(node, [node.thread(0, f"{number}").work(work_ps) for number in range(threads)])
    assert ends == [pytest.approx((threads + 1 + number) * slice_ms * MS, rel=0.12) for number in range(threads)]
    core = node.cores[0]
    assert ends[-1] == threads * work_ps + core.switches * 10 * US
    assert 2 * threads <= core.switches <= 3 * threads


def test_two_that_share_a_core_exactly():
    node = machine(switch_ps=1 * MS)
    ends = run(node, [node.thread(0, "a").work(22 * MS), node.thread(0, "b").work(22 * MS)])
    assert ends == [36 * MS, 48 * MS]  # a 1 + 11, b 1 + 11, a 1 + 11, b 1 + 11


def test_a_poller_is_preempted_and_sees_what_came_when_it_has_its_core_again():
    node = machine(switch_ps=0)
    signal, clock = Signal(node.system.clock), node.system.clock
    poller, other = node.thread(0, "poller"), node.thread(0, "other")

    def raise_at(at_ps):
        yield clock.until(at_ps)
        signal.set()

    clock.start(raise_at(13 * MS))  # in the middle of the other's slice
    ends = run(node, [poller.wait(signal), other.work(30 * MS)])
    assert ends[0] == 24 * MS + poller._cpu.spin_loop_ps
    assert poller.account.polling_ps == 12 * MS
    assert ends[1] == 42 * MS + poller._cpu.spin_loop_ps


def test_who_sleeps_preempts_who_computes_when_it_is_woken():
    """A woken thread is credited half a latency, more than the wake-up granularity: it goes on at once."""
    node = machine()
    os = node.cpu.os
    hog, sleeper = node.thread(0, "hog"), node.thread(0, "sleeper")
    signal, clock = Signal(node.system.clock), node.system.clock

    def wake():
        yield clock.until(100 * MS)
        signal.set()

    clock.start(hog.burn())
    clock.start(wake())
    [end] = run(node, [sleeper.block(signal)], 150 * MS)
    assert end == 100 * MS + os.wake_ps + os.switch_ps


def test_with_a_large_granularity_it_has_to_wait_for_the_tick():
    node = machine(wakeup_granularity_ps=1000 * MS, tick_every_ps=3 * MS)
    hog, sleeper = node.thread(0, "hog"), node.thread(0, "sleeper")
    signal, clock = Signal(node.system.clock), node.system.clock

    def wake():
        yield clock.until(100 * MS)
        signal.set()

    clock.start(hog.burn())
    clock.start(wake())
    [end] = run(node, [sleeper.block(signal)], 150 * MS)
    assert end == 102 * MS + node.cpu.os.switch_ps


def test_a_program_that_computes_for_ever_needs_slices():
    node = machine(fair=False)
    with pytest.raises(ValueError, match="no time slices"):
        run(node, [node.thread(0, "hog").burn()])


# SMT --------------------------------------------------------------------------------------------------------------


def test_siblings_slow_each_other_down_while_both_are_busy():
    node = machine(4, smt=2, smt_slowdown_percent=160, switch_ps=0)
    threads = [node.thread(core, f"{core}") for core in range(3)]
    ends = run(node, [threads[0].work(10 * MS), threads[1].work(20 * MS), threads[2].work(10 * MS)])
    assert ends[0] == 16 * MS  # its sibling is busy all the time
    assert ends[1] == 26 * MS  # 10 of its 20 are done when the sibling is
    assert ends[2] == 10 * MS  # its sibling has nothing to do
    assert threads[1].account.smt_ps == 6 * MS


def test_a_sibling_that_polls_in_vain_slows_the_other_too():
    node = machine(2, smt=2, smt_slowdown_percent=150, switch_ps=0)
    node.system.clock.start(node.thread(1, "poller").wait(Signal(node.system.clock)))
    assert run(node, [node.thread(0, "worker").work(10 * MS)]) == [15 * MS]


# threads that move --------------------------------------------------------------------------------------------------


def test_threads_that_are_not_pinned_spread_over_idle_cores():
    node = machine(3, pinned=False, switch_ps=0)
    threads = [node.thread(0, f"{number}") for number in range(3)]
    assert run(node, [thread.work(10 * MS) for thread in threads]) == [10 * MS] * 3
    assert len({thread.core for thread in threads}) == 3


def test_a_core_that_falls_idle_takes_a_waiting_thread():
    node = machine(2, pinned=False, switch_ps=0)
    works = (50 * MS, 5 * MS, 20 * MS)
    ends = run(node, [node.thread(0, f"{number}").work(work) for number, work in enumerate(works)])
    assert max(ends) == 50 * MS
    pinned = machine(2, switch_ps=0)
    ends = run(pinned, [pinned.thread(core, f"{core}").work(w) for core, w in zip((0, 1, 0), works, strict=True)])
    assert max(ends) == 70 * MS


@pytest.mark.parametrize("barrier", [True, False])
def test_what_a_thread_has_flushed_before_it_moved_is_covered_by_the_switch(monkeypatch, barrier):
    """It fences on another core than it flushed on; without the barrier of the switch its line could still be lost."""
    if not barrier:
        monkeypatch.setattr(Thread, "_left", lambda *_: None)
    spec = NodeSpec(2, ("pm", "dram"), pinned=False)
    node = System(load_platform("optane-adr"), {"server": [spec]}, 1).nodes["server"][0]
    pm = node.memory["pm"]
    address = pm.allocate(64, "line", align=64)
    first, mover, third = (node.thread(core, name) for core, name in ((0, "first"), (1, "mover"), (1, "third")))

    def code():
        yield from mover.store(address, b"x" * 64)
        yield from mover.clwb(address, 64)
        flushed_on.append(mover.core)
        yield from mover.work(30 * MS)
        yield from mover.sfence()

    flushed_on: list[Core] = []
    run(node, [first.work(13 * MS), code(), third.work(60 * MS)])
    assert [mover.core] != flushed_on
    trace, key = node.system.trace, (pm.number, (address - pm.base) // 64)
    domains = {device.number: device.domain for device in node.devices}
    views = Views(trace, domains, lambda key: bytes(64), whole_lines=False, iio_wc_survives=False)
    left = {content.data for content in views.contents(key, node.system.clock.now_ps, {})}
    assert (left == {b"x" * 64}) is barrier


# limits ---------------------------------------------------------------------------------------------------------------

PROGRAMS = st.lists(
    st.tuples(
        st.integers(0, 2),  # core
        st.lists(st.tuples(st.sampled_from(["work", "sleep", "spin"]), st.integers(1, 9 * MS)), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.long
@given(PROGRAMS, st.booleans(), st.sampled_from([1, 2]), st.lists(st.integers(0, 20 * MS), max_size=4))
@settings(max_examples=60, deadline=None)
def test_every_instant_of_a_core_is_busy_or_idle_and_busy_is_accounted(programs, pinned, smt, interrupts):
    node = machine(3, pinned=pinned, smt=smt, outages={"server[0] core 0": [(MS, 3 * MS)]})
    clock = node.system.clock
    for at_ps in interrupts:
        clock.call_at(at_ps, node.cores[1].interrupt, clock, 700_000)

    def program(thread, steps):
        for what, length in steps:
            if what == "work":
                yield from thread.work(length)
            elif what == "sleep":
                yield from thread.sleep(length)
            else:
                yield from thread.wait(Signal(clock), spin_ps=length)  # nobody raises it: it sleeps for ever

    codes = [program(node.thread(core, str(number)), steps) for number, (core, steps) in enumerate(programs)]
    run(node, codes, 300 * MS)
    account = total(thread.account for thread in node.threads)
    busy = 0
    for core in node.cores:
        assert isinstance(core, FairCore)
        assert core.busy_ps(clock.now_ps) + core.idle_ps(clock.now_ps) == clock.now_ps
        assert core.current is None  # all has come to its end
        busy += core.busy_ps(clock.now_ps)
    kernel = sum(core.kernel_ps for core in node.cores)
    assert busy == account.useful_ps + account.smt_ps + account.polling_ps + kernel


def test_a_core_that_forgets_its_switches_is_caught(monkeypatch):
    """The account of the test before does not hold for a scheduler that loses time."""
    settle = FairCore._settle

    def careless(core):
        core._before_ps = 0
        settle(core)

    monkeypatch.setattr(FairCore, "_settle", careless)
    node = machine(switch_ps=1 * MS)
    ends = run(node, [node.thread(0, "a").work(22 * MS), node.thread(0, "b").work(22 * MS)])
    assert ends != [36 * MS, 48 * MS]


# cooperative cores ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_waiting_for_a_cooperative_core_is_that_of_a_queue_with_fixed_service():
    """M/D/1: with load r and service s the mean wait is r s / (2 (1 - r))."""
    node = machine(fair=False)
    clock, random, load, service_ps = node.system.clock, np.random.default_rng(5), 0.5, US
    at_ps = np.cumsum(random.exponential(service_ps / load, 40_000)).astype(int)
    waited = []

    def job(thread, arrive_ps):
        yield from thread.work(service_ps)
        waited.append(clock.now_ps - arrive_ps - service_ps)

    def arrivals():
        thread = node.thread(0, "worker")
        for arrive_ps in at_ps.tolist():
            yield clock.until(arrive_ps)
            clock.start(job(thread, arrive_ps))

    clock.start(arrivals())
    clock.run_until()
    assert np.mean(waited) == pytest.approx(load * service_ps / (2 * (1 - load)), rel=0.05)
