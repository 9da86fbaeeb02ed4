"""Do the stores that eFactory is compared with do what its paper says of them, and what survives of each?

Du et al., ICPP'21, sections 2.2, 3 and 5.3. Of each its posts, every crash point of a small run, and broken variants.
"""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.efactory.efactory import EFactory
from rpsim.protocols.efactory.erda import GIVEN_UP, Checked, Erda, Versions
from rpsim.protocols.efactory.forca import Forca
from rpsim.protocols.efactory.forca_public import VALID, ForcaPublic, MetaBlock
from rpsim.protocols.efactory.imm import UNIT_BYTES, Imm
from rpsim.protocols.efactory.rpc_reads import EFactoryRpcReads
from rpsim.protocols.efactory.rpc_store import RpcStore
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.parts.index import ENTRY_BYTES, Location
from rpsim.protocols.parts.kv import Object
from rpsim.protocols.scheme import OperationFailed
from rpsim.scenarios.values import encode_value
from rpsim.sim.trace import Stage
from rpsim.validation.crash.explorer import Explorer

from ...small import PLATFORMS, get, put, run, ycsb
from ..stores import Posts, Shop, finish

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
COMMITTED, LOST, DURABLE, MONOTONIC = (
    Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE, Condition.MONOTONIC
)  # fmt: skip
ALL = (COMMITTED, LOST, DURABLE, MONOTONIC)
FAMILY = [Imm, RpcStore, Erda, Forca, EFactoryRpcReads]


def violated(scheme, work, platform="optane-adr", ddio="on", **more):
    """What a power failure at some instant of a small run violates."""
    found = Explorer(run(scheme, work, platform, ddio, **more), conditions=ALL).walk()
    assert found.exhaustive
    return found.first


# posts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("store", "puts", "gets"),
    [
        (Imm, ["client SEND", "server[0] SEND", "client WRITE WITH IMMEDIATE", "server[0] SEND"], ["client READ"] * 2),
        (RpcStore, ["client SEND", "server[0] SEND"], ["client READ"] * 2),
        (Erda, ["client SEND", "server[0] SEND", "client WRITE"], ["client READ"] * 2),
        (Forca, ["client SEND", "server[0] SEND", "client WRITE"], ["client SEND", "server[0] SEND", "client READ"]),
        (
            EFactoryRpcReads,
            ["client SEND", "server[0] SEND", "client WRITE"],
            ["client SEND", "server[0] SEND", "client READ"],
        ),
    ],
)
def test_the_posts_of_a_put_and_a_get(monkeypatch, store, puts, gets):
    shop, posts = Shop(store), Posts(monkeypatch)
    assert posts.of(shop.put, "k0", 1) == puts
    assert posts.of(shop.get, "k0") == gets
    assert shop.get("k0") == 1


@pytest.mark.parametrize("store", FAMILY)
@pytest.mark.parametrize("value_bytes", [8, 256, 4096])
def test_every_reader_finds_the_last_value_that_was_put_and_nothing_where_nothing_is(store, value_bytes):
    shop = Shop(store, value_bytes=value_bytes, updates=6)
    assert shop.get("k0") == 0
    for stamp in range(1, 4):
        shop.put("k0", stamp, client=stamp % 2)
        assert shop.get("k0", client=1) == stamp
    assert shop.get("k1") == 0
    assert shop.get("nobody") is None


@pytest.mark.parametrize("store", FAMILY)
def test_a_hundred_million_keys_are_computed_as_a_few_are_stored(monkeypatch, store):
    few = Shop(store, keys=6)
    monkeypatch.setattr("rpsim.protocols.parts.kv.STORED_KEYS", 1)
    computed = Shop(store, keys=6)
    assert [few.get(f"k{n}") for n in range(6)] == [computed.get(f"k{n}") for n in range(6)] == [0] * 6


# IMM and RPC: durable when a put returns -----------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("scheme", ["imm", "rpc"])
@pytest.mark.parametrize("value", ["8 B", "256 B", "4 KiB"])
def test_when_a_put_returns_every_line_that_it_wrote_has_been_flushed(scheme, platform, ddio, value):
    result = run(scheme, [put(0, "k0")], platform, ddio, value=value)
    (operation,) = result.history.operations
    for chunk in result.system.trace.chunks:
        touched = set(range(chunk.address // 64, (chunk.address + len(chunk.data) - 1) // 64 + 1))
        assert chunk.flushed_ps.keys() == touched, chunk.writer
        assert max(chunk.flushed_ps.values()) < operation.return_ps
    entry = next(chunk for chunk in result.system.trace.chunks if len(chunk.data) == 8)
    others = [chunk for chunk in result.system.trace.chunks if chunk is not entry]
    assert max(max(chunk.flushed_ps.values()) for chunk in others) <= entry.reached_ps[Stage.ACCEPTED]


@everywhere
@pytest.mark.parametrize("scheme", ["imm", "rpc"])
def test_no_power_failure_takes_back_what_they_acknowledged(scheme, platform, ddio):
    first = violated(scheme, ycsb(30), platform, ddio, processes=3, keys=2)
    assert LOST not in first and COMMITTED not in first


def _imm_unflushed(self, thread, immediate):
    offset = immediate * UNIT_BYTES
    written = Object.unpack((yield from thread.load(self.log + offset, Object.size)))
    entry = yield from self.index.publish(thread, written.key, Location(offset, Object.size + written.length))
    yield from thread.flush(entry, ENTRY_BYTES)
    return b"durable"


def _rpc_published_first(self, thread, request):
    location = self.allocate(Object.size + len(request.value))
    entry = yield from self.index.publish(thread, request.key, location)
    yield from thread.flush(entry, ENTRY_BYTES)
    data = Object.pack(key=request.key, length=len(request.value), value=request.value)
    yield from thread.store(self.log + location.offset, data)
    yield from thread.flush(self.log + location.offset, location.length)
    return b"durable"


@pytest.mark.parametrize(
    ("store", "step", "broken"),
    [(Imm, "on_immediate", _imm_unflushed), (RpcStore, "on_put", _rpc_published_first)],
)
def test_without_the_flush_or_with_the_entry_first_they_are_refuted(monkeypatch, store, step, broken):
    monkeypatch.setattr(store.Server, step, broken)
    first = violated(store.name, [put(0, "k0"), put(0, "k0", at_ns=20_000)])
    assert {COMMITTED, LOST} <= first.keys()


# Erda ----------------------------------------------------------------------------------------------------

offsets = st.integers(0, (1 << 31) - 1).map(lambda lines: lines * 64)


@given(offsets.filter(bool), offsets, st.integers(0, 1))
def test_the_atomic_region_holds_a_tag_and_two_offsets_in_eight_bytes(newest, older, tag):
    versions = Versions(newest, older, tag)
    assert versions.pack() < 1 << 63
    assert Versions.unpack(versions.pack()) == versions
    assert versions.followed_by(64) == Versions(64, newest, 1 - tag)
    assert versions.followed_by(64).turned_back() == Versions(newest, 64, tag)


def test_erda_falls_back_to_the_version_before_when_the_newest_is_not_whole(monkeypatch):
    shop = Shop(Erda)
    shop.put("k0", 1)
    finish(shop.system, shop.client.ask_for_room(shop.sessions[0], b"k0", Checked.size + 8))  # its writer dies
    posts = Posts(monkeypatch)
    assert posts.of(shop.get, "k0", 1) == ["client READ"] * 3
    assert shop.get("k0", client=1) == 1


def test_two_writers_that_die_leave_no_version_that_erda_could_read():
    """Du et al., section 7.2: two versions are not enough under concurrent updates."""
    shop = Shop(Erda)
    for client in range(2):
        finish(shop.system, shop.client.ask_for_room(shop.sessions[client], b"k0", Checked.size + 8))
    with pytest.raises(OperationFailed, match="neither version"):
        shop.get("k0")


def test_recovery_gives_up_an_entry_of_which_no_version_is_whole_and_a_put_heals_it():
    shop = Shop(Erda, updates=6)
    for client in range(2):
        finish(shop.system, shop.client.ask_for_room(shop.sessions[client], b"k0", Checked.size + 8))
    finish(shop.system, shop.server.recover(shop.system.nodes["server"][0].thread(0, "recovery")))
    assert finish(shop.system, shop.client.read_entry(shop.sessions[0], b"k0")) == GIVEN_UP
    with pytest.raises(OperationFailed, match="neither version"):
        shop.get("k0")
    finish(shop.system, shop.client.ask_for_room(shop.sessions[0], b"k0", Checked.size + 8))  # and dies
    with pytest.raises(OperationFailed, match="neither version"):
        shop.get("k0")
    shop.put("k0", 3)
    assert (shop.get("k0"), shop.get("k1")) == (3, 0)


@everywhere
def test_erda_flushes_its_index_and_nothing_else(platform, ddio):
    result = run("erda", [put(0, "k0")], platform, ddio, value="256 B")
    flushed = [len(chunk.data) for chunk in result.system.trace.chunks if chunk.flushed_ps]
    assert flushed == [8]


@everywhere
def test_erda_loses_what_was_read_and_with_one_writer_a_key_returns_nothing_torn(platform, ddio):
    """Du et al., section 5.3.3: reads are not monotonic across a failure."""
    work = [put(0, "k0"), get(1, "k0", at_ns=15_000), get(1, "k0", at_ns=30_000)]
    first = violated("erda", work, platform, ddio, processes=2, value="256 B")
    assert COMMITTED not in first
    if (platform, ddio) == ("optane-eadr", "on"):  # what was read is in a cache, and survives
        assert MONOTONIC not in first
    else:
        assert MONOTONIC in first
    assert LOST in first


def test_a_reader_that_believes_what_it_finds_and_a_server_that_turns_nothing_back_return_torn_values(monkeypatch):
    def believing(self, session, key, offset):
        data = yield from self.read_object(session, Location(offset, Checked.size + self.sizes.value_bytes))
        return Checked.unpack(data).value

    def unverified(self, thread, key, offset):
        yield from ()
        return True

    monkeypatch.setattr(Erda.Client, "read_whole", believing)
    monkeypatch.setattr(Erda.Server, "is_whole", unverified)
    assert COMMITTED in violated("erda", [put(0, "k0")])


def test_a_value_of_another_checksum_is_not_whole():
    shop = Shop(Erda)
    shop.put("k0", 1)
    session, store = shop.sessions[0], shop.server
    versions = finish(shop.system, shop.client.read_entry(session, b"k0"))
    place = store.log + versions.newest - store.pm.base
    data = bytearray(store.pm.space.read(shop.system.clock.now_ps, place, Checked.size + 8))
    assert Checked.unpack(bytes(data)).crc == zlib.crc32(encode_value(1, 8))
    finish(shop.system, session.connection.write(store.log + versions.newest + Checked.size, session.log_key, bytes(8)))
    assert shop.get("k0") == 0


# Forca ---------------------------------------------------------------------------------------------------


either = pytest.mark.parametrize("scheme", ["forca", "forca-public"])


@either
@everywhere
def test_what_forca_returned_is_durable_and_what_nobody_read_may_be_lost(platform, ddio, scheme):
    work = [put(0, "k0"), get(1, "k0", at_ns=15_000), put(0, "k0", at_ns=40_000)]
    first = violated(scheme, work, platform, ddio, processes=2, value="16 B")
    assert COMMITTED not in first and MONOTONIC not in first
    assert LOST in first


@either
def test_forca_pays_for_checksum_and_flush_at_each_get_unless_it_remembers_the_verdict(scheme):
    work = [put(0, "k0"), get(0, "k0", at_ns=30_000), get(0, "k0", at_ns=60_000)]
    result = run(scheme, work, value="4 KiB")
    first, second = [o.return_ps - o.invoke_ps for o in result.history.operations if o.f == "get"]
    crc_ps = 4096 * result.system.platform.cpu.crc32_ps_per_byte
    assert min(first, second) > crc_ps if scheme == "forca" else first - second > crc_ps
    assert result.history.operations[-1].result == 1


@pytest.mark.parametrize("kind", [Forca, ForcaPublic])
def test_forca_walks_to_an_older_version_where_the_newest_is_not_whole(kind):
    from rpsim.protocols.efactory.forca import Put

    shop = Shop(kind)
    shop.put("k0", 1)
    for _ in range(2):  # their writers die
        finish(shop.system, shop.sessions[0].connection.call(Put, key=b"k0", length=8, crc=7))
    assert shop.get("k0", client=1) == 1


@everywhere
def test_forca_without_its_flush_is_refuted_where_a_cache_does_not_survive(monkeypatch, platform, ddio):
    def unflushed(self, thread, meta):
        return (yield from thread.crc32_matches(self.log + meta.data, meta.length, meta.crc))

    monkeypatch.setattr(Forca.Server, "persist", unflushed)
    work = [put(0, "k0"), get(1, "k0", at_ns=15_000)]
    first = violated("forca", work, platform, ddio, processes=2)
    assert (MONOTONIC in first) == ((platform, ddio) != ("optane-eadr", "on"))


@everywhere
def test_public_forca_that_flushes_no_value_it_has_verified_is_refuted_where_a_cache_does_not_survive(
    monkeypatch, platform, ddio
):
    """The verdict is durable, the value is not: after the failure nobody looks again."""

    def unflushed(self, thread, at, meta, block):
        whole = yield from thread.crc32_matches(self.log + block.region, block.length, meta.crc)
        if whole:
            address = self.metas.base + at
            yield from self.write(thread, address + MetaBlock.offset_of("valid"), VALID.to_bytes(4, "little"))
        return whole

    monkeypatch.setattr(ForcaPublic.Server, "verify", unflushed)
    work = [put(0, "k0"), get(1, "k0", at_ns=15_000)]
    first = violated("forca-public", work, platform, ddio, processes=2)
    assert (COMMITTED in first) == ((platform, ddio) != ("optane-eadr", "on"))


def test_public_forca_whose_chain_is_not_durable_before_the_object_names_it_is_refuted(monkeypatch):
    def unflushed(thread, at, content):
        yield from thread.store(at, content)

    monkeypatch.setattr(ForcaPublic.Server, "write", staticmethod(unflushed))
    first = violated("forca-public", [put(0, "k0"), get(0, "k0", at_ns=15_000)], value="16 B")
    assert MONOTONIC in first or COMMITTED in first


def test_public_forca_takes_a_key_that_was_not_loaded():
    shop = Shop(ForcaPublic)
    assert shop.get("fresh") is None
    shop.put("fresh", 1)
    shop.put("fresh", 2)
    assert shop.get("fresh", client=1) == 2


# a batch of requests --------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_request_thread_that_takes_a_batch_answers_more_requests_a_second_and_each_of_them_once(monkeypatch):
    def busy(batch):
        monkeypatch.setattr(EFactory, "chosen", {"batch": batch})
        result = run("efactory-wo-hr", ycsb(400, "c"), processes=16, value="16 B")
        assert all(o.result is not None and o.outcome == "ok" for o in result.history.operations)
        return max(o.return_ps for o in result.history.operations)

    assert busy(16) < busy(1)


# eFactory without hybrid read ----------------------------------------------------------------------------


@everywhere
def test_without_hybrid_read_a_get_of_a_durable_object_takes_longer(platform, ddio):
    def latency(scheme):
        result = run(scheme, [get(0, "k0", at_ns=1000)], platform, ddio, value="256 B")
        (operation,) = result.history.operations
        return operation.return_ps - operation.invoke_ps

    assert latency("efactory") < latency("efactory-wo-hr")


def test_what_cannot_be_read_any_more_is_lost_and_not_torn():
    """Both versions that an entry names are broken: the read fails, and returns nothing that nobody wrote."""
    first = violated("erda", ycsb(40, "update-only"), processes=4, keys=1, value="16 B")
    assert COMMITTED not in first
    assert "no value (neither version of the object is whole)" in first[LOST].explanation
