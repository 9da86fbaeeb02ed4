"""RESP, the protocol of Redis: commands as arrays of bulk strings, and replies.

Source: redis.io, "Redis serialization protocol specification". The append-only file holds commands in the same form.
"""

from __future__ import annotations

END = b"\r\n"
OK = b"+OK\r\n"
NOTHING = b"$-1\r\n"


class BadFormat(Exception):
    """These bytes are no RESP, and more of them would make none of them."""


def command(*words: bytes) -> bytes:
    """A command."""
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def bulk(data: bytes) -> bytes:
    """A bulk string."""
    return b"$%d\r\n%s\r\n" % (len(data), data)


def parse(data: bytes, at: int = 0) -> tuple[list[bytes], int] | None:
    """The command that begins at ``at``, and where it ends; None where its end is not there yet. Raises BadFormat."""
    found = _number(data, at, b"*")
    if found is None:
        return None
    count, at = found
    words = []
    for _ in range(count):
        string = parse_bulk(data, at)
        if string is None:
            return None
        word, at = string
        words.append(word or b"")
    return words, at


def parse_bulk(data: bytes, at: int = 0) -> tuple[bytes | None, int] | None:
    """The bulk string that begins at ``at`` (None: the null string), and where it ends; None: not all there yet."""
    found = _number(data, at, b"$")
    if found is None:
        return None
    length, at = found
    if length < 0:
        return None, at
    if len(data) < at + length + len(END):
        return None
    if data[at + length : at + length + len(END)] != END:
        raise BadFormat(f"a bulk string at {at} that does not end")
    return data[at : at + length], at + length + len(END)


def parse_reply(data: bytes) -> tuple[bytes | None] | None:
    """The reply in ``data``, a status or a bulk string, alone in a tuple; None where its end is not there yet."""
    if data[:1] == b"$":
        found = parse_bulk(data)
        return None if found is None else (found[0],)
    if END not in data:
        return None
    return (data[1 : data.index(END)],)


def _number(data: bytes, at: int, kind: bytes) -> tuple[int, int] | None:
    """A line with a number, of this kind: the number, and where the line ends."""
    if at >= len(data):
        return None
    end = data.find(END, at)
    word = data[at + 1 : end if end >= 0 else len(data)]
    digits = word.removeprefix(b"-").rstrip(b"\r")
    if data[at : at + 1] != kind or (digits and not digits.isdigit()) or (end >= 0 and not digits):
        raise BadFormat(f"{data[at : at + 8]!r} at {at}, where a line with {kind.decode()} and a number begins")
    return None if end < 0 else (int(word), end + len(END))
