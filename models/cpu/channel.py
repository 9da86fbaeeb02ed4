"""Completion channels: the adapter interrupts a core, which wakes the thread that waits for the event.

As libibverbs and its kernel half have it: a completion queue is armed (``ibv_req_notify_cq``), the next completion that
becomes visible makes an event, whose interrupt's handler puts it into the channel and wakes the reader there; the queue
is then not armed any more. Completions that were in the queue before make no event, hence a program arms, polls once
more, and only then waits (ibv_get_cq_event(3)).
"""

from __future__ import annotations

from collections import deque

import simpy

from ...sim.clock import HOLD, Clock
from ..profiles.parameters.cpu import OperatingSystem
from ..verbs.objects import CompletionQueue, WorkCompletion
from .core import Core
from .software import Code, Deadline, Signal, SoftwareThread


class CompletionChannel:
    """``ibv_comp_channel``: ``core`` takes the interrupts of its queues, ``way_ps`` is an interrupt's way to it."""

    def __init__(self, clock: Clock, core: Core, system: OperatingSystem, way_ps: int) -> None:
        self.events: deque[CompletionQueue] = deque()
        self.signal = Signal(clock)
        self._clock = clock
        self._core = core
        self._interrupt_ps = system.interrupt_ps
        self._way_ps = way_ps

    def attach(self, queue: CompletionQueue) -> None:
        """Events of ``queue`` come here."""
        queue.notify = Arming(self._clock, self, queue)

    def raise_event(self, queue: CompletionQueue) -> None:
        """The adapter sends an interrupt (MSI-X): a posted write to the core."""
        core, at_ps = self._core, self._clock.now_ps + self._way_ps
        self._clock.call_at(at_ps, core.interrupt, self._clock, self._interrupt_ps, self._handled, queue)

    def _handled(self, queue: CompletionQueue) -> None:
        self.events.append(queue)
        self.signal.set()


class Arming:
    """Whether the next completion of a queue makes an event, and how many of them make one (``ibv_modify_cq``)."""

    def __init__(self, clock: Clock, channel: CompletionChannel, queue: CompletionQueue) -> None:
        self.channel = channel
        self.armed = False
        self.unacknowledged = 0
        self.count = 1
        """``cq_count``: so many completions make one event, ..."""
        self.period_ps = 0
        """``cq_period``: ... or this long after the first of them."""
        self._clock = clock
        self._queue = queue
        self._came = 0
        self._round = 0

    def __call__(self) -> None:
        """A completion has become visible."""
        if not self.armed:
            return
        self._came += 1
        if self._came >= self.count:
            self._fire()
        elif self._came == 1 and self.period_ps:
            self._clock.call_at(self._clock.now_ps + self.period_ps, self._expired, self._round)

    def _expired(self, number: int) -> None:
        if number == self._round:
            self._fire()

    def _fire(self) -> None:
        self.armed = False
        self._came = 0
        self._round += 1
        self.channel.raise_event(self._queue)


def modify_cq(queue: CompletionQueue, cq_count: int, cq_period_ps: int) -> None:
    """``ibv_modify_cq``: an event only for every ``cq_count`` completions, or ``cq_period_ps`` after the first.

    Raises ValueError where that would wait for ever, or where the queue has no channel.
    """
    if not isinstance(queue.notify, Arming):
        raise ValueError("a completion queue without a channel has no events to moderate")
    if cq_count < 1 or (cq_count > 1 and cq_period_ps < 1):
        raise ValueError(f"cq_count {cq_count} and cq_period {cq_period_ps} ps: several completions need a period")
    queue.notify.count, queue.notify.period_ps = cq_count, cq_period_ps


class CompletionEvents(SoftwareThread):
    """The part of a thread's verbs that waits for completions without a busy loop."""

    _waits: str
    _poll_ps: int
    _interrupt_way_ps: int

    def try_poll(self, queue: CompletionQueue) -> Code:
        """``ibv_poll_cq`` once: returns the :class:`WorkCompletion`, or None."""
        completion = queue.pop()
        if completion is None:
            self.account.polling_ps += self._cpu.poll_loop_ps
            yield self.core.run(self, self._cpu.poll_loop_ps)
            return None
        self._takes(completion)
        yield self.core.run(self, self._poll_ps)
        self._seen(completion)
        return completion

    def req_notify_cq(self, queue: CompletionQueue) -> Code:
        """``ibv_req_notify_cq``: the next completion makes an event in its channel."""
        arming = self._arming(queue)
        cost_ps = self._cpu.os.req_notify_ps
        self.account.verbs_ps += cost_ps
        yield self.core.run(self, cost_ps)
        arming.armed = True

    def get_cq_event(self, channel: CompletionChannel, deadline: Deadline | None = None) -> Code:
        """``ibv_get_cq_event``, after an ``epoll_wait`` if programs use one: sleeps until there is an event.

        Returns the queue; the event has to be acknowledged (:meth:`ack_cq_events`). Returns None where ``deadline``
        passes before (the time-out of ``epoll_wait`` or ``poll``).
        """
        system = self._cpu.os
        yield from self.kernel(system.syscall_ps * (1 + system.epoll))
        while not channel.events:
            channel.signal.take()  # another thread has taken this event
            since_ps = self.now_ps
            changed = channel.signal.changed()
            if deadline is None:
                yield changed
            else:
                yield changed | self.clock.until(deadline.at_ps)
                channel.signal.forget(changed)
            yield from self._woken(since_ps)
            if deadline is not None and not channel.events and self.now_ps >= deadline.at_ps:
                return None
        queue = channel.events.popleft()
        self._arming(queue).unacknowledged += 1
        return queue

    def ack_cq_events(self, queue: CompletionQueue, nevents: int = 1) -> Code:
        """``ibv_ack_cq_events``: takes a mutex. Raises ValueError for more events than there were."""
        arming = self._arming(queue)
        if nevents > arming.unacknowledged:
            raise ValueError(f"{nevents} events acknowledged, {arming.unacknowledged} have been got")
        arming.unacknowledged -= nevents
        self.account.verbs_ps += self._cpu.spin_loop_ps
        yield self.core.run(self, self._cpu.spin_loop_ps)

    def next_completion(self, queue: CompletionQueue, spin_ps: int = 0) -> Code:
        """The next completion as event-driven code gets it: spin for ``spin_ps``, arm, poll again, sleep, poll."""
        completion = (yield from self._spin(queue, spin_ps)) if spin_ps else None
        while completion is None:
            yield from self.req_notify_cq(queue)
            completion = yield from self.try_poll(queue)
            if completion is None:
                yield from self.ack_cq_events((yield from self.get_cq_event(self._arming(queue).channel)))
                completion = yield from self.try_poll(queue)
        return completion

    def poll_until(self, queue: CompletionQueue, deadline: Deadline, waits: str) -> Code:
        """The next completion of an empty queue, or None once ``deadline`` has passed; ``waits`` says how."""
        spin_ps = {"poll": deadline.at_ps, "adaptive": self.now_ps + self._cpu.os.spin_ps}.get(waits, 0) - self.now_ps
        spin_ps = min(spin_ps, deadline.at_ps - self.now_ps)
        completion = (yield from self._spin(queue, spin_ps)) if spin_ps > 0 else (yield from self.try_poll(queue))
        while completion is None and self.now_ps < deadline.at_ps:
            yield from self.req_notify_cq(queue)
            completion = yield from self.try_poll(queue)
            if completion is None:
                event = yield from self.get_cq_event(self._arming(queue).channel, deadline)
                if event is not None:
                    yield from self.ack_cq_events(event)
                completion = yield from self.try_poll(queue)
        return completion

    def _spin(self, queue: CompletionQueue, spin_ps: int) -> Code:
        completion = queue.pop()
        if completion is not None:
            self._takes(completion)
            yield self.core.run(self, self._poll_ps)
        else:
            waiting = WaitingThread(self, self.clock.running)
            queue.wait(waiting)
            self.core.spin(self, self.clock.running)
            self.clock.call_at(self.now_ps + spin_ps, waiting.give_up)
            yield HOLD
            completion = waiting.completion
        if completion is not None:
            self._seen(completion)
        return completion

    def _arming(self, queue: CompletionQueue) -> Arming:
        """A queue that was made without a channel gets one of its own, served by this thread's core."""
        if queue.notify is None:
            CompletionChannel(self.clock, self.core, self._cpu.os, self._interrupt_way_ps).attach(queue)
        assert isinstance(queue.notify, Arming)
        return queue.notify

    def _takes(self, completion: WorkCompletion) -> None:
        raise NotImplementedError

    def _seen(self, completion: WorkCompletion) -> None:
        raise NotImplementedError


class WaitingThread:
    """A thread whose poll has found nothing yet: it goes on a poll's time after the completion has shown."""

    __slots__ = ("_process", "_since_ps", "_thread", "completion", "given_up")

    def __init__(self, thread: CompletionEvents, process: simpy.Process) -> None:
        self._thread = thread
        self._process = process
        self._since_ps = thread.clock._now
        self.completion: WorkCompletion | None = None
        self.given_up = False

    def found(self, completion: WorkCompletion) -> bool:
        """Resume the thread with its completion, if it still waits: its process may have been stopped."""
        if self.given_up or not self._process.is_alive:
            return False
        thread, self.completion = self._thread, completion
        if completion.span is not None:
            thread._takes(completion)
        thread._polled(self._since_ps)
        thread.core.run(thread, thread._poll_ps, self._process)
        return True

    def give_up(self) -> None:
        """Resume the thread without a completion: its time to spin is over."""
        if not self.given_up and self.completion is None and self._process.is_alive:
            self.given_up = True
            self._thread._polled(self._since_ps)
            thread = self._thread
            thread.core.run(thread, thread._cpu.poll_loop_ps, self._process)
