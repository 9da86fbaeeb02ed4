"""Hotpot: messages of a commit, serialized transactions, what survives in each phase, and what its twins lose."""

from __future__ import annotations

import pytest

from rpsim.protocols.failures import LOST as LOST_FOR_GOOD
from rpsim.protocols.failures import Failing
from rpsim.protocols.hotpot.node import HeldLocks
from rpsim.protocols.hotpot.records import PageGroup, State
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.bytespace import LINE_BYTES
from rpsim.sim.errors import InputError
from rpsim.sim.units import parse_duration_ps
from rpsim.validation.crash.explore import explore, slider
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.testing.checks import crash_report, scenario_of

from ..several import ALL, COMMITTED, DURABLE, LOST
from . import twins

PLATFORMS = [("optane-adr", "on"), ("optane-adr", "off"), ("optane-eadr", "on"), ("optane-eadr", "off")]
SMALL = "hotpot[page=64 B]"
SENT = "hotpot[page=64 B,again=sent]"
PUBLIC = "hotpot-public[page=64 B]"
MIX = {"kind": "mix", "shares": {"txn": 1.0}, "keys": 5, "value": "8 B", "operations": 60, "steps": 3, "zipf": 0.5}
THREE_PHASES = [(0, "wk1 wk2")]
TWO = [(0, "wk1 wk2"), (1, "wk1 wk0")]
OWN = [(0, "wk0 wk1 wk2")]
LATER = [(0, "wk1 wk2"), (1, "wk1")]


def listed(*transactions, keys=3):
    """A schedule of transactions, each a process, its steps, and perhaps the instant before which it does not begin."""
    operations = []
    for process, steps, *at in transactions:
        named = [[step[0], step[1:]] for step in steps.split()]
        operations.append({"process": process, "f": "txn", "steps": named} | ({"at": at[0]} if at else {}))
    return {"kind": "schedule", "keys": keys, "value": "8 B", "operations": operations}


def ran(name, workload, clients=1):
    made = scenario_of(scheme(name), clients=clients, ddio="on", fault="no fault", workload=workload)
    (variant,) = made.variants()
    return run_variant(made, variant, metered=True)


def broken(name, fault, *transactions, platform="optane-adr", ddio="on", **more):
    """The conditions that a fault breaks."""
    clients = 1 + max(process for process, *_ in transactions)
    keys = more.pop("keys", 3)
    report = crash_report(
        scheme(name), platform, ddio=ddio, fault=fault, clients=clients, workload=listed(*transactions, keys=keys),
        examples=False, **more,
    )  # fmt: skip
    assert report.exhaustive and report.states > 1
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"} & ALL


def linearizable(name, workload=MIX, clients=4):
    report = crash_report(scheme(name), fault="no fault", clients=clients, ddio="on", workload=workload, examples=False)
    return report.verdicts["linearizable"]


# nothing fails --------------------------------------------------------------------------------------------------------
def messages(name, steps, node=0):
    """The messages that nodes send for a transaction, replies and what goes to holders of copies included."""
    result = ran(name, listed((node, steps)), clients=1 + node)
    assert all(operation.outcome == "ok" for operation in result.history.operations)
    return sum(one.nic.doorbells for one in result.system.nodes["node"])


@pytest.mark.parametrize(
    "steps, remote", [("wk0", 0), ("wk1", 2), ("wk0 wk1", 2), ("wk1 wk2", 12), ("wk0 wk1 wk2", 12)]
)
def test_a_commit_has_three_rounds_with_several_remote_owners_and_one_with_one(steps, remote):
    """A fetch of each page that is not here; to each of two remote owners three messages; the reply to the process."""
    fetches = 2 * sum(step != "wk0" for step in steps.split())
    assert messages("hotpot[page=64 B,copies=0]", steps) == remote + fetches + 1


def test_each_owner_sends_what_is_new_to_each_holder_of_a_copy():
    alone, twice = (messages(f"hotpot[page=64 B,copies={copies}]", "wk0 wk1 wk2") for copies in (0, 2))
    fetches = 4  # which are spared where every node has every page
    assert twice == alone - fetches + 3 * 2 * 2


def test_transactions_on_pages_of_several_owners_are_serialized():
    result = ran(SMALL, MIX, clients=4)
    assert {operation.outcome for operation in result.history.operations} == {"ok"}
    assert linearizable(SMALL) == "holds"


def test_who_does_not_lock_what_is_read_sees_half_of_others():
    assert linearizable("hotpot[page=64 B,reads=copies]") == "violated"
    assert linearizable(PUBLIC) == "violated"


@pytest.mark.parametrize("name", ["hotpot[page=100 B]", "hotpot-public[page=100 B]"])
def test_a_page_is_whole_lines(name):
    result = ran(name, MIX | {"value": "72 B"}, clients=2)
    assert {operation.outcome for operation in result.history.operations} == {"ok"}


def test_all_copies_of_a_page_are_alike():
    result = ran("hotpot[page=64 B,copies=2]", MIX, clients=4)
    now_ps, nodes = result.system.clock.now_ps, result.scheme.roles["node"]
    for home in range(3):
        starts = [(one, one.regions[home] - one.pm.base) for one in nodes]
        assert len({one.pm.space.read(now_ps, start, 2 * 64) for one, start in starts}) == 1


# power of all ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_redo_data_that_nobody_flushed_are_garbage_unless_caches_last(platform, ddio):
    """The record is flushed; its data are in the cache, or with DDIO off in the I/O write cache, which eADR loses."""
    found = broken(SMALL, "all power", *THREE_PHASES, platform=platform, ddio=ddio)
    assert found == (set() if (platform, ddio) == ("optane-eadr", "on") else ALL)


def test_nothing_else_is_missing_where_the_i_o_write_cache_lasts():
    found = broken(SMALL, "all power", *THREE_PHASES, platform="optane-eadr", ddio="off", iio_wc_survives="on")
    assert found == set()


@pytest.mark.long
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
@pytest.mark.parametrize("transactions", [TWO, OWN, [(0, "wk0 wk1 wk2"), (1, "wk1 wk0 rk2")]])
def test_all_holds_where_the_node_that_commits_sends_its_data_again(transactions, platform, ddio):
    assert broken(SENT, "all power", *transactions, platform=platform, ddio=ddio) == set()


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_the_public_code_leaves_half_of_a_transaction_on_every_platform(platform, ddio):
    found = broken(PUBLIC, "all power", *THREE_PHASES, platform=platform, ddio=ddio)
    assert found == {DURABLE, LOST}


@pytest.mark.parametrize("platform, found", [("optane-adr", {COMMITTED, DURABLE, LOST}), ("optane-eadr", set())])
def test_the_public_code_does_not_flush_a_page_of_the_node_that_commits(platform, found):
    assert broken(PUBLIC, "all power", (0, "wk0"), platform=platform) == found


@pytest.mark.long
@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_the_public_code_has_flushed_remote_pages_before_it_replies(platform, ddio):
    """One remote owner: a transaction is on one page."""
    assert broken(PUBLIC, "all power", (0, "wk1"), (0, "rk1 wk1"), platform=platform, ddio=ddio) == set()


# one machine ----------------------------------------------------------------------------------------------------------
@pytest.mark.long
@pytest.mark.parametrize("fault", ["node[1] lost", "node[0] power", "node[1] process", "client[0] process"])
@pytest.mark.parametrize("transactions", [THREE_PHASES, OWN])
def test_one_that_fails_breaks_nothing_while_owners_keep_their_power(transactions, fault):
    assert broken(SMALL, fault, *transactions) == set()


@pytest.mark.long
@pytest.mark.parametrize("name, found", [(SMALL, ALL), (SENT, set())])
def test_an_owner_that_lost_power_alone_goes_on_from_garbage_unless_data_come_again(name, found):
    assert broken(name, "node[1] power", *THREE_PHASES) == found


@pytest.mark.parametrize("transactions, found", [(THREE_PHASES, set()), (OWN, {DURABLE, LOST})])
def test_what_the_lost_node_had_owned_and_not_yet_committed_is_missing(transactions, found):
    assert broken(SMALL, "node[0] lost", *transactions) == found


def test_who_meets_a_page_of_a_lost_node_that_somebody_is_committing_waits_for_the_end():
    result = ran(SMALL, listed((0, "wk1")))
    result.scheme.failures = (Failing("node", 0, LOST_FOR_GOOD),)
    node, key, page, seen = result.scheme.roles["node"][1], (0, 1), 1, []
    node.held[key] = held = HeldLocks(7, PageGroup((page,), ()), State.COMMITTING, buffer=0)
    node.locks[page] = key

    def commit(thread):
        yield from node.commit(thread, key)
        seen.append(("committed", held.state))

    def look(thread):
        while (yield from node.blocked(thread, page)):
            seen.append(("blocked", held.state))
            yield from thread.load(node.record(key), 8)
        seen.append(("free", held.state))

    for core, code in enumerate((commit, look)):
        node.run_thread(code(node.node.thread(core, code.__name__)))
    result.system.clock.run()
    assert seen[0] == ("blocked", State.COMMITTING) and seen[-1] == ("free", State.COMMITTED)
    assert ("committed", State.COMMITTED) in seen and node.released[key] == 7 and not node.locks


@pytest.mark.parametrize("first", ["wk1 wk2", "wk0 wk1 wk2", "wk1 rk2"])
def test_a_page_that_nobody_has_any_more_leaves_nothing_locked(first):
    """node[2] is lost at each instant, with the only copy of k2; later everybody writes and reads what is left."""
    later = [(1, "wk1 rk0", "2 s"), (0, "rk1 wk0", "3 s"), (0, "rk2", "4 s")]
    name, workload = "hotpot[page=64 B,copies=0]", listed((0, first), *later)
    made = scenario_of(scheme(name), clients=2, ddio="on", fault="node[2] lost", workload=workload)
    (variant,) = made.variants()
    walk = Walk(made, variant)
    ends = set()
    for state in walk.states([at_ps for at_ps in walk.instants if at_ps < parse_duration_ps("1 ms")][::3]):
        ended, written, read, gone = (one.outcome for one in state.aftermath.history.operations[:4])
        assert state.aftermath.finished and (written, read, gone) == ("ok", "ok", "fail")
        ends.add(ended)
    assert {"info", "ok"} <= ends


def test_a_process_whose_nodes_are_all_lost_is_told_so():
    fault, workload = "node[0] + node[1] + node[2] lost", listed((0, "rk0"), (0, "rk1", "3 s"))
    made = scenario_of(scheme(SMALL), clients=1, ddio="on", fault=fault, workload=workload)
    (variant,) = made.variants()
    walk = Walk(made, variant)
    (state,) = walk.states(walk.instants[:1])
    assert state.aftermath.history.operations[1].outcome == "fail"


def test_the_public_code_has_old_copies_where_an_owner_is_lost():
    assert LOST in broken(PUBLIC, "node[1] lost", (0, "wk1"), platform="optane-eadr")


# twins ----------------------------------------------------------------------------------------------------------------
def test_a_twin_that_does_not_wait_for_locks_is_caught_with_no_fault():
    assert linearizable(f"{twins.NoLockWait.name}[page=64 B]") == "violated"


@pytest.mark.long
@pytest.mark.parametrize(
    "twin, transactions, condition",
    [
        (twins.FlushedLate, THREE_PHASES, LOST),
        (twins.StateNotFlushed, LATER, LOST),
        (twins.NotReplayed, THREE_PHASES, LOST),
        (twins.OwnRecordLast, THREE_PHASES, LOST),
    ],
)
def test_a_twin_without_a_step_loses_what_the_whole_one_keeps(twin, transactions, condition):
    assert broken(SENT, "all power", *transactions) == set()
    assert condition in broken(f"{twin.name}[page=64 B,again=sent]", "all power", *transactions)


@pytest.mark.long
def test_a_flush_of_the_redo_data_mends_it_and_a_record_whose_id_lasts_before_the_rest_is_caught_then():
    transactions = [(0, "wk1 wk2"), (0, "wk1 wk2")]
    assert broken(f"{twins.DataFlushed.name}[page=64 B]", "all power", *transactions) == set()
    assert broken(f"{twins.IdWithRecord.name}[page=64 B]", "all power", *transactions)


@pytest.mark.long
def test_a_node_that_does_not_mark_its_record_commits_again_over_what_others_have_committed():
    """The second transaction has read what the first one wrote, and returns before the first one's record is gone."""
    transactions = [(0, "wk0 wk1 wk2 wk3 wk4"), (1, "rk0 wk0", "39 us")]
    how = {"keys": 5, "platform": "optane-eadr"}
    assert broken("hotpot[page=64 B,again=sent,nodes=5]", "all power", *transactions, **how) == set()
    name = f"{twins.NotMarked.name}[page=64 B,again=sent,nodes=5]"
    assert DURABLE in broken(name, "all power", *transactions, **how)


# names ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name, told", [("hotpot[nodes=9]", "at most 8"), ("hotpot[again=never]", "known or sent")])
def test_what_is_no_choice_is_refused(name, told):
    with pytest.raises(InputError, match=told):
        scheme(name)


def test_the_slider_says_of_which_machine_a_line_is_that_several_have():
    made = scenario_of(
        scheme("hotpot"), clients=1, ddio="on", fault="all power", workload=listed(*THREE_PHASES, keys=3)
    )
    (variant,) = made.variants()
    result = run_variant(made, variant)
    drawn = slider(explore(result, made, variant), result, made, variant)
    assert drawn is not None and len({line["node"] for line in drawn["lines"]}) > 1
    moved = [
        part for step in drawn["steps"] for part in step["what"].split("; ") if part.endswith((" written", "durable"))
    ]
    assert moved and all(part.startswith("node[") for part in moved)


def test_the_slider_has_no_row_for_the_zeros_of_a_page():
    made = scenario_of(scheme("hotpot"), clients=1, ddio="on", fault="all power", workload=listed((0, "wk0"), keys=1))
    (variant,) = made.variants()
    result = run_variant(made, variant)
    drawn = slider(explore(result, made, variant), result, made, variant)
    assert drawn is not None and 0 < len(drawn["lines"]) < 4096 // LINE_BYTES
