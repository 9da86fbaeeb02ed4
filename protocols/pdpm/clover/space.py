"""What a metadata server keeps in its memory: free buffers, and of each key's chain the part that is known.

Source: Tsai et al., ATC'20, section 5.2. A buffer that comes back gets the next GC version, and waits at the end of
its node's FreeList; one whose version wraps around waits in the OvflowList before.

What the paper leaves open is read so. Whoever supersedes a version retires it, and names its successor. A version is
reclaimed when those before it are: so a chain that begins at the head that the server knows is always whole. What a
machine that dies has not retired, and what is behind it, is free when a server reads all chains again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from .header import VERSIONS, ChainCursor, Pointer, Version
from .pool import Pool

First = Callable[[int], ChainCursor | None]


class BufferSpace:
    """The buffers of all data nodes, as far as they are free, and the GC version of each."""

    def __init__(self, pool: Pool, free: Sequence[Iterable[int]], *, checks: bool = True, known: bool = True) -> None:
        """``free``: the free buffers of each node, in order; ``checks``: with GC versions (else as the strawman).
        ``known``: of which nothing has been heard, those are as before the run; else nothing is known of them.
        """
        self.pool = pool
        self._checks = checks
        self._known = known
        self.free = [deque(buffers) for buffers in free]
        self.overflowed: list[Pointer] = []
        """Buffers whose version has wrapped around."""
        self.versions: dict[tuple[int, int], int] = {}
        """By node and buffer, where it is not what it was at first."""
        self._load = [0] * pool.nodes
        self._turn = 0

    def version(self, node: int, buffer: int) -> int | None:
        """The GC version that a buffer has, or will have when it is given away: no buffer is given away with 0 first,
        which is what memory holds that was never written. None where it is not known.
        """
        return self.versions.get((node, buffer), int(buffer >= self.pool.loaded) if self._known else None)

    def is_gone(self, pointer: Pointer) -> bool:
        """Whether a buffer is known to have another GC version by now than this pointer."""
        return self.version(pointer.node, pointer.buffer) not in (pointer.version, None)

    def reclaim(self, pointer: Pointer) -> bool:
        """A buffer is not used any more; returns whether it was (a request may come twice)."""
        where = pointer.node, pointer.buffer
        if self.is_gone(pointer):
            return False
        self.versions[where] = (pointer.version + 1) % VERSIONS if self._checks else pointer.version
        if self.versions[where] == 0 and self._checks:
            self.overflowed.append(pointer._replace(version=0))
        else:
            self.free[pointer.node].append(pointer.buffer)
        return True

    def told(self, loads: Sequence[int]) -> None:
        """A client machine has moved so many bytes to and from each node since it said so last."""
        self._load = [before + more for before, more in zip(self._load, loads, strict=True)]

    def give(self, wanted: Sequence[int], most: int, *, balanced: bool) -> Iterator[Pointer]:
        """As many buffers of each node as are wanted, as far as there are any, and no more than ``most`` in all: from
        the nodes in turn, or from those with the least load first.
        """
        left = list(wanted)
        for _ in range(most):
            node = self._next(left, balanced)
            if node is None:
                return
            left[node] -= 1
            yield self.take(node)

    def take(self, node: int) -> Pointer:
        """The buffer of a node that has been free for longest."""
        buffer = self.free[node].popleft()
        version = self.version(node, buffer)
        assert version is not None
        return Pointer(node, buffer, version)

    def _next(self, left: Sequence[int], balanced: bool) -> int | None:
        having = [node for node, free in enumerate(self.free) if free and left[node]]
        if not having:
            return None
        if balanced:
            node = min(having, key=lambda one: (self._load[one], one))
            self._load[node] += self.pool.buffer_bytes
            return node
        node = min(having, key=lambda one: (one - self._turn) % self.pool.nodes)
        self._turn = (node + 1) % self.pool.nodes
        return node


class Chain:
    """What is known of a key's chain: the head, and links behind it that do not reach it yet."""

    __slots__ = ("behind", "end", "generation", "head")

    def __init__(self, head: Version, generation: int) -> None:
        self.head = head
        self.generation = generation
        self.behind: dict[Version, Version] = {}
        self.end: Version | None = None
        """The last version of a deleted key."""

    def advance(self) -> Iterator[Version]:
        """Move the head along the links; yields each version that is not needed any more."""
        while (following := self.behind.pop(self.head, None)) is not None:
            before, self.head = self.head, following
            yield before
        if self.head == self.end:
            self.end = None
            yield self.head


class Chains:
    """The chains of all keys, and those of deleted ones whose versions have not all been retired."""

    def __init__(self, first: First) -> None:
        """``first``: the head, and the generation, of a key of which nothing has been heard."""
        self._first = first
        self._known: dict[int, Chain | None] = {}
        self._generations: dict[int, int] = {}
        self._ending: dict[tuple[int, int], Chain] = {}
        """By key and generation."""

    def of(self, key: int) -> Chain | None:
        """A key's chain; None if there is no such key."""
        if key not in self._known:
            first = self._first(key)
            self._known[key] = None if first is None else Chain(*first)
        return self._known[key]

    def generation(self, key: int) -> int:
        """That of a key's chain, or of its last one; 0 before the first."""
        chain = self.of(key)
        return chain.generation if chain is not None else self._generations.get(key, 0)

    def know(self, key: int, head: Version | None, generation: int) -> None:
        """A key's chain, or the generation of its last one, is this."""
        self._known[key] = None if head is None else Chain(head, generation)
        self._generations[key] = generation

    def retire(self, key: int, generation: int, old: Version, new: Version) -> Iterator[Version]:
        """A version has been superseded; yields the versions that are not needed any more."""
        chain = self.of(key)
        if chain is None or chain.generation != generation:
            chain = self._ending.get((key, generation))
        if chain is not None:
            chain.behind[old] = new
            yield from self._advance(key, chain)

    def forget_before(self, pointer: Pointer) -> None:
        """A buffer has this GC version by now: a link behind what was in it before is one of long ago."""
        for chain in [*self._known.values(), *self._ending.values()]:
            if chain is not None:
                for old in [old for old in chain.behind if _is_before(old, pointer)]:
                    del chain.behind[old]

    def delete(self, key: int, generation: int, end: Version) -> Iterator[Version]:
        """A key's chain ends with this version; yields the versions that are not needed any more.

        Nothing, if that chain has ended before: the key may be there again.
        """
        chain = self.of(key)
        if chain is not None and chain.generation == generation:
            self.know(key, None, generation)
            chain.end = end
            self._ending[key, generation] = chain
            yield from self._advance(key, chain)

    def _advance(self, key: int, chain: Chain) -> Iterator[Version]:
        ending = chain.end is not None
        yield from chain.advance()
        if ending and chain.end is None:
            del self._ending[key, chain.generation]


def _is_before(version: Version, pointer: Pointer) -> bool:
    return any(one.location == pointer.location and one.version != pointer.version for one in version)
