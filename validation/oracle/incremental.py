"""One object followed event by event: what would a crash now, and a read after recovery, violate?

The same conditions as ``check``, kept up to date instead of computed: in time order a cluster's first return is
known for good when its first operation returns, so clusters are numbered by it, and only last invocations move.

- A read moves its cluster's last invocation. New conflicts: with the last forward zone that begins before it (forward
  zones of a linearizable history are disjoint, so that one ends last), or with clusters that first returned inside
  the cluster's own zone. Each of the latter either conflicts or was under way when the zone began, so the walk over
  them is as short as the number of concurrent operations.
- The read after recovery moves its cluster's last invocation to infinity: it conflicts if some other cluster's last
  invocation is later than its own first return. Two numbers answer that: the latest and the runner-up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable

from ...protocols.guarantees import Condition
from ...scenarios.history import Operation, Unread, Value
from .check import explanation
from .known import BEFORE_PS, NEVER_PS, ObjectHistory, return_ps

_COMMITTED, _MONOTONIC, _NO_LOST_ACK, _DURABLE = 1, 2, 4, 8
_BITS = {
    Condition.COMMITTED: _COMMITTED,
    Condition.MONOTONIC: _MONOTONIC,
    Condition.NO_LOST_ACK: _NO_LOST_ACK,
    Condition.DURABLE: _DURABLE,
}
_SETS = tuple(frozenset(condition for condition, bit in _BITS.items() if bits & bit) for bits in range(16))
_NOTHING_READ = BEFORE_PS - 1


class RegisterHistory:
    """The operations of one object in time order; ``judge`` and ``explain`` answer for a crash at this moment.

    It answers as ``check`` does for a crash at an instant once all events of that instant were handed to it, in any
    order. ``version`` changes whenever an event may have changed an answer. Raises ValueError if events go back in
    time, InputError if an update writes a value that is not unique.
    """

    __slots__ = (
        "_answers",
        "_clusters",
        "_conflict",
        "_existed_ps",
        "_finish_ps",
        "_forward",
        "_homeless",
        "_last",
        "_last_acknowledged_ps",
        "_last_ps",
        "_now_ps",
        "_runner_up_ps",
        "_start_ps",
        "_youngest_read_ps",
        "known",
        "version",
    )

    undecided: frozenset[Condition] = frozenset()
    """Nothing is searched here: every answer is one."""

    def __init__(self, object: Hashable, updates: frozenset[str], loaded: bool = True, probe: str = "get") -> None:
        self.known = ObjectHistory(object, updates, loaded, probe)
        self.version = 0
        self._now_ps = BEFORE_PS
        self._answers: dict[Value, frozenset[Condition]] = {}
        self._clusters: dict[Value, int] = {self.known.initial: 0}
        """By value: the number of its cluster, in order of first return; a cluster where nothing returned has none."""
        self._finish_ps = [BEFORE_PS]
        self._start_ps = [BEFORE_PS]
        self._forward: list[int] = []
        """The clusters whose zone is forward, in order."""
        self._last = 0
        """The cluster with the latest last invocation, ``_last_ps``; ``_runner_up_ps`` is that of the others."""
        self._last_ps = self._runner_up_ps = BEFORE_PS
        self._last_acknowledged_ps = BEFORE_PS
        """The latest invocation of an acknowledged update."""
        self._existed_ps: dict[Value, int] = {self.known.initial: BEFORE_PS}
        """By value: the first return of its write or of a read of it."""
        self._youngest_read_ps = _NOTHING_READ
        """The latest invocation of an update whose value was read."""
        self._homeless: dict[Value, list[Operation]] = {}
        """Reads of values that no update may have written."""
        self._conflict = False
        """Whether two clusters must each precede the other, so that the history is not linearizable already."""

    def invoke(self, operation: Operation) -> None:
        """Note that ``operation`` is invoked now."""
        self._advance(operation.invoke_ps)
        if operation.f not in self.known.updates:
            return
        self.known.invoke(operation)
        self._changed()
        readers = self._homeless.get(operation.argument)
        for read in readers or ():
            if read.return_ps == operation.invoke_ps:
                self._exists(read)
        if readers and all(read.return_ps == operation.invoke_ps for read in readers):
            del self._homeless[operation.argument]
            for read in readers:
                self._returned(operation.argument, max(read.invoke_ps, operation.invoke_ps))

    def complete(self, operation: Operation) -> None:
        """``operation``, invoked before, has got its response now."""
        self._advance(return_ps(operation))
        known, value = self.known, operation.argument
        operation = known.complete(operation)
        if operation.f not in known.updates:
            if operation.outcome == "ok":
                self._changed()
                self._read(operation)
        elif operation.outcome == "ok":
            self._changed()
            self._last_acknowledged_ps = max(self._last_acknowledged_ps, operation.invoke_ps)
            self._existed_ps.setdefault(value, self._now_ps)
            self._returned(value, operation.invoke_ps)
        elif operation.outcome == "fail":
            self._changed()
            if value in self._existed_ps:
                self._youngest_read_ps = max(map(self._written_ps, known.reads), default=_NOTHING_READ)
            if value in self._clusters:  # somebody read it
                self._homeless[value] = [read for read in known.reads if read.result == value]

    def judge(self, value: Value) -> frozenset[Condition]:
        """The conditions violated if the system crashes now and the read after recovery returns ``value``."""
        answer = self._answers.get(value)
        if answer is None:
            answer = self._answers[value] = _SETS[self._judge(value)]
        return answer

    def explain(self, value: Value, condition: Condition) -> str:
        """In one sentence, why ``condition`` is among ``judge(value)``; ValueError if it is not."""
        return explanation(condition, self.known, value)

    def _judge(self, value: Value) -> int:
        known = self.known
        if not known.may_hold(value):
            lost = known.loaded or bool(known.acknowledged_ps)
            taken_back = known.loaded and value is None and self._youngest_read_ps > _NOTHING_READ
            torn = 0 if isinstance(value, Unread) and not self._homeless else _COMMITTED
            return torn | _DURABLE | (_NO_LOST_ACK if lost else 0) | (_MONOTONIC if taken_back else 0)
        returned_ps = BEFORE_PS if value == known.initial else known.acknowledged_ps.get(value, NEVER_PS)
        bits = _NO_LOST_ACK if returned_ps < self._last_acknowledged_ps else 0
        if self._existed_ps.get(value, NEVER_PS) < self._youngest_read_ps:
            bits |= _MONOTONIC
        if self._homeless:
            bits |= _COMMITTED | _DURABLE
        elif self._conflict or self._is_over(value):
            bits |= _DURABLE
        if bits and not bits & _DURABLE:
            raise AssertionError(f"durable holds but a weaker condition does not, of {value} on {known.object}")
        return bits

    def _is_over(self, value: Value) -> bool:
        """Whether a value written after the cluster of ``value`` was over has been acknowledged or read."""
        cluster = self._clusters.get(value)
        if cluster is None:
            return False
        others_ps = self._runner_up_ps if cluster == self._last else self._last_ps
        return self._finish_ps[cluster] < others_ps

    def _exists(self, read: Operation) -> None:
        """Note that ``read`` returned a version."""
        self._existed_ps.setdefault(read.result, return_ps(read))
        self._youngest_read_ps = max(self._youngest_read_ps, self._written_ps(read))

    def _written_ps(self, read: Operation) -> int:
        """The earliest instant at which the value of the read was written, if it is a version."""
        if not self.known.wrote(read):
            return _NOTHING_READ
        write = self.known.writes.get(read.result)
        return BEFORE_PS if write is None else write.invoke_ps

    def _read(self, read: Operation) -> None:
        value = read.result
        if self.known.may_hold(value):
            self._exists(read)
        if value in self._homeless or not self.known.may_hold(value):
            self._homeless.setdefault(value, []).append(read)
            return
        write = self.known.writes.get(value)
        self._returned(value, read.invoke_ps if write is None else max(read.invoke_ps, write.invoke_ps))

    def _returned(self, value: Value, start_ps: int) -> None:
        """An operation of the cluster of ``value`` returned now; ``start_ps`` may be its last invocation."""
        cluster = self._clusters.get(value)
        if cluster is None:
            cluster = self._clusters[value] = len(self._finish_ps)
            self._finish_ps.append(self._now_ps)
            self._start_ps.append(start_ps)
        elif start_ps > self._start_ps[cluster]:
            self._extend(cluster, start_ps)
        else:
            return
        if cluster == self._last:
            self._last_ps = start_ps
        elif start_ps > self._last_ps:
            self._last, self._last_ps, self._runner_up_ps = cluster, start_ps, self._last_ps
        elif start_ps > self._runner_up_ps:
            self._runner_up_ps = start_ps

    def _extend(self, cluster: int, start_ps: int) -> None:
        """Move the last invocation of ``cluster`` to ``start_ps``; note a conflict that this brings about."""
        finish_ps, start_of = self._finish_ps, self._start_ps
        was_forward = finish_ps[cluster] < start_of[cluster]
        start_of[cluster] = start_ps
        if self._conflict:
            return
        begun = bisect_left(finish_ps, start_ps)  # the clusters that returned something before start_ps
        nearest = bisect_left(self._forward, begun) - 1
        if nearest >= 0 and self._forward[nearest] == cluster:
            nearest -= 1
        if nearest >= 0 and start_of[self._forward[nearest]] > finish_ps[cluster]:
            self._conflict = True
        for inside in range(cluster + 1, begun):
            if start_of[inside] > finish_ps[cluster]:
                self._conflict = True
                break
        if not was_forward and finish_ps[cluster] < start_ps:
            insort(self._forward, cluster)

    def _advance(self, now_ps: int) -> None:
        if now_ps < self._now_ps:
            raise ValueError(f"an event at {now_ps} ps after one at {self._now_ps} ps")
        self._now_ps = now_ps

    def _changed(self) -> None:
        self.version += 1
        if self._answers:
            self._answers = {}
