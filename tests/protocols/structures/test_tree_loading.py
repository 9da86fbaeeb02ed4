"""Is a tree that is loaded before time zero the one that inserts one by one make?"""

import random
from array import array
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.structures.binary import NOBODY, BinaryTree, shape_of
from rpsim.protocols.structures.bpt import Bpt
from rpsim.protocols.structures.bst import Bst
from rpsim.protocols.structures.btree import BTree
from rpsim.protocols.structures.bulk import grown
from rpsim.protocols.structures.loading import LoadedItems
from rpsim.protocols.structures.mv_bpt import MvBpt
from rpsim.protocols.structures.mv_bst import MvBst
from rpsim.protocols.structures.structure import Algorithm
from rpsim.sim.bytespace import LINE_BYTES

from .memory import Memory
from .shapes import BINARY, SMALL, Shape, SmallBpt, Tree

KEYS = st.lists(st.integers(0, (1 << 64) - 1), unique=True, max_size=60)


@pytest.mark.parametrize("kind", [*BINARY, *SMALL])
@given(keys=KEYS, size=st.sampled_from([8, 24, 40, 104]))
def test_what_is_loaded_is_what_inserts_make(kind: type[Algorithm], keys: list[int], size: int) -> None:
    loaded, inserted = Tree(kind, size), Tree(kind, size)
    loaded.load({key: loaded.value(number + 1) for number, key in enumerate(keys)})
    for number, key in enumerate(keys):
        inserted.insert(key, number + 1)
    if issubclass(kind, BinaryTree):
        assert loaded.binary() == inserted.binary()
    else:
        assert loaded.levels() == inserted.levels()
    assert loaded.found(keys) == inserted.found(keys) == {key: loaded.value(n + 1) for n, key in enumerate(keys)}


@given(first=KEYS, later=st.lists(st.integers(0, (1 << 64) - 1), max_size=10))
@pytest.mark.parametrize("kind", [*BINARY, *SMALL])
def test_a_loaded_tree_grows_on(kind: type[Algorithm], first: list[int], later: list[int]) -> None:
    tree = Tree(kind, 24)
    tree.load(dict.fromkeys(first, tree.value(1)))
    for key in later:
        tree.insert(key, 2)
    assert tree.keys() == sorted({*first, *later})
    assert tree.found(later) == dict.fromkeys(later, tree.value(2))


@given(times=st.permutations(range(12)))
def test_the_shape_of_a_binary_tree_is_that_of_its_inserts(times: list[int]) -> None:
    """Against the definition: the first insert is the root, and splits all others."""

    def plain(places: list[int]) -> Shape:
        if not places:
            return None
        top = min(places, key=times.__getitem__)
        at = places.index(top)
        return top, plain(places[:at]), plain(places[at + 1 :])

    shape = shape_of(times)

    def read(place: int) -> Shape:
        return None if place == NOBODY else (place, read(shape.left[place]), read(shape.right[place]))

    assert read(shape.top) == plain(list(range(12)))


@given(count=st.integers(1, 9), size=st.integers(1, 200))
def test_items_lie_in_as_few_lines_as_they_need(count: int, size: int) -> None:
    memory = Memory()
    items = LoadedItems(memory.image, count, size)
    items.compute(memory.image, lambda number: bytes([number + 1]) * size)
    for number in range(count):
        first, last = items[number], items[number] + size - 1
        assert memory.peek(first, size) == bytes([number + 1]) * size
        assert last // LINE_BYTES - first // LINE_BYTES == (size - 1) // LINE_BYTES
    assert items.length <= count * -(-size // LINE_BYTES) * LINE_BYTES


class Touched(Mapping[int, bytes]):
    """300,000 entries whose values say when they are looked at."""

    def __init__(self, count: int) -> None:
        draw = random.Random(5)
        self.keys_in_order = [draw.getrandbits(64) for _ in range(count)]
        self.touched = 0

    def __getitem__(self, key: int) -> bytes:
        self.touched += 1
        return key.to_bytes(8, "little")

    def __iter__(self) -> Iterator[int]:
        return iter(self.keys_in_order)

    def __len__(self) -> int:
        return len(self.keys_in_order)


@pytest.mark.long
@pytest.mark.parametrize("kind", [Bst, MvBst, Bpt, MvBpt])
def test_what_nobody_reads_is_not_computed(kind: type[Algorithm]) -> None:
    """300,000 keys, a find of each of ten: the values in the lines that these touch, and no others."""
    entries = Touched(300_000)
    tree = Tree(kind)
    tree.load(entries)
    assert entries.touched == 0
    for key in entries.keys_in_order[::30_000]:
        assert tree.find(key) == key.to_bytes(8, "little")
    assert entries.touched <= 10 * (2 * 60 if issubclass(kind, BinaryTree) else 260)


def test_a_shape_is_found_once_for_equal_keys() -> None:
    packed = array("Q", [5, 3, 8, 1, 4]).tobytes()
    assert grown(packed, 3) is grown(bytes(bytearray(packed)), 3)
    levels = [[list(keys) for keys in nodes] for nodes in grown(packed, 3)]
    assert levels == [[[1, 3, 4], [5, 8]], [[5]]]
    tree = Tree(SmallBpt)
    for key in (5, 3, 8, 1, 4):
        tree.insert(key)
    assert tree.levels() == levels


@pytest.mark.parametrize("kind", [*BINARY, *SMALL])
def test_an_empty_tree_may_be_loaded(kind: type[Algorithm]) -> None:
    tree = Tree(kind)
    tree.memory.poke(tree.root, b"\xa5" * 8)
    tree.load({})
    assert tree.keys() == [] and tree.find(1) is None
    tree.insert(1)
    assert tree.keys() == [1]
    assert not issubclass(kind, BTree) or tree.levels() == [[[1]]]
