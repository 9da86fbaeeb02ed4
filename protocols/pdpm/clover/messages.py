"""What clients and metadata servers say to each other, by SEND.

Source: Tsai et al., ATC'20, sections 5.1, 5.2 and 5.4, which name the requests; their fields are a reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...layout import U32, U64, Block, Bytes, Layout, Rest
from .header import WORD, ChainCursor, Pointer, Version, pack_version, unpack_version

NOT_HERE = b"\0"
"""The reply of a server that only keeps a copy: the client asks the next one."""
ABSENT, PRESENT = b"\1", b"\2"
"""The first byte of other replies: whether there is such a key."""
CHAIN_BYTES = 8
"""Of a key's number and its chain's generation."""


class OpenKey(Layout):
    """Ask for a key's chain: the reply is its generation and its head, or that there is none."""

    key = U32()


class Create(Layout):
    """A key's first version is written: the reply is its chain's, which is another one if the key is there already."""

    key = U32()
    version = Rest()


class Delete(Layout):
    """A key's chain ends with a version, which says so itself. The reply comes when no server has the chain."""

    key = U32()
    generation = U32()
    version = Rest()


class Repair(Layout):
    """A replicated write behind a version does not end: complete it, or let another begin. The reply comes then."""

    key = U32()
    version = Rest()


class Retire(Layout):
    """Versions that have been superseded, each with its key and its successor."""

    retired = Rest()


class AllocateBuffers(Layout):
    """Ask for buffers: the reply. For each node how many, then for each how many bytes went there and came since."""

    words = Rest()


class RegisterHeld(Layout):
    """A client machine has lost the metadata server that it had: the buffers in its hands. The reply comes when this
    one serves; :data:`NOT_HERE`, if it must not.
    """

    held = Rest()


class Copy(Layout):
    """To a backup in step: what the heads of keys are now, zero where there is none. The reply comes when it has
    them.
    """

    term = U64()
    rows = Rest()


class Bring(Layout):
    """The same to any other server, of any keys: all of them are on their way there."""

    rows = Rest()


class InStep(Layout):
    """To another server: it has all rows of this term, and is in step from now on."""

    term = U64()


class Back(Layout):
    """To the server that serves: another one has begun again. The reply comes when that one is in step."""


class HeadRow(Layout):
    """What a metadata server keeps of a key in its persistent memory: two of these lines, stored in turn."""

    turn = U32()
    """How often the row has been stored, modulo 2^32: the later line counts."""
    generation = U32()
    heads = Block(32)
    """A pointer to each copy of the head; zeros where there is no such key."""
    key = Bytes(24)


Change = tuple[int, int, Sequence[Version | None]]
"""A key, a generation, and some versions."""


def pack_changes(changes: Iterable[Change], copies: int) -> bytes:
    """Changes, one behind the other."""
    return b"".join(
        key.to_bytes(CHAIN_BYTES // 2, "little")
        + generation.to_bytes(CHAIN_BYTES // 2, "little")
        + b"".join(pack_version(version, copies) for version in versions)
        for key, generation, versions in changes
    )


def unpack_changes(data: bytes, each: int, copies: int) -> list[Change]:
    """The same again: ``each`` is how many versions there are with a key."""
    found: list[Change] = []
    version_bytes = WORD * copies
    for at in range(0, len(data), CHAIN_BYTES + each * version_bytes):
        starts = range(at + CHAIN_BYTES, at + CHAIN_BYTES + each * version_bytes, version_bytes)
        versions = [unpack_version(data[start : start + version_bytes], copies) for start in starts]
        half = at + CHAIN_BYTES // 2
        key, generation = (
            int.from_bytes(data[at:half], "little"),
            int.from_bytes(data[half : at + CHAIN_BYTES], "little"),
        )
        found.append((key, generation, versions))
    return found


def pack_chain(cursor: ChainCursor | None, copies: int) -> bytes:
    """What a client learns of a key: its chain's generation and head."""
    if cursor is None:
        return ABSENT
    return PRESENT + cursor.generation.to_bytes(WORD, "little") + pack_version(cursor.version, copies)


def unpack_chain(reply: bytes, copies: int) -> ChainCursor | None:
    """The same again; None where there is no such key."""
    version = unpack_version(reply[1 + WORD :], copies)
    return None if version is None else ChainCursor(version, int.from_bytes(reply[1 : 1 + WORD], "little"))


def pack_words(words: Iterable[int]) -> bytes:
    """Numbers, one behind the other."""
    return b"".join(word.to_bytes(WORD, "little") for word in words)


def unpack_words(data: bytes) -> list[int]:
    """The same again."""
    return [int.from_bytes(data[at : at + WORD], "little") for at in range(0, len(data), WORD)]


def pack_pointers(pointers: Iterable[Pointer]) -> bytes:
    """Pointers, one behind the other."""
    return pack_words(pointer.pack() for pointer in pointers)


def unpack_pointers(data: bytes) -> list[Pointer]:
    """The same again."""
    return [pointer for word in unpack_words(data) if (pointer := Pointer.unpack(word)) is not None]
