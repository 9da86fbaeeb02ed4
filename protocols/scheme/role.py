"""A role of a scheme: its code, on each machine that plays it."""

from __future__ import annotations

import re
from collections.abc import Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...sim.errors import nearest
from ..request import Request

if TYPE_CHECKING:
    from .scheme import Scheme

Code = Generator[Any, Any, Any]
"""A role's code: a generator over the CPU layer (``models.cpu.thread``) and the verbs layer (``models.verbs.objects``).
"""


class Role:
    """A part of a scheme; an instance of it is one machine that plays it.

    A subclass stands in its scheme (or beside it, and is named there: ``Server = KvServer``), and says by keywords what
    its machines need: ``class Mirror(Role, memory=("pm",), passive=True)``. What a fault ends, and recovery begins
    anew, is one instance: ``scheme.roles["server"][0]``.
    """

    cores: ClassVar[int] = 1
    """How many cores its code has."""
    memory: ClassVar[tuple[str, ...]] = ("dram",)
    """Which memory devices its machines have."""
    software: ClassVar[tuple[str, ...]] = ()
    """Which costs of software its code asks its platform for (``Thread.software``)."""
    many: ClassVar[bool] = False
    """Whether the scenario says how many machines play it; else one does."""
    passive: ClassVar[bool] = False
    """Whether it runs no code: others reach its memory through its adapter."""
    invokes: ClassVar[bool] = False
    """Whether processes on its machines invoke the scheme's operations; of these there may be many."""
    served: ClassVar[bool] = False
    """Whether the scenario may say how many threads serve its requests, each on a core beyond the first of its own."""
    per_client: ClassVar[bool] = False
    """Whether each machine has a core more for each client process, with :meth:`client_thread` on it."""
    background: ClassVar[int] = 0
    """How many further cores each machine has, for threads that run by themselves: :meth:`background_thread`."""
    core_type: ClassVar[str | None] = None
    """Which of a platform's kinds of cores its machines have, unless the scenario says; None: the platform's own."""
    counted_by: ClassVar[str | None] = None
    """The option of the scheme that says how many machines play it."""
    at_least_by: ClassVar[str | None] = None
    """The option that says how many machines play it at least, and if a scenario says nothing."""
    hosts: ClassVar[bool] = False
    """Whether the machine of its processes also holds, in memory that lasts, all that they read: the first one alone
    plays it. After a power failure it comes back as a server does, and a fresh client is another process there.
    """

    @override
    def __init_subclass__(cls, **needs: Any) -> None:
        """``needs`` are any of the attributes above; what is not given is as in the class derived from."""
        super().__init_subclass__()
        if needs.get("invokes"):
            needs.setdefault("many", True)
        for name, value in needs.items():
            if name not in _NEEDS:
                close = nearest(name, _NEEDS)
                raise TypeError(f"{cls.__qualname__}: {name} is none of {', '.join(_NEEDS)}; did you mean {close}?")
            setattr(cls, name, value)

    def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
        """``node`` is the machine, ``number`` its index. What outlives a process is allocated here, in no time."""
        self.scheme = scheme
        self.system = scheme.system
        self.sizes = scheme.sizes
        self.node = node
        self.number = number

    def begin(self) -> None:
        """A new process on this machine: all that its code keeps in memory of its own is as at the first start.

        Called when all roles' instances are there, and again when the process before has died; what is volatile is made
        here and nowhere else. A passive role has its memory registered here, at power-on. Sessions of before are dead;
        an operation of a living client finds that out, and connects again or raises :class:`OutcomeUnknown`.
        """

    def start(self) -> None:
        """Start the code that runs by itself: threads that serve requests, background threads."""

    def at_rest(self) -> bool:
        """Whether it has nothing left to do of what clients have asked for; no simulated time passes. An explored run,
        which ends when all operations have returned, goes on until every role's machines are at rest.
        """
        return True

    def count(self, name: str, number: int = 1) -> None:
        """Count ``number`` more of what is called ``name`` on this machine, outside of any operation.

        What belongs to an operation is counted on its thread (:meth:`Thread.count`). Kept where the run is metered.
        """
        if self.system.meter is not None:
            self.system.meter.count(self.node.name, None, name, number)

    def gauge(self, name: str, value: float) -> None:
        """Something of this machine has this value from now on (free chunks, length of a queue); kept as counts are."""
        if self.system.meter is not None:
            self.system.meter.gauge(self.node.name, name, value)

    # cores and threads -----------------------------------------------------------------------------------
    @classmethod
    def cores_for(cls, clients: int, processes: int = 1, threads: int = 1) -> int:
        """How many cores a machine has: there are ``clients`` processes in all, ``processes`` on a client's machine;
        ``threads`` serve requests.
        """
        own = max(cls.cores, processes) if cls.invokes else cls.cores + threads - 1
        return own + (clients if cls.per_client else 0) + cls.background

    def background_thread(self, number: int, name: str) -> Thread:
        """A thread on one of the cores that are there for what runs by itself, numbered from 0."""
        return self.node.thread(self.node.spec.cores - self.background + number, name)

    def client_thread(self, number: int, name: str) -> Thread:
        """A thread for a client's requests; later clients than there are cores share them in turn."""
        cores = self.node.spec.cores - self.background
        return self.node.thread(cores - 1 - number % self.sizes.clients, name)

    # of a role that invokes -----------------------------------------------------------------------------
    def connect(self, thread: Thread) -> Any:
        """A process's session, on ``thread`` of this machine; made before the run, like those of a warm system."""
        raise NotImplementedError(f"{type(self).__qualname__} invokes operations, and has no connect()")

    def perform(self, session: Any, request: Request) -> Code:
        """Perform a request; returns what a read found (bytes or None); of a transaction and of a batch a tuple with
        that of each step, which for the model ``accounts`` is (bytes, number) or None. What a model's operation returns
        else it returns as it is: a number, whether a comparison succeeded, the address of a block (None: no room), a
        list of the bytes of each item.

        Raises :class:`OperationFailed` if it certainly did not take effect, :class:`OutcomeUnknown` if nobody can say.
        """
        raise NotImplementedError(f"{type(self).__qualname__} invokes operations, and has no perform()")

    def take_over(self, session: Any) -> Code:
        """Finish the work of clients that died (``scheme.failures``), before the first session's first operation."""
        yield from ()

    def leave(self, session: Any) -> Code:
        """What a process does once it has performed its operations: disconnect, where others wait for its place."""
        yield from ()

    # after a failure of this machine, on the surviving bytes --------------------------------------------------
    def recovery_units(self) -> Iterable[Hashable]:
        """The pieces that recovery is made of, each recovered by :meth:`recover_unit` on its own."""
        return ()

    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        """The recovery units that a read of ``object`` depends on."""
        return ()

    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """Recover one unit; what it returns goes to :meth:`finish_recovery`."""
        raise NotImplementedError(f"{type(self).__qualname__} has recovery units, and no recover_unit()")

    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """What recovery does once all units are done (rebuild an allocator, truncate a log)."""
        yield from ()

    def recover(self, thread: Thread) -> Code:
        """The whole recovery, unit by unit; a role that overrides it is recovered as one whole."""
        results = []
        for unit in self.recovery_units():
            results.append((yield from self.recover_unit(thread, unit)))
        yield from self.finish_recovery(thread, results)

    @classmethod
    def opaque(cls) -> bool:
        """Whether it recovers in its own way, as one whole, and not unit by unit."""
        return cls.recover is not Role.recover

    @classmethod
    def comes_to_rest(cls) -> bool:
        """Whether it says when it is at rest."""
        return cls.at_rest is not Role.at_rest

    @classmethod
    def takes_over(cls) -> bool:
        """Whether a new client looks after what dead ones have left."""
        return cls.take_over is not Role.take_over

    @classmethod
    def recovers(cls) -> bool:
        """Whether a machine of it may fail and start again with recovery: it runs code, and invokes nothing."""
        return not (cls.passive or cls.invokes)


_NEEDS = tuple(Role.__annotations__)
"""What a role says by keywords: the attributes that :class:`Role` declares."""


def name_of_role(word: str) -> str:
    """What scenarios call the role that a scheme calls ``word``: ``DataNode`` is ``data-node``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", word).lower()
