"""Do the trees do what a dictionary does, alone and in vectors, whatever is kept between two operations?"""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpsim.protocols.layout import word_of
from rpsim.protocols.structures.bpt import Bpt
from rpsim.protocols.structures.bst import Bst
from rpsim.protocols.structures.btree import BTree, NodeContent, NodeEntry, split
from rpsim.protocols.structures.mv_bpt import MvBpt
from rpsim.protocols.structures.mv_bst import MvBst
from rpsim.protocols.structures.structure import Algorithm, Operation

from .memory import Memory, run
from .shapes import BINARY, SMALL, TREES, SmallBpt, Tree

KEYS = st.integers(0, 40) | st.integers((1 << 64) - 3, (1 << 64) - 1)
STEPS = st.lists(st.tuples(st.sampled_from(["insert", "insert", "find"]), KEYS), max_size=30)
SIZES = st.sampled_from([8, 24])


def operations(tree: Tree, steps: Sequence[tuple[str, int]]) -> list[Operation]:
    """The steps as operations, each insert with a value of its own."""
    return [Operation(f, key, tree.value(n + 1) if f == "insert" else None) for n, (f, key) in enumerate(steps)]


def expected(model: dict[int, bytes], asked: Sequence[Operation]) -> list[bytes | None]:
    """What a dictionary returns."""
    results: list[bytes | None] = []
    for one in asked:
        results.append(model.get(one.key) if one.f == "find" else None)
        if one.value is not None:
            model[one.key] = one.value
    return results


@pytest.mark.parametrize("kind", [*BINARY, *SMALL])
@given(steps=STEPS, size=SIZES, by_field=st.booleans())
def test_any_sequence_is_that_of_a_dictionary(
    kind: type[Algorithm], steps: list[tuple[str, int]], size: int, by_field: bool
) -> None:
    tree, model = Tree(kind, size, by_field), dict[int, bytes]()
    asked = operations(tree, steps)
    assert [run(tree.algorithm().perform(one)) for one in asked] == expected(model, asked)
    assert tree.keys() == sorted(model)
    assert tree.found(model) == model


@pytest.mark.parametrize("kind", [*BINARY, *SMALL])
@given(batches=st.lists(STEPS, max_size=3), size=SIZES)
@example([[("insert", 5), ("insert", 0), ("insert", 1)], [("insert", 0), ("insert", 5), ("insert", 6)]], 8)
def test_a_vector_is_its_operations_one_by_one(
    kind: type[Algorithm], batches: list[list[tuple[str, int]]], size: int
) -> None:
    tree, single, model = Tree(kind, size), Tree(kind, size), dict[int, bytes]()
    for steps in batches:
        asked = operations(tree, steps)
        assert run(tree.algorithm().perform_all(asked)) == expected(model, asked)
        for one in asked:
            run(single.algorithm().perform(one))
    assert tree.keys() == single.keys() == sorted(model)
    assert tree.found(model) == single.found(model) == model
    if kind in BINARY:
        assert tree.binary() == single.binary()


@pytest.mark.parametrize("kind", TREES)
def test_a_vector_reads_each_node_once_and_a_level_at_once(kind: type[Algorithm]) -> None:
    draw = random.Random(7)
    tree = Tree(kind)
    tree.load(dict.fromkeys((draw.getrandbits(64) for _ in range(3000)), tree.value(1)))
    asked = [Operation("insert", draw.getrandbits(64), tree.value(2)) for _ in range(100)]
    paths = []
    for one in asked:
        tree.memory.forget()
        run(tree.algorithm().perform(Operation("find", one.key)))
        paths.append(tree.memory.reads)
    distinct = {node for path in paths for node in path}
    tree.memory.forget()
    run(tree.algorithm().perform_all(asked))
    assert len(tree.memory.reads) == len(distinct) < sum(map(len, paths)) / 2
    assert set(tree.memory.reads) == distinct
    assert tree.memory.rounds == max(map(len, paths))
    assert tree.memory.depths == sorted(tree.memory.depths)


@pytest.mark.parametrize("kind", [MvBst, MvBpt])
def test_a_vector_shares_the_copies_of_a_path(kind: type[Algorithm]) -> None:
    draw = random.Random(7)
    tree = Tree(kind)
    tree.load(dict.fromkeys((draw.getrandbits(64) for _ in range(3000)), tree.value(1)))
    tree.memory.forget()
    run(tree.algorithm().perform_all([Operation("insert", draw.getrandbits(64), tree.value(2)) for _ in range(100)]))
    read = len(tree.memory.reads) - 1  # without the root pointer
    written = len(tree.memory.allocated)
    assert written == read + (100 if kind is MvBst else 0)
    assert tree.memory.published == [tree.root]


def test_a_find_in_a_binary_tree_is_as_deep_as_a_random_tree() -> None:
    """A search without success visits 2 (H(n+1) - 1) nodes of a random tree (Knuth, volume 3, section 6.2.2)."""
    draw = random.Random(3)
    tree, count = Tree(Bst), 20_000
    tree.load(dict.fromkeys((draw.getrandbits(64) for _ in range(count)), tree.value(1)))
    for _ in range(400):
        run(tree.algorithm().perform(Operation("find", draw.getrandbits(64))))
    visits = len(tree.memory.reads) / 400 - 1
    euler = 0.5772
    assert visits == pytest.approx(2 * (math.log(count) + euler - 1), rel=0.05)


def test_an_insert_into_a_binary_tree_is_a_node_and_a_pointer() -> None:
    tree = Tree(Bst)
    tree.insert(5)
    tree.memory.forget()
    tree.insert(3)
    node = tree.memory.allocated[0][0]
    assert [len(data) for _, data in tree.memory.writes] == [32, 8]
    assert tree.memory.writes[0][0] == node and tree.memory.published == [tree.memory.writes[1][0]]
    tree.memory.forget()
    tree.insert(3, 2)
    assert tree.memory.writes == [(node + 24, tree.value(2))] and tree.find(3) == tree.value(2)


def test_a_shift_in_a_leaf_is_one_write() -> None:
    tree = Tree(Bpt)
    for key in range(0, 24, 2):
        tree.insert(key)
    tree.memory.forget()
    tree.insert(7)
    assert [len(data) for _, data in tree.memory.writes] == [16 * 9, 8]  # eight move behind it; then their number
    tree.memory.forget()
    tree.insert(7, 2)
    assert [data for _, data in tree.memory.writes] == [tree.value(2)]


def test_a_naive_walk_reads_key_by_key() -> None:
    """Of a leaf its head and each key up to the first that is not smaller; then the value."""
    tree = Tree(Bpt, by_field=True)
    for key in range(0, 24, 2):
        tree.insert(key)
    tree.memory.forget()
    assert tree.find(6) == tree.value(1)
    assert [length for _, length in tree.memory.reads] == [8] * (1 + 1 + 4 + 1)
    tree.memory.forget()
    assert tree.find(7) is None
    assert len(tree.memory.reads) == 1 + 1 + 5


@pytest.mark.parametrize(("pages", "keys"), [(1, 100), (2, 300)])
def test_a_page_is_copied_whole(pages: int, keys: int) -> None:
    tree = Tree(MvBpt)
    tree.load(dict.fromkeys(range(0, 2 * keys, 2), tree.value(1)))
    before = tree.memory.copy()
    tree.memory.forget()
    tree.insert(7)
    assert [len(data) for _, data in tree.memory.writes] == [4096] * pages + [8]
    assert tree.at(before).keys() == list(range(0, 2 * keys, 2))
    old = before.copy()
    old.lines = {**tree.memory.lines, tree.root // 64: before.lines[tree.root // 64]}
    assert tree.at(old).keys() == list(range(0, 2 * keys, 2))  # the old version is still whole behind its root


@given(count=st.integers(1, 100), capacity=st.integers(3, 9), level=st.integers(0, 1))
def test_a_split_fills_the_least_number_of_nodes_evenly(count: int, capacity: int, level: int) -> None:
    entries = [NodeEntry.pack(key=key, word=word_of(1000 + key)) for key in range(count)]
    pieces = split(level, NodeContent(1, entries), capacity)
    sizes = [len(content.entries) for _, content in pieces]
    assert max(sizes) <= capacity and max(sizes) - min(sizes) <= 1
    assert sum(sizes) + level * (len(pieces) - 1) == count
    assert (len(pieces) - 1) * (capacity + level) < count + level
    again = [] if level else list(pieces[0][1].entries)
    for number, (key, (link, own)) in enumerate(pieces):
        if level:
            again += [*([key + word_of(link)] if number else []), *own]
        elif number:
            assert own[0][:8] == key
            again += own
    assert again == entries


@given(kept=st.lists(st.integers(0, 60), unique=True, max_size=40), gone=st.sets(st.integers(0, 60)), one=st.booleans())
def test_an_entry_that_is_removed_is_gone(kept: list[int], gone: set[int], one: bool) -> None:
    """As TATP deletes: a write without a value."""
    tree = Tree(SmallBpt, 24)
    for key in kept:
        tree.insert(key, key + 1)
    removals = [Operation("w", key) for key in sorted(gone)]
    for batch in [[each] for each in removals] if one else [removals]:
        run(tree.algorithm().perform_all(batch))
    assert tree.keys() == sorted(set(kept) - gone)
    for key in kept:
        tree.insert(key, key + 2)
    assert tree.found(kept) == {key: tree.value(key + 2) for key in kept}
    assert tree.keys() == sorted(kept)


def test_nothing_is_written_by_a_vector_of_finds() -> None:
    for kind in TREES:
        tree = Tree(kind)
        assert run(tree.algorithm().perform_all([Operation("find", 1), Operation("find", 2)])) == [None, None]
        assert run(tree.algorithm().perform_all([])) == []
        tree.insert(1)
        tree.memory.forget()
        assert run(tree.algorithm().perform_all([Operation("find", 1), Operation("find", 2)])) == [tree.value(1), None]
        assert run(tree.algorithm().perform_all([])) == []
        assert tree.memory.writes == [] and tree.memory.allocated == []


def test_a_b_tree_is_as_flat_as_its_nodes_are_wide() -> None:
    draw = random.Random(1)
    for kind, count in ((Bpt, 3000), (MvBpt, 30_000)):
        keys = [draw.getrandbits(64) for _ in range(count)]
        assert issubclass(kind, BTree)
        tree = Tree(kind)
        tree.load(dict.fromkeys(keys, tree.value(1)))
        levels = tree.levels()
        fill = len(keys) / len(levels[0]) / kind.capacity
        assert fill == pytest.approx(math.log(2), abs=0.06)  # Yao 1978; a few percent of waves beside it
        tree.memory.forget()
        tree.find(draw.getrandbits(64))
        assert len(tree.memory.reads) == 1 + len(levels)


@pytest.mark.parametrize("kind, given_back", [(Bpt, True), (MvBpt, False)])
@pytest.mark.parametrize("together", [False, True])
def test_the_record_of_a_deleted_entry_is_given_back_unless_an_old_version_has_it(
    kind: type[Algorithm], given_back: bool, together: bool
) -> None:
    memory = Memory()
    root = memory.image.allocate(64)
    kind.load(memory.image, root, {key: bytes([key]) * 16 for key in range(1, 9)}, 16)
    tree = kind(memory, root, 16)
    memory.forget()
    changes = [Operation("w", 50, bytes(16)), Operation("w", 3, None), Operation("w", 4, b"longer than a wo")]
    run(tree.perform_all(changes)) if together else [run(tree.perform(one)) for one in changes]
    run(tree.perform(Operation("w", 50, None)))
    records = [length for _, length in memory.freed if length == 16]
    assert len(records) == (2 if given_back else 0)
    assert run(tree.perform(Operation("r", 4))) == b"longer than a wo"
