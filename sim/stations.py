"""Stations: hops that answer by arithmetic "you arrive at t and need s: you leave at u", without an event.

The arithmetic is right only if a station is asked in order of arrival; each one refuses (ValueError) to be asked
about an earlier instant than before. Equal instants are served in the order of the calls, so the caller decides
ties. Departures from a :class:`Fifo`, a :class:`Pipe` and a :class:`Bounded` keep the order of arrival, so the next
station may be asked at once. Departures from a :class:`MultiServer` can overtake: an event or an in-order gate
has to follow it.

All times are integers of picoseconds. ``served`` and ``busy_ps`` count for reports: utilisation over a run of
``T`` is ``busy_ps / T`` (by the number of servers, or of places, where there are several).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapreplace
from itertools import accumulate
from math import gcd

from .units import PS_PER_S

FORGET = 1024
"""Past releases of credits are forgotten when there are more than so many of them."""


def _out_of_order(arrive_ps: int, last_ps: int) -> ValueError:
    return ValueError(f"a station must be asked in order of arrival: {arrive_ps} ps after {last_ps} ps")


class Fifo:
    """One server, first come first served."""

    __slots__ = ("_last_ps", "busy_ps", "free_ps", "served")

    def __init__(self) -> None:
        self.free_ps = 0
        """When the server has done all that it was asked for so far."""
        self.busy_ps = 0
        self.served = 0
        self._last_ps = 0

    def serve(self, arrive_ps: int, service_ps: int) -> int:
        """When a customer that arrives now and needs ``service_ps`` leaves."""
        if arrive_ps < self._last_ps:
            raise _out_of_order(arrive_ps, self._last_ps)
        self._last_ps = arrive_ps
        free_ps = self.free_ps
        depart_ps = self.free_ps = (arrive_ps if arrive_ps > free_ps else free_ps) + service_ps
        self.busy_ps += service_ps
        self.served += 1
        return depart_ps


class MultiServer:
    """``servers`` equal servers behind one queue: the head takes the first that is free."""

    __slots__ = ("_free", "_last_ps", "busy_ps", "served", "servers")

    def __init__(self, servers: int) -> None:
        if servers < 1:
            raise ValueError(f"a station has at least one server, not {servers}")
        self.servers = servers
        self.busy_ps = 0
        self.served = 0
        self._free = [0] * servers  # a heap of the instants at which the servers are free
        self._last_ps = 0

    def serve(self, arrive_ps: int, service_ps: int) -> int:
        """When a customer that arrives now and needs ``service_ps`` leaves; later ones may leave before it."""
        if arrive_ps < self._last_ps:
            raise _out_of_order(arrive_ps, self._last_ps)
        self._last_ps = arrive_ps
        free_ps = self._free[0]
        depart_ps = (arrive_ps if arrive_ps > free_ps else free_ps) + service_ps
        heapreplace(self._free, depart_ps)
        self.busy_ps += service_ps
        self.served += 1
        return depart_ps


class Pipe:
    """A wire or a bus of ``bits_per_s``: one message after the other, each as long as its bytes take.

    Exact: the instant at which the pipe is free is a fraction, whose part below one picosecond is carried to the
    next message of a busy period, so that n messages take as long as one of their total size. The times that
    come out are that fraction rounded up.
    """

    __slots__ = ("_free_ps", "_last_ps", "_rest", "_scale", "_step", "bits_per_s", "busy_ps", "served")

    def __init__(self, bits_per_s: int) -> None:
        if bits_per_s < 1:
            raise ValueError(f"a pipe carries at least one bit per second, not {bits_per_s}")
        common = gcd(8 * PS_PER_S, bits_per_s)
        self.bits_per_s = bits_per_s
        self.busy_ps = 0
        self.served = 0
        self._step = 8 * PS_PER_S // common  # one byte takes _step / _scale picoseconds
        self._scale = bits_per_s // common
        self._free_ps = 0  # free at _free_ps + _rest / _scale
        self._rest = 0
        self._last_ps = 0

    @property
    def free_ps(self) -> int:
        """When the pipe has carried all that it was given so far."""
        return self._free_ps + 1 if self._rest else self._free_ps

    def transfer_ps(self, n_bytes: int) -> int:
        """How long ``n_bytes`` take on an idle pipe."""
        return -(-n_bytes * self._step // self._scale)

    def busy_until(self, at_ps: int) -> None:
        """It carries nothing until an instant that is not before it is free: what comes goes behind that."""
        self._free_ps, self._rest = at_ps, 0

    def send(self, arrive_ps: int, n_bytes: int) -> tuple[int, int]:
        """When the first bit of a message that arrives now goes in, and when its last bit is out."""
        if arrive_ps < self._last_ps:
            raise _out_of_order(arrive_ps, self._last_ps)
        self._last_ps = arrive_ps
        start_ps = self._free_ps
        if self._scale == 1:  # a byte takes a whole number of picoseconds: nothing is ever left over
            start_ps = arrive_ps if arrive_ps > start_ps else start_ps
            end_ps = self._free_ps = start_ps + n_bytes * self._step
            self.busy_ps += end_ps - start_ps
            self.served += 1
            return start_ps, end_ps
        rest = self._rest
        if arrive_ps > start_ps:
            start_ps = arrive_ps
            rest = 0
        took_ps, new_rest = divmod(rest + n_bytes * self._step, self._scale)
        end_ps = self._free_ps = start_ps + took_ps
        self._rest = new_rest
        # Rounded up where they start and end, so that a busy period adds up.
        if rest:
            start_ps += 1
        if new_rest:
            end_ps += 1
        self.busy_ps += end_ps - start_ps
        self.served += 1
        return start_ps, end_ps


class Bounded:
    """A buffer of ``capacity`` places, first in first out, that holds back who does not fit.

    A customer is admitted at the later of its arrival and the departure of the one ``capacity`` before it. For each
    admission :meth:`departs` has to be called, in the same order, when the place is given up; at most ``capacity``
    departures may be outstanding (ValueError), since without them the next admission is not known.
    """

    __slots__ = ("_admitted", "_departed", "_last_ps", "_left_ps", "_places", "blocked_ps", "busy_ps", "capacity")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a buffer has at least one place, not {capacity}")
        self.capacity = capacity
        self.blocked_ps = 0
        """How long customers were held back, summed."""
        self.busy_ps = 0
        """The sum of the times for which departed customers took their places, in picoseconds."""
        self._places = [0] * capacity  # a ring: admission of who is in, departure of who was
        self._admitted = 0
        self._departed = 0
        self._last_ps = 0
        self._left_ps = 0

    @property
    def served(self) -> int:
        """How many customers have departed so far."""
        return self._departed

    def admit(self, arrive_ps: int) -> int:
        """When a customer that arrives now gets a place."""
        if arrive_ps < self._last_ps:
            raise _out_of_order(arrive_ps, self._last_ps)
        number = self._admitted
        if number - self._departed >= self.capacity:
            raise ValueError(f"the departure of the {self.capacity}th customer before this one is not known yet")
        self._last_ps = arrive_ps
        place = number % self.capacity
        free_ps = self._places[place]
        if free_ps > arrive_ps:
            self.blocked_ps += free_ps - arrive_ps
            arrive_ps = free_ps
        self._places[place] = arrive_ps
        self._admitted = number + 1
        return arrive_ps

    def departs(self, depart_ps: int) -> None:
        """The customer admitted longest ago gives up its place at ``depart_ps``."""
        if self._departed == self._admitted:
            raise ValueError("nobody is in the buffer")
        place = self._departed % self.capacity
        if depart_ps < self._left_ps or depart_ps < self._places[place]:
            raise ValueError(f"a departure at {depart_ps} ps is before its admission or the departure before it")
        self._left_ps = depart_ps
        self.busy_ps += depart_ps - self._places[place]
        self._places[place] = depart_ps
        self._departed += 1


class Credits:
    """``total`` credits that are taken, held and given back: flow control of a receiver's buffer.

    Two cumulative counters; the instants at which credits come back are known in order, often ahead of time. A
    request that cannot be answered yet gets None and has taken nothing: the flow parks, and asks again (with the
    same arrival) after the :meth:`give` that makes the answer known. No other customer may take in between, or the
    order of arrival is broken.
    """

    __slots__ = ("_given", "_instants", "_last_ps", "_next", "_released_ps", "_sums", "_taken", "blocked_ps", "total")

    def __init__(self, total: int) -> None:
        if total < 1:
            raise ValueError(f"there is at least one credit, not {total}")
        self.total = total
        self.blocked_ps = 0
        """How long requests waited for credits, summed."""
        self._taken = 0
        self._given = 0
        self._instants: list[int] = []  # of releases, rising
        self._sums: list[int] = []  # what has been given back by then in all
        self._next = 0  # the first of them that somebody may still ask about
        self._last_ps = 0
        self._released_ps = 0

    @property
    def served(self) -> int:
        """How many credits were taken so far."""
        return self._taken

    @property
    def unclaimed(self) -> int:
        """Free credits, once all the releases known so far have happened."""
        return self.total - self._taken + self._given

    def take(self, arrive_ps: int, n: int) -> int | None:
        """When ``n`` credits are there for a request that arrives now; None: not known yet, nothing taken.

        ValueError where ``n`` exceeds the total, since it would wait for ever.
        """
        if arrive_ps < self._last_ps:
            raise _out_of_order(arrive_ps, self._last_ps)
        if n > self.total:
            raise ValueError(f"{n} credits will never be there: the total is {self.total}")
        needed = self._taken + n - self.total
        if needed > self._given:
            return None
        self._last_ps = arrive_ps
        self._taken += n
        if needed <= 0:
            return arrive_ps
        turn = self._next = bisect_left(self._sums, needed, self._next)
        free_ps = self._instants[turn]
        if turn > FORGET:
            del self._instants[:turn], self._sums[:turn]
            self._next = 0
        if free_ps <= arrive_ps:
            return arrive_ps
        self.blocked_ps += free_ps - arrive_ps
        return free_ps

    def give(self, at_ps: int, n: int) -> None:
        """``n`` credits come back at ``at_ps``, in order of time; ValueError for more than were taken."""
        if at_ps < self._released_ps:
            raise ValueError(f"credits come back in order of time: {at_ps} ps after {self._released_ps} ps")
        if self._given + n > self._taken:
            raise ValueError(f"{n} credits come back, but only {self._taken - self._given} are held")
        self._released_ps = at_ps
        given = self._given = self._given + n
        self._instants.append(at_ps)
        self._sums.append(given)

    def give_all(self, releases: Sequence[tuple[int, int, int]]) -> None:
        """:meth:`give` of each (credits, anything, instant), which are in order of time among themselves."""
        if releases[0][2] < self._released_ps:
            raise ValueError(f"credits come back in order of time: {releases[0][2]} ps after {self._released_ps} ps")
        credits, _, instants = zip(*releases, strict=True)
        sums = [*accumulate(credits, initial=self._given)]
        if sums[-1] > self._taken:
            raise ValueError(f"{sum(credits)} credits come back, but only {self._taken - self._given} are held")
        self._instants += instants
        self._sums += sums[1:]
        self._given, self._released_ps = sums[-1], instants[-1]
