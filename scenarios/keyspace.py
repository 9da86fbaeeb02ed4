"""The objects of a workload: ``k0``, ``k1``, ..., named and not stored, however many there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, overload

from typing_extensions import override

from ..protocols.parts.tables import BenchmarkTables


class KeySpace(Sequence[str]):
    """``count`` object names in order; finding one's number costs nothing."""

    def __init__(self, count: int) -> None:
        self._count = count

    @override
    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> str: ...

    @overload
    def __getitem__(self, number: slice) -> list[str]: ...

    @override
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [f"k{at}" for at in range(self._count)[number]]
        return f"k{range(self._count)[number]}"

    @override
    def __iter__(self) -> Iterator[str]:
        return (f"k{number}" for number in range(self._count))

    @override
    def __contains__(self, name: object) -> bool:
        return self.number_of(name) is not None

    @override
    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """The number of an object; ValueError if there is none of that name (between ``start`` and ``stop``)."""
        number = self.number_of(name)
        if number is None or number not in range(self._count)[start:stop]:
            raise ValueError(f"{name!r} is none of the {self._count} objects")
        return number

    def number_of(self, name: object) -> int | None:
        """The number of an object; None if there is none of that name."""
        if not isinstance(name, str) or name[:1] != "k" or not name[1:].isdecimal():
            return None
        number = int(name[1:])
        return number if number < self._count and name == f"k{number}" else None


class FirstValues(Mapping[Hashable, bytes], ABC):
    """What each object of a key space has before the run, made when it is asked for."""

    def __init__(self, names: KeySpace) -> None:
        self._names = names

    @abstractmethod
    def value(self, number: int) -> bytes:
        """The value of an object, by its number."""

    def numbered(self) -> tuple[Sequence[int], Iterable[bytes]]:
        """The numbers of the objects, and the value of each, in order."""
        return range(len(self._names)), (self.value(number) for number in range(len(self._names)))

    @override
    def __getitem__(self, name: Hashable) -> bytes:
        number = self._names.number_of(name)
        if number is None:
            raise KeyError(name)
        return self.value(number)

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._names

    @override
    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._names)

    @override
    def __len__(self) -> int:
        return len(self._names)


class Same(FirstValues):
    """Every object with one and the same value."""

    def __init__(self, names: KeySpace, value: bytes) -> None:
        super().__init__(names)
        self._value = value

    @override
    def value(self, number: int) -> bytes:
        return self._value

    @override
    def numbered(self) -> tuple[Sequence[int], Iterable[bytes]]:
        return range(len(self._names)), repeat(self._value, len(self._names))


class LoadedRows(Same):
    """Some of a key space's objects, each with one and the same value: rows of tables, customer by customer."""

    def __init__(self, tables: BenchmarkTables, customers: int, value: bytes) -> None:
        super().__init__(KeySpace(customers * tables.each), value)
        self._tables = tables
        self._customers = customers

    @override
    def __getitem__(self, name: Hashable) -> bytes:
        if name not in self:
            raise KeyError(name)
        return super().__getitem__(name)

    @override
    def __contains__(self, name: object) -> bool:
        if not super().__contains__(name):
            return False
        number = self._names.index(name)
        return number in self._tables.there(number // self._tables.each)

    @override
    def __iter__(self) -> Iterator[Hashable]:
        return (f"k{number}" for one in range(self._customers) for number in self._tables.there(one))

    @override
    def numbered(self) -> tuple[Sequence[int], Iterable[bytes]]:
        there = self._tables.there
        numbers = [number for one in range(self._customers) for number in there(one)]
        return numbers, repeat(self._value, len(numbers))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)
