"""Values that say who wrote them: any 8-byte word of a value names the operation whose number (stamp) it carries.

Word ``i`` of the value of stamp ``s`` is ``mix(s) xor mix(2**63 + i)`` with a bijective ``mix``, so that

- at every position all stamps have different words: a value that mixes two writes is never another write's value;
- a stamp is read back from one word, without a table; no stamp below 2**32 has a word of zeros.

``mix`` is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14), which is invertible.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise, product

from .history import Torn

WORD_BYTES = 8
MIN_LENGTH = WORD_BYTES
"""Bytes that a value needs at least to carry a stamp."""
MAX_STAMP = (1 << 32) - 1
"""Arbitrary bytes in place of a word are taken for a stamp once in 2**32 times; bytes of other writes never are."""

_MASK = (1 << 64) - 1
_M1, _M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_I1, _I2 = pow(_M1, -1, 1 << 64), pow(_M2, -1, 1 << 64)
_POSITION = 1 << 63
_MAX_PIECES = 6

_ZEROS, _FOREIGN = "zeros", "of nobody"


def encode_value(stamp: int, length: int) -> bytes:
    """The value of ``length`` bytes that carries ``stamp``; ValueError below 8 bytes or beyond ``MAX_STAMP``."""
    if length < MIN_LENGTH:
        raise ValueError(f"a value of {length} bytes cannot carry a stamp: it needs at least {MIN_LENGTH}")
    if not 0 <= stamp <= MAX_STAMP:
        raise ValueError(f"a stamp is a number from 0 to 2**32 - 1, not {stamp}")
    words = -(-length // WORD_BYTES)
    plain = int.from_bytes(_mix(stamp).to_bytes(WORD_BYTES, "little") * words, "little")
    return (plain ^ _positions(words)).to_bytes(words * WORD_BYTES, "little")[:length]


def decode_value(data: bytes, length: int | None = None) -> int | Torn:
    """The stamp that ``data`` carries, or a description of the bytes, word by word.

    ``length`` is how long the value should be: one that is cut short is torn even if the rest is intact.
    """
    if len(data) < MIN_LENGTH:
        return Torn(f"{len(data)} bytes, too few to carry a stamp")
    stamp = _unmix(int.from_bytes(data[:WORD_BYTES], "little") ^ _FIRST)
    if stamp <= MAX_STAMP and encode_value(stamp, len(data)) == data:
        return stamp if length is None or length == len(data) else Torn(_cut_short(data, length, stamp))
    note = _note(data)
    return Torn(note if length is None or length == len(data) else f"{len(data)} of {length} bytes: {note}")


def _cut_short(data: bytes, length: int, stamp: int) -> str:
    return f"{len(data)} of {length} bytes, {_owner_words(stamp)}"


def _mix(number: int) -> int:
    number = ((number ^ (number >> 30)) * _M1) & _MASK
    number = ((number ^ (number >> 27)) * _M2) & _MASK
    return number ^ (number >> 31)


def _unmix(number: int) -> int:
    number ^= (number >> 31) ^ (number >> 62)
    number = (number * _I2) & _MASK
    number ^= (number >> 27) ^ (number >> 54)
    number = (number * _I1) & _MASK
    return number ^ (number >> 30) ^ (number >> 60)


_FIRST = _mix(_POSITION)


@lru_cache(maxsize=256)
def _positions(words: int) -> int:
    """The words' own constants, as one little-endian number."""
    return int.from_bytes(b"".join(_mix(_POSITION + i).to_bytes(WORD_BYTES, "little") for i in range(words)), "little")


# torn bytes in words ------------------------------------------------------------------------------------------


def _note(data: bytes) -> str:
    """The writers of the words: ``words 0-3 of v7, words 4-31 of v2``."""
    owners = list(_owners(data))
    if all(owner == _ZEROS for owner in owners):
        return "never written: zeros"
    starts = [i for i, owner in enumerate(owners) if i == 0 or owner != owners[i - 1]]
    pieces = [
        f"{f'word {start}' if end - start == 1 else f'words {start}-{end - 1}'} {_owner_words(owners[start])}"
        for start, end in pairwise([*starts, len(owners)])
    ]
    rest = len(pieces) - _MAX_PIECES
    return ", ".join(pieces[:_MAX_PIECES]) + (f", and {rest} more pieces" if rest > 0 else "")


def _owner_words(owner: int | str) -> str:
    if isinstance(owner, str):
        return owner
    return f"of v{owner}"


def _owners(data: bytes) -> Iterator[int | str]:
    """Per word its stamp, zeros, two stamps where a word is cut in the middle, or no stamp."""
    words = [data[at : at + WORD_BYTES] for at in range(0, len(data), WORD_BYTES)]
    whole = [_owner(word, i) if len(word) == WORD_BYTES else _FOREIGN for i, word in enumerate(words)]
    candidates = sorted({owner for owner in whole if isinstance(owner, int)})
    for i, (word, owner) in enumerate(zip(words, whole, strict=True)):
        yield _mixture(word, i, candidates) if owner == _FOREIGN else owner


def _owner(word: bytes, position: int) -> int | str:
    if not any(word):
        return _ZEROS
    stamp = _unmix(int.from_bytes(word, "little") ^ _mix(_POSITION + position))
    return stamp if stamp <= MAX_STAMP else _FOREIGN


def _mixture(word: bytes, position: int, candidates: list[int]) -> int | str:
    """A word that is cut in the middle, or the shorter last one, by the stamps seen in the value's other words."""
    if not any(word):
        return _ZEROS
    constant = _mix(_POSITION + position)
    known: dict[int | str, bytes] = {s: (_mix(s) ^ constant).to_bytes(WORD_BYTES, "little") for s in candidates}
    known[_ZEROS] = bytes(WORD_BYTES)
    for owner, whole in known.items():
        if whole[: len(word)] == word:
            return owner
    for (first, head), (second, tail) in product(known.items(), repeat=2):
        for cut in range(1, len(word)):
            if head[:cut] == word[:cut] and tail[cut : len(word)] == word[cut:]:
                return f"{_owner_words(first)} and {_owner_words(second)}"
    return _FOREIGN
