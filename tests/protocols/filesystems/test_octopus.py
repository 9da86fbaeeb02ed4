"""Octopus: messages, what is torn and lost, and over which primitives what is acknowledged stays."""

from __future__ import annotations

import pytest

from rpsim.protocols.filesystems.octopus import FileInode
from rpsim.sim.errors import InputError

from ...small import PLATFORMS
from .twins import ONE_WORD, OctopusUnflushed, OctopusUnlocked, all_finish, for_one_more, last_reads, ran, violated

TORN = {"committed", "no_lost_ack", "durable"}
LOST = {"no_lost_ack", "durable"}


@pytest.mark.parametrize("extents", [1, 3])
def test_a_write_is_two_calls_and_a_write_an_extent(extents):
    name = f"octopus[extent={192 // extents} B]"
    assert for_one_more(name, work={"value": "192 B"}) == {
        ("client[0]", "server[0]", "WRITE WITH IMMEDIATE"): 2,
        ("client[0]", "server[0]", "WRITE"): extents,
        ("server[0]", "client[0]", "SEND"): 2,
    }


def test_a_read_is_two_calls_and_a_read_an_extent():
    assert for_one_more("octopus[extent=64 B]", "c", work={"value": "128 B"}) == {
        ("client[0]", "server[0]", "WRITE WITH IMMEDIATE"): 2,
        ("client[0]", "server[0]", "READ"): 2,
        ("server[0]", "client[0]", "SEND"): 2,
    }


@pytest.mark.parametrize(
    "extents, on", [("home", {"server[0]": 4}), ("in turn", {"server[0]": 2, "server[1]": 1, "server[2]": 1})]
)
def test_extents_lie_on_the_file_s_server_or_on_all_in_turn(extents, on):
    name = f"octopus[extent=64 B,extents={extents}]"
    found = for_one_more(name, work={"value": "200 B"}, machines={"server": 3})
    assert on == {there: count for (_, there, verb), count in found.items() if verb == "WRITE"}
    assert ("client[0]", "server[1]", "WRITE WITH IMMEDIATE") not in found


BUSY = {"mix": "a", "operations": 60, "value": "256 B", "keys": 2}


@pytest.mark.parametrize("servers", [1, 2])
def test_without_a_fault_it_is_linearizable_by_the_lock(servers):
    more = {"machines": {"server": servers}, "clients": 4}
    name = "octopus[extent=64 B,extents=in turn]"
    assert violated(name, "no fault", BUSY, **more) == set()
    result = ran(name, BUSY, **more)
    assert sum(one.counts["retries"] for found in result.took.values() for one in found) > 0


def test_without_the_lock_a_read_finds_halves_of_two_writes():
    found = set()
    for seed in range(1, 5):
        work = {**BUSY, "value": "16 KiB", "keys": 1}
        found |= violated(OctopusUnlocked.name, "no fault", work, clients=4, seed=seed)
        assert violated("octopus", "no fault", work, clients=4, seed=seed) == set()
    assert "committed" in found


def test_who_has_lost_the_lock_does_not_know_what_became_of_his_write():
    """A lease that is shorter than a write: each update that returns has its metadata, and the others say so."""
    result = ran("octopus[lease=1 us]", {"keys": 1, "operations": 6, "value": "4 KiB"}, clients=2)
    outcomes = [one.outcome for one in result.history.operations]
    assert set(outcomes) == {"ok", "info"}
    assert outcomes.count("ok") == result.scheme.roles["server"][0].next_id - 1


def test_a_read_whose_lock_another_client_has_taken_over_fails():
    for lease, outcome in [("1 us", "fail"), ("1 ms", "ok")]:
        result = ran(f"octopus[lease={lease}]", {**BUSY, "keys": 1, "value": "4 KiB"}, clients=4)
        assert {one.outcome for one in result.history.operations if one.f == "get"} == {outcome}


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_what_is_acknowledged_is_torn_and_lost_everywhere(platform, ddio):
    assert violated("octopus", "all power", None, platform, ddio) == TORN
    assert violated("octopus", "all power", ONE_WORD, platform, ddio) == LOST


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_a_flush_keeps_what_is_acknowledged_and_not_files_from_being_torn(platform, ddio):
    lost = LOST if (platform, ddio) == ("optane-adr", "on") else set()
    assert violated("octopus over wflush", "all power", ONE_WORD, platform, ddio) == lost
    assert "committed" in violated("octopus over wflush", "all power", None, platform, ddio)


def test_a_flush_left_out_is_found():
    assert violated("octopus over ibta-flush-persistent", "all power", ONE_WORD) == set()
    assert violated(OctopusUnflushed.name, "all power", ONE_WORD) == LOST


def test_a_server_that_is_lost_takes_its_own_files_along():
    assert violated("octopus", "server[1] lost", machines={"server": 2}) == LOST
    reads = {read.object: read.outcome for read in last_reads("octopus", "server[1] lost", machines={"server": 2})}
    assert reads == {"k0": "ok", "k1": "fail"}


@pytest.mark.parametrize("fault", ["server[0] process", "client[0] process", "client[0] power"])
def test_who_fails_with_his_memory_intact_loses_nothing(fault):
    assert violated("octopus", fault) == set()


@pytest.mark.parametrize("fault", ["server[0] process", "server[1] lost", "client[1] process"])
def test_all_survivors_come_to_their_ends(fault):
    assert all_finish("octopus", fault, {"mix": "a"}, machines={"server": 2})


def test_recovery_replays_the_log():
    result = ran("octopus", {"keys": 1, "operations": 3}, clients=1)
    server, clock = result.scheme.roles["server"][0], result.system.clock
    offset = server.inode(0) - server.pm.base

    def time():
        return FileInode.unpack(server.pm.space.read(clock.now_ps, offset, FileInode.size)).time

    assert time() == 3
    server.pm.space.poke(offset, bytes(FileInode.size))
    done = clock.start(server.recover(server.node.thread(0, "recovery")))
    clock.run_until(done)
    assert time() == 3 and server.next_id == 4


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("octopus over read-after-send", "a primitive that copies what comes by SEND"),
        ("octopus[extent=1 B]", "at least 64 B"),
    ],
)
def test_what_cannot_be_is_refused(name, complaint):
    with pytest.raises(InputError, match=complaint):
        violated(name, "all power")
