"""A client process: the requests that it was given, one after the other, and the history of them.

Its work is kept apart from the code that does it: where a scenario has clients send again by a timer, the code is ended
in the middle of a request, and started anew with the same request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...models.cpu import Thread
from ...models.verbs import CompletedWithError, Span
from ...protocols.scheme import OperationFailed, OutcomeUnknown, Request, Role
from ..calls import argument_of, result_of, step_of
from ..history import Number, Operation
from .draws import Planned
from .workload import requests

if TYPE_CHECKING:
    from .experiment import AssembledVariant

MARKS_EVERY = 8
"""Hops are kept of every eighth operation: enough for their means, without the memory of all."""

Code = Generator[Any, Any, None]


class ClientWork:
    """What a client process of a run has still to do, and the request that it is at."""

    def __init__(self, experiment: AssembledVariant, operations: Sequence[Planned]) -> None:
        self._experiment = experiment
        self._waiting = deque(requests(operations))
        self._repeats = bool(operations) and operations[0].process in experiment.repeating
        self._held: list[Number] = []
        """The blocks that it has allocated, oldest first."""
        self._taken: dict[Hashable, list[Any]] = {}
        """By object: what came of taking out until nothing comes."""
        self._pause_ps = _pauses(experiment, operations)
        self._group: list[Planned] = []
        self.made: list[Operation] = []
        """The operations of the request that is under way."""
        self.sent_ps = 0
        """When that was sent for the last time."""

        self.answered_ps = 0
        """When a request returned last."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, or under way."""
        return not (self._waiting or self.made)

    def run(self, client: Role, session: Any, thread: Thread, first: Iterable[Any] = ()) -> Code:
        """The process's code: what is under way again, then the other requests; behind the code that it runs ``first``.

        A request whose outcome is unknown is tried again as often as the scenario's role of clients says.
        """
        yield from first
        experiment, clock = self._experiment, self._experiment.system.clock
        while self.made or self._waiting:
            if self.made:
                self._again()
            else:
                group = self._group = self._waiting.popleft()
                if self._repeats:
                    if not experiment.others_run():
                        self._waiting.clear()
                        return
                    self._waiting.append(group)
                if self._pause_ps is not None:
                    yield clock.until(clock.now_ps + self._pause_ps())
                if group[0].not_before_ps > clock.now_ps:
                    yield clock.until(group[0].not_before_ps)
                frees = group[0].f == "free" and group[0].argument is None
                if frees and not self._held:
                    continue
                self.made = [self._invoked(each, self._held.pop(0) if frees else each.argument) for each in group]
                self.sent_ps = clock.now_ps
            operation, (request, span) = self.made[0], self._begun(thread)
            found: Any = None
            outcome = "ok"
            for attempt in range(1 + experiment.retries):
                if attempt:
                    self._again()
                try:
                    found, outcome = (yield from client.perform(session, request)), "ok"
                except OperationFailed:
                    outcome = "info" if operation.retries else "fail"
                except OutcomeUnknown:
                    outcome = "info"
                    continue
                except CompletedWithError as error:  # the other end is gone, and the scheme looks for no other
                    if not error.disconnected:
                        raise
                    outcome = "info"
                    continue
                break
            self._ended(thread, span, outcome, found)
        yield from client.leave(session)

    def _begun(self, thread: Thread) -> tuple[Request, Span]:
        """The request that is under way, which ``thread`` performs from now on, and its span."""
        experiment, operation, value_bytes = self._experiment, self.made[0], self._experiment.at_work.sizes.value_bytes
        span = thread.span = Span(describe(operation))
        if experiment.metered is not None:
            experiment.metered.begins(thread)
        if operation.number % MARKS_EVERY == 1:
            experiment.spans[operation.number] = span
        steps = tuple(chain.from_iterable(step_of(each, value_bytes) for each in self.made))
        return Request(steps, operation.number), span

    def _ended(self, thread: Thread, span: Span, outcome: str, found: Any) -> None:
        """The request that was under way has come to its end; ``found`` is what it has returned."""
        experiment, made, operation = self._experiment, self.made, self.made[0]
        history, now_ps = experiment.history, experiment.system.clock.now_ps
        kind, value_bytes = type(experiment.at_work), experiment.at_work.sizes.value_bytes
        self.made, self.answered_ps = [], now_ps
        if experiment.on_answer is not None:
            experiment.on_answer()
        results: Iterable[Any] = found or () if len(made) > 1 and outcome == "ok" else [found] * len(made)
        for each, its in zip(made, results, strict=True):
            result = result_of(kind, each, its, value_bytes) if outcome == "ok" else None
            history.complete(each, outcome, now_ps, result)
            if each.f == "alloc" and isinstance(result, Number):
                self._held.append(result)
        if experiment.metered is not None:
            experiment.metered.ended(operation, thread, span)
        if (
            self._group[0].until_empty
            and outcome == "ok"
            and operation.result is not None
            and not self._begins_again(operation)
        ):
            self._waiting.appendleft(self._group)

    def _begins_again(self, operation: Operation) -> bool:
        """Whether an object never gets empty: more has come of it than there was, and the same again."""
        sizes, items = self._experiment.at_work.sizes, self._taken.setdefault(operation.object, [])
        again = len(items) >= sizes.updates + len(sizes.objects) and operation.result in items
        items.append(operation.result)
        return again

    def _again(self) -> None:
        """What is under way is sent again: it is the same operation."""
        now_ps = self.sent_ps = self._experiment.system.clock.now_ps
        for each in self.made:
            self._experiment.history.retry(each, each.process, now_ps)

    def _invoked(self, planned: Planned, given: Hashable) -> Operation:
        """A planned operation, begun now."""
        history, kind = self._experiment.history, type(self._experiment.at_work)
        now_ps = self._experiment.system.clock.now_ps
        operation = history.invoke(planned.process, planned.f, planned.object or None, None, now_ps)
        stamp = operation.number if planned.stamp is None else planned.stamp
        operation.argument = argument_of(kind, planned.f, given, stamp)
        if planned.f == "txn" and isinstance(operation.argument, tuple):
            operation.object = tuple(dict.fromkeys(name for _, name, _ in operation.argument))
        operation.batch, operation.part_of = planned.batch, planned.part_of
        return operation


def _pauses(experiment: AssembledVariant, operations: Sequence[Planned]) -> Callable[[], int] | None:
    """How long a process thinks before each operation: drawn exponentially, as for requests that know of no other."""
    think_ps = getattr(experiment.scenario.workload, "think_ps", None)
    if not think_ps or not operations:
        return None
    random = experiment.system.streams.stream(f"think of process {operations[0].process}")
    return lambda: int(random.exponential(think_ps))


def describe(operation: Operation) -> str:
    """An operation in words: ``put k17 = v3 by client 2``."""
    return f"{operation.text} by client {operation.process}"
