"""LibCuckoo: a dictionary, whatever threads do at once, through displacements and doublings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.pmr.cuckoo import Cuckoo
from rpsim.protocols.pmr.loading import NOBODY, places_of
from rpsim.protocols.pmr.store import Encoded, Store, StoreSizes
from rpsim.protocols.pmr.table import all_hashed, alternative, hashed, tag_of

from ...disk import Disk

KEYS = [f"k{number}".encode() for number in range(60)]
SIZES = StoreSizes(16, 48, 1000, 4)
Operation = tuple[str, int, bytes]
operations = st.lists(
    st.tuples(st.sampled_from(["put", "put", "get", "remove"]), st.integers(0, 59), st.binary(max_size=48)),
    max_size=120,
)


def store_on(disk: Disk, loaded: dict[str, bytes] | None = None) -> Cuckoo:
    store = Cuckoo(disk.node, SIZES)
    store.begin()
    store.load(Encoded(loaded or {}))
    return store


def perform(store: Store, thread: Any, listed: list[Operation], model: dict[bytes, bytes]) -> Any:
    for f, number, value in listed:
        key = KEYS[number]
        if f == "put":
            yield from store.put(thread, key, value)
            model[key] = value
        elif f == "remove":
            yield from store.remove(thread, key)
            model.pop(key, None)
        else:
            assert (yield from store.get(thread, key)) == model.get(key)


@settings(max_examples=15, deadline=None)
@given(operations, st.dictionaries(st.integers(0, 59), st.binary(max_size=48), max_size=40))
def test_it_is_a_dictionary(listed: list[Operation], loaded: dict[int, bytes]) -> None:
    disk = Disk()
    store = store_on(disk, {f"k{number}": value for number, value in loaded.items()})
    model = {KEYS[number]: value for number, value in loaded.items()}
    everything = [("get", number, b"") for number in range(60)]
    disk.run(perform(store, disk.thread, listed + everything, model))
    assert store.taken == len(model)


@pytest.mark.parametrize("loaded", [0, 28])
def test_threads_that_put_at_once_lose_nothing_while_the_table_doubles(loaded: int) -> None:
    disk, model = Disk(), {f"k{number}": b"loaded" for number in range(loaded)}
    store = store_on(disk, model)
    mine = [[("put", number, bytes([number, round])) for round in range(2) for number in range(lane, 60, 4)]
            for lane in range(4)]  # fmt: skip
    own: list[dict[bytes, bytes]] = [{} for _ in mine]
    disk.run(*(perform(store, thread, listed, model_of)
               for thread, listed, model_of in zip(disk.threads, mine, own, strict=True)))  # fmt: skip
    whole = {key: value for each in own for key, value in each.items()}
    assert store.doublings >= 1 and store.taken == 60 and len(whole) == 60
    disk.run(perform(store, disk.thread, [("get", number, b"") for number in range(60)], whole))


def test_a_full_pair_of_buckets_makes_room_by_moving_keys() -> None:
    disk = Disk()
    store = Cuckoo(disk.node, StoreSizes(16, 48, 1000, 1), power=6)
    store.begin()
    model: dict[bytes, bytes] = {}
    keys = [f"key{number}".encode() for number in range(225)]  # 0.88 of 256 places

    def put() -> Any:
        for number, key in enumerate(keys):
            yield from store.put(disk.thread, key, bytes([number % 256]))
            model[key] = bytes([number % 256])
        for key in keys:
            assert (yield from store.get(disk.thread, key)) == model[key]

    disk.run(put())
    assert store.doublings == 0 and store.moves > 0


def test_a_doubling_is_waited_for_by_everybody() -> None:
    """The put that doubles holds every lock: a get of another thread, invoked meanwhile, returns behind it."""
    disk = Disk()
    store = Cuckoo(disk.node, StoreSizes(16, 48, 1000, 2), power=6)
    store.begin()
    ends: dict[str, int] = {}

    def put() -> Any:
        number = 0
        while not store.doublings:
            yield from store.put(disk.threads[0], f"x{number}".encode(), b"1")
            number += 1
        ends["put"] = disk.clock.now_ps

    longest = 0

    def get() -> Any:
        nonlocal longest
        while "put" not in ends:
            before = disk.clock.now_ps
            yield from store.get(disk.threads[1], b"x0")
            longest = max(longest, disk.clock.now_ps - before)

    usual = []
    disk.run(put(), get())

    def again() -> Any:
        before = disk.clock.now_ps
        yield from store.get(disk.threads[1], b"x0")
        usual.append(disk.clock.now_ps - before)

    disk.run(again())
    assert longest > 20 * usual[0]


def test_many_keys_are_loaded_without_making_their_bytes() -> None:
    disk = Disk()
    store = Cuckoo(disk.node, SIZES)
    store.begin()
    names = {f"k{number}": b"v%d" % number for number in range(20_000)}
    store.load(Encoded(names))
    assert store.taken == 20_000
    assert len(disk.node.memory["dram"].space._pages) < 10
    model = {b"k7": b"v7", b"k19999": b"v19999"}

    def get() -> Any:
        for key, value in model.items():
            assert (yield from store.get(disk.thread, key)) == value
        assert (yield from store.get(disk.thread, b"k20000")) is None

    disk.run(get())


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=80, unique=True))
def test_loading_puts_each_key_into_one_of_its_buckets(keys: list[bytes]) -> None:
    places = places_of(b"".join(keys), 16, 5)
    assert places is not None
    assert sorted(places[places != NOBODY]) == list(range(len(keys)))
    for bucket, slot in np.argwhere(places != NOBODY):
        number = hashed(keys[places[bucket, slot]])
        assert bucket in (number & 31, alternative(31, number & 31, tag_of(number)))
    assert [int(word) for word in all_hashed(b"".join(keys), 16)] == [hashed(key) for key in keys]


def test_a_new_process_begins_with_an_empty_table() -> None:
    disk = Disk()
    store = store_on(disk, {"k1": b"1"})
    store.begin()
    disk.run(perform(store, disk.thread, [("get", 1, b"")], {}))


@pytest.mark.parametrize(("key", "value"), [(bytes(17), b""), (b"k", bytes(49))])
def test_what_does_not_fit_is_refused(key: bytes, value: bytes) -> None:
    disk = Disk()
    store = store_on(disk)
    with pytest.raises(ValueError, match="there is room for 16 and 48 bytes"):
        disk.run(store.put(disk.thread, key, value))
