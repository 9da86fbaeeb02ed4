"""Does eFactory do what its paper says, step by step, and does its recovery, whole or in units?"""

from __future__ import annotations

import random
import zlib

import pytest

from rpsim.models.cpu import Thread
from rpsim.models.durability.places import Path
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.protocols.efactory.efactory import HEADER_BYTES, EFactory, Put, Version
from rpsim.protocols.parts.rpc import Connection
from rpsim.protocols.scheme import Request, Sizes
from rpsim.scenarios.history import Torn
from rpsim.scenarios.values import decode_value, encode_value
from rpsim.sim.trace import Stage
from rpsim.validation.crash.restart import Restart, lines_of

from ...small import PLATFORMS, get, put, run, ycsb
from ..stores import finish

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)

VALUE = 64


class Store:
    """A loaded store at work, with two clients."""

    def __init__(self, kind: type[EFactory] = EFactory, **settings: str) -> None:
        specs = {"server": [NodeSpec(2, ("dram", "pm"))], "client": [NodeSpec(2)]}
        self.system = System(load_platform("optane-adr", **settings), specs, seed=1)
        self.scheme = kind(self.system, Sizes(VALUE, ("k0", "k1"), 8, 2))
        self.scheme.load(dict.fromkeys(("k0", "k1"), encode_value(0, VALUE)))
        self.scheme.start()
        self.server, self.client = self.scheme.server, self.scheme.roles["client"][0]
        self.sessions = [self.client.connect(self.thread(core)) for core in range(2)]

    def thread(self, core: int) -> Thread:
        return self.system.nodes["client"][0].thread(core, f"client {core}")

    def put(self, name: str, stamp: int, client: int = 0) -> None:
        finish(
            self.system,
            self.client.perform(self.sessions[client], Request.of("put", name, encode_value(stamp, VALUE))),
        )

    def get(self, name: str, client: int = 0):
        found = finish(self.system, self.client.perform(self.sessions[client], Request.of("get", name)))
        return None if found is None else decode_value(found, VALUE)

    def allocate(self, name: str, stamp: int) -> None:
        """The first half of a put, by a client that is never heard of again."""
        crc = 0xDEAD0000 + stamp
        finish(self.system, self.sessions[0].connection.call(Put, key=name.encode(), vlen=VALUE, crc=crc))

    def rest(self) -> None:
        """Until nothing is left to happen."""
        self.system.clock.run_until()

    def versions(self) -> list[Version]:
        """What lies in the log, in its order."""
        found, offset = [], 64
        while offset < self.server.tail:
            at = self.server.log - self.server.pm.base + offset
            found.append(Version.unpack(self.server.pm.space.read(self.system.clock.now_ps, at, HEADER_BYTES + VALUE)))
            offset += -(-(HEADER_BYTES + found[-1].vlen) // 64) * 64
        return found


@pytest.fixture
def fallbacks(monkeypatch):
    """The keys that clients asked the server for, because a flag was clear."""
    asked = []
    on_get = EFactory.Server.on_get

    def counted(self, thread, request):
        asked.append(request.key)
        return (yield from on_get(self, thread, request))

    monkeypatch.setattr(EFactory.Server, "on_get", counted)
    return asked


# the happy path -------------------------------------------------------------------------------------------------


@pytest.mark.long
@everywhere
@pytest.mark.parametrize("value", ["8 B", "100 B", "4 KiB"])
def test_a_get_returns_the_last_put_by_whomever(platform, ddio, value):
    work = [
        get(1, "k0"), put(0, "k0"), get(1, "k0", at_ns=50_000), put(1, "k0", at_ns=100_000),
        put(0, "k1", at_ns=100_000), get(0, "k0", at_ns=150_000), get(1, "k1", at_ns=150_000),
    ]  # fmt: skip
    history = run("efactory", work, platform, ddio, processes=2, keys=2, value=value).history
    stamp = {(o.object, o.process): o.argument for o in history.operations if o.f == "put"}
    reads = sorted((o for o in history.operations if o.f == "get"), key=lambda o: (o.invoke_ps, o.object))
    assert [read.result for read in reads] == [0, stamp["k0", 0], stamp["k0", 1], stamp["k1", 0]]


def test_a_get_of_a_verified_object_takes_two_reads_and_no_server(fallbacks, monkeypatch):
    store = Store()
    store.put("k0", 1)
    store.rest()
    reads = []
    one_sided = Connection.read
    monkeypatch.setattr(Connection, "read", lambda self, *where: reads.append(where) or one_sided(self, *where))
    assert store.get("k0", client=1) == 1
    assert (len(reads), fallbacks) == (2, [])


def test_a_put_may_bring_a_new_key_and_others_are_absent():
    store = Store()
    store.put("new", 1)
    assert [store.get("new"), store.get("k0"), store.get("nobody")] == [1, 0, None]
    assert store.versions()[-1].previous == 0


def test_versions_of_a_key_form_a_list_newest_first():
    store = Store()
    store.put("k0", 1)
    store.put("k1", 2)
    store.put("k0", 3)
    store.rest()
    assert [(v.key, v.previous, v.durable, v.valid) for v in store.versions()] == [
        (b"k0", 0, 1, 1), (b"k1", 0, 1, 1), (b"k0", 64, 1, 1), (b"k1", 192, 1, 1), (b"k0", 320, 1, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("pays", [False, True])
def test_a_client_pays_for_its_checksum_if_asked_to(pays):
    before = run("efactory", [put(0, "k0")], value="4 KiB").history.operations[0]
    result = run(f"efactory[client-crc={pays}]", [put(0, "k0")], value="4 KiB")
    cost_ps = 4096 * result.system.platform.cpu.crc32_ps_per_byte
    assert result.history.operations[0].return_ps - before.return_ps == pays * cost_ps


# durability ------------------------------------------------------------------------------------------------------


def writes(result, path):
    return [chunk for chunk in result.system.trace.chunks if chunk.path.startswith(path)]


@everywhere
def test_metadata_and_entry_are_flushed_before_the_value_comes_and_the_flag_is_set_after_its_flush(platform, ddio):
    result = run("efactory", [put(0, "k0"), get(0, "k0")], platform, ddio, value="256 B")
    header, entry, flag = writes(result, Path.STORE)
    values = [chunk for chunk in result.system.trace.chunks if chunk not in (header, entry, flag)]
    assert (len(header.data), len(entry.data), len(flag.data)) == (64, 8, 4)
    first_ps = min(chunk.reached_ps[Stage.ACCEPTED] for chunk in values)
    assert max(*header.flushed_ps.values(), *entry.flushed_ps.values()) < first_ps
    last_ps = max(at_ps for chunk in values for at_ps in chunk.flushed_ps.values())
    assert first_ps < last_ps <= flag.reached_ps[Stage.ACCEPTED] < max(flag.flushed_ps.values())


# readers and writers that meet -----------------------------------------------------------------------------------


@pytest.mark.long
@everywhere
@pytest.mark.parametrize("value", ["8 B", "256 B", "4 KiB"])
def test_who_meets_an_unverified_object_asks_the_server_and_never_gets_anything_torn(fallbacks, platform, ddio, value):
    history = run("efactory", ycsb(80), platform, ddio, processes=6, keys=2, value=value).history
    known = {"k0": {0}, "k1": {0}}
    for operation in history.operations:
        if operation.f == "put":
            known[operation.object].add(operation.argument)
    reads = [operation for operation in history.operations if operation.f == "get"]
    assert all(read.result in known[read.object] for read in reads)
    assert 0 < len(fallbacks) < len(reads)  # both ways are taken


def meeting(platform="optane-adr", ddio="on"):
    """A put of a value of several packets, and gets from another machine that come while it arrives."""
    gets = [get(8 + n, "k0", at_ns=4500 + 60 * n) for n in range(24)]
    roles = {"client": {"machines": 4, "processes": 8}}
    return run("efactory", [put(0, "k0"), *gets], platform, ddio, value="16 KiB", roles=roles).history


@pytest.mark.long
@everywhere
def test_a_read_that_meets_a_write_is_torn_and_what_is_torn_is_thrown_away(fallbacks, monkeypatch, platform, ddio):
    """One READ returns lines from before and after a packet of a WRITE; its flag is clear, and the server is asked."""
    seen = []
    read_object = EFactory.Client.read_object

    def noted(self, session, location):
        data = yield from read_object(self, session, location)
        seen.append(Version.unpack(data))
        return data

    monkeypatch.setattr(EFactory.Client, "read_object", noted)
    history = meeting(platform, ddio)
    torn = [version for version in seen if isinstance(decode_value(version.value), Torn)]
    mixed = [version for version in torn if any(version.value)]
    assert mixed, "no READ met the WRITE"
    assert all(version.durable == 0 and zlib.crc32(version.value) != version.crc for version in torn)
    assert len(fallbacks) >= len(torn)
    assert {operation.result for operation in history.operations if operation.f == "get"} <= {0, 1}


def test_a_store_that_believes_whatever_it_reads_returns_such_a_value(monkeypatch):
    def believing(self, session, key):
        location = yield from self.read_entry(session, key)
        return Version.unpack((yield from self.read_object(session, location))).value

    monkeypatch.setattr(EFactory.Client, "get", believing)
    assert any(isinstance(operation.result, Torn) for operation in meeting().operations)


def test_a_reader_of_a_value_that_is_not_there_yet_gets_the_version_before(fallbacks):
    store = Store()
    store.put("k0", 1)
    store.rest()
    store.allocate("k0", 2)
    assert store.get("k0", client=1) == 1
    assert fallbacks == [b"k0"]


def test_the_request_thread_makes_durable_what_it_returns_and_the_background_thread_skips_that(monkeypatch):
    """With the background thread away, the flag that a reader by call has set is what the next reader sees."""
    pause = {"core": "server[0] core 1", "at": "0 ns", "for": "1 ms"}
    work = [put(0, "k0"), get(1, "k0", at_ns=20_000), get(1, "k0", at_ns=40_000)]
    result = run("efactory", work, processes=2, outages=[pause])
    first, second = [o for o in result.history.operations if o.f == "get"]
    assert first.result == second.result == 1
    assert second.return_ps - second.invoke_ps < (first.return_ps - first.invoke_ps) / 2
    flags = [chunk for chunk in writes(result, Path.STORE) if len(chunk.data) == 4]
    assert len(flags) == 1 and max(flags[0].flushed_ps.values()) < first.return_ps
    result.system.clock.run_until()
    assert len([chunk for chunk in writes(result, Path.STORE) if len(chunk.data) == 4]) == 1


# the background thread -------------------------------------------------------------------------------------------


def test_an_idle_background_thread_costs_no_events():
    store = Store()
    store.rest()  # comes back: nobody polls
    assert store.system.clock.now_ps == 0
    store.put("k0", 1)
    store.rest()
    assert [version.durable for version in store.versions()] == [1, 1, 1]


def test_what_does_not_come_is_marked_invalid_after_the_time_out_and_not_before(monkeypatch):
    monkeypatch.setattr(EFactory, "chosen", {"timeout": "40 us"})
    store = Store()
    store.allocate("k0", 1)
    allocated_ps = store.system.clock.now_ps
    store.put("k1", 2, client=1)  # others are not held up
    store.system.clock.run_until(store.system.clock.until(30_000_000))
    assert [(v.durable, v.valid) for v in store.versions()] == [(1, 1), (1, 1), (0, 1), (1, 1)]
    store.rest()
    assert [(v.durable, v.valid) for v in store.versions()] == [(1, 1), (1, 1), (0, 0), (1, 1)]
    assert 40_000_000 < store.system.clock.now_ps < allocated_ps + 45_000_000
    assert store.get("k0", client=1) == 0


# recovery --------------------------------------------------------------------------------------------------------


def random_image(views, at_ps, rng):
    """What a power failure may leave of all lines, drawn at random, as (line, bytes)."""
    image, cut = [], {}
    keys = sorted(views.pieces)
    rng.shuffle(keys)
    for key in keys:
        possible = [content for content, _ in zip(views.contents(key, at_ps, cut), range(40), strict=False)]
        content = rng.choice(possible)
        cut = content.cut
        image.append((key, content.data))
    return image


@pytest.mark.long
@everywhere
def test_recovery_in_units_finds_what_recovery_as_a_whole_finds(platform, ddio):
    result = run("efactory", ycsb(40, "update-only"), platform, ddio, processes=6, keys=3, value="64 B")
    restart = Restart(result)
    views, rng = restart.views(), random.Random(3)
    last_ps = max(operation.return_ps for operation in result.history.operations)
    differ = set()
    for _ in range(40):
        source = lines_of(random_image(views, rng.randrange(last_ps), rng), restart.initial)
        for name in result.initial:
            found = restart.read(name, source)
            assert found == restart.read(name, source, whole=True)
            differ.add(str(found))
    assert len(differ) > 5


@everywhere
def test_recovery_finds_the_end_of_the_log_and_every_value_at_rest(platform, ddio):
    result = run("efactory", ycsb(30), platform, ddio, processes=3, keys=3)
    result.system.clock.run_until()
    restart = Restart(result)
    views, last_ps = restart.views(), result.system.clock.now_ps
    system = System(result.system.platform, {"server": [NodeSpec(2, ("dram", "pm"))], "client": [NodeSpec()]}, 1)
    again = EFactory(system, result.scheme.sizes)
    device = next(number for number, (_, device) in system.devices().items() if device.traced)
    old = views.newest
    system.devices()[device][1].space.restore(lambda line: old((device, line), last_ps))
    finish(system, again.server.recover(again.server.node.thread(0, "recovery")))
    assert again.server.tail == result.scheme.server.tail
    client = result.scheme.roles["client"][0]
    session = client.connect(result.system.nodes["client"][0].thread(0, "a late client"))
    for name in result.initial:
        found = finish(result.system, client.perform(session, Request.of("get", name)))
        assert restart.read(name, lambda key: old(key, last_ps)) == decode_value(found)
