"""The shape that a B+tree has after inserts one by one: only keys, level by level, no bytes and no time.

The separators that the splits of one level make are, in the order in which they are made, the inserts of the level
above: so each level is found by itself. With keys in random order nodes are full to about ln 2 (Yao, Acta Informatica
9, 1978).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from functools import lru_cache


@lru_cache(maxsize=4)
def grown(packed: bytes, capacity: int) -> tuple[list[array[int]], ...]:
    """The nodes of each level from the leaves up, by their keys, after inserting the keys in ``packed``, 8 bytes each.

    ``capacity`` is how many entries a node has. A node that is too full by one is split in halves, of which the left
    one is not the smaller one; a leaf's separator is the first key of the right half, an inner node's is taken out.
    """
    levels: list[list[array[int]]] = []
    keys = array("Q", packed)
    while keys:
        nodes, keys = _level(keys, capacity, bool(levels))
        levels.append([array("Q", node) for node in nodes])
    return tuple(levels)


def _level(keys: array[int], capacity: int, inner: bool) -> tuple[list[list[int]], array[int]]:
    """The nodes of one level after these inserts, and the separators of its splits in the order of time."""
    nodes: list[list[int]] = [[]]
    bounds: list[int] = []  # the separator before each node but the first
    risen = array("Q")
    left = (capacity + 2) // 2 if not inner else (capacity + 1) // 2
    for key in keys:
        at = bisect_right(bounds, key)
        node = nodes[at]
        insort(node, key)
        if len(node) > capacity:
            nodes[at : at + 1] = [node[:left], node[left + inner :]]
            bounds.insert(at, node[left])
            risen.append(node[left])
    return nodes, risen


@lru_cache(maxsize=4)
def places_of(packed: bytes) -> dict[int, int]:
    """The place of each key in the order of inserts."""
    return {key: place for place, key in enumerate(array("Q", packed))}
