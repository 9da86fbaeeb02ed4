"""NVFS: messages, what lasts, a data node lost, and what twins lose."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rpsim.models.persist.requester import PrimitiveFailed
from rpsim.sim.errors import InputError

from ...small import PLATFORMS
from . import twins
from .twins import LARGE, all_finish, for_one_more, violated

LOST = {"no_lost_ack", "durable"}
MIXED = {"mix": "a", "operations": 8}


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_write_is_two_calls_and_a_message_and_an_answer_a_data_node(replicas):
    chain = ["client[0]", *(f"data-node[{number}]" for number in range(replicas))]
    assert for_one_more(f"nvfs[replicas={replicas}]") == {
        ("client[0]", "name-node[0]", "SEND"): 2,
        ("name-node[0]", "client[0]", "SEND"): 2,
        **{(here, there, "SEND"): 1 for here, there in pairwise(chain)},
        **{(there, here, "SEND"): 1 for here, there in pairwise(chain)},
    }


def test_over_a_primitive_of_adapters_each_data_node_is_asked_to_pass_on():
    found = for_one_more("nvfs over wflush")
    assert found["client[0]", "data-node[0]", "WRITE"] == found["client[0]", "data-node[0]", "SEND"] == 1
    assert found["data-node[1]", "data-node[2]", "WRITE"] == found["data-node[1]", "data-node[2]", "SEND"] == 1


@pytest.mark.parametrize("nodes", [3, 5])
def test_without_a_fault_it_is_linearizable(nodes):
    work = {"mix": "a", "operations": 60, "keys": 2}
    assert violated("nvfs", "no fault", work, clients=4, machines={"data-node": nodes}) == set()


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
@pytest.mark.parametrize("work", [{}, MIXED, {"value": "8 KiB"}], ids=["small", "mixed", "large"])
def test_what_is_copied_and_flushed_holds_everywhere(work, platform, ddio):
    assert violated("nvfs", "all power", work, platform, ddio) == set()


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_over_wflush_it_fails_where_caches_are_lost_and_is_never_torn(platform, ddio):
    lost = LOST if (platform, ddio) == ("optane-adr", "on") else set()
    assert violated("nvfs over wflush", "all power", None, platform, ddio) == lost


@pytest.mark.parametrize("platform, ddio", PLATFORMS)
def test_over_no_flush_a_data_node_that_passes_on_has_seen_the_block_in_its_cache(platform, ddio):
    """Its CPU loads what it passes on: with DDIO that is in the cache then, which eADR keeps."""
    lost = set() if (platform, ddio) == ("optane-eadr", "on") else LOST
    assert violated("nvfs over no-flush", "all power", None, platform, ddio) == lost


@pytest.mark.parametrize("machine", ["name-node[0]", "data-node[0]", "data-node[1]", "data-node[2]"])
@pytest.mark.parametrize("how", ["power", "process", "lost"])
@pytest.mark.parametrize("primitive", ["send-cpu-copy", "ibta-flush-persistent"])
def test_one_machine_that_fails_loses_nothing_but_a_name_node_that_is_lost(primitive, machine, how):
    lost = LOST if (machine, how) == ("name-node[0]", "lost") else set()
    assert violated(f"nvfs over {primitive}", f"{machine} {how}", {"operations": 3}) == lost
    assert all_finish(f"nvfs over {primitive}", f"{machine} {how}", {"mix": "a"})


def test_two_of_three_data_nodes_may_be_lost():
    assert violated("nvfs", "data-node[0] + data-node[2] lost", {"operations": 3}) == set()
    assert violated("nvfs[replicas=2]", "data-node[0] + data-node[1] lost", {"operations": 3}) == LOST


@pytest.mark.parametrize("fault", ["client[0] process", "client[0] power"])
def test_a_client_that_dies_leaves_the_others_alone(fault):
    assert violated("nvfs", fault, MIXED) == set()
    assert all_finish("nvfs", fault, MIXED)


@pytest.mark.parametrize(
    "twin, fault, work, on_eadr",
    [
        (twins.NvfsAnswersFirst, "all power", LARGE | {"value": "32 KiB"}, False),
        (twins.NvfsUnflushed, "all power", {}, False),
        (twins.NvfsJournalUnflushed, "all power", {}, False),
        (twins.NvfsCompletesFirst, "all power", {}, True),
        (twins.NvfsOneCopy, "data-node[0] lost", {}, True),
    ],
)
def test_a_broken_twin_is_caught(twin, fault, work, on_eadr):
    assert violated("nvfs", fault, work) == set()
    assert "no_lost_ack" in violated(twin.name, fault, work, whole=False)
    assert ("no_lost_ack" in violated(twin.name, fault, work, "optane-eadr", whole=False)) == on_eadr


def test_a_data_node_that_is_refused_by_the_next_one_does_not_try_for_ever():
    with pytest.raises(PrimitiveFailed, match="remote access error"):
        twins.ran(f"{twins.NvfsClosed.name} over wflush")


@pytest.mark.parametrize(
    "name, more, complaint",
    [
        ("nvfs over read-after-send", {}, "a primitive that copies what comes by SEND"),
        ("nvfs[replicas=9]", {}, "at most 8"),
        ("nvfs", {"machines": {"data-node": 2}}, "expected at least 3"),
    ],
)
def test_what_cannot_be_is_refused(name, more, complaint):
    with pytest.raises(InputError, match=complaint):
        violated(name, "all power", **more)
