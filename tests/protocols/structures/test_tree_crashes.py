"""What does a failure leave of a tree whose writes last in order: what of them is there, and what does a find say?"""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpsim
from rpsim.protocols.scheme import OperationFailed
from rpsim.protocols.structures.bpt import Bpt
from rpsim.protocols.structures.bst import Bst
from rpsim.protocols.structures.btree import BTree
from rpsim.protocols.structures.mv_bst import MvBst
from rpsim.protocols.structures.structure import Algorithm, Operation

from .memory import Memory, run
from .shapes import SMALL, SmallBpt, SmallMvBpt, Tree

MOST = 16
KEYS = st.integers(0, MOST - 1)
BATCHES = st.lists(KEYS, min_size=1, max_size=5)
VERSIONED: list[type[Algorithm]] = [MvBst, SmallMvBpt]


def filled(kind: type[Algorithm], keys: set[int], size: int) -> tuple[Tree, dict[int, bytes]]:
    """A tree with these keys, and what it holds."""
    tree = Tree(kind, size)
    for key in sorted(keys, key=lambda key: key * 7 % 31):
        tree.insert(key, 1)
    return tree, dict.fromkeys(keys, tree.value(1))


def states_of(tree: Tree, batch: list[int]) -> list[Memory]:
    """Insert a batch, and say what a failure leaves after each of its writes."""
    before = tree.memory.copy()
    tree.memory.forget()
    run(tree.algorithm().perform_all([Operation("insert", key, tree.value(n + 2)) for n, key in enumerate(batch)]))
    return tree.memory.prefixes(before)


@pytest.mark.long
@pytest.mark.parametrize("kind", VERSIONED)
@given(keys=st.sets(KEYS), batch=BATCHES, size=st.sampled_from([8, 24]))
def test_a_version_is_there_with_its_root_or_not_at_all(
    kind: type[Algorithm], keys: set[int], batch: list[int], size: int
) -> None:
    tree, old = filled(kind, keys, size)
    *earlier, last = states_of(tree, batch)
    assert tree.memory.published == [tree.root] == [tree.memory.writes[-1][0]]
    for state in earlier:
        left = tree.at(state)
        assert left.keys() == sorted(old) and left.found(range(MOST)) == old
    new = old | {key: tree.value(n + 2) for n, key in enumerate(batch)}
    assert tree.at(last).keys() == sorted(new) and tree.at(last).found(range(MOST)) == new


@given(keys=st.sets(KEYS), batch=BATCHES, size=st.sampled_from([8, 24]))
def test_a_binary_tree_is_right_after_any_write(keys: set[int], batch: list[int], size: int) -> None:
    """Each key is as it was or as it will be, and none that is being inserted hides another."""
    tree, old = filled(Bst, keys, size)
    states = states_of(tree, batch)
    new = old | {key: tree.value(n + 2) for n, key in enumerate(batch)}
    for state in states:
        left = tree.at(state)
        found = left.found(range(MOST))
        assert left.keys() == sorted(found)
        assert all(found.get(key) in (old.get(key), new.get(key)) for key in range(MOST))
    assert tree.at(states[-1]).found(range(MOST)) == new
    assert tree.at(states[0]).found(range(MOST)) == old


@pytest.mark.parametrize("kind", [Bst, MvBst, SmallMvBpt])
def test_a_root_that_points_too_soon_is_caught(kind: type[Algorithm]) -> None:
    """The last write alone, without those before it: the same tests find that."""
    tree, old = filled(kind, {3, 5, 9, 12, 20}, 8)
    torn = states_of(tree, [4])[0]
    torn.poke(*tree.memory.writes[-1])
    with pytest.raises(AssertionError):
        left = tree.at(torn)
        assert left.keys() == sorted(old) and left.found(range(MOST)) == old


def judged(tree: Tree, state: Memory, keys: dict[int, bytes]) -> rpsim.CheckAnswer:
    """What the checker says of inserts that returned, a failure, and a find of each key."""

    def events() -> Iterator[dict[str, object]]:
        time = 0
        for key in keys:
            for kind in ("invoke", "ok"):
                time += 1
                yield {"process": 0, "type": kind, "f": "insert", "key": str(key), "value": 1, "time": time}
        yield {"type": "crash", "node": "system", "time": time + 1}
        found = tree.at(state).found(keys)
        for number, key in enumerate(keys):
            call = {"process": 1, "f": "find", "key": str(key)}
            yield {**call, "type": "invoke", "time": time + 2 + 2 * number}
            value = 1 if key in found else None
            yield {**call, "type": "ok", "value": value, "time": time + 3 + 2 * number}

    return rpsim.check(list(events()), model="kv")


@pytest.mark.parametrize(("behind", "lost"), [(4, True), (0, False)])
def test_a_shift_that_is_torn_loses_a_key_and_the_checker_says_so(behind: int, lost: bool) -> None:
    """An insert in front of entries moves the last one beyond the count; one behind them all moves nothing."""
    tree = Tree(Bpt)
    for key in (10, 20, 30, 40):
        tree.insert(key)
    old = tree.found((10, 20, 30, 40))
    shifted = states_of(tree, [5 if behind else 50])[1]
    assert len(tree.memory.writes) == 2
    answer = judged(tree, shifted, old)
    assert (answer.verdicts["no_lost_ack"], answer.holds) == (("violated", False) if lost else ("holds", True))


def test_a_shift_may_be_torn_within_its_write() -> None:
    """Any word of a write may be missing: then keys are out of order, and finds miss what is there."""
    tree = Tree(Bpt)
    for key in (10, 20, 30, 40):
        tree.insert(key)
    old = tree.found((10, 20, 30, 40))
    states = states_of(tree, [5])
    address, data = tree.memory.writes[0]
    verdicts = set()
    for word in range(0, len(data), 8):
        state = states[0].copy()
        state.poke(address + word, data[word : word + 8])
        verdicts.add(judged(tree, state, old).verdicts["no_lost_ack"])
    assert verdicts == {"violated", "holds"}


def test_a_split_loses_keys_until_the_parent_knows_it() -> None:
    tree, old = filled(SmallBpt, {10, 20, 30}, 8)
    found = [tree.at(state).found(old) == old for state in states_of(tree, [40])]
    assert found[0] and found[-1] and not all(found)


def test_torn_inner_nodes_fail_a_find_and_do_not_lead_astray() -> None:
    """Zeros where a child's address was, and a node that says another level or too many entries."""
    for kind in SMALL:
        assert issubclass(kind, BTree)
        tree, _ = filled(kind, set(range(20)), 8)
        root = int.from_bytes(tree.memory.peek(tree.root, 8), "little")
        for at, data in ((root + 8, bytes(8)), (root + 8, root.to_bytes(8, "little")), (root, b"\xff" * 8)):
            torn = tree.at(tree.memory.copy())
            torn.memory.poke(at, data)
            torn.memory.forget()
            with pytest.raises(OperationFailed, match="torn"):
                torn.find(0)
            with pytest.raises(OperationFailed, match="torn"):
                torn.insert(0)
            assert torn.memory.writes == []
