"""A run in which a server fails again and again at random, is repaired, and clients send again what nobody answered.

Everything is executed: the death, the repair, recovery on the bytes that are left, each request that is sent again. How
long many more operations take at the availability that a scenario names is computed from that: their number times the
mean time of one without failures, and the failures that fall into that time by the mean cost of one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...models.verbs import CompletedWithError
from ..schema.failures import DrawnFailures
from .experiment import AssembledVariant
from .inject import Strike, StruckRun
from .leftover import MemoryLeft
from .results import RunResult

Code = Generator[Any, Any, None]

IN_VAIN = 100
"""After so many failures in a row between which no request returned nobody waits for one any more."""
PATIENT_FOR = 10
"""For so many times a client's timer the next failure waits for an answer of the repaired server."""
EXECUTED, RECOVERED = "executed", "recovered"
"""What servers count (:meth:`Role.count`): requests that they have executed, and those of them in recovery."""


@dataclass
class FailureEvent:
    """One failure: when it came, and when the server could be reached again (None: the run ended before)."""

    at_ps: int
    back_ps: int | None = None


class FailureSeries(StruckRun):
    """Such a run of an assembled variant.

    A client looks at its own timer: whenever that has passed since it has sent, it sends again. While nobody is there
    that finds nobody; afterwards it opens another connection and sends the request, as a retry of the same operation.
    """

    def __init__(self, experiment: AssembledVariant, drawn: DrawnFailures) -> None:
        super().__init__(experiment, (), (), reads=False)
        self.drawn = drawn
        self.events: list[FailureEvent] = []
        self.expired = self.sent_again = 0
        """How often a client's timer passed, and how often it led to a retry."""
        self._there = True
        """Whether the server would accept a connection."""
        self._watched: set[int] = set()
        self._random = experiment.system.streams.stream("failures")
        self._left = MemoryLeft(experiment.loaded)

    def run_series(self) -> RunResult:
        """The run, until every client has done its work."""
        experiment, clock = self.experiment, self.clock
        finished: Any = clock.start(self._everybody())
        experiment.finished = finished
        while not self._in_vain():
            next_ps = clock.now_ps + max(1, int(self._random.exponential(self.drawn.mean_ps)))
            if self._until(finished, clock.until(next_ps)):
                break
            self._fail()
            if self._until(finished, self.recovering[-1]) or self._until(finished, self._first_answer()):
                break
        return experiment.result()

    def _until(self, finished: Any, event: Any) -> bool:
        """Run until everybody has finished, or until another event; whether everybody has."""
        either = self.clock.any_of([finished, event])
        while not either.processed:
            with suppress(CompletedWithError):  # of a server's thread whose peer is gone
                self.clock.run_until(either)
        return bool(finished.processed)

    def _in_vain(self) -> bool:
        last_ps = max(work.answered_ps for work in self.experiment.work.values())
        return len(self.events) >= IN_VAIN and self.events[-IN_VAIN].at_ps > last_ps

    def _first_answer(self) -> Any:
        """The event of the next request's return, or of a time in which all clients have sent again in vain."""
        answered = self.clock.event()
        self.experiment.on_answer = partial(_succeed, answered)
        return answered | self.clock.until(self.clock.now_ps + PATIENT_FOR * self.drawn.resend_after_ps)

    def _fail(self) -> None:
        drawn, now_ps = self.drawn, self.clock.now_ps
        self._there = False
        memory = self._left.behind(now_ps, drawn.of.parts)
        self.strike(
            Strike(
                now_ps,
                drawn.of.parts,
                memory=memory,
                down_ps=drawn.repair_ps,
                restart_ps=drawn.repair_ps,
                told=drawn.told,
            )
        )
        self.events.append(FailureEvent(now_ps))
        self.clock.start(self._repaired(self.recovering[-1], self.events[-1]))
        for process in sorted(set(self.experiment.work) - self._watched):
            self._watched.add(process)
            self.clock.start(self._watch(process))

    def _repaired(self, recovered: Any, event: FailureEvent) -> Code:
        yield recovered
        event.back_ps, self._there = self.clock.now_ps, True

    def _watch(self, process: int) -> Code:
        """A client's timer, from a failure on until the client has had an answer of the repaired server."""
        clock, work, after_ps = self.clock, self.experiment.work[process], self.drawn.resend_after_ps
        while not work.finished and not (self._there and work.answered_ps > (self.events[-1].back_ps or 0)):
            due_ps = work.sent_ps + after_ps if work.made else clock.now_ps + after_ps
            if clock.now_ps < due_ps:
                yield clock.until(due_ps)
                continue
            self.expired += 1
            if self._there:
                self.sent_again += 1
                self.experiment.start_again(process)
            work.sent_ps = clock.now_ps
        self._watched.discard(process)

    def _everybody(self) -> Code:
        """Until all clients have done their work, or are gone."""
        for process, work in self.experiment.work.items():
            while not work.finished:
                running = self.experiment.running[process]
                yield running
                if running is self.experiment.running[process]:
                    break


def _succeed(event: Any) -> None:
    if not event.triggered:
        event.succeed()


def fields(series: FailureSeries, result: RunResult, undisturbed: RunResult) -> dict[str, Any]:
    """The field ``repaired`` of ``rpsim run --json``; ``undisturbed`` is the run of the same work without failures."""
    drawn, operations = series.drawn, len(undisturbed.history.operations)
    took_ps = max((o.return_ps or 0 for o in result.history.operations), default=0)
    struck = [event for event in series.events if event.at_ps < took_ps]
    usual_ps = max((o.return_ps or 0 for o in undisturbed.history.operations), default=0)
    mean_ps = usual_ps / operations if operations else 0.0
    cost_ps = (took_ps - usual_ps) / len(struck) if struck else 0.0
    found: dict[str, Any] = {
        "failures": len(struck),
        "down_ms": round(sum((event.back_ps or took_ps) - event.at_ps for event in struck) / 1e9, 6),
        "timers_expired": series.expired,
        "sent_again": sum(len(o.retries) for o in result.history.operations),
        **_executions(result),
        "waiting": sum(o.return_ps is None for o in result.history.operations),
        "mean_us": round(mean_ps / 1e6, 6),
        "cost_ms": round(cost_ps / 1e9, 6),
    }
    if drawn.rpcs is not None:
        alone_ps = drawn.rpcs * mean_ps
        expected = alone_ps / drawn.available_ps
        found["of_rpcs"] = {
            "rpcs": drawn.rpcs,
            "availability": drawn.availability,
            "failures": round(expected, 3),
            "time_s": round((alone_ps + expected * cost_ps) / 1e12, 6),
            "without_failures_s": round(alone_ps / 1e12, 6),
        }
    return found


def _executions(result: RunResult) -> dict[str, int]:
    """How many requests recovery executed, and how many executions there were beyond one of each operation; nothing
    where servers do not count them.
    """
    counted: dict[str, int] = {}
    for own in result.metered.get("machine_counts", {}).values():
        for name in (EXECUTED, RECOVERED):
            counted[name] = counted.get(name, 0) + own.get(name, 0)
    if not counted.get(EXECUTED):
        return {}
    done = sum(o.outcome == "ok" for o in result.history.operations)
    return {"recovered": counted[RECOVERED], "executed_again": max(0, counted[EXECUTED] - done)}
