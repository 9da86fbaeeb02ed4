"""What a structure is: an algorithm over a space, and the scheme that it makes with a mode (``bst on rnvm-rcb``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from ...sim.errors import InputError, Mistake
from ..guarantees import Claims
from ..naming import Mode
from ..objects import READS, TAKES_OUT, TRANSACTIONAL, owner
from ..scheme import ANY_PRIMITIVE, Request, Role, Scheme
from .loading import numbered
from .space import Image, Space

Code = Generator[Any, Any, Any]

CONTAINERS = ("queue", "stack")
"""The models of which each object is a structure of its own; of the others all objects are entries of one."""
_WORD = (1 << 64) - 1


_MIX = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def key_of(number: int) -> int:
    """The key of an object: a bijection of its number that spreads, never 0 (splitmix64's finalizer; Steele et al.,
    OOPSLA 2014, figure 17).
    """
    word = number + 1
    word = (word ^ word >> 30) * _MIX[0] & _WORD
    word = (word ^ word >> 27) * _MIX[1] & _WORD
    return word ^ word >> 31


def keys_of(numbers: Sequence[int]) -> list[int]:
    """:func:`key_of` of many numbers at once."""
    words = np.asarray(numbers, np.uint64) + np.uint64(1)
    words = (words ^ words >> np.uint64(30)) * np.uint64(_MIX[0])
    words = (words ^ words >> np.uint64(27)) * np.uint64(_MIX[1])
    keys: list[int] = (words ^ words >> np.uint64(31)).tolist()
    return keys


class StructureOperation(NamedTuple):
    """What an algorithm performs: an operation with its key, or a transaction with its steps (``r`` and ``w``)."""

    f: str
    key: int = 0
    value: bytes | None = None
    steps: tuple[StructureOperation, ...] = ()
    number: int | None = None
    """By how much a ``w`` of the model ``accounts`` changes the object's number."""


Operation = StructureOperation


class Algorithm(ABC):
    """A structure's operations. It keeps nothing from one operation to the next but what the space's bytes say.

    Recovery performs operations again by the same code, on a new instance.
    """

    shared_by: Literal["lock", "order"] = "lock"
    """How readers see no half of a change: by a sequence number that they look at before and behind, or by the order of
    the writes, of which the last one publishes the others (a root, a pointer).
    """
    page_bytes: ClassVar[int] = 64
    """The bytes of a page in a front-end's cache: most of its nodes fit into one."""
    root_bytes: ClassVar[int] = 8
    """The length of what stands at ``root``: head and tail of a queue, a tree's root, a table's number of buckets."""

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        self.space = space
        self.root = root
        self.value_bytes = value_bytes

    @abstractmethod
    def perform(self, operation: Operation) -> Code:
        """Perform one operation; returns what a read or a removal found (None: nothing), of a transaction a tuple."""

    def perform_all(self, operations: Sequence[Operation]) -> Code:
        """Perform operations of a batch, as if one after the other; returns the result of each."""
        results = []
        for operation in operations:
            results.append((yield from self.perform(operation)))
        return results

    def take(self, waiting: list[Operation], operation: Operation) -> Code:
        """Perform an operation that somebody waits for, behind those of its batch that wait; returns its result.

        It takes out of ``waiting`` what it performs, or annuls: here all.
        """
        operations = [*waiting, operation]
        waiting.clear()
        return (yield from self.perform_all(operations))[-1]

    @classmethod
    @abstractmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        """Fill ``image`` with a structure that holds ``entries``, inserted in their order; it may be empty."""


class StructureMode(Mode):
    """A way to reach a structure's memory: it brings the roles, and a space in each session of a client."""

    role_types: ClassVar[Mapping[str, type[Role]]] = {}
    faults: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    batches: ClassVar[bool] = False
    """Whether operations are collected and performed as vector operations."""
    over: ClassVar[str | None] = None
    """The primitive that its logs go by unless the name says another; None: by none."""

    @classmethod
    def roles(cls) -> Mapping[str, type[Role]]:
        """Its roles, by name, under the chosen options."""
        return cls.role_types

    @classmethod
    def may_suffer(cls) -> Mapping[str, tuple[str, ...]]:
        """Which roles may suffer which failures, under the chosen options."""
        return cls.faults

    @classmethod
    def check(cls, structure: type[Structure]) -> None:
        """Raise InputError where this structure does not go on this mode."""


class _OverItsPrimitive:
    """The attribute ``over_primitive`` of a structure: a class like it, over the primitive that its name will say."""

    def __get__(self, structure: object, kind: type[Structure]) -> type[Structure]:
        made = vars(kind).get("_with_primitive")
        if made is None:
            about = {"__module__": kind.__module__, "__doc__": kind.__doc__, "over": ANY_PRIMITIVE}
            made = kind._with_primitive = type(kind.__name__, (kind,), about)
        found: type[Structure] = made
        return found


class Structure(Scheme):
    """A scheme of two parts: the structure's algorithm, and the mode that its name says behind ``on``.

    Where the model is a container's each object is a structure; else there is one, with all objects as its keys.
    """

    on = StructureMode
    one_writer = True
    over_primitive = _OverItsPrimitive()
    claims: ClassVar[Claims] = {}
    """Its own, beside the mode's."""
    algorithm: ClassVar[type[Algorithm]]
    batched: ClassVar[bool] = True
    """Whether the paper gives it a batched mode."""
    _with_primitive: ClassVar[Any]

    class Client(Role, invokes=True):
        """The front-end; a mode brings its own."""

    @override
    @classmethod
    def composed(cls) -> None:
        if "mode" not in vars(cls):
            return
        mode = cls.mode
        assert issubclass(mode, StructureMode)
        if mode.batches and not cls.batched:
            words = f"a mode without batches: the paper has none for {cls.name.partition(' ')[0]}"
            raise InputError(Mistake(f"'{mode.name}' in '{cls.name}'", words, field="scheme"))
        mode.check(cls)
        cls.role_types, cls.faults = mode.roles(), mode.may_suffer()

    # objects are structures, or keys of one -------------------------------------------------------------------------
    def structures(self) -> int:
        """How many structures there are."""
        if self.model in CONTAINERS:
            return len(self.sizes.objects)
        return self.sizes.clients if self.sizes.own else 1

    def structure_of(self, object: Hashable) -> int:
        """The number of the structure that an object is, or lies in."""
        number = self.sizes.objects.index(object)
        if self.model in CONTAINERS:
            return number
        return owner(number, self.sizes.own, self.sizes.clients) if self.sizes.own else 0

    def key(self, number: int) -> int:
        """The key of the object of this number in its structure."""
        return 0 if self.model in CONTAINERS else key_of(number)

    def keys(self, numbers: Sequence[int]) -> list[int]:
        """The keys of many objects; only those of maps are many."""
        if type(self).key is not Structure.key:
            return [self.key(number) for number in numbers]
        return keys_of(numbers)

    def operation(self, request: Request) -> tuple[int, Operation]:
        """The number of the structure that a request is about, and the operation."""
        index = self.sizes.objects.index
        steps = tuple(
            Operation(step.f, self.key(index(step.object)), step.value, (), step.number) for step in request.steps
        )
        whole = Operation("txn", steps=steps) if self.model in TRANSACTIONAL else steps[0]
        return self.structure_of(request.steps[0].object), whole

    def words(self) -> tuple[str, ...]:
        """All that an operation or a step may be called."""
        return (*self.operations, *(("r", "w") if self.model in TRANSACTIONAL else ()))

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """Fill the structures; the mode's machines say where they are."""
        server, structures = self.roles["server"][0], self.structures()
        if self.model in CONTAINERS:
            for number in range(structures):
                server.load(number, {})
            return
        numbers, values = numbered(objects, self.sizes.objects)
        every = list(zip(self.keys(numbers), values, strict=True))
        if structures == 1:
            server.load(0, dict(every))
            return
        own, clients = self.sizes.own, self.sizes.clients
        apart: list[dict[int, bytes]] = [{} for _ in range(structures)]
        for object, (key, value) in zip(numbers, every, strict=True):
            apart[owner(object, own, clients)][key] = value
        for number, entries in enumerate(apart):
            server.load(number, entries)

    @override
    def probe(self, object: Hashable) -> Request:
        """The first operation that only reads, or takes out."""
        if self.model in TRANSACTIONAL:
            return Request.reading(object)
        return Request.of(next(f for f in self.operations if f in (*READS, *TAKES_OUT)), object)
