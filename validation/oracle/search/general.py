"""The general search: is there a legal order of one object's operations, for any sequential model?

After Wing, Gong, "Testing and verifying concurrent objects" (J. Parallel Distrib. Comput. 17, 1993), with the
just-in-time order and the memory of Lowe, "Testing for linearizability" (Concurrency Comput. Pract. Exp. 29(4), 2017).

The history is walked from return to return. A *configuration* is a state that the object may be in, with the
operations under way that have already taken effect. When an operation returns, every configuration in which it has not
taken effect is carried on by the operations under way until it has, and dropped if it never can. If none is left, that
operation cannot be placed, however those before it were. (What operations under way are going to return counts: an
operation may be at fault for what one that overlaps it returned later.)

What keeps the configurations few:

- Those met before are not carried on again (within one return; nothing else can meet).
- An operation that changes nothing wherever it is legal (a read, a failed comparison) takes effect as soon as it fits.
  Any order with it later stays legal with it here, so there is nothing to branch on.
- Operations of unknown outcome stay under way for ever. A configuration that used fewer of them, and is the same
  otherwise, can do whatever the other can: only the least are kept. Unknown operations that ask for the same are used
  in the order of their invocations, for they are interchangeable.
- An unknown operation that changes nothing is left out.

An operation with a deadline (``by_ps``: its process was killed) takes effect by then or never.

Where the configurations get many all the same (many writers at once of a text that grows), one order is looked for in
depth as well, with the memory of Lowe: it says nothing of a violation, and may find an order long before all
configurations are known.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....protocols.guarantees import Verdict
from ..known import NEVER_PS
from ..models.simple import ILLEGAL, UNKNOWN, Call, Model, State

BUDGET = 1_000_000
"""After how many steps (transitions of the model tried) a search gives up."""
BUDGET_BYTES = 1 << 30
"""Over how many bytes of configurations it gives up."""
HARD, DEEP = 20_000, 100_000
"""After so many steps a search looks twice for an order in depth, for so many steps each."""

_INVOKE, _RETURN, _EXPIRE = 0, 1, 2
"""In this order at one instant: intervals are closed, and a crash comes after the responses of its instant."""


@dataclass
class Budget:
    """The steps that a search, or several in a row, may take; ``spent`` counts them."""

    steps: int = BUDGET
    bytes: int = BUDGET_BYTES
    spent: int = 0


class Interval(NamedTuple):
    """An operation: the caller's number for it, its call, and when. ``return_ps`` is None if no response was seen.

    Then the call's result is UNKNOWN, and it takes effect after ``invoke_ps`` or never; not after ``by_ps``.
    """

    number: int
    call: Call
    invoke_ps: int
    return_ps: int | None
    by_ps: int = NEVER_PS


@dataclass(frozen=True)
class SearchAnswer:
    """The answer of a search.

    ``order`` is one legal order (numbers of operations) if the verdict is ``holds``, else the longest that was known
    before the end. ``stuck`` is the operation whose return no configuration survived (``violated``), or at whose return
    the budget was spent (``undecided``: of what, says ``lacking``). ``returns`` of ``of`` returns were passed.
    """

    verdict: Verdict
    steps: int
    order: tuple[int, ...]
    stuck: int | None
    returns: int
    of: int
    states: tuple[State, ...] = ()
    """All that the object can have been before ``stuck`` was to take effect (``violated``)."""
    lacking: str = ""


_Link = tuple[int, "_Link"] | None


_Configuration = tuple[State, int, int, _Link]
"""A plain tuple, for speed: the state; by slot, the operations under way that have taken effect (*done*) and the
unknown ones that have (*used*); the operation that took effect last, and what was before it (*last*)."""


class _Spent(Exception):
    """The budget is spent: of steps, or of memory."""


class _Found(Exception):
    """An order was found in depth."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__(order)
        self.order = order


class _Frontier:
    """The configurations of one moment; of those that differ only in unknown operations, the least."""

    def __init__(self) -> None:
        self._known: dict[tuple[State, int], list[int]] = {}
        self._kept: dict[tuple[State, int, int], _Configuration] = {}

    def add(self, one: _Configuration) -> bool:
        """Whether ``one`` is new, and no other can do all that it can."""
        state, done, own, _ = one
        rivals = self._known.get((state, done))
        if rivals is None:
            self._known[state, done] = [own]
        else:
            for used in rivals:
                if used & own == used:
                    return False
            for used in [used for used in rivals if used & own == own]:
                rivals.remove(used)
                del self._kept[state, done, used]
            rivals.append(own)
        self._kept[state, done, own] = one
        return True

    def keeps(self, one: _Configuration) -> bool:
        """Whether ``one`` was added, and nothing better since."""
        return one[:3] in self._kept

    def states(self) -> tuple[State, ...]:
        """The states, each once, in the order of their discovery."""
        return tuple(dict.fromkeys(state for state, _ in self._known))

    def all(self) -> list[_Configuration]:
        return list(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)


class _Unknown(NamedTuple):
    number: int
    bit: int
    before: int
    """The bit of the same call invoked before this one, or 0: that one is used first."""
    call: Call


class Search:
    """A search over one object; ``run`` gives the answer, ``advance`` goes some steps towards it."""

    def __init__(self, model: Model, spans: Iterable[Interval], budget: int | Budget = BUDGET) -> None:
        self._step = model.step
        self._inert = model.inert
        self._initial = model.initial
        self._spans = [s for s in spans if s.return_ps is not None or not model.inert(s.call)]
        self._budget = Budget(budget) if isinstance(budget, int) else budget
        self._steps = 0
        self._pause: float = 0
        self.bytes = 0
        """What its configurations take, roughly."""
        self._lacking = ""
        self._tried = False
        """Whether it has looked in depth."""
        self._walk = self._walked()
        self._open: dict[int, tuple[int, Call]] = {}  # by bit: operations under way that change something
        self._quiet: dict[int, tuple[int, Call]] = {}  # by bit: operations under way that change nothing
        self._unknown: list[_Unknown] = []
        self._latest: dict[Hashable, int] = {}  # the bit of the last unknown operation that asks for the same
        self._free: list[int] = []
        self._slots = 0
        self._states: tuple[State, ...] = ()

    def run(self) -> SearchAnswer:
        """Walk the history to its end, or to that of the budget."""
        answer = None
        while answer is None:
            answer = self.advance(float("inf"))
        return answer

    def advance(self, steps: float) -> SearchAnswer | None:
        """Walk on for about so many steps; None if there is more to do."""
        self._pause = self._steps + steps
        try:
            next(self._walk)
        except StopIteration as end:
            answer: SearchAnswer = end.value
            return answer
        return None

    def give_up(self, lacking: str) -> SearchAnswer:
        """End a search that was paused, for want of what ``lacking`` says."""
        self._lacking = lacking
        answer = self.advance(0)
        if answer is None:
            raise AssertionError("a search that was told to give up went on")
        return answer

    def _walked(self) -> Generator[None, None, SearchAnswer]:
        events = self._events()
        returns = sum(kind == _RETURN for _, kind, _, _ in events)
        frontier: list[_Configuration] = [(self._initial, 0, 0, None)]
        bits: dict[int, int] = {}
        passed = 0
        for _, kind, _, span in events:
            if kind == _INVOKE:
                self._invoke(span, bits)
                continue
            began = self._steps
            try:
                after = yield from self._carry_on(frontier, bits[span.number], optional=kind == _EXPIRE)
            except _Spent as spent:
                order = _order(frontier[0][3])
                return SearchAnswer(Verdict.UNDECIDED, self._steps, order, span.number, passed, returns, (), str(spent))
            except _Found as found:
                return SearchAnswer(Verdict.HOLDS, self._steps, found.order, None, returns, returns)
            finally:
                self._budget.spent += self._steps - began
            if not after:
                order = _order(frontier[0][3])
                return SearchAnswer(Verdict.VIOLATED, self._steps, order, span.number, passed, returns, self._states)
            frontier = after
            if kind == _RETURN:
                passed += 1
                self._release(bits[span.number])
        return SearchAnswer(Verdict.HOLDS, self._steps, _order(frontier[0][3]), None, passed, returns)

    def _descend(self, limit: int, latest_first: bool) -> Generator[None, None, tuple[int, ...] | None]:
        """One legal order of all that returned, looked for in depth; None if there was none within ``DEEP`` steps.

        ``limit`` is how many steps the whole search may have taken at its end. Of operations that may be next, those
        that were invoked last are tried first, or last: which is better depends on the history.
        """
        rows = sorted(self._spans, key=lambda span: span.invoke_ps)
        if any(span.return_ps is None and span.by_ps < NEVER_PS for span in rows):
            return None
        ends = [NEVER_PS if span.return_ps is None else span.return_ps for span in rows]
        goal = sum(1 << i for i, span in enumerate(rows) if span.return_ps is not None)
        limit = min(self._steps + DEEP, limit)
        met = {(0, self._initial)}
        stack: list[tuple[int, State, _Link]] = [(0, self._initial, None)]
        while stack and self._steps < limit:
            done, state, last = stack.pop()
            if done & goal == goal:
                return _order(last)
            if self._steps >= self._pause:
                yield
                if self._lacking:
                    return None
            first, after_it = NEVER_PS, []
            for i in range((~done & (done + 1)).bit_length() - 1, len(rows)):
                span = rows[i]
                if span.invoke_ps > first:
                    break
                if done >> i & 1:
                    continue
                first = min(first, ends[i])
                self._steps += 1
                after = self._step(state, span.call)
                key = done | 1 << i, after
                if after is ILLEGAL or key in met:
                    continue
                met.add(key)
                after_it.append((*key, (span.number, last)))
                if span.return_ps is not None and self._inert(span.call):
                    after_it = after_it[-1:]  # there is nothing to branch on, as above
                    break
            stack += after_it if latest_first else reversed(after_it)
        return None

    def _events(self) -> list[tuple[int, int, int, Interval]]:
        rows: list[tuple[int, int, int, Interval]] = []
        for turn, span in enumerate(self._spans):
            rows.append((span.invoke_ps, _INVOKE, turn, span))
            if span.return_ps is not None:
                rows.append((span.return_ps, _RETURN, turn, span))
            elif span.by_ps < NEVER_PS:
                rows.append((span.by_ps, _EXPIRE, turn, span))
        return sorted(rows, key=lambda row: row[:3])

    def _invoke(self, span: Interval, bits: dict[int, int]) -> None:
        bit = bits[span.number] = 1 << (self._free.pop() if self._free else self._slots)
        if bit == 1 << self._slots:
            self._slots += 1
        if span.return_ps is not None:
            (self._quiet if self._inert(span.call) else self._open)[bit] = (span.number, span.call)
            return
        same = (span.call.f, span.call.argument, span.by_ps)
        self._unknown.append(_Unknown(span.number, bit, self._latest.get(same, 0), span.call))
        self._latest[same] = bit

    def _release(self, bit: int) -> None:
        self._open.pop(bit, None)
        self._quiet.pop(bit, None)
        self._free.append(bit.bit_length() - 1)

    def _carry_on(
        self, frontier: Sequence[_Configuration], wanted: int, optional: bool
    ) -> Generator[None, None, list[_Configuration]]:
        """All configurations in which the operation ``wanted`` has taken effect, without it.

        If it is ``optional`` (its deadline has come, and it is an unknown one), also those in which it never does.
        """
        reached, met = _Frontier(), _Frontier()
        each = 300 + _size(frontier[0][0])
        limit = self._budget.steps - self._budget.spent + self._steps
        waiting: list[tuple[int, int, _Configuration]] = []  # by how many unknown operations were used
        turn = 0
        for start in frontier:
            one = self._settled(*start)
            state, done, used, last = one
            if (done | used) & wanted:
                reached.add((state, done & ~wanted, used & ~wanted, last))
                continue
            if optional:
                reached.add(one)
            if met.add(one):
                turn += 1
                waiting.append((used.bit_count(), turn, one))
        heapq.heapify(waiting)  # those that used few first: they may make others needless
        while waiting:
            one = heapq.heappop(waiting)[2]
            if not met.keeps(one):
                continue
            self.bytes = each * (len(met) + len(reached))
            if self._steps > HARD and not self._tried:
                self._tried = True
                for latest_first in (True, False):
                    if (order := (yield from self._descend(limit, latest_first))) is not None:
                        raise _Found(order)
            if self._steps > limit:
                raise _Spent("steps")
            if self.bytes > self._budget.bytes:
                raise _Spent("memory")
            if self._steps >= self._pause:
                yield
                if self._lacking:
                    raise _Spent(self._lacking)
            for after in self._next(one):
                state, done, used, last = after
                if (done | used) & wanted:
                    reached.add((state, done & ~wanted, used & ~wanted, last))
                elif met.add(after):
                    turn += 1
                    heapq.heappush(waiting, (used.bit_count(), turn, after))
        if optional:
            others = (other for other in self._unknown if other.bit != wanted)
            self._unknown = [other._replace(before=0) if other.before == wanted else other for other in others]
        found = reached.all()
        if not found:
            self._states = met.states()
        return found

    def _next(self, one: _Configuration) -> list[_Configuration]:
        """The configurations after one more operation that changes something."""
        state, done, used, last = one
        step, settled, found = self._step, self._settled, []
        for bit, (number, call) in self._open.items():
            if not done & bit:
                self._steps += 1
                after = step(state, call)
                if after is not ILLEGAL:
                    found.append(settled(after, done | bit, used, (number, last)))
        for number, bit, before, call in self._unknown:
            if not used & bit and (used & before or not before):
                self._steps += 1
                after = step(state, call)
                if after is not ILLEGAL and after != state:
                    found.append(settled(after, done, used | bit, (number, last)))
        return found

    def _settled(self, state: State, done: int, used: int, last: _Link) -> _Configuration:
        """The configuration after all operations under way that change nothing and fit have taken effect."""
        for bit, (number, call) in self._quiet.items():
            if not done & bit:
                self._steps += 1
                if self._step(state, call) is not ILLEGAL:
                    done |= bit
                    last = (number, last)
        return state, done, used, last


def search(model: Model, spans: Iterable[Interval], budget: int | Budget = BUDGET) -> SearchAnswer:
    """Whether ``spans``, the operations of one object, have an order that ``model`` allows."""
    return Search(model, spans, budget).run()


def _size(state: State) -> int:
    """About how many bytes a state takes."""
    inside = state if isinstance(state, tuple | frozenset) else ()
    return sys.getsizeof(state) + sum(sys.getsizeof(item) for item in inside)


def _order(last: _Link) -> tuple[int, ...]:
    numbers = []
    while last is not None:
        number, last = last
        numbers.append(number)
    return tuple(reversed(numbers))


__all__ = ["BUDGET", "BUDGET_BYTES", "UNKNOWN", "Budget", "Interval", "Search", "SearchAnswer", "search"]
