"""Python's cyclic garbage collector, kept from looking again and again at what stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 20_000
"""So many new objects between two looks at what is young, instead of 700."""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Leave objects that exist by now out of the collector, and look at new ones less often: for loops over a large
    heap. Garbage among the new ones is gone at the end.

    May be nested: the inner one is of no effect on what there was.
    """
    before = gc.get_threshold()
    outermost = before[0] < SELDOM
    if outermost:
        gc.freeze()
        gc.set_threshold(SELDOM, *before[1:])
    try:
        yield
    finally:
        if outermost:
            gc.set_threshold(*before)
            gc.collect()  # else it would count as old with the rest, and stay for long
            gc.unfreeze()


def collect_young(collections: int = 0) -> None:
    """Collect the garbage among objects that have survived so many collections, or fewer: for a loop that drops, before
    each turn, all that the one before has made. What a run leaves is full of cycles; it costs least to collect as long
    as it is all that is young, and in the processor's caches.
    """
    gc.collect(collections)
