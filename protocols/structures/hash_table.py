"""The hash table of rNVM: buckets that point to chains of nodes.

The paper says no more than that it is one of O(1). Read here as the plainest: a bucket is the address of its chain's
first node; a node is a key, a value and the address of the next. So a find reads the bucket and, as a rule, one node.
An insert reads them too, to see whether the key is there. A new key's node goes to the chain's head: a node is
written, and then the bucket. A key that is there gets a new node in the old one's place, not a new value in the old
node: a crash in a mode without logs would leave a value of more than 8 bytes half written. The number of buckets never
changes: the smallest power of two that has a bucket for each key that is loaded. Readers look at the sequence number:
the old node's block is used again for another key, and a reader may come to it late.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, round_up
from ..layout import U64, WORD, Layout, Rest
from .records import bucket_of, buckets_of, show, values_as_words, words_of
from .source import RNVM
from .space import Image, Space
from .structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]

LEAST_BITS = 6
"""A table has 2**6 buckets at least, eight lines: a structure that begins empty is not a single chain (assumed)."""


class HashRoot(Layout):
    """The root: where the buckets are, and the logarithm of their number."""

    buckets = U64()
    bits = U64()


class HashNode(Layout):
    """A key and its value; ``next`` is the address of the chain's next node, 0 at its end."""

    key = U64()
    next = U64()
    value = Rest()


class HashTable(Algorithm):
    """``insert`` and ``find``; see the module."""

    root_bytes: ClassVar[int] = HashRoot.size

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.node_bytes = HashNode.size + value_bytes

    @override
    def perform(self, operation: Operation) -> Code:
        space, key = self.space, operation.key
        table = HashRoot.unpack((yield from space.read_held(self.root, HashRoot.size)))
        place = bucket = table.buckets + WORD * bucket_of(key, table.bits)
        first = address = int.from_bytes((yield from space.read(bucket, WORD)), "little")
        while address:
            node = HashNode.unpack((yield from space.read(address, self.node_bytes)))
            if node.key == key:
                break
            place, address = address + HashNode.offset_of("next"), node.next
        if operation.f == "find":
            return node.value if address else None
        value = operation.value
        assert value is not None
        made = yield from space.allocate(self.node_bytes)
        yield from space.write(made, HashNode.pack(key=key, next=node.next if address else first, value=value))
        yield from space.publish(place if address else bucket, made.to_bytes(WORD, "little"))
        if address:
            yield from space.free(address, self.node_bytes)
        return None

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        count = len(entries)
        bits = max(LEAST_BITS, (count - 1).bit_length())
        each = words_of(HashNode.size + value_bytes)
        if each * WORD >= LINE_BYTES:
            each = round_up(each * WORD) // WORD  # a block of a line or more begins at a line
        buckets = image.allocate(WORD << bits)
        nodes = image.allocate(max(LINE_BYTES, round_up(count * each * WORD)))

        keys = np.fromiter(entries, np.uint64, count)
        addresses = np.uint64(nodes) + np.arange(count, dtype=np.uint64) * np.uint64(each * WORD)
        hashed = buckets_of(keys, bits)
        order = np.argsort(hashed, kind="stable")  # bucket by bucket, the oldest first
        same = np.diff(hashed[order]) == 0
        words = np.zeros((count, each), np.uint64)
        words[:, 0] = keys
        words[order[1:][same], 1] = addresses[order[:-1][same]]
        words[:, 2 : 2 + words_of(value_bytes)] = values_as_words(entries.values(), value_bytes)
        heads = np.zeros(1 << bits, np.uint64)
        last = np.append(~same, True)[-count:] if count else np.zeros(0, bool)
        heads[hashed[order[last]]] = addresses[order[last]]
        show(image, buckets, heads)
        show(image, nodes, words)
        image.put(root, HashRoot.pack(buckets=buckets, bits=bits))


class HashTableStructure(Structure, name="hash-table"):
    """Objects are keys. Without batches: the paper leaves them out for what is O(1) (table 3)."""

    title = "hash table with chains"
    paper = RNVM
    section = "section 10.2, table 3"
    model = "kv"
    operations = ("insert", "find")
    updates = frozenset({"insert"})
    inserts = "insert"
    batched = False
    algorithm = HashTable
