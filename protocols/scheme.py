"""What a scheme is: roles, operations, layouts, the code of each role, recovery, claims; found without a list.

A scheme is one file in this folder with one subclass of :class:`Scheme` (most often through
:class:`~rpsim.protocols.parts.kv.KvScheme`) that names itself: ``class Saw(KvScheme, name="saw")``.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from ..models.cpu import Thread
from ..models.system import System
from ..sim.errors import InputError, unknown
from .guarantees import Claims

Code = Generator[Any, Any, Any]
"""A role's code: a generator over the CPU layer (``models.cpu.thread``) and the verbs layer (``models.verbs.objects``).
"""


@dataclass(frozen=True)
class Role:
    """A part that nodes play: how many cores its code has, which memory devices it needs.

    ``many`` roles have as many machines and processes as the scenario says; ``passive`` ones run no code; of ``served``
    ones the scenario may say how many threads serve their requests, each on a core beyond the first of its own.
    """

    cores: int = 1
    memory: tuple[str, ...] = ("dram",)
    many: bool = False
    passive: bool = False
    served: bool = False


@dataclass(frozen=True)
class Request:
    """An operation as a workload asks for it: ``f`` on ``object``, with the bytes that an update writes."""

    f: str
    object: Hashable
    value: bytes | None = None


class Scheme(ABC):
    """One scheme at work in one system; a new instance for every run, and for every recovery."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """Authors, venue and year, or the manual: what a stranger can find."""
    section: ClassVar[str]
    """Where in it: ``section 3, figure 1``."""
    model: ClassVar[str]
    """The sequential model that the oracle holds its history against (``kv``)."""
    roles: ClassVar[Mapping[str, Role]]
    updates: ClassVar[frozenset[str]]
    """The operations that write; all others read."""
    removals: ClassVar[frozenset[str]] = frozenset()
    """The updates that remove an object: a read finds nothing then, until the next update that writes."""
    operations: ClassVar[tuple[str, ...]]
    claims: ClassVar[Claims]
    recovery_role: ClassVar[str] = "server"
    """The role whose first node runs recovery."""

    registry: ClassVar[dict[str, type[Scheme]]] = {}

    @override
    def __init_subclass__(cls, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name is None:
            return
        other = Scheme.registry.get(name)
        if other is not None and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"two schemes are called {name!r}: {other.__module__} and {cls.__module__}")
        cls.name = name
        Scheme.registry[name] = cls

    def __init__(self, system: System, sizes: Sizes) -> None:
        """``system`` holds the nodes (``system.nodes["server"]`` is a list); ``sizes`` what has to fit."""
        self.system = system
        self.sizes = sizes

    # before the run: costs no simulated event ---------------------------------------------------------
    @abstractmethod
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """Put the objects' initial values where they belong, durable, before time zero."""

    # the run -------------------------------------------------------------------------------------------
    @abstractmethod
    def start(self) -> None:
        """Start the code of every role that runs by itself (server threads, background threads)."""

    @abstractmethod
    def connect(self, thread: Thread) -> Any:
        """A client process's session, on ``thread``; made before the run, like the connections of a warm system."""

    @abstractmethod
    def perform(self, session: Any, request: Request) -> Code:
        """Perform one operation; returns what a read found (bytes or None).

        Raises :class:`OperationFailed` if it certainly did not take effect, :class:`OutcomeUnknown` if nobody can say.
        """

    # after a fault ---------------------------------------------------------------------------------------
    def begin(self) -> None:
        """A new process of the recovery role: what its code keeps in memory of its own is as at the first start.

        Called when the one before has died. A scheme that keeps anything volatile makes it here, and nowhere else.
        Sessions of before are dead; an operation of a living client finds that out, and connects again or raises
        :class:`OutcomeUnknown`. Raises NotImplementedError where a scheme does not say how its process restarts.
        """
        raise NotImplementedError(f"{self.name} does not say how its {self.recovery_role} starts again")

    @classmethod
    def restarts(cls) -> bool:
        """Whether it says how a process starts again; a scenario may not let the process die of one that does not."""
        return cls.begin is not Scheme.begin

    @abstractmethod
    def recovery_units(self) -> Iterable[Hashable]:
        """The pieces that recovery is made of, each recovered by :meth:`recover_unit` on its own."""

    @abstractmethod
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        """The recovery units that a read of ``object`` depends on."""

    @abstractmethod
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """Recover one unit on the surviving bytes; what it returns goes to :meth:`finish_recovery`."""

    @abstractmethod
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """What recovery does once all units are done (rebuild an allocator, truncate a log)."""

    def recover(self, thread: Thread) -> Code:
        """The whole recovery, unit by unit."""
        results = []
        for unit in self.recovery_units():
            results.append((yield from self.recover_unit(thread, unit)))
        yield from self.finish_recovery(thread, results)

    @abstractmethod
    def probe(self, object: Hashable) -> Request:
        """The read by which a fresh client finds out what became of ``object``."""


@dataclass(frozen=True)
class Sizes:
    """What a system is formatted for: bytes of a value, objects, updates of the run, client processes."""

    value_bytes: int
    objects: Sequence[Hashable]
    """By number; there may be too many of them to look at each."""
    updates: int
    clients: int
    threads: int = 1
    """How many threads serve the requests of a role that is ``served``."""


class OperationFailed(Exception):
    """The operation certainly did not take effect (Jepsen's ``fail``)."""


class OutcomeUnknown(Exception):
    """The operation may have taken effect, may do so later, or never (Jepsen's ``info``)."""


def schemes() -> dict[str, type[Scheme]]:
    """Every scheme by name: importing the modules of this folder and of its packages is what registers them."""
    package = importlib.import_module(__package__ or "rpsim.protocols")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(Scheme.registry.items()))


def scheme(name: str) -> type[Scheme]:
    """The scheme called ``name``, or a shape over a primitive (``line over read-after-write``).

    Raises InputError with the nearest known name.
    """
    known = schemes()
    if " over " in name:
        from .shapes import shaped  # noqa: PLC0415  # which is made of schemes

        return shaped(name)
    if name not in known:
        raise InputError(unknown(name, known, "a scheme: {}", field="scheme"))
    return known[name]
