"""Orion: messages, what lasts where strong or weak, a data store and a metadata server lost, and what twins lose."""

from __future__ import annotations

import pytest

from rpsim.sim.errors import InputError

from ...small import PLATFORMS
from ..strikes import MS, SECOND, Fails, outcomes, serving, struck
from . import twins
from .twins import LARGE, all_finish, for_one_more, ran, violated

TORN = {"committed", "no_lost_ack", "durable"}
MIXED = {"mix": "a", "operations": 8}


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("consistency", ["strong", "weak"])
def test_a_write_is_an_immediate_and_a_small_write_a_data_store_and_one_call(consistency, replicas):
    stores = [f"ds[{number}]" for number in range(replicas)]
    assert for_one_more(f"orion[consistency={consistency},replicas={replicas},chunk=8]") == {
        **{("client[0]", ds, "WRITE WITH IMMEDIATE"): 1 for ds in stores},
        **{(ds, "mds[0]", "WRITE"): 1 for ds in stores},
        ("client[0]", "mds[0]", "SEND"): 1,
        ("mds[0]", "client[0]", "SEND"): 1,
    }


def test_pages_come_in_chunks():
    found = for_one_more("orion[chunk=2]")
    assert found["client[0]", "mds[0]", "SEND"] == 2  # the third write needs a second chunk


def test_a_read_of_what_is_known_is_one_read():
    assert for_one_more("orion", "c") == {("client[0]", "mds[0]", "READ"): 1}
    first = twins.messages("orion", 1, "c")
    assert first == {("client[0]", "mds[0]", "READ"): 2, ("client[0]", "ds[0]", "READ"): 1}


def test_a_mirror_gets_the_entry_and_then_the_tail():
    found = for_one_more("orion[mds=2,chunk=8]")
    assert found["mds[0]", "mds[1]", "WRITE WITH IMMEDIATE"] == found["mds[1]", "mds[0]", "SEND"] == 2


def test_over_a_primitive_of_adapters_nobody_acknowledges_to_the_mds():
    found = for_one_more("orion[chunk=8] over wflush")
    assert not any(here.startswith("ds") for here, _, _ in found)
    assert found["client[0]", "mds[0]", "SEND"] == 1


@pytest.mark.parametrize("options", ["", "[mds=2]", "[consistency=weak]"])
def test_without_a_fault_it_is_linearizable_and_commits_are_arbitrated(options):
    work = {"mix": "a", "operations": 60, "keys": 2}
    assert violated(f"orion{options}", "no fault", work, clients=4) == set()
    result = ran(f"orion{options}", work, clients=4)
    assert sum(one.counts["arbitrated"] for one in result.took["put"]) > 0


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
@pytest.mark.parametrize("work", [{}, MIXED, LARGE], ids=["small", "mixed", "large"])
def test_strong_holds_everywhere(work, platform, ddio):
    assert violated("orion", "all power", work, platform, ddio) == set()


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_weak_has_metadata_without_data(platform, ddio):
    assert violated("orion[consistency=weak]", "all power", LARGE, platform, ddio) == TORN


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
@pytest.mark.parametrize("primitive", ["read-after-write", "wflush"])
def test_over_a_primitive_that_ends_in_the_cache_it_fails_where_caches_are_lost(primitive, platform, ddio):
    lost = TORN if (platform, ddio) == ("optane-adr", "on") else set()
    assert violated(f"orion over {primitive}", "all power", None, platform, ddio) == lost


@pytest.mark.parametrize("primitive", ["ibta-flush-persistent", "send-cpu-copy", "write-send-cpu-flush"])
def test_over_a_primitive_that_flushes_it_holds(primitive):
    assert violated(f"orion over {primitive}", "all power") == set()


@pytest.mark.parametrize("fault", ["mds[0] power", "mds[0] process", "ds[0] power", "ds[1] process", "ds[0] lost"])
def test_one_machine_that_fails_loses_nothing(fault):
    assert violated("orion", fault) == set()
    assert all_finish("orion", fault, MIXED)


def test_the_only_copy_of_a_page_is_lost_with_its_data_store():
    assert violated("orion[replicas=1]", "ds[0] lost") == {"no_lost_ack", "durable"}


def test_the_log_is_lost_with_the_only_metadata_server():
    assert violated("orion", "mds[0] lost") == {"no_lost_ack", "durable"}


@pytest.mark.parametrize("fault", [f"mds[{n}] {how}" for n in range(2) for how in ("power", "process", "lost")])
def test_a_mirror_takes_over_and_follows_again(fault):
    assert violated("orion[mds=2]", fault) == set()
    assert all_finish("orion[mds=2]", fault, MIXED)


@pytest.mark.parametrize("fault", ["all power in recovery", "mds[0] + mds[1] power", "mds[0] + ds[0] power"])
def test_several_machines_fail_together(fault):
    assert violated("orion[mds=2]", fault, {"operations": 3}) == set()


@pytest.mark.parametrize("fault", ["client[0] process", "client[0] power"])
def test_a_client_that_dies_leaves_the_others_alone(fault):
    assert violated("orion", fault, MIXED) == set()
    assert all_finish("orion", fault, MIXED)


def test_a_weak_data_store_fetches_from_the_other_what_it_has_not_flushed():
    assert violated("orion[consistency=weak]", "ds[0] power", LARGE, clients=1) == set()


PUTS = [{"process": 0, "f": "put", "object": "k0"}, {"process": 0, "f": "put", "object": "k1", "at": "4 s"}]


def away(role, first=0):
    """Two machines of a role are away at the same time, for 5 ms each."""
    return [Fails(MS // 10, role, first, down_ps=5 * MS), Fails(2 * MS, role, 1 - first, down_ps=5 * MS)]


@pytest.mark.parametrize(
    "role, fails, there",
    [
        ("ds", away("ds"), [True, True]),
        ("ds", away("ds", 1), [True, True]),
        ("ds", [*away("ds"), Fails(6 * MS, "ds", 1, "lost")], [True, False]),
        ("ds", [away("ds")[0], Fails(5_101 * MS // 1000, "ds", 1, "lost")], [True, False]),
        ("mds", away("mds"), [True, True]),
        ("mds", away("mds", 1), [True, True]),
        ("mds", [*away("mds"), Fails(6 * MS, "mds", 1, "lost")], [True, False]),
        ("mds", [away("mds", 1)[0], Fails(5_102 * MS // 1000, "mds", 0, "lost")], [False, True]),
    ],
)
def test_recovery_waits_for_a_machine_that_is_away_and_goes_on_without_one_that_is_lost(role, fails, there):
    after = struck("orion[mds=2]", fails, PUTS)
    assert after.finished and not after.unread
    assert serving(after, role) == there
    assert all(outcome in ("ok", "info") for _, outcome in outcomes(after))
    assert [one.outcome for one in after.history.operations if one.f == "get"] == ["ok", "ok"]


def test_a_data_store_that_waits_for_no_other_one_is_never_there_again():
    after = struck(twins.OrionImpatient.name, away("ds"), PUTS)
    assert not after.finished and after.recovered_ps is None


STALE = [
    {"process": 0, "f": "put", "object": "k0"},
    {"process": 0, "f": "put", "object": "k1", "at": "3.3 s"},
    {"process": 1, "f": "get", "object": "k1", "at": "5.2 s"},
]
"""The first put's entry is on its way to the mirror when the mds fails, and lands behind the second put's."""
HELD = [{"machine": "mds[1]", "queue_pair": 2, "for": "2 s"}]
GONE = Fails(5 * SECOND // 2, "mds", 0, "lost")
RETURNS = Fails(5 * SECOND // 2, "mds", 0, down_ps=5 * MS)


@pytest.mark.parametrize(
    "fails", [[GONE], [RETURNS, Fails(5 * SECOND, "mds", 0, "lost")]], ids=["the mirror serves", "the mds returns"]
)
def test_what_an_mds_sent_before_it_failed_lands_before_the_mirror_s_next_entry(fails):
    """Source: IBTA 9.7 orders the packets of one queue pair only: those of an old one may land behind a new one's."""
    found = {}
    for name in ("orion[mds=2]", f"{twins.OrionUnfenced.name}[mds=2]"):
        after = struck(name, fails, STALE, held=HELD)
        assert outcomes(after) == [("put", "info"), ("put", "ok")]
        found[name] = [one.result for one in after.history.operations if one.f == "get" and one.process == 1]
    assert list(found.values()) == [[2], [1]]


@pytest.mark.parametrize(
    "twin, whole, fault, work",
    [
        (twins.OrionHasty, "orion", "all power", LARGE),
        (twins.OrionUnflushed, "orion", "all power", {}),
        (twins.OrionTailFirst, "orion", "all power", {}),
        (twins.OrionOneStore, "orion", "ds[0] lost", {}),
        (twins.OrionUnmirrored, "orion[mds=2]", "mds[0] lost", {}),
        (twins.OrionMirrorFromMemory, "orion[mds=2]", "mds[0] lost", {}),
    ],
)
def test_a_broken_twin_is_caught(twin, whole, fault, work):
    assert violated(whole, fault, work) == set()
    assert "no_lost_ack" in violated(whole.replace("orion", twin.name), fault, work)


def test_the_cache_keeps_what_a_twin_does_not_flush_on_eadr():
    assert violated(twins.OrionUnflushed.name, "all power", {}, "optane-eadr") == set()


@pytest.mark.parametrize(
    "name, fault, complaint",
    [
        ("orion over read-after-send", "all power", "a primitive that copies what comes by SEND"),
        ("orion[mds=3]", "all power", "at most 2"),
        ("orion", "mds[1] lost", "an index below 1"),
    ],
)
def test_what_cannot_be_is_refused(name, fault, complaint):
    with pytest.raises(InputError, match=complaint):
        violated(name, fault)
