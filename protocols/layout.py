"""Byte layouts: what lies in memory or in a message, field by field.

>>> class Entry(Layout):
...     key = Bytes(4)
...     length = U32()
>>> Entry.pack(key=b"k1", length=7)
b'k1\\x00\\x00\\x07\\x00\\x00\\x00'
>>> Entry.unpack(b'k1\\x00\\x00\\x07\\x00\\x00\\x00').length
7
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, ClassVar, Self

from typing_extensions import override


class Field:
    """One field of a layout; fields follow each other without gaps, little-endian."""

    size = 0
    offset = 0
    name = ""

    encode: Callable[[Any], bytes]
    """The field's bytes."""

    decode: Callable[[bytes], Any]
    """The field's value in its bytes. Both are called millions of times, so not methods here."""


class _Unsigned(Field):
    def __init__(self, size: int) -> None:
        self.size = size
        self.encode = methodcaller("to_bytes", size, "little")
        self.decode = partial(int.from_bytes, byteorder="little")


class _Bytes(Field):
    def __init__(self, size: int) -> None:
        self.size = size
        self.encode = self._padded
        self.decode = methodcaller("rstrip", b"\0")

    def _padded(self, value: bytes) -> bytes:
        if len(value) > self.size:
            raise ValueError(f"{self.name} holds {self.size} bytes, not {len(value)}")
        return value.ljust(self.size, b"\0")


class _Block(_Bytes):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.decode = bytes


class _Rest(Field):
    @override
    def encode(self, value: bytes) -> bytes:
        return value

    @override
    def decode(self, data: bytes) -> bytes:
        return data


WORD = 8
"""The bytes of a word. Aligned, it lasts as a whole or not at all: a power failure cannot tear it."""


def word_of(number: int) -> bytes:
    """A number as a word."""
    return number.to_bytes(WORD, "little")


def number_in(word: bytes) -> int:
    """The number that a word holds."""
    return int.from_bytes(word, "little")


# Functions, so that a layout's fields type-check as the values that they hold.
def U32() -> Any:
    """An unsigned integer of four bytes."""
    return _Unsigned(4)


def U64() -> Any:
    """An unsigned integer of a word."""
    return _Unsigned(WORD)


def Bytes(size: int) -> Any:
    """At most ``size`` bytes, padded with zeros, which unpacking takes off again: for names, not for values."""
    return _Bytes(size)


def Block(size: int) -> Any:
    """The same, unpacked as it is: ``size`` bytes, zeros at the end included."""
    return _Block(size)


def Rest() -> Any:
    """Whatever follows; only as the last field."""
    return _Rest()


class Layout:
    """A record of fields; subclasses list them as class attributes, in order. ``size`` is without a ``Rest``."""

    fields: ClassVar[tuple[Field, ...]] = ()
    size: ClassVar[int] = 0
    _parts: ClassVar[tuple[tuple[str, slice, Callable[[bytes], Any]], ...]] = ()
    """Of each field: its name, where it lies, and what decodes it."""

    @override
    def __init_subclass__(cls) -> None:
        fields, offset = [], 0
        for name, field in list(vars(cls).items()):
            if isinstance(field, Field):
                field.name, field.offset = name, offset
                offset += field.size
                fields.append(field)
        cls.fields, cls.size = tuple(fields), offset
        cls._parts = tuple((f.name, slice(f.offset, f.offset + f.size if f.size else None), f.decode) for f in fields)

    @classmethod
    def pack(cls, **values: Any) -> bytes:
        """The record's bytes; KeyError for a field that is missing."""
        return b"".join([field.encode(values[field.name]) for field in cls.fields])

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The record in ``data``, which may be longer."""
        record = cls.__new__(cls)
        for name, part, decode in cls._parts:
            setattr(record, name, decode(data[part]))
        return record

    @classmethod
    def offset_of(cls, name: str) -> int:
        """Where a field begins."""
        offset: int = vars(cls)[name].offset
        return offset
