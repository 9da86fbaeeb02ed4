"""Do both stores return what was put, on all four platforms, and say so when they are full?"""

from __future__ import annotations

import pytest

from rpsim.protocols.efactory.client_active import ClientActive
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.parts.index import ENTRY_BYTES, NEIGHBOURHOOD
from rpsim.protocols.scheme import Sizes
from rpsim.scenarios.values import encode_value
from rpsim.sim.errors import InputError
from rpsim.validation.crash.restart import Restart

from ..small import PLATFORMS, get, put, run, ycsb
from .stores import Shop, machines

STORES = [ClientActive, Saw]
both = pytest.mark.parametrize("store", STORES, ids=lambda kind: kind.name)
everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)


@both
@everywhere
@pytest.mark.parametrize("value_bytes", [8, 24, 64, 1000, 4096])
def test_a_get_returns_the_last_put_by_whomever(store, platform, ddio, value_bytes):
    shop = Shop(store, value_bytes=value_bytes, platform=platform, ddio=ddio)
    assert [shop.get("k0"), shop.get("k1")] == [0, 0]
    shop.put("k0", 1, client=0)
    assert [shop.get("k0", client=0), shop.get("k0", client=1)] == [1, 1]
    shop.put("k0", 2, client=1)
    shop.put("k1", 3, client=0)
    assert [shop.get("k0", client=0), shop.get("k1", client=1)] == [2, 3]


@pytest.mark.long
@both
@everywhere
def test_without_a_crash_clients_that_meet_see_only_what_somebody_put(store, platform, ddio):
    history = run(store.name, ycsb(40), platform, ddio, processes=4, keys=2, value="256 B").history
    put_by_then = {"k0": {0}, "k1": {0}}
    for operation in history.operations:
        if operation.f == "put":
            put_by_then[operation.object].add(operation.argument)
    reads = [operation for operation in history.operations if operation.f == "get"]
    assert reads and all(operation.outcome == "ok" for operation in history.operations)
    if store is Saw:  # client-active publishes before it writes: its readers may meet bytes that are not there yet
        assert all(operation.result in put_by_then[operation.object] for operation in reads)


@both
def test_an_object_that_was_never_put_is_absent(store):
    shop = Shop(store)
    assert shop.get("somebody else's key") is None


@both
def test_a_put_may_bring_a_new_key(store):
    shop = Shop(store)
    shop.put("new", 1)
    assert [shop.get("new"), shop.get("k0"), shop.get("k1")] == [1, 0, 0]


@both
def test_a_full_log_says_how_much_it_had_no_room_for(store):
    shop = Shop(store, value_bytes=100, keys=2, updates=3)
    for stamp in (1, 2, 3):
        shop.put("k0", stamp)
    with pytest.raises(MemoryError, match="log: no room for 140 bytes"):
        while True:
            shop.put("k0", 4)
    assert shop.server.tail <= shop.server.log_bytes


@both
def test_objects_have_lines_of_their_own(store):
    shop = Shop(store, value_bytes=30, keys=3)
    places = [shop.server.allocate(70) for _ in range(2)]
    assert all(place.offset % 64 == 0 for place in places)
    assert places[1].offset - places[0].offset == 128


@both
def test_loading_costs_no_event_and_no_time(store):
    system, objects = machines(), tuple(f"k{number}" for number in range(50))
    store(system, Sizes(8, objects, updates=4, clients=1)).load({name: encode_value(0, 8) for name in objects})
    assert system.clock.peek() == float("inf")  # nothing is scheduled
    assert system.trace.chunks == []  # nothing is under way: what was loaded is on the medium


@both
@everywhere
def test_what_was_loaded_survives_a_power_failure_at_time_zero(store, platform, ddio):
    result = run(store.name, [put(0, "k0"), get(1, "k2")], platform, ddio, processes=2, keys=3)
    restart = Restart(result)
    assert [restart.read(name, restart.initial) for name in ("k0", "k1", "k2", "k3")] == [0, 0, 0, None]


@both
def test_a_reader_of_small_values_leaves_the_memory_behind_its_buffer_alone(store):
    """What it READs first, the neighbourhood in the index, is larger than a small object."""
    shop = Shop(store, value_bytes=8)
    dram = shop.system.nodes["client"][0].memory["dram"]
    behind = dram.allocate(NEIGHBOURHOOD * ENTRY_BYTES, "somebody else's")  # behind the buffers of the last client
    dram.space.poke(behind - dram.base, b"mine" * 64)
    assert shop.get("k0", client=1) == 0
    assert dram.space.read(shop.system.clock.now_ps, behind - dram.base, 256) == b"mine" * 64


@pytest.mark.parametrize("name", ["imm", "rpc", "saw", "client-active", "efactory"])
def test_a_value_that_the_index_has_no_room_for_is_refused(name):
    """Its length has 24 bits there, with the header; stores whose index has offsets only take any."""
    with pytest.raises(InputError, match=f"at most 16383 KiB with {name}: its index has 24 bits"):
        run(name, [put(0, "k0")], value="16 MiB")
