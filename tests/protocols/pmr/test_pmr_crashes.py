"""What a power failure leaves of the PMR paper's stacks, and that broken twins of the repaired one are caught."""

from __future__ import annotations

from itertools import islice

import pytest

from rpsim.protocols.failures import CLIENT, POWER, PROCESS
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.shapes import tagged
from rpsim.validation.crash.executed import judge_state
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.strikes import Walk

from ...small import get, only_variant, put, run, scenario, ycsb
from ..strikes import Fails, struck
from .twins import ClearedEarly, NoBarrier, NoChecksum, NoFence, NoNumber, NoPlace, NoSequence, SeenEarly

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
REPAIRED = "pmraccess-repaired"
SMALL = "[chunk=128 B, chunks=3, slots=2]"
ORDER = [put(1, "k0"), put(0, "k0", 6_000)]
"""The client with the second chunk first."""


def refuted(
    name, work, *, pmrwbm=2, whole=True, processes=1, keys=1, platform="pmr-testbed", ddio="off", value="16 B",
    perturb=(), schedules=1, mapping="wc",
):  # fmt: skip
    """What every crash point of a run refutes, or of several that differ by what is perturbed."""
    vary = {
        "platform": [platform], "ddio": [ddio], "line_atomicity": ["whole" if whole else "word"], "pmrwbm": [pmrwbm],
        "pmr_mapping": [mapping],
    }  # fmt: skip
    broken = set()
    for schedule in range(schedules):
        crash = {"perturb": list(perturb), "schedules": schedules} if perturb else {}
        result = run(name, work, vary=vary, keys=keys, value=value, processes=processes, crash=crash, schedule=schedule)
        found = Explorer(result).walk()
        assert found.exhaustive
        broken |= found.first.keys() & {COMMITTED, LOST, DURABLE}
    return broken


@pytest.mark.parametrize("mapping", ["uc", "wc"])
@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_the_repaired_stack_keeps_what_it_acknowledged_in_order(pmrwbm, mapping):
    assert refuted(REPAIRED, ORDER, pmrwbm=pmrwbm, processes=2, mapping=mapping) == set()


@pytest.mark.parametrize(
    ("pmrwbm", "mapping", "caught"), [(1, "wc", True), (3, "wc", True), (1, "uc", False), (2, "wc", False)]
)
def test_a_twin_without_a_fence_is_caught_where_a_load_leaves_write_combining_buffers_as_they_are(
    pmrwbm, mapping, caught
):
    assert (LOST in refuted(NoFence.name, ORDER, pmrwbm=pmrwbm, processes=2, mapping=mapping)) is caught


def test_a_twin_without_a_barrier_loses_acknowledged_updates():
    assert LOST in refuted(NoBarrier.name, ORDER, processes=2)


def test_a_twin_that_executes_before_the_barrier_shows_what_is_lost():
    """A reader comes between the two, while the core is away: else its reply takes longer than the barrier."""
    work = [put(0, "k0"), *(get(1, "k0", 500 + 500 * turn) for turn in range(6))]
    paused = {"processes": 2, "perturb": ["pauses"], "schedules": 8}
    assert refuted(REPAIRED, work, **paused) == set()
    assert DURABLE in refuted(SeenEarly.name, work, **paused)


def test_a_twin_without_a_sequence_brings_an_older_value_back():
    assert LOST in refuted(NoSequence.name, ORDER, processes=2)


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_a_flag_in_dram_may_come_before_its_request_in_the_region(pmrwbm):
    """The paper's stack executes what lies there; the repaired one waits, but without numbers it repeats a GET."""
    late = {"perturb": ["hardware"], "schedules": 6, "pmrwbm": pmrwbm, "keys": 2}
    found = [refuted(name, ycsb(8, "a"), **late) for name in ("pmraccess", REPAIRED, NoNumber.name)]
    assert {COMMITTED, LOST} <= found[0] and found[1] == set() and {COMMITTED, LOST} <= found[2]


def test_a_twin_without_checksums_takes_torn_entries():
    work = [put(0, "k0"), put(0, "k0")]
    assert COMMITTED in refuted(NoChecksum.name, work, value="48 B")
    assert refuted(REPAIRED, work, value="48 B") == set()
    assert refuted(REPAIRED, work[:1], whole=False, value="48 B") == set()


@pytest.mark.parametrize("name", ["pmrsync-barrier", "ssdsync"])
def test_behind_an_update_whose_connection_breaks_the_next_one_spares_the_place_that_is_read(name):
    lost = [{"from": "client[0]", "to": "server[0]", "packet": number, "lost": True} for number in range(1, 17)]
    vary = {"platform": ["pmr-testbed"], "ddio": ["off"], "line_atomicity": ["word"], "pmrwbm": [1]}
    result = run(name, [put(0, "k0"), put(0, "k0")], vary=vary, keys=1, value="64 B", network={"packets": lost})
    assert [o.outcome for o in result.history.operations] == ["info", "ok"]
    walked = Explorer(result).walk()
    assert walked.exhaustive and walked.first == {}


def test_a_version_that_a_failure_has_torn_is_given_to_no_other_update():
    """Else two torn updates under one version could look like a whole one."""
    result = run("pmrdirect", [put(0, "k0")], vary={"platform": ["pmr-testbed"], "ddio": ["off"]}, value="48 B")
    role, clock = result.scheme.roles["server"][0], result.system.clock
    place, torn = role.offset(role.place(0, 3)), tagged(bytes(48), 3)
    role.memory_of_places.space.poke(place + 8, torn[8:])
    clock.run_until(clock.start(role.recover_unit(role.node.thread(0, "recovery"), 0)))
    assert role.written == [2] and role.next_version(0) == 5


def test_a_record_of_the_block_before_is_none_behind_the_newest_one():
    """Four records fill a block. The buffer still has them when the next block begins."""
    work = [put(0, "k0")] * 4
    assert refuted("syncaccess", work, value="1006 B") == set()
    assert LOST in refuted(NoPlace.name, work, value="1006 B")


def test_power_fails_again_behind_a_recovery_that_compares_what_it_has_copied_into_dram():
    """The image of the first failure says nothing of DRAM: its bytes are those that recovery has put there."""
    made = scenario(
        f"{REPAIRED}[chunk=128 B, chunks=2, slots=1]", [put(0, "k0")] * 2, value="16 B",
        vary={"platform": ["pmr-testbed"], "ddio": ["off"], "line_atomicity": ["whole"], "pmrwbm": [1]},
        crash={"fault": "server[0] power then server[0] power"},
    )  # fmt: skip
    walk = Walk(made, only_variant(made))
    for state in islice(walk.states(walk.instants[-1:]), 2):
        assert len(state.images) == 2 and judge_state(state, (COMMITTED, LOST, DURABLE)) == {}


TESTBED = {"platform": ["pmr-testbed"], "ddio": ["off"]}


@pytest.mark.parametrize(
    "name", ["pmraccess", REPAIRED, "pmemaccess", "write-messaging", "send-messaging", "pmrsync", "ssdsync"]
)
def test_a_client_whose_server_loses_its_power_behind_a_request_connects_again(name):
    """The request's completion has come, so no error tells the client that there will be no answer."""
    for at_ps in range(500_000, 4_500_000, 400_000):
        after = struck(name, [Fails(at_ps, "server", 0)], [put(0, "k0")] * 2, TESTBED)
        assert after.finished and {one.outcome for one in after.history.operations} <= {"ok", "info"}


@pytest.mark.parametrize("name", ["pmraccess", "pmemaccess"])
def test_a_client_whose_server_loses_its_power_while_it_connects_connects_again(name):
    """The server has not given it a chunk, or a log, yet."""
    first, work = Fails(2_000_000, "server", 0), [put(0, "k0")] * 2
    again_ps = struck(name, [first], work, TESTBED).history.operations[1].invoke_ps
    after = struck(name, [first, Fails(again_ps + 1_000, "server", 0)], work, TESTBED)
    assert after.finished and [one.outcome for one in after.history.operations[:2]] == ["info", "info"]


@pytest.mark.parametrize("name", ["pmraccess", REPAIRED])
def test_who_reads_after_a_failure_has_a_chunk_where_there_are_as_many_as_clients(name):
    died = Fails(2_000_000, "server", 0, PROCESS)
    after = struck(f"{name}[chunks=2]", [died], [put(0, "k0"), put(1, "k1")] * 2, TESTBED)
    assert after.finished and not after.unread


@pytest.mark.parametrize("kind", [POWER, PROCESS])
def test_the_chunk_of_a_client_that_is_gone_goes_to_who_waits_for_it(kind):
    """Of a client without power no error tells the server, which waits for a request."""
    work = [put(0, "k0"), put(0, "k0", 20_000)]
    after = struck(f"{REPAIRED}[chunks=1]", [Fails(15_000_000, CLIENT, 0, kind)], work, TESTBED)
    assert after.finished and not after.unread


@pytest.mark.long
def test_a_twin_that_clears_the_bit_early_loses_a_chunk():
    work = ycsb(4, "update-only")
    assert LOST in refuted(ClearedEarly.name + SMALL, work)
    assert refuted(REPAIRED + SMALL, work) == set()
