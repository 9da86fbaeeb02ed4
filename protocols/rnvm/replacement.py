"""Which page a full cache lets go of: least recently used, random, or of a random sample the least recently used.

Source: rNVM, section 5.2. Pages are in slots, numbered from 0; each slot has an entry of a line in memory, with what
the policy keeps of it. A policy says which entries it looks at and which it changes, so that somebody can have a thread
load and store them. It takes no time itself: a benchmark of miss ratios runs it alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import ClassVar, NamedTuple

from typing_extensions import override

SAMPLE = 32
"""Pages of which the hybrid policy takes the least recently used (section 5.2)."""
_STEP, _ADD, _WORD = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"""Knuth's MMIX generator (The Art of Computer Programming 2, 3.3.4): a few instructions, as in a cache's code."""


class Entries(NamedTuple):
    """The entries that a step of a policy touches, by slots."""

    loads: tuple[int, ...] = ()
    stores: tuple[int, ...] = ()


NOTHING = Entries()


class Policy(ABC):
    """Slots of a cache with ``capacity`` pages, and which of them goes when a page comes that is in none."""

    names: ClassVar[dict[str, type[Policy]]] = {}

    def __init__(self, capacity: int, seed: int = 1) -> None:
        self.capacity = capacity
        self.slots: dict[int, int] = {}
        """The slot of each page."""
        self.pages: list[int] = []
        """The page of each slot."""
        self._drawn = (2 * seed + 1) * _STEP & _WORD

    @override
    def __init_subclass__(cls, name: str) -> None:
        Policy.names[name] = cls

    def hit(self, slot: int) -> Entries:
        """A page is used."""
        return NOTHING

    def admit(self, page: int) -> tuple[int, Entries]:
        """A page comes that is not there: its slot, out of which another one goes if all are taken."""
        if len(self.pages) < self.capacity:
            slot = len(self.pages)
            looked: tuple[int, ...] = ()
            self.pages.append(page)
        else:
            slot, looked = self.victim()
            del self.slots[self.pages[slot]]
            self.pages[slot] = page
        self.slots[page] = slot
        return slot, Entries(looked, (slot, *self.placed(slot)))

    @abstractmethod
    def victim(self) -> tuple[int, tuple[int, ...]]:
        """The slot whose page goes, and those that were looked at."""

    def placed(self, slot: int) -> tuple[int, ...]:
        """A new page is in this slot: the other entries that change."""
        return ()

    def draw(self) -> int:
        """A slot, all alike."""
        self._drawn = (self._drawn * _STEP + _ADD) & _WORD
        return (self._drawn >> 32) * self.capacity >> 32

    def clear(self) -> None:
        """All pages go."""
        self.slots.clear()
        self.pages.clear()


class RandomReplacement(Policy, name="random"):
    """Any page goes; nothing is kept."""

    @override
    def victim(self) -> tuple[int, tuple[int, ...]]:
        slot = self.draw()
        return slot, (slot,)


class Hybrid(Policy, name="hybrid"):
    """Each use stamps the page's entry; of :data:`SAMPLE` random pages that with the oldest stamp goes."""

    def __init__(self, capacity: int, seed: int = 1) -> None:
        super().__init__(capacity, seed)
        self._stamps = [0] * capacity
        self._now = 0

    @override
    def hit(self, slot: int) -> Entries:
        self._stamp(slot)
        return Entries((), (slot,))

    @override
    def victim(self) -> tuple[int, tuple[int, ...]]:
        sample = tuple(self.draw() for _ in range(SAMPLE))
        return min(sample, key=self._stamps.__getitem__), sample

    @override
    def placed(self, slot: int) -> tuple[int, ...]:
        self._stamp(slot)
        return ()

    def _stamp(self, slot: int) -> None:
        self._now += 1
        self._stamps[slot] = self._now


class Lru(Policy, name="lru"):
    """A list from the last used to the least recently used; each use takes a page out of it and puts it to the front.

    So it changes the page's entry, those of both neighbours, and that of the page that was in front.
    """

    def __init__(self, capacity: int, seed: int = 1) -> None:
        super().__init__(capacity, seed)
        self._head = capacity
        """The slot that stands for the list's two ends."""
        self.clear()

    @override
    def clear(self) -> None:
        super().clear()
        self._before = [*range(self.capacity), self._head]
        self._behind = [*range(self.capacity), self._head]

    @override
    def hit(self, slot: int) -> Entries:
        if self._behind[self._head] == slot:
            return NOTHING
        return Entries((), tuple(dict.fromkeys((slot, *self._take_out(slot), *self._to_front(slot)))))

    @override
    def victim(self) -> tuple[int, tuple[int, ...]]:
        slot = self._before[self._head]
        self._take_out(slot)
        return slot, (slot,)

    @override
    def placed(self, slot: int) -> tuple[int, ...]:
        return tuple(self._to_front(slot))

    def _take_out(self, slot: int) -> Iterator[int]:
        before, behind = self._before[slot], self._behind[slot]
        self._behind[before], self._before[behind] = behind, before
        return iter((before, behind))

    def _to_front(self, slot: int) -> Iterator[int]:
        first = self._behind[self._head]
        self._behind[self._head], self._before[slot] = slot, self._head
        self._behind[slot], self._before[first] = first, slot
        return iter((self._head, first))


def miss_ratio(policy: Policy, pages: Iterable[int], untimed: int = 100_000) -> float:
    """The share of accesses that miss, those after the first ``untimed`` ones; raises ValueError where none are left.

    The paper's micro-benchmark (section 5.2) has a cache of some size under some accesses; 100,000 accesses bring each
    policy into its steady state where the cache has some thousand pages.
    """
    misses = counted = 0
    slots = policy.slots
    for turn, page in enumerate(pages):
        slot = slots.get(page)
        if slot is None:
            policy.admit(page)
        else:
            policy.hit(slot)
        if turn >= untimed:
            counted += 1
            misses += slot is None
    if not counted:
        raise ValueError(f"no access behind the first {untimed}")
    return misses / counted


def zipf_accesses(pages: int, skew: float, count: int, seed: int = 1) -> Iterator[int]:
    """``count`` accesses to ``pages`` pages, independent of each other; the n-th has a share of 1 / n ** skew."""
    bounds = list(accumulate((rank + 1) ** -skew for rank in range(pages)))
    drawn = (2 * seed + 1) * _STEP & _WORD
    for _ in range(count):
        drawn = (drawn * _STEP + _ADD) & _WORD
        yield bisect_left(bounds, (drawn >> 11) / (1 << 53) * bounds[-1])


def policy_of(name: str, capacity: int, seed: int = 1) -> Policy:
    """A policy by its name."""
    return Policy.names[name](capacity, seed)


POLICIES: Mapping[str, type[Policy]] = Policy.names
