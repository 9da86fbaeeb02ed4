"""Whether a process of a machine accepts connections, and the wait for one that does."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...models.cpu import Signal, Thread
from ...models.system import Node


class Listening:
    """Whether a process of a machine accepts connections."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._listening = False

    def listen(self) -> None:
        """From now on clients may connect; those that wait for a process of this node to listen do."""
        self._listening = True
        self.node.tell_who_waits()

    @property
    def listening(self) -> bool:
        """Whether a connection would be accepted."""
        return self._listening and not self.node.off

    def until_listening(self, thread: Thread) -> Generator[Any, Any, Any]:
        """Wait, as a client whose connection broke, until a connection would be accepted: by this process, or by the
        successor that listens first if this one dies before it does, or has lost its power. Where a machine has several
        listeners any of them ends it, and so does the loss of the machine: look again.
        """
        if not self.listening:
            signal = Signal(thread.clock)
            self.node.awaited_by.append(signal)
            yield from thread.wait(signal)
