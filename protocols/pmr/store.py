"""A key-value store inside a server's process: what the stacks of the PMR paper execute requests on.

A role makes its store in its own ``__init__``: that allocates memory and creates files, which outlive a process. Then::

def begin(self): # a new process: nothing volatile is left self.store.begin()

def start(self): # background threads, if the store has any self.store.start(self.node.process(self.node.name),
[self.background_thread(0, "compaction")])

def recover(self, thread): # behind a failure: from the drive's bytes, if it has any there yield from
self.store.recover(thread)

``load`` is called once, before the run, for what is there at time zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node, Process

Code = Generator[Any, Any, Any]


class Encoded(Mapping[bytes, bytes]):
    """The values of objects by their names' bytes: keys of a store."""

    def __init__(self, objects: Mapping[Hashable, bytes]) -> None:
        self._objects = objects

    @override
    def __getitem__(self, key: bytes) -> bytes:
        return self._objects[key.decode()]

    @override
    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and key.decode() in self._objects

    @override
    def __iter__(self) -> Iterator[bytes]:
        return (key_of(name) for name in self._objects)

    @override
    def __len__(self) -> int:
        return len(self._objects)


def key_of(object: Hashable) -> bytes:
    """The key of an object: its name."""
    return str(object).encode()


class StoreSizes(NamedTuple):
    """What a store is made for."""

    key_bytes: int
    """No key is longer. A shorter one is as one with zeros behind it."""
    value_bytes: int
    """No value is longer."""
    updates: int
    """How many puts and removals there may be in a run, beside what is loaded."""
    threads: int = 1
    """How many threads call it."""


class Store(ABC):
    """Keys with values; any number of threads may call it at once, each operation takes effect at one instant."""

    memory: ClassVar[tuple[str, ...]] = ("dram",)
    """The memory devices that its machine needs."""
    software: ClassVar[tuple[str, ...]] = ()
    """The costs of software that its machine's platform has to state."""
    background: ClassVar[int] = 0
    """How many background threads it has: a role's ``background`` has to be that at least."""

    def __init__(self, node: Node, sizes: StoreSizes) -> None:
        self.node = node
        self.sizes = sizes

    def fits(self, key: bytes, value: bytes = b"") -> bool:
        """Whether there is room for a key and a value of these lengths; the others raise ValueError."""
        return len(key) <= self.sizes.key_bytes and len(value) <= self.sizes.value_bytes

    def padded(self, key: bytes, value: bytes = b"") -> bytes:
        """The key in its full length. Raises ValueError where key or value do not fit."""
        if not self.fits(key, value):
            room = f"{self.sizes.key_bytes} and {self.sizes.value_bytes} bytes"
            raise ValueError(f"a key of {len(key)} and a value of {len(value)} bytes: there is room for {room}")
        return key.ljust(self.sizes.key_bytes, b"\0")

    @abstractmethod
    def begin(self) -> None:
        """A new process: memory of its own is empty, files are as they are."""

    @abstractmethod
    def load(self, entries: Mapping[bytes, bytes]) -> None:
        """Hold these entries, before time zero and without an event, as after many puts. Their order is kept.

        ``entries`` may make a value when it is asked for: it is not asked for all of them.
        """

    def start(self, process: Process, threads: Sequence[Thread] = ()) -> None:  # noqa: B027 (most have none)
        """Start the background threads, as code of ``process``, on these :attr:`background` threads."""

    def recover(self, thread: Thread) -> Code:
        """Behind a failure and :meth:`begin`: come to what the files' bytes say; nothing, where there are none."""
        yield from ()

    @abstractmethod
    def put(self, thread: Thread, key: bytes, value: bytes) -> Code:
        """The key has this value when it returns."""

    @abstractmethod
    def get(self, thread: Thread, key: bytes) -> Code:
        """The key's value, None where it has none."""

    @abstractmethod
    def remove(self, thread: Thread, key: bytes) -> Code:
        """The key has no value when it returns; whether it had one need not be known."""

    def checkpoint(self, thread: Thread) -> Code:
        """All that has been put by now is durable when it returns, as far as the store can: then a log before it may be
        reclaimed. Returns whether that is so.
        """
        yield from ()
        return False
