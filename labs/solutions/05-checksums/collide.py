"""Two images of one CRC32."""

import zlib

WORD = 8


def torn(old: bytes, new: bytes) -> bytes:
    """A value, neither old nor new, each of whose words is that of `old` or of `new`, with the CRC32 of `new`."""
    whole = zlib.crc32(new)
    pivots: dict[int, tuple[int, int]] = {}  # highest bit -> (change of the checksum, set of words)
    for number in range(len(new) // WORD):
        at = slice(number * WORD, (number + 1) * WORD)
        if old[at] == new[at]:
            continue
        change, words = zlib.crc32(new[: at.start] + old[at] + new[at.stop :]) ^ whole, 1 << number
        while change and (top := change.bit_length()) in pivots:
            change, words = change ^ pivots[top][0], words ^ pivots[top][1]
        if change:
            pivots[change.bit_length()] = change, words
            continue
        chosen = {n for n in range(len(new) // WORD) if words >> n & 1}
        return b"".join((old if n in chosen else new)[WORD * n : WORD * n + WORD] for n in range(len(new) // WORD))
    raise ValueError("too few words differ")
