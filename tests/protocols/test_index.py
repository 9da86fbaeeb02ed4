"""Does every key keep an entry of its own within its neighbourhood, whoever else lives there?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.parts import placement as placement_module
from rpsim.protocols.parts.index import ENTRY_BYTES, NEIGHBOURHOOD, HashIndex, Location
from rpsim.protocols.parts.kv import key_bytes

from .stores import finish, machines


def formatted(*names: str) -> tuple[HashIndex, list]:
    """A table that holds these keys, object ``i`` at offset ``64 * (i + 1)``, and its system, thread and device."""
    system = machines()
    node = system.nodes["server"][0]
    keys = [key_bytes(name) for name in names]
    index = HashIndex(node.memory["pm"], keys)
    index.load(({key: Location(64 * (turn + 1), 48) for turn, key in enumerate(keys)}).__getitem__)
    return index, [system, node.thread(0, "server"), node.memory["pm"]]


def look_up(index: HashIndex, server: list, key: bytes) -> Location | None:
    """What a client finds in the bytes of the neighbourhood as they stand."""
    system, _, device = server
    address, length = index.neighbourhood(key)
    found = HashIndex.find(key, device.space.read(system.clock.now_ps, address - device.base, length))
    return found and found[1]


def crowd(index: HashIndex, home: int, count: int) -> list[bytes]:
    """Keys that all want to live in the slot ``home``."""
    names = (key_bytes(f"x{number}") for number in range(10_000))
    return [key for key in names if index.home(key) == home][:count]


def publish(index: HashIndex, server: list, key: bytes, location: Location) -> int:
    system, thread, _ = server
    return finish(system, index.publish(thread, key, location))


@settings(max_examples=25)
@given(st.sets(st.integers(0, 500), min_size=1, max_size=60))
def test_every_key_that_it_was_formatted_for_is_found_in_one_read(numbers):
    names = [f"k{number}" for number in sorted(numbers)]
    index, server = formatted(*names)
    for turn, name in enumerate(names):
        assert look_up(index, server, key_bytes(name)) == Location(64 * (turn + 1), 48)


def test_publishing_moves_the_key_and_leaves_its_neighbours_alone():
    index, server = formatted("k0", "k1")
    entry = publish(index, server, b"k0", Location(640, 48))
    assert look_up(index, server, b"k0") == Location(640, 48)
    assert look_up(index, server, b"k1") == Location(128, 48)
    assert (entry - index.address) // ENTRY_BYTES in index.slots_of(b"k0")


def test_keys_with_one_home_live_next_door_to_each_other():
    index, server = formatted("k0")
    home = (index.home(b"k0") + NEIGHBOURHOOD) % (index.slots - NEIGHBOURHOOD)
    keys = crowd(index, home, NEIGHBOURHOOD)
    entries = [publish(index, server, key, Location(1024 + 64 * turn, 48)) for turn, key in enumerate(keys)]
    assert sorted(entries) == [index.address_of(home + turn) for turn in range(NEIGHBOURHOOD)]
    for turn, key in enumerate(keys):
        assert look_up(index, server, key) == Location(1024 + 64 * turn, 48)


def test_a_full_neighbourhood_takes_nobody_in_but_lets_those_who_are_there_move():
    index, server = formatted("k0")
    home = (index.home(b"k0") + NEIGHBOURHOOD) % (index.slots - NEIGHBOURHOOD)
    *keys, late = crowd(index, home, NEIGHBOURHOOD + 1)
    for key in keys:
        publish(index, server, key, Location(1024, 48))
    with pytest.raises(MemoryError, match="the neighbourhood of a new key is full"):
        publish(index, server, late, Location(2048, 48))
    publish(index, server, keys[-1], Location(4096, 48))
    assert look_up(index, server, keys[-1]) == Location(4096, 48)
    assert look_up(index, server, late) is None


def test_the_last_neighbourhood_does_not_run_over_the_end_of_the_table():
    index, server = formatted("k0")
    (key,) = crowd(index, index.slots - 1, 1)
    address, length = index.neighbourhood(key)
    assert address + length == index.address + index.length
    publish(index, server, key, Location(1024, 48))
    assert look_up(index, server, key) == Location(1024, 48)


def test_a_key_that_was_never_put_is_not_found_however_alike():
    index, server = formatted("k1")
    assert look_up(index, server, b"k11") is None
    assert look_up(index, server, b"k") is None


def test_a_table_that_no_salt_can_place_says_so(monkeypatch):
    monkeypatch.setattr(placement_module, "_home", lambda key, salt, slots: 3)  # everybody wants the same slot
    names = [key_bytes(f"unplaceable {number}") for number in range(NEIGHBOURHOOD + 1)]
    with pytest.raises(MemoryError, match=r"no salt of 64 puts 5 keys within 4 of home"):
        HashIndex(machines().nodes["server"][0].memory["pm"], names)


@pytest.mark.parametrize("location", [Location(64, 1 << 24), Location(1 << 40, 64)])
def test_a_location_that_its_word_has_no_room_for_is_refused(location):
    with pytest.raises(ValueError, match="a length has 24 bits"):
        location.pack()
    fits = Location(location.offset % (1 << 40), location.length % (1 << 24))
    assert Location.unpack(fits.pack()) == fits
