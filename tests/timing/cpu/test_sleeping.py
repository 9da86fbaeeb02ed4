"""Threads that sleep, and completion channels: what waking takes, who pays, and the race of arming."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.cpu import Deadline, Signal
from rpsim.models.cpu.channel import CompletionEvents, modify_cq
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode, QpType, SendWR

US = 10**6


@pytest.fixture
def platform():
    return load_platform("optane-adr")


class Pair:
    """A client that writes to a server, and whose completions are waited for in some way."""

    def __init__(self, platform, waits="poll", fair=False):
        specs = {"client": [NodeSpec(2, waits=waits, fair=fair)], "server": [NodeSpec()]}
        self.system = System(platform, specs, 1)
        self.clock = self.system.clock
        self.node, server = self.system.nodes["client"][0], self.system.nodes["server"][0]
        self.thread = self.node.thread(0, "client")
        self.cq = self.node.create_cq()
        self.qp = self.node.alloc_pd().create_qp(self.cq, self.node.create_cq())
        domain = server.alloc_pd()
        self.qp.connect(domain.create_qp(server.create_cq(), server.create_cq()))
        assert self.qp.qp_type is QpType.IBV_QPT_RC
        self.local = self.node.memory["dram"].allocate(4096, "buffer")
        remote = server.memory["dram"].allocate(4096, "target")
        self.work = (remote, domain.reg_mr(remote, 4096).key)

    def write(self, number=0):
        return self.thread.post_send(self.qp, SendWR(number, Opcode.IBV_WR_RDMA_WRITE, self.local, 64, *self.work))

    def run(self, code, until_ps=None):
        ended = []

        def program():
            value = yield from code
            ended.append((self.clock.now_ps, value))

        self.clock.start(program())
        self.clock.run_until(until_ps)
        return ended[0] if ended else None


def one_write(platform, waits):
    pair = Pair(platform, waits)

    def code():
        yield from pair.write()
        yield from pair.thread.poll(pair.cq)

    return pair, pair.run(code())[0]


# signals ------------------------------------------------------------------------------------------------------------


def test_a_sleeper_goes_on_after_the_way_to_its_core_and_the_switch(platform):
    node = System(platform, {"server": [NodeSpec(2)]}, 1).nodes["server"][0]
    clock, os, signal, ends = node.system.clock, platform.cpu.os, Signal(node.system.clock), []
    sleeper, waker = node.thread(0, "sleeper"), node.thread(1, "waker")

    def sleep():
        yield from sleeper.block(signal)
        ends.append(clock.now_ps)

    def wake():
        yield clock.until(50 * US)
        yield from waker.wake(signal)

    clock.start(sleep())
    clock.start(wake())
    clock.run_until()
    assert ends == [50 * US + os.syscall_ps + os.wake_ps + os.switch_ps]
    assert sleeper.account.asleep_ps == 50 * US + os.wake_ps  # from its own call on, as long as the waker's
    assert sleeper.account.kernel_ps == os.syscall_ps + os.switch_ps
    assert waker.account.kernel_ps == os.syscall_ps


def test_a_signal_that_is_raised_already_is_no_reason_to_sleep(platform):
    node = System(platform, {"server": [NodeSpec()]}, 1).nodes["server"][0]
    signal = Signal(node.system.clock)
    signal.set()
    thread = node.thread(0, "thread")
    node.system.clock.start(thread.block(signal))
    node.system.clock.run_until()
    assert thread.account.sleeps == 0


def test_a_timer_wakes_by_an_interrupt(platform):
    node = System(platform, {"server": [NodeSpec()]}, 1).nodes["server"][0]
    os, thread = platform.cpu.os, node.thread(0, "thread")
    node.system.clock.start(thread.sleep(10 * US))
    node.system.clock.run_until()
    assert node.system.clock.now_ps == os.syscall_ps + 10 * US + os.interrupt_ps + os.wake_ps + os.switch_ps
    assert node.cores[0].kernel_ps == os.interrupt_ps


@pytest.mark.parametrize(("raised_us", "sleeps"), [(5, 0), (500, 1)])
def test_who_spins_first_sleeps_only_if_it_takes_long(platform, raised_us, sleeps):
    node = System(platform, {"server": [NodeSpec(2)]}, 1).nodes["server"][0]
    clock, signal, spin_ps = node.system.clock, Signal(node.system.clock), 20 * US
    thread, waker = node.thread(0, "thread"), node.thread(1, "waker")

    def wake():
        yield clock.until(raised_us * US)
        yield from waker.wake(signal)

    clock.start(thread.wait(signal, spin_ps=spin_ps))
    clock.start(wake())
    clock.run_until()
    assert thread.account.sleeps == sleeps
    assert thread.account.polling_ps == min(spin_ps, raised_us * US + platform.cpu.os.syscall_ps)


# completion channels ------------------------------------------------------------------------------------------


def test_a_completion_that_is_waited_for_asleep_comes_later_by_the_interrupt_and_the_wake_up(platform):
    """The closed form: MSI-X, interrupt, wake-up, switch; then the event is acknowledged and the queue polled.

    In Li et al., APNet'23 (FastWake), interrupts make a round trip several microseconds longer; 3 to 15 us are usual.
    """
    cpu, os = platform.cpu, platform.cpu.os
    polled, slept = (one_write(platform, waits)[1] for waits in ("poll", "sleep"))
    woken = platform.pcie.posted_write_ps + os.interrupt_ps + os.wake_ps + os.switch_ps + cpu.spin_loop_ps
    assert slept - polled == woken
    assert 3 * US < slept - polled < 15 * US


@pytest.mark.parametrize("waits", ["poll", "sleep", "adaptive"])
@pytest.mark.parametrize("deadline_us", [0, 1, 100])
def test_a_poll_ends_with_its_deadline_and_takes_what_comes_before(platform, waits, deadline_us):
    """100 us are enough for the WRITE, 1 us is not; but a sleeper woken by its timer looks once more, and finds it."""
    pair = Pair(platform, waits)

    def code(deadline_us):
        yield from pair.write(7)
        posted_ps = pair.clock.now_ps
        deadline = Deadline(pair.clock, posted_ps + deadline_us * US)
        first = yield from pair.thread.poll(pair.cq, deadline)
        after_ps = pair.clock.now_ps - posted_ps
        second = (yield from pair.thread.poll(pair.cq)) if first is None else None
        return first, second, after_ps

    _, (first, second, after_ps) = pair.run(code(deadline_us))
    in_time = deadline_us == 100 or (waits == "sleep" and deadline_us == 1)
    assert (first is not None, second is not None) == (in_time, not in_time)
    assert (first or second).wr_id == 7
    if deadline_us == 100:
        assert after_ps + platform.nic.post_wqe_ps <= one_write(platform, waits)[1]
    elif not in_time:
        assert deadline_us * US <= after_ps <= deadline_us * US + 2 * platform.cpu.poll_loop_ps


def test_a_queue_that_was_given_up_hands_the_completion_to_the_next_poll(platform):
    pair = Pair(platform)

    def code():
        for _ in range(3):
            assert (yield from pair.thread.poll(pair.cq, Deadline(pair.clock, pair.clock.now_ps + US))) is None
        yield from pair.write(7)
        return (yield from pair.thread.poll(pair.cq, Deadline(pair.clock, pair.clock.now_ps + 9 * US))).wr_id

    assert pair.run(code())[1] == 7


def test_polling_burns_the_core_and_sleeping_does_not(platform):
    (polling, _), (sleeping, _) = one_write(platform, "poll"), one_write(platform, "sleep")
    assert polling.thread.account.asleep_ps == 0
    assert polling.thread.account.polling_ps > 1 * US
    assert sleeping.thread.account.polling_ps == platform.cpu.poll_loop_ps
    assert sleeping.thread.account.asleep_ps > 1 * US


def test_who_spins_long_enough_never_arms(platform):
    (_, polled), (pair, adaptive) = one_write(platform, "poll"), one_write(platform, "adaptive")
    assert adaptive == polled
    assert pair.cq.notify is None


def test_who_spins_too_briefly_sleeps():
    platform = load_platform("optane-adr")
    platform = replace(platform, cpu=replace(platform.cpu, os=replace(platform.cpu.os, spin_ps=US // 10)))
    (pair, adaptive), (_, polled) = one_write(platform, "adaptive"), one_write(platform, "poll")
    assert adaptive > polled
    assert pair.thread.account.sleeps == 1


def test_an_event_is_made_by_the_first_completion_after_arming_only(platform):
    pair = Pair(platform)
    channel = pair.node.create_comp_channel(1)
    channel.attach(pair.cq)

    def code():
        thread = pair.thread
        yield from thread.req_notify_cq(pair.cq)
        for number in range(3):
            yield from pair.write(number)
        queue = yield from thread.get_cq_event(channel)
        yield from thread.sleep(20 * US)
        assert not channel.events  # two more have come, and made none
        yield from thread.ack_cq_events(queue)
        found = []
        while (completion := (yield from thread.try_poll(queue))) is not None:
            found.append(completion.wr_id)
        return found

    assert pair.run(code())[1] == [0, 1, 2]
    assert pair.node.cores[1].interrupts == 1  # on the core of the channel


def test_more_events_than_there_were_cannot_be_acknowledged(platform):
    pair = Pair(platform)
    pair.node.create_comp_channel().attach(pair.cq)
    with pytest.raises(ValueError, match="1 events acknowledged, 0 have been got"):
        pair.run(pair.thread.ack_cq_events(pair.cq))


@pytest.mark.parametrize(("count", "period_us", "woken_by"), [(4, 1000, "count"), (100, 50, "period")])
def test_moderation_waits_for_several_or_for_a_while(platform, count, period_us, woken_by):
    pair = Pair(platform)
    channel = pair.node.create_comp_channel()
    channel.attach(pair.cq)
    modify_cq(pair.cq, count, period_us * US)

    def code():
        thread = pair.thread
        yield from thread.req_notify_cq(pair.cq)
        for number in range(4):
            yield from pair.write(number)
        yield from thread.get_cq_event(channel)
        return thread.now_ps

    at_ps = pair.run(code())[1]
    assert (at_ps > period_us * US) is (woken_by == "period")
    assert at_ps < 1000 * US


def test_moderation_that_would_wait_for_ever_is_refused(platform):
    pair = Pair(platform)
    with pytest.raises(ValueError, match="without a channel"):
        modify_cq(pair.cq, 1, 0)
    pair.node.create_comp_channel().attach(pair.cq)
    with pytest.raises(ValueError, match="need a period"):
        modify_cq(pair.cq, 2, 0)


def careless(thread, queue, spin_ps=0):
    """Arms without polling again: what came before it was armed is never told."""
    yield from thread.req_notify_cq(queue)
    yield from thread.ack_cq_events((yield from thread.get_cq_event(thread._arming(queue).channel)))
    return (yield from thread.try_poll(queue))


def racing(platform, delay_ps):
    """A completion that shows about when its queue is armed."""
    pair = Pair(platform, "sleep")

    def code():
        yield from pair.write()
        yield pair.clock.timeout(delay_ps)
        return (yield from pair.thread.next_completion(pair.cq))

    return pair.run(code())


@given(st.integers(0, 4 * US))
@settings(max_examples=60, deadline=None)
def test_no_completion_is_missed_whenever_the_queue_is_armed(delay_ps):
    assert racing(load_platform("optane-adr"), delay_ps) is not None


def test_code_that_does_not_poll_again_sleeps_for_ever(platform, monkeypatch):
    monkeypatch.setattr(CompletionEvents, "next_completion", careless)
    assert any(racing(platform, delay_ps) is None for delay_ps in range(0, 4 * US, US // 20))


def test_on_a_busy_core_interrupt_and_switch_come_behind_an_instruction(platform):
    pair = Pair(platform, "sleep")
    other = pair.node.thread(0, "other")

    def busy():
        while True:
            yield from other.work(100 * US)

    def code():
        yield from pair.write()
        yield from pair.thread.poll(pair.cq)

    pair.clock.start(busy())
    at_ps, _ = pair.run(code(), 5_000 * US)
    assert 300 * US < at_ps < 1_500 * US  # of its instructions, each waits for one of the other's


# registration ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "length", "pages"), [(0, 4096, 1), (0, 4097, 2), (4095, 2, 2), (0, 1 << 20, 256)])
def test_registering_memory_takes_a_base_and_its_pages(platform, offset, length, pages):
    node = System(platform, {"server": [NodeSpec()]}, 1).nodes["server"][0]
    os, domain, thread = platform.cpu.os, node.alloc_pd(), node.thread(0, "thread")
    start = node.memory["dram"].allocate(2 << 20, "pool", align=4096)
    regions = []

    def code():
        regions.append((yield from thread.reg_mr(domain, start + offset, length)))

    node.system.clock.start(code())
    node.system.clock.run_until()
    assert node.system.clock.now_ps == os.reg_mr_ps + pages * os.reg_mr_page_ps
    assert regions[0].length == length
