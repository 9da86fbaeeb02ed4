"""Are the structures of rNVM that are no trees right, by the accesses that the paper gives them?"""

from collections import deque
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.structures.hash_table import LEAST_BITS, HashTable
from rpsim.protocols.structures.queue import ListQueue
from rpsim.protocols.structures.records import bucket_of
from rpsim.protocols.structures.skip_list import LEVELS, SkipList, height_of
from rpsim.protocols.structures.stack import ListStack
from rpsim.protocols.structures.structure import Algorithm, Operation

from .memory import LINE, Memory, run

VALUE_BYTES = 12
"""No whole number of words: what is padded must not be seen."""
CONTAINERS = [(ListStack, "push", "pop"), (ListQueue, "enqueue", "dequeue")]
MAPS = [HashTable, SkipList]
STRUCTURES = [ListStack, ListQueue, HashTable, SkipList]


def value(number: int, length: int = VALUE_BYTES) -> bytes:
    return (number + 1).to_bytes(length, "big")


def made(kind: type[Algorithm], entries=(), by_field: bool = False, length: int = VALUE_BYTES) -> tuple[Memory, int]:
    """A memory with a structure, and where its root is."""
    memory = Memory(by_field)
    root = memory.root(kind.root_bytes)
    kind.load(memory.image, root, dict(entries), length)
    return memory, root


def perform(kind: type[Algorithm], memory: Memory, root: int, *operations: Operation, length: int = VALUE_BYTES):
    """Perform operations one by one, each by an algorithm of its own: it can keep nothing but bytes."""
    return [run(kind(memory, root, length).perform(one)) for one in operations]


def insert(key: int, number: int, length: int = VALUE_BYTES) -> Operation:
    return Operation("insert", key, value(number, length))


def find(key: int) -> Operation:
    return Operation("find", key)


class Counting(dict):
    """A dictionary as a model, which inserts and finds."""

    def take(self, operation: Operation):
        if operation.f == "find":
            return self.get(operation.key)
        self[operation.key] = operation.value
        return None


class Items(deque):
    """A stack or a queue as a model."""

    def take(self, operation: Operation):
        if operation.f in ("push", "enqueue"):
            return self.append(operation.value)
        if not self:
            return None
        return self.pop() if operation.f == "pop" else self.popleft()


def container_operations(put: str, take: str):
    one = st.booleans().map(lambda puts: put if puts else take)
    return st.lists(one, max_size=40).map(
        lambda names: [Operation(f, value=value(turn) if f == put else None) for turn, f in enumerate(names)]
    )


TOGETHER = [key for key in range(3000) if bucket_of(key, LEAST_BITS) == 7][:8]
"""Keys of one bucket."""
KEYS = st.one_of(st.integers(0, 12), st.sampled_from(TOGETHER), st.integers(0, 2**64 - 1))
SOME = st.sampled_from([*range(20), *TOGETHER])
MAP_OPERATIONS = st.lists(
    st.builds(lambda puts, key, n: insert(key, n) if puts else find(key), st.booleans(), KEYS, st.integers(0, 10**6)),
    max_size=40,
)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def pieces(operations: list[Operation], sizes: list[int]) -> list[list[Operation]]:
    """The operations in batches of these sizes, again and again."""
    found, turn = [], 0
    while operations:
        size = sizes[turn % len(sizes)]
        found.append(operations[:size])
        operations, turn = operations[size:], turn + 1
    return found


@pytest.mark.parametrize(("kind", "put", "take"), CONTAINERS)
@settings(max_examples=40)
@given(st.data())
def test_a_container_is_as_its_model(kind, put, take, data):
    operations, before = data.draw(container_operations(put, take)), data.draw(st.integers(0, 4))
    entries = {number: value(1000 + number) for number in range(before)}
    model = Items(entries.values())
    expected = [model.take(one) for one in operations]
    assert perform(kind, *made(kind, entries), *operations) == expected
    memory, root = made(kind, entries)
    live = len(memory.blocks) - len(entries)
    found = []
    for batch in pieces(operations, data.draw(SIZES)):
        found += run(kind(memory, root, VALUE_BYTES).perform_all(batch))
    assert found == expected
    assert len(memory.blocks) - live == len(model), "as many nodes as items"


@pytest.mark.long
@pytest.mark.parametrize("by_field", [False, True])
@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=40)
@given(operations=MAP_OPERATIONS, loaded=st.lists(KEYS, max_size=12, unique=True), sizes=SIZES)
def test_a_map_is_as_its_model(kind, by_field, operations, loaded, sizes):
    entries = {key: value(2000 + turn) for turn, key in enumerate(loaded)}
    model = Counting(entries)
    expected = [model.take(one) for one in operations]
    memory, root = made(kind, entries, by_field)
    assert perform(kind, memory, root, *operations) == expected
    assert perform(kind, memory, root, *map(find, model)) == list(model.values())
    memory, root = made(kind, entries, by_field)
    found = []
    for batch in pieces(operations, sizes):
        found += run(kind(memory, root, VALUE_BYTES).perform_all(batch))
    assert found == expected
    assert perform(kind, memory, root, *map(find, model)) == list(model.values())


@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=40)
@given(st.lists(KEYS, max_size=30, unique=True), st.integers(1, 70))
def test_loading_is_inserting(kind, keys, length):
    entries = {key: value(turn, length) for turn, key in enumerate(keys)}
    memory, root = made(kind, entries, length=length)
    wanted = [find(key) for key in [*keys, 5, 1 << 63]]
    found = perform(kind, memory, root, *wanted, length=length)
    again, place = made(kind, length=length)
    perform(kind, again, place, *(Operation("insert", key, each) for key, each in entries.items()), length=length)
    assert found == perform(kind, again, place, *wanted, length=length) == [entries.get(one.key) for one in wanted]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=60, unique=True))
def test_the_lists_of_a_loaded_skip_list_are_those_of_one_that_grew(keys):
    entries = {key: value(turn) for turn, key in enumerate(keys)}
    grown = made(SkipList)
    perform(SkipList, *grown, *(Operation("insert", key, each) for key, each in entries.items()))
    highest = max(map(height_of, keys), default=0)
    expected = [sorted(key for key in keys if height_of(key) > level) for level in range(highest)]
    assert lists_of(*grown) == lists_of(*made(SkipList, entries)) == expected


def lists_of(memory: Memory, root: int) -> list[list[int]]:
    """The keys on each level of a skip list, from the bottom."""

    def word(address: int) -> int:
        return int.from_bytes(memory.peek(address, 8), "little")

    found = []
    for level in range(word(root)):
        keys, address = [], word(root + 8 + 8 * level)
        while address:
            keys.append(word(address))
            address = word(address + 8 + 16 + 8 * level)
        found.append(keys)
    return found


def are_parts_of_the_lowest(lists: list[list[int]]) -> bool:
    """Whether each list is sorted, and has no node that the one below it has not."""
    below = zip(lists[1:], lists, strict=False)
    return all(each == sorted(each) for each in lists) and all(set(upper) <= set(lower) for upper, lower in below)


# what it costs ----------------------------------------------------------------------------------------------------


def costs(kind, memory, root, operation, length=VALUE_BYTES) -> tuple[int, int]:
    """The reads and the writes of an operation."""
    memory.forget()
    perform(kind, memory, root, operation, length=length)
    return len(memory.reads), len(memory.writes)


@pytest.mark.parametrize(("kind", "put", "take"), CONTAINERS)
def test_a_container_puts_in_by_two_writes_and_takes_out_by_a_read_and_a_write(kind, put, take):
    memory, root = made(kind)
    assert costs(kind, memory, root, Operation(put, value=value(1))) == (0, 2)
    assert costs(kind, memory, root, Operation(put, value=value(2))) == (0, 2)
    assert costs(kind, memory, root, Operation(take)) == (1, 1)
    assert costs(kind, memory, root, Operation(take)) == (1, 1)
    assert costs(kind, memory, root, Operation(take)) == (0, 0)


def test_a_pop_touches_nothing_while_more_was_pushed_than_popped():
    memory, root = made(ListStack, {0: value(7)})
    memory.forget()
    operations = [Operation("push", value=value(1)), Operation("pop"), Operation("push", value=value(2))]
    assert run(ListStack(memory, root, VALUE_BYTES).perform_all([*operations, Operation("pop")])) == [
        None, value(1), None, value(2),
    ]  # fmt: skip
    assert not memory.reads and not memory.writes and not memory.allocated
    run(ListStack(memory, root, VALUE_BYTES).perform_all(operations))
    assert len(memory.writes) == 2 and not memory.reads, "one node, and the head"


def test_what_was_queued_before_the_batch_leaves_first():
    memory, root = made(ListQueue, {0: value(7)})
    memory.forget()
    batch = [Operation("enqueue", value=value(1)), Operation("dequeue"), Operation("dequeue"), Operation("dequeue")]
    assert run(ListQueue(memory, root, VALUE_BYTES).perform_all(batch)) == [None, value(7), value(1), None]
    assert len(memory.reads) == 1 and not memory.allocated, "the one that came and went was never in memory"
    memory.forget()
    run(ListQueue(memory, root, VALUE_BYTES).perform_all([Operation("enqueue", value=value(n)) for n in range(9)]))
    assert (len(memory.reads), len(memory.writes)) == (0, 10), "nine nodes, and the tail once"


@pytest.mark.parametrize(("kind", "put", "take"), CONTAINERS)
def test_no_node_is_used_again_before_the_root_has_left_it(kind, put, take):
    memory, root = made(kind, {n: value(n) for n in range(4)})
    before = memory.copy()
    memory.forget()
    old = {place for place in memory.blocks}
    batch = [Operation(take), Operation(put, value=value(9)), Operation(put, value=value(8)), Operation(take)]
    run(kind(memory, root, VALUE_BYTES).perform_all(batch))
    assert not {place for place, _ in memory.allocated} & old
    (items,) = {tuple(drained(kind, state, root, take)) for state in memory.prefixes(before)[:1]}
    assert len(items) == 4


def drained(kind, memory, root, take) -> list[bytes]:
    items: list[bytes] = []
    while (item := perform(kind, memory, root, Operation(take))[0]) is not None:
        items.append(item)
    return items


def test_a_find_in_a_hash_table_is_two_reads():
    entries = {key * 7919 + 1: value(key) for key in range(3000)}
    memory, root = made(HashTable, entries)
    found = [costs(HashTable, memory, root, find(key)) for key in list(entries)[:400]]
    assert {writes for _, writes in found} == {0}
    assert min(reads for reads, _ in found) == 2
    assert mean(reads for reads, _ in found) < 2.6, "a bucket, and 1 + 3000/4096/2 nodes"
    alone, place = made(HashTable)
    assert costs(HashTable, alone, place, insert(5, 1)) == (1, 2)
    assert costs(HashTable, alone, place, insert(5, 2)) == (2, 2)
    assert costs(HashTable, alone, place, find(5)) == (2, 0)


def test_a_comparison_in_a_skip_list_by_field_is_two_reads():
    keys = [number * 11400714819323198485 & 2**64 - 1 for number in range(1, 2001)]
    entries = {key: value(turn) for turn, key in enumerate(keys)}
    (fields, root), (nodes, place) = made(SkipList, entries, by_field=True), made(SkipList, entries)
    levels = max(map(height_of, keys))
    for key in keys[::50]:
        assert costs(SkipList, fields, root, find(key))[1] == 0
        words = [length for _, length in fields.reads]
        pointers = [at for at, _ in fields.reads if at < root + SkipList.root_bytes and at > root]
        assert set(words[:-1]) == {8} and words[-1] == 16, "field after field, and at last the value"
        comparisons, ends = divmod(len(words) - 2, 2)  # without the number of levels and the value
        assert comparisons + ends <= 4 * levels and pointers
        reads, _ = costs(SkipList, nodes, place, find(key))
        distinct = {at for at, _ in nodes.reads}
        assert reads == len(distinct) <= comparisons + 1, "each node once"
        assert nodes.depths[0] == 0 and max(nodes.depths) <= levels
    average = mean(costs(SkipList, fields, root, find(key))[0] for key in keys[::20])
    assert 2 * 1.2 * 11 < average < 2 * 2.6 * 11, "about twice two comparisons for each of log2(2000) levels (Pugh)"


def test_an_insert_into_a_skip_list_is_a_node_and_a_pointer_a_level_from_the_bottom_up():
    memory, root = made(SkipList, {key << 40: value(key) for key in range(1, 500)})
    for key in range(12345, 12395):
        _, writes = costs(SkipList, memory, root, insert(key << 30, 1))
        height = height_of(key << 30)
        assert writes == 1 + height + (len(memory.published) - height)
        (node,) = memory.allocated
        assert memory.writes[0][0] == node[0]
        assert [int.from_bytes(data, "little") for _, data in memory.writes[-height:]] == [node[0]] * height


@pytest.mark.parametrize("by_field", [False, True])
def test_a_batch_reads_what_it_meets_once(by_field):
    keys = [number * 11400714819323198485 & 2**64 - 1 for number in range(1, 1001)]
    memory, root = made(SkipList, {key: value(1) for key in keys}, by_field)
    twin = memory.copy()
    operations = [insert(key + 3, 5) for key in keys[::5]]
    memory.forget()
    run(SkipList(memory, root, VALUE_BYTES).perform_all(operations))
    assert len(memory.reads) == len(set(memory.reads))
    singly = sum(costs(SkipList, twin, root, one)[0] for one in operations)
    assert len(memory.reads) < singly / 2


def test_heights_are_those_of_coins():
    drawn = [height_of(key) for key in range(1, 40001)]
    assert 1.95 < mean(drawn) < 2.05
    for height in range(1, 8):
        assert sum(each > height for each in drawn) / 40000 == pytest.approx(0.5**height, rel=0.15)
    assert max(drawn) <= LEVELS


# a crash between two writes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAPS)
@settings(max_examples=25)
@given(
    loaded=st.lists(SOME, max_size=20, unique=True), new=SOME, then=st.lists(SOME, max_size=6),
)  # fmt: skip
def test_after_any_prefix_of_an_inserts_writes_all_finds_are_right(kind, loaded, new, then):
    """The key that was under way is there or not; what is inserted after it is found; nothing else has changed."""
    entries = {key: value(key) for key in loaded}
    memory, root = made(kind, entries)
    before = memory.copy()
    memory.forget()
    perform(kind, memory, root, insert(new, 500))
    everything = {*loaded, new, *then, 41}
    for state in memory.prefixes(before):
        assert kind is not SkipList or are_parts_of_the_lowest(lists_of(state, root))
        (found,) = perform(kind, state, root, find(new))
        assert found in (entries.get(new), value(500))
        expected = entries | ({} if found is None else {new: found})
        for turn, key in enumerate(then):
            perform(kind, state, root, insert(key, 600 + turn))
            expected = expected | {key: value(600 + turn)}
        assert perform(kind, state, root, *map(find, everything)) == [expected.get(key) for key in everything]


class Late(Memory):
    """Keeps back what is written."""

    def __init__(self, space, writes):
        vars(self).update(vars(space))
        self.late = writes

    def write(self, address, data):
        yield from ()
        self.late.append((address, data))

    def publish(self, address, data):
        yield from self.write(address, data)


@pytest.mark.parametrize("kind", MAPS)
def test_pointers_before_what_they_point_to_are_noticed(kind):
    memory, root = made(kind, {key: value(key) for key in range(0, 40, 2)})
    before = memory.copy()
    memory.forget()
    writes: list[tuple[int, bytes]] = []
    run(kind(Late(memory, writes), root, VALUE_BYTES).perform(insert(9, 500)))
    for address, data in reversed(writes):
        run(memory.write(address, data))
    wrong = 0
    for state in memory.prefixes(before)[1:-1]:
        try:
            wrong += perform(kind, state, root, find(9))[0] not in (None, value(500))
            wrong += perform(kind, state, root, *map(find, range(10, 40, 2))) != [*map(value, range(10, 40, 2))]
        except AssertionError:
            wrong += 1
    assert wrong


# loading much ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", MAPS)
def test_300000_keys_are_loaded_without_a_write_and_found(kind):
    keys = [number * 11400714819323198485 & 2**64 - 1 for number in range(1, 300_001)]
    entries = dict.fromkeys(keys, bytes(8))
    memory, root = made(kind, entries, length=8)
    assert len(memory.lines) < 20, "lines are made when they are touched"
    assert perform(kind, memory, root, *map(find, keys[::30000]), length=8) == [bytes(8)] * 10
    assert perform(kind, memory, root, find(3), length=8) == [None]
    assert all(address % LINE == 0 for address in memory.blocks)
