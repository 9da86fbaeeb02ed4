"""In which order the entries of executed calls are removed: behind every earlier one that writes an object of theirs.

A call of several requests may wait for one object while another of its objects goes on with newer calls. Recovery
executes an entry that is left as a whole: were a newer entry gone by then, the older one would undo it. Calls on one
object alone are executed one after the other, so nothing ever holds them up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from .connections import DurableConnection


@dataclass(eq=False)
class LoggedCall:
    """A call that is executed: its connection, its number there, how many of its requests are left, what it writes."""

    end: DurableConnection
    sequence: int
    left: int
    objects: frozenset[int]


class Removals:
    """The calls of all connections whose entries are there. Volatile, like all that a process keeps to itself."""

    def __init__(self) -> None:
        self._of: defaultdict[int, dict[LoggedCall, None]] = defaultdict(dict)
        """By object: the calls that write it, as they have come."""

    def taken(self, call: LoggedCall) -> None:
        """A call has come."""
        for number in call.objects:
            self._of[number][call] = None

    def may_go(self, call: LoggedCall) -> bool:
        """Whether a call is executed to its end, and no earlier entry is there that writes an object of its."""
        return not call.left and all(next(iter(self._of[number])) is call for number in call.objects)

    def gone(self, call: LoggedCall) -> list[LoggedCall]:
        """A call's entry has gone, durably; returns the calls that have waited for that alone."""
        for number in call.objects:
            self._of[number].pop(call, None)
        following = dict.fromkeys(next(iter(self._of[number])) for number in sorted(call.objects) if self._of[number])
        return [one for one in following if self.may_go(one)]
