"""The streams of lines that a core's prefetcher follows: how long ago it has asked for a line. No clock inside.

Two lines one behind the other in a page of 4 KiB make a stream, one for loads and one for stores a page; the prefetcher
asks for the lines behind them ahead of the core, and not beyond the page (Intel 64 and IA-32 Architectures Optimization
Reference Manual, L2 streamer; 32 streams). It brings lines to the second level, past the fill buffers. Nothing is
brought that nobody asks for afterwards: what a misled prefetcher costs is not in the model.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .cacheset import Key

PAGE_LINES = 64
MOST = 32
"""As many pages are followed, loads and stores apart."""


class Stream(NamedTuple):
    """A stream as it was before an access."""

    first: Key
    first_ps: int
    front: Key
    """The last line that the core has come to, ..."""
    front_ps: int
    """... and when."""


NO_STREAM = Stream(0, 0, 0, 0)

_stream = partial(tuple.__new__, Stream)
"""As Stream, of a tuple; costs no Python call."""


class Prefetcher:
    """The streams of one core."""

    __slots__ = ("_ahead", "_of")

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._of: dict[int, Stream] = {}

    def follow(self, key: Key, last: Key, dirty: bool, at_ps: int) -> Stream:
        """The core comes to lines from ``key`` to ``last`` of one page that are not at hand; returns their stream."""
        page = key // PAGE_LINES << 1 | dirty
        stream = self._of.pop(page, None)
        if stream is None or not stream.front <= key <= stream.front + 1:
            stream = _stream((key, at_ps, key - 1, at_ps))
        self._of[page] = _stream((stream.first, stream.first_ps, last, at_ps))
        if len(self._of) > MOST:
            del self._of[next(iter(self._of))]
        return stream

    def lead_ps(self, stream: Stream, key: Key, at_ps: int) -> int:
        """How long before ``at_ps`` the prefetcher has asked for a line; 0 if it has not."""
        first, first_ps, front, front_ps = stream
        if front <= first or key - first < 2:
            return 0
        asked = max(key - self._ahead, first + 1)
        if asked > front:
            return 0
        return at_ps - (first_ps + (asked - first) * (front_ps - first_ps) // (front - first))
