"""What a scheme is: its source, claims and layout, and a class for each role that machines play; found without a list.

A scheme is one file in this folder with one subclass of :class:`Scheme` (most often through
:class:`~rpsim.protocols.parts.kv.KvScheme`) that names itself: ``class Saw(KvScheme, name="saw")``. The classes in it
that derive from :class:`Role` are its roles: the code of a client, of a server, of a mirror, its recovery included.
What clients ask of it (:mod:`.request`) is imported from here, too.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ..models.cpu import Thread
from ..models.primitives.language import Primitive
from ..models.system import Node, System
from ..sim.errors import nearest
from .failures import ALL, CLIENT, KINDS, LOST, POWER, PROCESS, Failing
from .guarantees import Claims
from .naming import Mode, Option, OptionValue
from .naming.names import parse_name
from .naming.options import value_of, with_presets
from .objects import FENCES, OPERATIONS, RUN, SYNCS
from .primitives import primitive
from .request import OperationFailed, OutcomeUnknown, PastOperation, Request, RequestStep

__all__ = (
    "Code", "Limits", "OperationFailed", "OutcomeUnknown", "PastOperation", "Request", "RequestStep", "Role", "Scheme",
    "Sizes", "name_of_role",
)  # fmt: skip

Code = Generator[Any, Any, Any]
"""A role's code: a generator over the CPU layer (``models.cpu.thread``) and the verbs layer (``models.verbs.objects``).
"""


class Limits(NamedTuple):
    """The largest value and the most client processes that a scheme has room for; None: as many as there are."""

    value_bytes: int | None = None
    clients: int | None = None
    source: str = ""
    """Why, with the place: ``a datagram of 4096 B (IBTA 9.8.3)``."""


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
ANY_PRIMITIVE = ""
"""The ``over`` of a scheme whose name has to say the primitive."""


class _OverPrimitive:
    """The attribute ``primitive`` of a scheme whose name says none: the one that ``over`` names, read from its file."""

    def __get__(self, scheme: object, kind: type[Scheme]) -> Primitive:
        if kind.over is None:
            raise AttributeError(f"{kind.__qualname__} is over no primitive")
        part = parse_name(f"scheme over {kind.over}").primitive
        assert part is not None
        return primitive(part.word, part.options)


class Scheme(ABC):
    """One scheme at work in one system; a new instance for every run, and for every recovery."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """Authors, venue and year, or the manual: what a stranger can find."""
    section: ClassVar[str]
    """Where in it: ``section 3, figure 1``."""
    role_types: ClassVar[Mapping[str, type[Role]]] = {}
    """The role classes that stand in the class, by name: ``DataNode`` is the role ``data-node``."""
    updates: ClassVar[frozenset[str]]
    """The operations that write; all others read."""
    removals: ClassVar[frozenset[str]] = frozenset()
    """The updates that remove an object: a read finds nothing then, until the next update that writes."""
    operations: ClassVar[tuple[str, ...]]
    inserts: ClassVar[str | None] = None
    """The operation that writes an object which was never there; None: it writes only what was loaded."""
    scans: ClassVar[bool] = False
    """Whether a request of several reads is a scan: of objects that follow each other, absent ones left out as None."""
    scans_by_reads: ClassVar[bool] = False
    """Whether a client that scans asks for one object after the other; each read is a request of its own."""
    one_writer: ClassVar[bool] = False
    """Whether a structure has one process that updates it: each queue or stack, or else all objects together."""
    batches: ClassVar[bool] = False
    """Whether a request may have several operations, on any objects, that are acknowledged together."""
    model: ClassVar[str] = "register"
    """The sequential model that its objects follow, one of ``objects.RUN``: by it runs are recorded and judged."""
    claims: ClassVar[Claims]
    options: ClassVar[Mapping[str, Option]] = {}
    """What may be chosen by ``name[option=choice]``, those of the classes derived from included."""
    chosen: ClassVar[Mapping[str, OptionValue]] = {}
    """The options that the name chooses."""
    is_part: ClassVar[bool] = False
    """Whether it is a part of systems that is measured by itself: lists, pages and matrices of all leave it out."""
    over: ClassVar[str | None] = None
    """The primitive that it goes over unless its name says another (``mirrored over no-flush``); None: over none."""
    primitive: ClassVar[Primitive] = _OverPrimitive()  # type: ignore[assignment]
    """The primitive that it goes over."""
    over_primitive: ClassVar[type[Scheme] | None] = None
    """What its name stands for where it says a primitive, of a scheme that alone is over none; None: no such thing."""
    on: ClassVar[type[Mode] | None] = None
    """The class of the modes that it goes on (``bst on rnvm-rcb``), of which its name says one; None: on none."""
    mode: ClassVar[type[Mode]]
    """The mode that it goes on."""
    loss_within: ClassVar[str | None] = None
    """The time of ``bounded_loss``, with its unit: a lost update had returned at most so long before the crash."""
    limits: ClassVar[Limits] = Limits()
    """What the scheme cannot do more of; a scenario beyond it is refused."""
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Which roles may suffer which failures: ``{"mirror": ("power", "lost"), "all": ("power",)}``. A role that is not
    named may suffer what any may (:func:`.failures.usual_kinds`)."""

    registry: ClassVar[dict[str, type[Scheme]]] = {}

    @override
    def __init_subclass__(cls, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name_of_role(word): value for word, value in vars(cls).items() if _is_role(value)}
        cls.role_types = {**cls.role_types, **own}
        cls.options = with_presets(
            {option: one for kind in reversed(cls.__mro__) for option, one in vars(kind).get("options", {}).items()}
        )
        if name is None:
            return
        cls._check_model(name)
        invoking = [role for role, kind in cls.role_types.items() if kind.invokes]
        if invoking != [CLIENT]:
            found = ", ".join(invoking) or "none"
            raise TypeError(f"{name}: the roles that invoke operations are {found}; expected one, the class Client")
        for role, kinds in cls.faults.items():
            if role not in (*cls.role_types, ALL):
                raise TypeError(f"{name}: faults of {role!r}, which is none of its roles: {', '.join(cls.role_types)}")
            possible = _may_suffer(None if role == ALL else cls.role_types[role])
            if not set(kinds) <= set(possible):
                raise TypeError(f"{name}: {role} may suffer {', '.join(kinds)}; expected some of {', '.join(possible)}")
        other = Scheme.registry.get(name)
        if other is not None and other.__qualname__ != cls.__qualname__:
            raise TypeError(f"two schemes are called {name!r}: {other.__module__} and {cls.__module__}")
        cls.name = name
        Scheme.registry[name] = cls

    def __init__(self, system: System, sizes: Sizes) -> None:
        """``system`` holds the nodes (``system.nodes["server"]`` is a list); ``sizes`` what has to fit."""
        self.system = system
        self.sizes = sizes
        self.roles: Mapping[str, Sequence[Any]] = {
            name: [kind(self, node, number) for number, node in enumerate(system.nodes[name])]
            for name, kind in self.role_types.items()
        }
        """An instance for each machine, by role and index."""
        self.failures: tuple[Failing, ...] = ()
        """What has failed, set before recovery begins: lost machines, those that are away or not recovered yet, and
        what failed last; of clients' processes the index counts processes.
        """
        for role in self.machines():
            role.begin()

    @classmethod
    def option(cls, name: str) -> Any:
        """The value of an option: the chosen one, that of the preset that ``as`` names, or its default.

        Raises KeyError for an undeclared one.
        """
        return value_of(name, cls.options, cls.chosen)

    @classmethod  # noqa: B027 (most schemes have nothing to add)
    def composed(cls) -> None:
        """Called for a class that a name with options, a mode or a primitive stands for: it may adapt what it says of
        itself, and raises InputError for parts that do not go together.
        """

    @classmethod
    def complete(cls) -> bool:
        """Whether its name is enough, or has to say a mode or a primitive as well."""
        return cls.over != ANY_PRIMITIVE and (cls.on is None or hasattr(cls, "mode"))

    @classmethod
    def missing(cls) -> list[str]:
        """What a scheme has to have and this one does not: attributes, methods, and methods of its clients."""
        said = ("title", "paper", "section", "operations", "updates", "claims")
        client = cls.role_types[CLIENT]
        return [
            *(name for name in said if not hasattr(cls, name)),
            *(f"{name}()" for name in sorted(cls.__abstractmethods__)),
            *(f"Client.{name}()" for name in ("connect", "perform") if getattr(client, name) is getattr(Role, name)),
        ]

    @classmethod
    def _check_model(cls, name: str) -> None:
        """TypeError if the operations are none of the model's."""
        if cls.model not in RUN:
            raise TypeError(f"{name}: model {cls.model!r}; expected one of {', '.join(RUN)}")
        known = OPERATIONS[cls.model]
        strange = [f for f in getattr(cls, "operations", ()) if f not in {*known, *SYNCS, *FENCES}]
        if strange:
            listed = ", ".join(known)
            raise TypeError(f"{name}: {strange[0]!r} is no operation of the model {cls.model}; expected {listed}")

    def machines(self) -> Iterator[Role]:
        """The instances of all roles, role by role."""
        for instances in self.roles.values():
            yield from instances

    def start(self, started: Collection[Role] = ()) -> None:
        """Start the code of every role that runs by itself, but for those that have been ``started``."""
        for role in self.machines():
            if role not in started:
                role.start()

    # after a failure ------------------------------------------------------------------------------------------
    def failed(self, role: str) -> list[Any]:
        """The instances of a role whose machine or process has failed; lost ones are among them."""
        places = {part.index for part in self.failures if part.role == role}
        return [one for one in self.roles[role] if one.number in places]

    def lost(self, role: str) -> list[Any]:
        """The instances of a role that never come back."""
        return [one for one in self.failed(role) if Failing(role, one.number, LOST) in self.failures]

    @classmethod
    def comes_back(cls, part: Failing) -> bool:
        """Whether power returns to a machine that failed so, with what its memory then holds: clients' machines are
        gone for good, but for one that hosts what is read (:attr:`Role.hosts`).
        """
        return part.kind == POWER and (not part.client or cls.role_types[part.role].hosts)

    def standing(self, role: str) -> list[Any]:
        """The instances of a role that have not failed."""
        failed = self.failed(role)
        return [one for one in self.roles[role] if one not in failed]

    def recovery(self) -> Iterable[Role]:
        """The instances that recover after :attr:`failures`, one after the other: each runs its :meth:`Role.recover`,
        and starts its code when the next one begins. By default those that have failed, come back, and run code. One
        that stands may be among them: where others live on it recovers beside the code that it runs.
        """
        for name, kind in self.role_types.items():
            if kind.recovers():
                lost = self.lost(name)
                yield from (one for one in self.failed(name) if one not in lost)

    @abstractmethod
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """Put the objects' initial values where they belong, durable, before time zero: it costs no simulated event."""

    def age(self, past: Sequence[PastOperation]) -> None:
        """Shape the state as these operations leave it, in this order, without simulated time; called after
        :meth:`load`. Only operations on objects that the run touches are among them. Every object keeps the value that
        was loaded.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no past")

    @classmethod
    def ages(cls) -> bool:
        """Whether a past shapes its state."""
        return cls.age is not Scheme.age

    @abstractmethod
    def probe(self, object: Hashable) -> Request:
        """The request by which a fresh client finds out what became of ``object``.

        One that takes something out (``dequeue``, ``pop``, ``alloc``) is repeated until nothing comes. Where the model
        is ``txn``, ``object`` is a tuple of objects, which are read in one transaction.
        """

    histories: Mapping[str, Sequence[Mapping[str, Any]]] = {}
    """Histories of its parts, which a run keeps in files of these names: rows as ``rpsim check`` reads them."""
    on_applied: Callable[[int], None] | None = None
    """Who records what :meth:`applied` says; a run sets it."""

    @property
    def promises(self) -> frozenset[str]:
        """The operations whose response promises what :meth:`applied` says later, if ever."""
        return frozenset()

    def applied(self, number: int) -> None:
        """Code says: what the request of that number was promised by its response is in effect now."""
        if self.on_applied is not None:
            self.on_applied(number)


def name_of_role(word: str) -> str:
    """What scenarios call the role that a scheme calls ``word``: ``DataNode`` is ``data-node``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", word).lower()


def _may_suffer(role: type[Role] | None) -> tuple[str, ...]:
    """The kinds of failure that a role can have at all; None stands for all machines together."""
    if role is None:
        return (POWER,)
    return tuple(kind for kind in KINDS if kind != PROCESS or not role.passive)


def _is_role(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Role)


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
    batch: int = 1
    """How many operations the largest request has."""
    own: int = 0
    """Each client process has so many objects in turn for itself alone (see :mod:`.objects`); 0: all belong to all."""
