"""pDPM-Direct: round trips, what survives, and what its twins lose."""

from __future__ import annotations

import pytest

from rpsim.validation.crash.strikes import Walk

from ...small import put
from . import twins
from .nodes import COMMITTED, DURABLE, LOST, ran, small, violated, waiting


def trips(result, f):
    return {one.depth / 2 for one in result.took[f]}


@pytest.mark.parametrize(
    "options, f, found",
    [
        ("", "put", 4),
        ("[replicas=2]", "put", 4),
        ("", "get", 1),
        ("[reads=lock]", "get", 3),
        ("[durable=commit]", "put", 4),
    ],
)
def test_round_trips_are_those_of_table_1(options, f, found):
    mix = "c" if f == "get" else "update-only"
    assert trips(ran(f"pdpm-direct{options}", mix, machines=1), f) == {found}


def test_a_reader_that_finds_another_checksum_reads_again_and_a_writer_waits_for_the_lock():
    result = ran("pdpm-direct", "a", operations=400, keys=1, nodes=1, machines=4, value="4 KiB")
    assert sum(one.counts["retries"] for one in result.took["get"]) > 0
    assert sum(one.counts["retries"] for one in result.took["put"]) > 0


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("domain", ["adr", "eadr"])
def test_a_write_that_is_acknowledged_is_not_durable_where_the_adapter_is_not(domain, ddio):
    found = violated("pdpm-direct", "all power", domain=domain, ddio=ddio, operations=4)
    assert LOST in found and COMMITTED not in found


@pytest.mark.parametrize("domain", ["adr", "eadr", "wsp"])
def test_with_a_commit_behind_each_write_nothing_is_lost(domain):
    assert violated("pdpm-direct[durable=commit]", "all power", domain=domain) == set()


def test_under_the_papers_premise_nothing_is_lost_by_redo():
    work = [put(0, "k0"), put(0, "k0")]
    assert violated("pdpm-direct", "all power", work, value="8 KiB", keys=1) == set()


@pytest.mark.parametrize("twin", [twins.NoRedo, twins.InPlaceAlone])
def test_without_redo_an_entry_stays_torn(twin):
    work = [put(0, "k0"), put(0, "k0")]
    assert DURABLE in violated(twin.name, "all power", work, value="8 KiB", keys=1)


@pytest.mark.long
def test_a_node_that_is_lost_has_a_copy_elsewhere():
    assert LOST in violated("pdpm-direct", "data[0] lost", operations=4)
    assert violated("pdpm-direct[replicas=2]", "data[0] lost", operations=4) == set()


@pytest.mark.long
def test_a_node_that_comes_back_is_recovered_while_clients_wait():
    assert violated("pdpm-direct", "data[0] power", operations=4) == set()


@pytest.mark.long
@pytest.mark.parametrize("name", ["pdpm-direct", twins.AllRecovered.name])
def test_recovery_of_one_node_leaves_entries_on_another_to_their_writers(name):
    work = [put(1, "k0"), put(1, "k0", 23_500), put(0, "k1", 1000)]
    found = violated(name, "data[1] power", work, value="8 KiB", down="20 us")
    assert (DURABLE in found) == (name == twins.AllRecovered.name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pdpm-direct", twins.KeepsLock.name])
def test_a_put_that_a_failed_node_cuts_short_leaves_the_lock_to_recovery(name):
    work = [put(1, "k0"), put(1, "k0", 23_500), put(0, "k1", 1000)]
    waits = waiting(f"{name}[replicas=2]", "data[1] power", work, value="8 KiB", down="20 us")
    assert (waits > 0) == (name == twins.KeepsLock.name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pdpm-direct", twins.RecoveryGivesUp.name])
@pytest.mark.parametrize("second", ["data[1] power", "data[1] lost"])
def test_a_node_that_fails_while_another_one_is_recovered_does_not_end_that(name, second):
    work = [put(0, "k0")]
    shape = {"keys": 1, "machines": 1, "domain": "adr", "ddio": "off", "value": "16 B"}
    waits = waiting(f"{name}[durable=commit,replicas=2]", f"data[0] power then {second}", work, **shape)
    assert (waits > 0) == (name == twins.RecoveryGivesUp.name)


@pytest.mark.parametrize("name", ["pdpm-direct", twins.NobodyElse.name])
@pytest.mark.parametrize("fault", ["client[0] power then data[0] power", "data[0] power then client[0] power"])
def test_another_client_recovers_where_the_first_one_has_no_power(name, fault):
    """Until somebody has recovered the node nobody connects to it, the fresh client neither."""
    shape = {"keys": 1, "nodes": 1, "value": "16 B"}
    made = small(name, [put(0, "k0"), put(1, "k0", 60_000)], crash={"fault": fault, "down": "20 us"}, **shape)
    (variant,) = made.variants()
    walk = Walk(made, variant)
    behind_the_first_put = max(at_ps for at_ps in walk.instants if at_ps < 60_000_000)
    found = [state.aftermath.finished for state in walk.states([behind_the_first_put])]
    assert len(found) > 3 and all(found) == (name == "pdpm-direct")


@pytest.mark.long
def test_what_a_second_failure_leaves_is_chosen_behind_what_the_first_one_left():
    """A comparison behind the second failure may be of lines that nobody has looked at since the first."""
    shape = {"machines": 1, "keys": 1, "value": "16 B", "domain": "adr"}
    fault = "data[0] power then data[0] power"
    assert violated("pdpm-direct[durable=commit,replicas=2]", fault, [put(0, "k0")], **shape) == set()
