"""A scheme at work: its source, claims and layout, its roles by name, and what follows from a failure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...models.primitives.language import Primitive
from ...models.system import System
from ..failures import ALL, CLIENT, KINDS, LOST, POWER, PROCESS, Failing
from ..guarantees import Claims
from ..naming import Mode, Option, OptionValue
from ..naming.names import parse_name
from ..naming.options import value_of, with_presets
from ..objects import FENCES, OPERATIONS, RUN, SYNCS
from ..primitives import primitive
from ..request import PastOperation, Request
from .role import Role, name_of_role
from .sizes import Limits, Sizes

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
        own = {
            name_of_role(word): value
            for word, value in vars(cls).items()
            if isinstance(value, type) and issubclass(value, Role)
        }
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
        """What has failed, set before recovery begins: lost machines, those that are away or not recovered yet, clients
        that are gone, and what failed last; of clients' processes the index counts processes.
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
        """The instances of a role that have failed, or whose process has; of clients the machines without power."""
        parts = [part for part in self.failures if part.role == role]
        places = {part.index for part in parts if not (part.client and part.kind == PROCESS)}
        return [one for one in self.roles[role] if one.number in places]

    def lost(self, role: str) -> list[Any]:
        """The instances of a role that never come back."""
        return [one for one in self.failed(role) if Failing(role, one.number, LOST) in self.failures]

    def is_gone(self, role: Role) -> bool:
        """Whether a machine never comes back."""
        return any(part.kind == LOST and part.place == role.node.name for part in self.failures)

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


def _may_suffer(role: type[Role] | None) -> tuple[str, ...]:
    """The kinds of failure that a role can have at all; None stands for all machines together."""
    if role is None:
        return (POWER,)
    return tuple(kind for kind in KINDS if kind != PROCESS or not role.passive)
