"""The arithmetic model against the naive one: same instants, same bytes, to the picosecond, on random workloads."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from rpsim.models.host.hostmemory import HostMemory
from rpsim.models.nic.dma import DmaReader
from rpsim.models.nic.ends import SendEnd
from rpsim.models.nic.message import Message
from rpsim.models.nic.nic import Nic
from rpsim.models.nic.slot import Slot
from rpsim.models.nic.staging import Staging
from rpsim.models.pcie.credits import PostedCredits
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.stations import Credits, Pipe
from rpsim.validation.naive.arithmetic import arithmetic
from rpsim.validation.naive.model import naive
from rpsim.validation.naive.workload import (
    Connection,
    Instruction,
    Outcome,
    Program,
    Request,
    Workload,
    difference,
    drive,
)
from rpsim.validation.speed.naive import write_workload, writes

from .workloads import changed, workloads

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def general(workload: Workload) -> Outcome:
    """The arithmetic model without the plain way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nic, "takes_plain_way", False)
        return arithmetic(workload)


def agree(workload: Workload) -> None:
    found = difference(workload, naive, arithmetic) or difference(workload, arithmetic, general)
    assert found is None, f"\n{found}"


@pytest.mark.long
@given(workloads())
@settings(max_examples=40, suppress_health_check=SLOW_TO_DRAW)
def test_both_models_agree_on_random_workloads(workload):
    agree(workload)


@pytest.mark.parametrize("memory", ["dram", "pm"])
@pytest.mark.parametrize("name", ["load", "store", "prefetch"])
def test_both_models_agree_on_a_long_range_that_others_touch_too(memory, name):
    programs = (
        Program(0, 0, 0, (Instruction(name, 0, 16384), Instruction("load", 2048, 4096))),
        Program(0, 1, 400_000, (Instruction("load", 8192, 8192), Instruction("store", 6144, 4096))),
    )
    agree(Workload(load_platform("optane-adr"), 1, 2, memory, (), programs, pool_bytes=16384))


@pytest.mark.slow
@given(workloads())
@settings(max_examples=2000, suppress_health_check=SLOW_TO_DRAW)
def test_both_models_agree_on_thousands_of_random_workloads(workload):
    agree(workload)


@pytest.mark.long
@pytest.mark.parametrize("size", [64, 4096])
def test_both_models_agree_on_what_the_benchmark_measures(size):
    workload = write_workload(size, 200, window=64, platform="optane-adr")
    agree(workload)
    assert len(drive(arithmetic, workload)) == writes(size, 200, 64, "optane-adr") == 200


# pieces of it, one at a time ------------------------------------------------------------------------------------------


def stage(*requests: Request, instructions: tuple[Instruction, ...] = (), at_ps: int = 0, **changes) -> Workload:
    """One client with one queue pair, and a thread at the server."""
    ddio = changes.pop("ddio", "on")
    platform = changed(load_platform("optane-adr", ddio=ddio), **changes)
    program = (Program(0, 0, at_ps, instructions),) if instructions else ()
    return Workload(platform, 2, 1, "pm", (Connection(1, 0, 0, 0, 8, requests),), program)


def crowd(*requests: Request, clients: int = 3, **changes) -> Workload:
    """Clients that all start at once, two queue pairs each."""
    platform = changed(load_platform("optane-adr", **changes.pop("settings", {})), **changes)
    ends = [(client, core) for client in range(1, clients + 1) for core in range(2)]
    connections = tuple(Connection(client, 0, core, 0, 4, requests) for client, core in ends)
    return Workload(platform, clients + 1, 2, "pm", connections)


SMALL_WRITE = Request("WRITE", 64, 0, inline=True)
LARGE_WRITE = Request("WRITE", 16384, 1024)
LATE = {"posted_write_ps": 5_000_000}
STAGED = {"nic": {"staging_bytes": 4096}}
TIGHT = {"nic": {"staging_bytes": 4096, "mtu_bytes": 1024}, "pcie": {"tlp_bits_per_s": 9_999_999_999}}


@pytest.mark.long
@pytest.mark.parametrize("at_ps", range(600_000, 1_400_000, 50_000))
@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("name", ["load", "store", "clwb", "clflush", "ntstore"])
def test_a_core_meets_an_inbound_write_at_every_stage_of_its_way(name, ddio, at_ps):
    instructions = (Instruction(name, 0, 1024), Instruction("sfence"), Instruction("load", 0, 64))
    agree(stage(SMALL_WRITE, instructions=instructions, at_ps=at_ps, ddio=ddio))


@pytest.mark.parametrize("ddio", ["on", "off"])
def test_ties_of_equal_clients(ddio):
    agree(crowd(SMALL_WRITE, Request("READ", 64, 0), Request("SEND", 8, inline=True), settings={"ddio": ddio}))


def test_packets_that_wait_for_staging():
    agree(crowd(LARGE_WRITE, Request("READ", 300, 1024), SMALL_WRITE, **TIGHT))


def fetch_behind_a_completion() -> Workload:
    """One queue pair's payload is fetched while another's completion is on its way through the slot."""
    ends = (Connection(1, 0, 0, 0, 1, (SMALL_WRITE,)), Connection(1, 0, 1, 2_000_000, 1, (Request("WRITE", 300, 0),)))
    return Workload(changed(load_platform("optane-adr"), pcie=LATE), 2, 2, "pm", ends)


# broken models are caught ---------------------------------------------------------------------------------------------


def one_picosecond_late(patch: pytest.MonkeyPatch) -> None:
    send = Pipe.send

    def late(pipe: Pipe, arrive_ps: int, n_bytes: int) -> tuple[int, int]:
        start_ps, end_ps = send(pipe, arrive_ps, n_bytes)
        return start_ps, end_ps + 1

    patch.setattr(Pipe, "send", late)


def forgets_one_credit(patch: pytest.MonkeyPatch) -> None:
    begin = Credits.__init__
    patch.setattr(Credits, "__init__", lambda credits, total: begin(credits, total - 1))


def serves_ties_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    """The last of several clients first: all of a queue pair's keys are mirrored."""
    begin = Nic.next_qp_number
    patch.setattr(Nic, "next_qp_number", lambda nic: 1000 - begin(nic))


def reads_overtake_posted_writes(patch: pytest.MonkeyPatch) -> None:
    ask = DmaReader.request

    def at_once(reader, *asked, **more):
        ask(reader, *asked, **more | {"not_before_ps": 0})

    patch.setattr(HostMemory, "looked_at_ps", lambda host, at_root_ps: at_root_ps)
    patch.setattr(DmaReader, "request", at_once)


def reads_overtake_completions(patch: pytest.MonkeyPatch) -> None:
    write = Slot._write_cqe

    def unnoticed(slot: Slot) -> Message:
        before_ps = slot.host.last_visible_ps
        message = write(slot)
        slot.host.last_visible_ps = before_ps
        return message

    patch.setattr(Slot, "_write_cqe", unnoticed)


def acknowledgements_overtake(patch: pytest.MonkeyPatch) -> None:
    """They need less time in the requester than the READ response before them, and do not wait for it."""
    patch.setattr(SendEnd, "last_answer_ps", property(lambda pair: 0, lambda pair, value: None), raising=False)


def credits_are_endless(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PostedCredits, "take", lambda credits, now_ps, headers, data: True)


def reads_overtake_what_waits_in_staging(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Staging, "behind", lambda staging, qp, action: False)


FEW = {"posted_data_bytes": 512, "posted_headers": 3}
MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Workload, str]] = [
    (one_picosecond_late, stage(SMALL_WRITE), r"wire and switch +\d+ +\d+  \+1\n"),
    (forgets_one_credit, crowd(LARGE_WRITE, **TIGHT), "WRITE of 16384 B"),
    (serves_ties_the_other_way_round, crowd(Request("READ", 64, 0)), "READ of 64 B"),
    (reads_overtake_posted_writes, stage(SMALL_WRITE, Request("READ", 64, 0), pcie=LATE), "READ of 64 B"),
    (reads_overtake_completions, fetch_behind_a_completion(), "WRITE of 300 B"),
    (credits_are_endless, crowd(LARGE_WRITE, settings={"ddio": "off"}, pcie=FEW, **STAGED), "WRITE of 16384 B"),
    (
        reads_overtake_what_waits_in_staging,
        stage(LARGE_WRITE, Request("READ", 64, 0), pcie=FEW | LATE),
        "READ of 64 B",
    ),
    (acknowledgements_overtake, stage(Request("READ", 8, 0), SMALL_WRITE), "order of its requests"),
]


@pytest.mark.long
@pytest.mark.parametrize(("mutate", "workload", "told"), MUTANTS, ids=[mutant[0].__name__ for mutant in MUTANTS])
def test_a_broken_model_is_caught_and_the_message_says_where(monkeypatch, mutate, workload, told):
    agree(workload)
    with monkeypatch.context() as patch:
        mutate(patch)
        found = difference(workload, naive, arithmetic)
    assert found is not None
    assert re.search(told, found)
    print(f"\n{mutate.__name__}\n{found}")
