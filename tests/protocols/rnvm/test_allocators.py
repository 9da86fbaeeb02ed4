"""The allocators of rNVM: what they give after every failure, and what their calls and slabs cost."""

from __future__ import annotations

import random

import pytest
from typing_extensions import override

from rpsim.protocols.rnvm.allocators import PmemAllocator, RemoteAllocator, RpcAllocator, TwoTier, Unflushed
from rpsim.protocols.rnvm.bitmap import Bitmap
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore
from rpsim.validation.testing.checks import crash_report, scenario_of

from ...small import only_variant
from ...small import run as small_run
from ...small import scenario as small_scenario


def operation(process, f, **more):
    return {"process": process, "f": f, "object": "k0", **more}


FEW = [
    operation(0, "alloc", argument=64), operation(1, "alloc", argument=64), operation(0, "free"),
    operation(0, "alloc", argument=64), operation(1, "alloc", argument=64),
]  # fmt: skip


def how(operations=FEW, value="64 B", **more):
    workload = {"kind": "schedule", "keys": 1, "value": value, "operations": operations, "loaded": 0}
    return {"workload": workload, "ddio": "on", **more}


@pytest.fixture
def made():
    """Makes twins, whose names are forgotten after the test."""
    names = []

    def make(base, **body):
        names.append(f"twin-{len(names)}")
        return type("Twin", (base,), {"title": "a twin", **body}, name=names[-1])

    yield make
    for name in names:
        del Scheme.registry[name]


# without a failure --------------------------------------------------------------------------------------------------
def results(scheme, operations, **more):
    scenario = scenario_of(scheme, **how(operations, **more))
    return run_variant(scenario, scenario.variants()[0])


@pytest.mark.parametrize("scheme", [RpcAllocator, TwoTier])
def test_live_blocks_never_overlap(scheme):
    draw = random.Random(1)
    sizes = [draw.choice([16, 24, 64, 100, 200]) for _ in range(40)]
    operations = []
    for turn, size in enumerate(sizes):
        operations.append(operation(turn % 2, "alloc", argument=size))
        if turn % 3 == 2:
            operations.append(operation(turn % 2, "free"))
    history = results(scheme, operations, value="256 B").history
    live = {}
    for one in history.operations:
        if one.f == "free":
            live.pop(one.argument)
            continue
        start = int(one.result)
        assert start % (64 if one.argument >= 64 else 8) == 0
        assert all(start >= other + length or other >= start + one.argument for other, length in live.items())
        live[start] = one.argument
    assert len(live) == 40 - 13


def test_a_free_does_not_await_its_reply_and_an_allocation_reads_it():
    alone = [operation(0, "alloc", argument=64)] * 3 + [operation(0, "free")] * 3
    times = {"alloc": [], "free": []}
    for one in results(RpcAllocator, alone, platform="rnvm-testbed").history.operations:
        times[one.f].append(one.return_ps - one.invoke_ps)
    a_write_ps, both_ps = max(times["free"]), min(times["alloc"])
    assert a_write_ps < 1_700_000 and both_ps > a_write_ps + 1_000_000


def test_a_slab_is_asked_for_once_for_all_its_objects():
    operations = [operation(0, "alloc", argument=32)] * 64
    history = results(TwoTier, operations, value="32 B").history
    times = [one.return_ps - one.invoke_ps for one in history.operations]
    assert [turn for turn, time in enumerate(times) if time > 1_000_000] == [0, 32]
    assert len({one.result for one in history.operations}) == 64


def test_surplus_slabs_go_back_to_the_back_end(made):
    few = made(TwoTier, chosen={"surplus": 0, "slab": 64})
    operations = [operation(0, "alloc", argument=64), operation(0, "free"), operation(1, "alloc", argument=64)]
    spread = [{**one, "at": f"{20 * turn} us"} for turn, one in enumerate(operations)]
    result = results(few, spread)
    bits = result.scheme.roles["server"][0].heaps[0].bits
    pm = result.system.nodes["server"][0].memory["pm"]
    taken = int.from_bytes(pm.space.read(result.system.clock.now_ps, bits - pm.base, 8), "little")
    assert taken.bit_count() == 1
    kept = made(TwoTier, chosen={"surplus": 1, "slab": 64})
    result = results(kept, spread)
    pm = result.system.nodes["server"][0].memory["pm"]
    taken = int.from_bytes(pm.space.read(result.system.clock.now_ps, bits - pm.base, 8), "little")
    assert taken.bit_count() == 2


# failures -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", [RpcAllocator, TwoTier])
def test_nothing_is_given_twice_whenever_power_fails(scheme):
    report = crash_report(scheme, **how())
    assert report.exhaustive and report.states > 8
    assert set(report.verdicts.values()) == {"holds"}, report.verdicts


class ServesUnflushed(RemoteAllocator.Server):
    bitmap = Unflushed


@pytest.mark.parametrize("scheme", [RpcAllocator, TwoTier])
def test_a_reply_before_the_flush_gives_a_block_twice(made, scheme):
    report = crash_report(made(scheme, Server=ServesUnflushed), **how(FEW[:2]), examples=False)
    assert report.verdicts["no_lost_ack"] == report.verdicts["durable"] == "violated"


class Beside(Bitmap):
    """Broken: what is taken is known to the process alone."""

    @override
    def allocate(self, thread, count=1):
        yield from thread.compute()
        first, self._next = self._next, self._next + count
        return self.heap + first * self.block_bytes if self._next <= self.blocks else None


class ServesBeside(RemoteAllocator.Server):
    bitmap = Beside


def test_an_allocator_that_keeps_its_state_beside_the_bytes_is_caught(made):
    report = crash_report(made(RpcAllocator, Server=ServesBeside), **how(FEW[:2]), examples=False)
    assert report.verdicts["no_lost_ack"] == "violated"


@pytest.mark.long
@pytest.mark.parametrize("fault", ["client[0] process", "server[0] process"])
@pytest.mark.parametrize("scheme", [RpcAllocator, TwoTier])
def test_processes_that_die_take_nothing_with_them_but_what_leaks(scheme, fault):
    report = crash_report(scheme, **how(FEW[:4]), fault=fault, examples=False)
    assert set(report.verdicts.values()) == {"holds"}, report.verdicts


# the bitmap ---------------------------------------------------------------------------------------------------------
class Words:
    """A thread with a memory of its own."""

    def __init__(self, length):
        self.memory = bytearray(length)

    def load(self, address, length):
        yield from ()
        return bytes(self.memory[address : address + length])

    def store(self, address, data):
        self.memory[address : address + len(data)] = data
        yield from ()

    def flush(self, address, length):
        yield from ()


def run(code):
    try:
        while True:
            next(code)
    except StopIteration as stop:
        return stop.value


@pytest.mark.parametrize("blocks", [1, 63, 64, 512, 700, 1025])
def test_runs_of_blocks_are_found_wherever_they_lie(blocks):
    draw, thread = random.Random(blocks), Words(Bitmap.length(blocks))
    bitmap, taken = Bitmap(0, 1 << 20, 64, blocks), {}
    for _ in range(120):
        count = draw.choice([1, 1, 2, 7, 70, 600])
        if taken and draw.random() < 0.4:
            address = draw.choice(list(taken))
            run(bitmap.free(thread, address, taken.pop(address)))
        found = run(bitmap.allocate(thread, count))
        used = {(at - (1 << 20)) // 64 + n for at, length in taken.items() for n in range(length)}
        if found is None:
            free = "".join("1" if n in used else "0" for n in range(blocks))
            assert "0" * count not in free
            continue
        first = (found - (1 << 20)) // 64
        assert not used & set(range(first, first + count)) and first + count <= blocks
        taken[found] = count
    with pytest.raises(ValueError, match="not in the heap"):
        run(bitmap.free(thread, 1 << 20, blocks + 1))


# boxes of others ----------------------------------------------------------------------------------------------------
def test_a_platform_without_prices_is_refused_in_one_line():
    with pytest.raises(InputError, match="no cost of the software 'pmem_alloc'"):
        results(PmemAllocator, FEW[:1], fault="client[0] power")


@pytest.mark.long
@pytest.mark.parametrize("slab", [64, 1 << 19, 1 << 20])
def test_a_heap_has_room_for_slabs_of_any_size_and_for_who_takes_over(slab):
    """Of four insertions the process may die behind each; whoever comes then needs a slab of its own."""
    name, more = (
        f"bst on rnvm-rcb[batch=2,oplog=awaited,slab={slab}]",
        {"keys": 4, "crash": {"fault": "client[0] process"}},
    )
    more["vary"] = {"platform": ["any-server"], "ddio": ["on"], "domain": ["wsp"]}
    work = [operation(0, "insert", object=f"k{turn}") for turn in range(4)]
    work = {"kind": "schedule", "loaded": 1, "operations": work}
    made = small_scenario(name, work, **more)
    report = explore(small_run(name, work, **more), made, only_variant(made))
    assert report.exhaustive and not any(verdict == "violated" for verdict in report.verdicts.values())


def test_default_slabs_lie_where_they_lay():
    """A block more or less would move all that lies behind it."""
    made = small_run("bst on rnvm-r", {"kind": "schedule", "operations": [operation(0, "insert", object="k0")]})
    area = made.scheme.roles["server"][0].areas[0]
    assert area.data_bytes == 3 << 16 and area.blocks == 192
