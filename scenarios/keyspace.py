"""The objects of a workload: ``k0``, ``k1``, ..., named and not stored, however many there are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, overload

from typing_extensions import override


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
        return self._number(name) is not None

    @override
    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """The number of an object; ValueError if there is none of that name (between ``start`` and ``stop``)."""
        number = self._number(name)
        if number is None or number not in range(self._count)[start:stop]:
            raise ValueError(f"{name!r} is none of the {self._count} objects")
        return number

    def _number(self, name: object) -> int | None:
        if not isinstance(name, str) or name[:1] != "k" or not name[1:].isdecimal():
            return None
        number = int(name[1:])
        return number if number < self._count and name == f"k{number}" else None


class Same(Mapping[Hashable, bytes]):
    """Every object of a key space with one and the same value."""

    def __init__(self, names: KeySpace, value: bytes) -> None:
        self._names = names
        self._value = value

    @override
    def __getitem__(self, name: Hashable) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return self._value

    @override
    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._names)

    @override
    def __len__(self) -> int:
        return len(self._names)
