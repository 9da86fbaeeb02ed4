"""What a client asks of a scheme: requests of one step or several, those before time zero, and how one may fail."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple


class RequestStep(NamedTuple):
    """One operation on one object, with the bytes that an update writes."""

    f: str
    object: Hashable
    value: bytes | None = None
    expected: bytes | None = None
    """Of a compare-and-swap: the value that the object has to hold; None where it has to be absent."""
    number: int | None = None
    """What is added, also to an account; how many bytes are allocated, or the address that is freed."""


class PastOperation(NamedTuple):
    """An operation before time zero, by a client process."""

    process: int
    f: str
    object: Hashable


@dataclass(frozen=True, slots=True)
class Request:
    """What a client performs at once: one step, or several.

    The steps of a transaction (model ``txn``; their ``f`` is ``r``, ``w`` or ``append``) take effect together, the
    reads before the writes; after a ``w`` without a value the object is absent. ``objects.OPENING`` says what those of
    the model ``accounts`` are. Several steps of any other model are a batch: acknowledged together.
    """

    steps: tuple[RequestStep, ...]
    number: int = 0
    """That of its first operation in the run's history: what :meth:`Scheme.applied` names it by."""

    @staticmethod
    def of(f: str, object: Hashable, value: bytes | None = None) -> Request:
        """A request of one step."""
        return Request((RequestStep(f, object, value),))

    @staticmethod
    def reading(objects: Hashable) -> Request:
        """A transaction that reads an object, or each of a tuple of objects."""
        names = objects if isinstance(objects, tuple) else (objects,)
        return Request(tuple(RequestStep("r", name) for name in names))

    @property
    def step(self) -> RequestStep:
        """The only step; raises ValueError where there are several."""
        (only,) = self.steps
        return only


class OperationFailed(Exception):
    """The operation certainly did not take effect (Jepsen's ``fail``)."""


class OutcomeUnknown(Exception):
    """The operation may have taken effect, may do so later, or never (Jepsen's ``info``)."""
