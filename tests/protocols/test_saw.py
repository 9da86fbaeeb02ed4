"""Does SAW do what its paper says: three round trips a put, two READs a get, durable and published in that order?"""

from __future__ import annotations

import pytest

from rpsim.models.durability.places import Path
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.guarantees import ALWAYS, SERVER_CRASH, Condition
from rpsim.sim.trace import NEVER, Stage

from ..small import PLATFORMS, put, run
from .stores import Posts, Shop

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)


def test_a_put_takes_three_round_trips_allocation_write_and_persist(monkeypatch):
    """Du et al., ICPP'21, section 5.3.1."""
    shop, posts = Shop(Saw), Posts(monkeypatch)
    assert posts.of(shop.put, "k0", 1) == [
        "client SEND", "server[0] SEND",  # room in the log
        "client WRITE",  # acknowledged by the adapter
        "client SEND", "server[0] SEND",  # flushed and published
    ]  # fmt: skip


def test_a_get_takes_two_reads_and_no_server(monkeypatch):
    shop, posts = Shop(Saw), Posts(monkeypatch)
    assert posts.of(shop.get, "k0") == ["client READ", "client READ"]


def test_a_get_of_an_object_that_is_not_there_takes_one_read(monkeypatch):
    shop, posts = Shop(Saw), Posts(monkeypatch)
    assert posts.of(shop.get, "nobody") == ["client READ"]


@everywhere
@pytest.mark.parametrize("value", ["8 B", "256 B", "4 KiB"])
def test_when_a_put_returns_every_line_that_it_wrote_has_been_flushed(platform, ddio, value):
    result = run("saw", [put(0, "k0")], platform, ddio, value=value)
    (operation,) = result.history.operations
    for chunk in result.system.trace.chunks:
        touched = set(range(chunk.address // 64, (chunk.address + len(chunk.data) - 1) // 64 + 1))
        assert chunk.flushed_ps.keys() == touched, chunk.writer
        assert max(chunk.flushed_ps.values()) < operation.return_ps


def test_an_entry_is_stored_only_once_its_object_is_durable():
    result = run("saw", [put(0, "k0")], value="4 KiB")
    chunks = result.system.trace.chunks
    durable_ps = max(max(c.flushed_ps.values()) for c in chunks if c.path == Path.DMA_DDIO)
    (entry,) = [chunk for chunk in chunks if chunk.path == Path.STORE]
    assert len(entry.data) == 8  # one word, which no power failure tears
    assert durable_ps <= entry.reached_ps[Stage.ACCEPTED] < min(entry.flushed_ps.values()) < NEVER


def test_a_put_that_has_not_published_yet_is_invisible():
    shop = Shop(Saw)
    clock = shop.system.clock
    seen = []

    def reader():
        while not seen or seen[-1] == 0:
            found = yield from shop.client.get(shop.sessions[1], b"k0")
            seen.append(0 if found == old else 1)

    old = shop.system.nodes["server"][0].memory["pm"].space.peek(shop.server.log + 64 + 40 - shop.server.pm.base, 8)
    writing = clock.start(shop.client.put(shop.sessions[0], b"k0", b"new data"))
    clock.run_until(clock.all_of([writing, clock.start(reader())]))
    assert seen[0] == 0 and seen == sorted(seen)


def test_saw_claims_that_a_crash_of_the_server_loses_nothing_acknowledged_and_nothing_torn_is_read():
    assert Saw.claims == {Condition.NO_LOST_ACK: SERVER_CRASH, Condition.COMMITTED: ALWAYS}
