"""Tags of a set-associative cache: which lines it holds, which of them are dirty, which one is evicted.

No clock is in here, and no bytes: coherent memory (the byte spaces) has those. Sets come into being when a line is put
into them, so that a cache of many megabytes costs nothing to build.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ..profiles.parameters.caches import Policy

Key = int
"""A line: its device's number, above LINE_BITS bits of the line's number within the device."""
LINE_BITS = 34
LINE_MASK = (1 << LINE_BITS) - 1
HASH_BITS = 14
"""The hash of a line's number is the number XORed with itself shifted right by this many bits."""

FEW_LINES = 4
"""For ranges of more lines than this, one check whether all are there pays."""

_EMPTY = -1
DIRTY = 1
_OLDEST = 3
"""The age of the line that is evicted next (two bits of age, "quad-age")."""
_NEW = 1 << 1
"""The state of a line that comes in where the state counts ages: age 1, clean."""
_WORD = (1 << 64) - 1


def line_key(device: int, line: int) -> Key:
    """The key of a line."""
    return device << LINE_BITS | line


class Tags:
    """``slices`` of sets of ``ways`` lines. ``state`` has every line that is there; its lowest bit says dirty.

    The rest of the state belongs to the policy: with ``lru`` when the line was used last; with ``unpredictable`` its
    age, 0 to 3: 1 when it comes in, 0 when it is used again, and one of the oldest goes, drawn, after all have aged
    until the oldest is 3 (quad-age LRU as Briongos et al., USENIX Security'20, found it in Intel's shared caches; which
    of the variants a set follows changes at run time, hence the draw). ``random`` needs nothing.
    """

    __slots__ = ("_draws", "_lone", "_no_lines", "_page_lines", "_seed", "_sets", "policy", "sets", "slices", "state",
                 "step", "tick", "ways")  # fmt: skip

    def __init__(
        self,
        lines: int,
        ways: int,
        slices: int = 1,
        policy: Policy = "lru",
        scattered_page_lines: int = 0,
        seed: Callable[[], int] = lambda: 1,
        lone: int = 0,
    ) -> None:
        """``scattered_page_lines``: pages of so many lines lie anywhere in physical memory (0: in one piece).

        ``seed`` is called at the first draw.
        """
        self.ways = min(ways, lines)
        self.policy: Policy = policy
        self.slices = min(slices, lines // self.ways)
        self.sets = lines // (self.ways * self.slices) * self.slices
        """The number of sets, over all slices."""
        self._no_lines = [_EMPTY] * self.ways
        self._page_lines = scattered_page_lines
        self.step = 2 if policy == "lru" else 0
        self.tick = 0
        """With ``lru`` the time of the last use, a step each."""
        self._seed = seed
        self._draws = 0
        self.state: dict[Key, int] = {}
        self._sets: dict[int, list[Key] | Key] = {}
        """By number of the set: which line is in which way, or the only line, in way ``lone``; only sets that were
        ever used. A way whose line is not in ``state`` any more is free."""
        self._lone = lone

    def set_of(self, key: Key) -> int:
        """The set that a line goes to; its slice is the rest after division by the number of slices.

        Lines that lie side by side go to different slices, and any block of consecutive lines fills all sets alike:
        known of Intel's hash, which is not published (McCalpin, TACC TR-2021-03). Scattered pages keep the
        order of their lines only.
        """
        if self._page_lines:
            page, within = divmod(key, self._page_lines)
            page = (page + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & _WORD
            page = (page ^ page >> 27) * 0x94D049BB133111EB & _WORD
            key = (page ^ page >> 31) * self._page_lines + within
        return (key ^ key >> HASH_BITS) % self.sets

    def use(self, key: Key, dirty: int = 0) -> None:
        """A line that is there is used, and dirty from now on if ``dirty`` is 1."""
        state = self.state
        self.tick += self.step
        state[key] = self.tick | state[key] & DIRTY | dirty

    def write_all(
        self,
        first: Key,
        last: Key,
        whole: tuple[Key, Key],
        elsewhere: Container[Key],
        missed: Callable[[Key], None],
    ) -> int:
        """All lines of a range are written, in their order; returns how many were not there.

        As :meth:`use` for a line that is there and ``missed`` for one that is not, without a call for each: a
        WRITE of 4 KiB has 64 of them. A line that is written whole (those from
        ``whole[0]`` to before ``whole[1]``), is not ``elsewhere``, and whose set has never been
        used just comes in, into the ``lone`` way, as :meth:`put` would let it.
        """
        state, sets, step, tick, misses = self.state, self._sets, self.step, self.tick, 0
        keys = range(first, last + 1)
        if last - first > FEW_LINES and all(map(state.__contains__, keys)):  # almost always
            if step:
                state.update(zip(keys, range(tick + step | DIRTY, tick + len(keys) * step + 2, step), strict=True))
                self.tick = tick + len(keys) * step
            else:
                state.update(dict.fromkeys(keys, DIRTY))
            return 0
        low, high = whole if not self._page_lines else (0, 0)
        n_sets = self.sets
        for key in keys:
            if key in state:
                tick += step
                state[key] = tick | DIRTY
                continue
            misses += 1
            if low <= key < high and key not in elsewhere:
                number = (key ^ key >> HASH_BITS) % n_sets
                alone = sets.get(number)
                if alone is None or (alone.__class__ is int and alone not in state):
                    sets[number] = key
                    tick += step
                    state[key] = (tick or _NEW) | DIRTY
                    continue
            self.tick = tick
            missed(key)
            tick = self.tick
        self.tick = tick
        return misses

    def put(self, key: Key, dirty: int, first_way: int = 0) -> tuple[Key, int]:
        """A line that is not there comes in, into ``first_way`` or one above; returns (line, dirty) of the one that
        had to go, or (-1, 0)."""
        number = self.set_of(key) if self._page_lines else (key ^ key >> HASH_BITS) % self.sets
        state, members = self.state, self._sets.get(number)
        if not isinstance(members, list):
            alone, members = members, self._no_lines.copy()
            self._sets[number] = members
            if alone in state:
                members[self._lone] = alone
        elif members[first_way] == key:  # back where it was, almost always
            self.tick += self.step
            state[key] = (self.tick if self.step else _NEW) | dirty
            return _EMPTY, 0
        elif key in members:
            members[members.index(key)] = _EMPTY
        gone, was_dirty, way = _EMPTY, 0, first_way
        allowed = members[first_way:] if first_way else members
        for line in allowed:
            if line not in state:
                break
            way += 1
        else:
            way = first_way + self._victim(allowed)
            gone = members[way]
            was_dirty = state.pop(gone) & DIRTY
        members[way] = key
        self.tick += self.step
        state[key] = (self.tick if self.step else _NEW) | dirty
        return gone, was_dirty

    def drop(self, key: Key) -> int:
        """The line is not there any more; returns 1 if it was dirty, 0 if not (or if it was not there)."""
        return self.state.pop(key, 0) & DIRTY

    def clean(self, key: Key) -> int:
        """The line, if it is there, is clean from now on; returns 1 if it was dirty."""
        found = self.state.get(key, 0)
        if found & DIRTY:
            self.state[key] = found ^ DIRTY
        return found & DIRTY

    def dirty(self) -> list[Key]:
        """All lines that are dirty, set after set."""
        found = []
        for number in sorted(self._sets):
            members = self._sets[number]
            found += members if isinstance(members, list) else [members]
        state = self.state
        return [key for key in found if state.get(key, 0) & DIRTY]

    def clear(self) -> None:
        """Empty the cache without writing anything back."""
        self.state.clear()
        self._sets.clear()

    def _victim(self, allowed: list[Key]) -> int:
        """The index in ``allowed`` of the line to evict."""
        state = self.state
        if self.policy == "lru":
            return allowed.index(min(allowed, key=state.__getitem__))
        if self.policy == "random":
            return self._draw(len(allowed))
        ages = [state[key] >> 1 for key in allowed]
        oldest = max(ages)
        if oldest < _OLDEST:
            for key in allowed:
                state[key] += (_OLDEST - oldest) << 1
        equals = [way for way, age in enumerate(ages) if age == oldest]
        return equals[self._draw(len(equals)) if len(equals) > 1 else 0]

    def _draw(self, below: int) -> int:
        """A number from 0: Knuth's linear congruential generator (MMIX), because a stream's own draws cost ten times
        as much; its first state comes from the stream."""
        draws = self._draws or self._seed() | 1 << 64
        self._draws = draws = (draws * 6364136223846793005 + 1442695040888963407) & _WORD | 1 << 64
        return (draws >> 33 & 0x7FFFFFFF) * below >> 31
