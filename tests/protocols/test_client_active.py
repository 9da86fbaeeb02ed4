"""Does the client-active store save SAW's third round trip, and is what it saves the flush?"""

from __future__ import annotations

import pytest

from rpsim.models.durability.places import Path
from rpsim.protocols.efactory.client_active import ClientActive
from rpsim.protocols.efactory.saw import Saw
from rpsim.scenarios.history import Torn
from rpsim.sim.trace import Stage

from ..small import PLATFORMS, get, put, run
from .stores import Posts, Shop

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)


def test_a_put_takes_two_round_trips_allocation_and_write(monkeypatch):
    """Du et al., ICPP'21, section 3: the client-active paradigm."""
    shop, posts = Shop(ClientActive), Posts(monkeypatch)
    assert posts.of(shop.put, "k0", 1) == ["client SEND", "server[0] SEND", "client WRITE"]


def test_a_get_takes_the_same_two_reads_as_saw(monkeypatch):
    shop, posts = Shop(ClientActive), Posts(monkeypatch)
    assert posts.of(shop.get, "k0") == ["client READ", "client READ"]


@everywhere
def test_a_put_returns_sooner_than_saw_s_and_a_get_no_later(platform, ddio):
    def latencies(scheme):
        history = run(scheme, [put(0, "k0"), get(0, "k0", at_ns=50_000)], platform, ddio, value="1 KiB").history
        return [operation.return_ps - operation.invoke_ps for operation in history.operations]

    (quick_put, quick_get), (slow_put, slow_get) = latencies("client-active"), latencies("saw")
    assert quick_put < slow_put
    assert quick_get <= slow_get  # where a flush drops lines from the cache, SAW's reader finds them on the medium


@everywhere
def test_nothing_is_ever_flushed(platform, ddio):
    result = run("client-active", [put(0, "k0"), put(0, "k0")], platform, ddio, value="256 B")
    assert not any(chunk.flushed_ps for chunk in result.system.trace.chunks)


def test_the_entry_is_published_before_the_object_is_written():
    result = run("client-active", [put(0, "k0")])
    chunks = result.system.trace.chunks
    (entry,) = [chunk for chunk in chunks if chunk.path == Path.STORE]
    (data,) = [chunk for chunk in chunks if chunk.path == Path.DMA_DDIO]
    assert entry.reached_ps[Stage.VISIBLE] < data.reached_ps[Stage.ACCEPTED]


def test_so_a_reader_in_between_meets_bytes_that_nobody_has_written_yet():
    readers = [get(process, "k0", at_ns=500 * process) for process in range(1, 12)]
    history = run("client-active", [put(0, "k0"), *readers], processes=12).history
    found = [operation.result for operation in history.operations if operation.f == "get"]
    assert Torn("never written: zeros") in found
    assert (found[0], found[-1]) == (0, 1)


def test_it_claims_nothing():
    assert ClientActive.claims == {}
    assert Saw.claims
