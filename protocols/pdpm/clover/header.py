"""The bytes of a version: a header of a word for each copy of the next version, then the value.

Source: Tsai et al., ATC'20, sections 5.1, 5.2 and 5.4, figure 3. The header has to fit into what an atomic operation
changes; a GC version has 8 bits. Which bits the others are the text does not say: 32 for a location are as in the
public code, of which 6 name the node.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ....sim.onlooker import Fetched

NODE_BITS, BUFFER_BITS, VERSION_BITS, FLAG_BITS = 6, 26, 8, 16
VERSIONS = 1 << VERSION_BITS
WRITING = 1
"""A replicated write is under way behind this version: B_w of section 5.4, in the header of the first copy."""
DELETED = 2
"""The key ends with this version."""
UNCOMMITTED = 4
"""The next version is linked by now in some copy, and not yet for readers (the round that only table 1 counts)."""
WORD = 8
_POINTER_BITS = 48


class Pointer(NamedTuple):
    """A buffer of a data node, and the GC version that it has where it is meant."""

    node: int
    buffer: int
    version: int

    def pack(self) -> int:
        """What a shortcut, and the metadata server's memory, have for it; not zero."""
        return (1 + self.location) << VERSION_BITS | self.version

    @property
    def location(self) -> int:
        """Node and buffer as one number."""
        return self.node << BUFFER_BITS | self.buffer

    @classmethod
    def unpack(cls, word: int) -> Self | None:
        """The pointer in a word; None for zero."""
        where = word >> VERSION_BITS
        if not where:
            return None
        node, buffer = divmod(where - 1, 1 << BUFFER_BITS)
        return cls(node, buffer, word % VERSIONS)


Version = tuple[Pointer, ...]
"""A version: its copies, the first of which is the primary one."""
GENERATIONS = 1 << 16


class ChainCursor(NamedTuple):
    """A version, and the generation of the chain that it is in: a key that is deleted and created again has another."""

    version: Version
    generation: int


class HeaderWord(NamedTuple):
    """A word of a header: where a copy of the next version is, and the GC version of the buffer that the word is in.

    Its ``bits`` are told from the lowest on.
    """

    next: Pointer | None
    own: int
    """The GC version of this buffer."""
    flags: int = 0

    def pack(self) -> int:
        """The 8-byte word."""
        pointer = 0 if self.next is None else self.next.pack()
        return (pointer << VERSION_BITS | self.own) << FLAG_BITS | self.flags

    @classmethod
    def unpack(cls, word: int) -> Self:
        """The parts of a word."""
        rest, flags = divmod(word, 1 << FLAG_BITS)
        pointer, own = divmod(rest, VERSIONS)
        return cls(Pointer.unpack(pointer), own, flags)


class Header:
    """The header at the beginning of a buffer, from the copy that was read; further words are looked at if need be."""

    __slots__ = ("_copies", "_data", "_first")

    def __init__(self, data: bytes | Fetched, copies: int) -> None:
        self._data = data
        self._copies = copies
        self._first = HeaderWord.unpack(int.from_bytes(data[:WORD], "little"))

    @property
    def own(self) -> int:
        """The buffer's GC version."""
        return self._first.own

    @property
    def flags(self) -> int:
        """Those of the first word."""
        return self._first.flags

    @property
    def next(self) -> Version | None:
        """The next version; None behind the newest one."""
        found, pointer = [], self._first.next
        for at in _places(self._copies):
            if at:
                pointer = HeaderWord.unpack(int.from_bytes(self._data[at : at + WORD], "little")).next
            if pointer is None:
                return None
            found.append(pointer)
        return tuple(found)


def header(own: Version, copy: int, following: Version | None = None, flags: int = 0) -> bytes:
    """The header of one copy of a version."""
    nexts = following or (None,) * len(own)
    words = (HeaderWord(pointer, own[copy].version, 0 if turn else flags) for turn, pointer in enumerate(nexts))
    return b"".join(word.pack().to_bytes(WORD, "little") for word in words)


def pack_version(version: Version | None, copies: int) -> bytes:
    """A word for each copy; zeros for none."""
    if version is None:
        return bytes(WORD * copies)
    return b"".join(pointer.pack().to_bytes(WORD, "little") for pointer in version)


def unpack_version(data: bytes, copies: int) -> Version | None:
    """The version that so many words say; None where one of them is zero."""
    pointers = [Pointer.unpack(int.from_bytes(data[at : at + WORD], "little")) for at in _places(copies)]
    found = tuple(pointer for pointer in pointers if pointer is not None)
    return found if len(found) == copies else None


def pack_shortcut(cursor: ChainCursor | None, copies: int) -> bytes:
    """A shortcut: a pointer to each copy, the generation in the bits that are left."""
    if cursor is None:
        return bytes(WORD * copies)
    words = (cursor.generation % GENERATIONS << _POINTER_BITS | pointer.pack() for pointer in cursor.version)
    return b"".join(word.to_bytes(WORD, "little") for word in words)


def unpack_shortcut(data: bytes | Fetched, copies: int) -> ChainCursor | None:
    """The same again; the generation modulo ``GENERATIONS``."""
    found, generation = [], 0
    for at in _places(copies):
        high, low = divmod(int.from_bytes(data[at : at + WORD], "little"), 1 << _POINTER_BITS)
        pointer = Pointer.unpack(low)
        if pointer is None:
            return None
        found.append(pointer)
        generation = generation if at else high
    return ChainCursor(tuple(found), generation)


def _places(copies: int) -> range:
    return range(0, copies * WORD, WORD)
