"""The PMR paper's stacks at work: what is written where, who has which chunk, what comes back."""

from __future__ import annotations

import json

import pytest

from rpsim.app.main import main
from rpsim.models.meter import PartHistory
from rpsim.models.verbs import ProtectionDomain
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.pmr.chunks import ChunkArea, Chunks
from rpsim.protocols.pmr.entries import PUT, ChunkEntries, ChunkEntry, pack_head
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.failing import performed
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...disk import Disk
from ...small import get, only_variant, put, run, scenario, ycsb
from .twins import NoPlace

TESTBED = {"platform": ["pmr-testbed"], "ddio": ["off"], "line_atomicity": ["whole"]}
SMALL = "pmraccess[chunk=256 B, chunks=4]"


def at_work(name, work, **more):
    return run(name, work, vary=TESTBED, **({"keys": 2, "value": "48 B"} | more))


def found(result):
    return [(o.f, o.outcome, o.result) for o in result.history.operations]


def server(result):
    return result.scheme.roles["server"][0]


def history_of(result):
    """The history of the region's chunks, as a file has it."""
    return parse_history("\n".join(map(json.dumps, result.scheme.histories["chunks"])), "the chunks")


@pytest.mark.parametrize(
    "name",
    ["pmraccess", "pmraccess-repaired", "pmemaccess", "syncaccess", "groupaccess", "rdma-dram", "write-messaging",
     "send-messaging", "ssdsync", "pmrsync", "pmrsync-barrier", "pmemdirect", "pmrdirect"],
)  # fmt: skip
def test_a_get_returns_what_was_put_or_loaded(name):
    result = at_work(name, [put(0, "k0"), get(0, "k0"), get(0, "k1")])
    assert found(result) == [("put", "ok", None), ("get", "ok", 1), ("get", "ok", 0)]


def test_an_entry_is_written_as_the_paper_has_it_and_a_get_behind_it_over_the_terminator():
    result = at_work("pmraccess", [put(0, "k0"), get(0, "k1")])
    area: ChunkArea = server(result).area
    space, start = area.device.space, area.address(0) - area.device.base
    entry = bytes.fromhex("01 020000 30000000") + b"k0"
    assert space.peek(start, 10) == entry == pack_head(PUT, b"k0", bytes(48)) + b"k0"
    assert space.peek(start + 58, 11) == bytes.fromhex("02 020000 00000000") + b"k1" + b"\0"


def test_a_chunk_of_64_kib_has_room_for_909_pairs_of_the_paper():
    length = ChunkEntries().length(16, 48)
    assert ((64 << 10) - scheme("pmraccess").alloc_bytes()) // length == 909


@pytest.mark.parametrize(("chunk", "chunks"), [("64 KiB", 127), ("4 MiB", 1), ("128 B", 2047)])
def test_the_region_has_room_for_meta_and_as_many_chunks_as_fit_behind_it(chunk, chunks):
    area: ChunkArea = server(at_work(f"pmraccess[chunk={chunk}]", [put(0, "k0")], keys=1)).area
    device = area.device
    assert area.count == chunks and area.address(chunks) - device.base == device.space.size_bytes == 8 << 20
    assert device.base < area.meta and area.word(chunks - 1) + 8 <= area.base


def test_full_chunks_go_to_the_log_and_are_used_again():
    result = at_work(SMALL, ycsb(30, "update-only"), processes=2)
    chunks, log = server(result).chunks, server(result).log
    handed_over = log.end + len(chunks.used) - 2
    assert handed_over > 4 and len(chunks.used) <= 4
    blocks, at = log.drive.blocks, log.log.inode.base + log.offset(0)
    assert blocks.read(result.system.clock.now_ps, at, 1) == bytes([PUT])


def test_the_history_of_chunks_is_one_of_an_allocator():
    result = at_work(SMALL, ycsb(30, "update-only"), processes=3)
    report = check_history(history_of(result), "allocator", [Condition.LINEARIZABLE])
    assert report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.HOLDS


def with_waits(failures=(), chunks=2):
    """A run in which clients wait for chunks."""
    made = scenario(
        f"pmraccess-repaired[chunk=160 B, chunks={chunks}, slots=3]", ycsb(30, "update-only"), processes=3, keys=2,
        value="16 B", vary=TESTBED, failures=list(failures),
    )  # fmt: skip
    return performed(made, only_variant(made))


@pytest.mark.parametrize("fault", ["server[0] process", "server[0] power"])
def test_the_history_of_chunks_is_one_of_an_allocator_behind_a_failure_while_somebody_waits(fault):
    """The same threads of the next process ask for chunks again."""
    report = check_history(history_of(with_waits([{"fault": fault, "at": "9 us"}])), "allocator")
    assert {judged.verdict for judged in report.verdicts.values()} == {Verdict.HOLDS}


def test_a_chunk_counts_as_allocated_once_its_bit_and_generation_last():
    """Power fails while the server waits for that: no client has the chunk, and it is empty behind recovery."""
    rows = with_waits(chunks=4).scheme.histories["chunks"]
    asked = next(row["time"] for row in rows if row["process"] != "loader")
    after = with_waits([{"fault": "server[0] power", "at": f"{round(asked) + 100} ns"}], chunks=4)
    assert check_history(history_of(after), "allocator").verdicts[Condition.NO_LOST_ACK].verdict is Verdict.HOLDS


def test_recovery_that_clears_a_bit_for_the_second_time_frees_no_chunk_twice():
    """A bit that has been cleared just now is set again behind a power failure: nobody waits until it lasts."""
    rows = with_waits().scheme.histories["chunks"]
    freed = next(row["time"] for row in rows if row["type"] == "ok" and row["f"] == "free")
    after = with_waits([{"fault": "server[0] power", "at": f"{round(freed) + 1} ns"}])
    assert check_history(history_of(after), "allocator").verdicts[Condition.NO_LOST_ACK].verdict is Verdict.HOLDS


def test_who_waits_for_a_chunk_has_it_before_who_comes_while_it_is_given_back():
    disk, served = Disk(), list[str]()
    chunks = Chunks(ChunkArea(disk.node, 4096, 4096, 1), disk.node, 4, PartHistory(disk.clock), lambda _: None)

    def takes(name, thread, after_ns):
        yield disk.clock.timeout(after_ns * 1000)
        yield from chunks.take(thread)
        served.append(name)
        yield disk.clock.timeout(10_000_000)
        yield from chunks.give_back(thread, 0)

    lanes = [("first", 0), ("second", 5_000), ("third", 10_005)]  # the bit is cleared from 10,004 to 10,007 ns
    disk.run(*(takes(name, disk.threads[lane], after_ns) for lane, (name, after_ns) in enumerate(lanes)))
    assert served == [name for name, _ in lanes]


def test_more_clients_than_chunks_wait_for_one():
    result = at_work("pmraccess[chunk=128 B, chunks=2]", ycsb(40, "update-only"), processes=3, value="16 B")
    assert all(outcome == "ok" for _, outcome, _ in found(result))


@pytest.mark.parametrize("name", ["syncaccess", "groupaccess"])
def test_what_a_log_on_the_drive_has_acknowledged_is_there_after_a_power_failure(name):
    walked = Explorer(at_work(name, [put(0, "k0"), put(1, "k0")], processes=2, keys=1)).walk()
    assert walked.exhaustive
    assert Condition.NO_LOST_ACK not in walked.first and Condition.COMMITTED not in walked.first


@pytest.mark.parametrize(("name", "left"), [("syncaccess", 4), ("groupaccess", 4), (NoPlace.name, 3)])
def test_a_restarted_process_goes_on_behind_the_newest_record_of_its_log(name, left):
    """Four records fill a block; those of the block before stand behind the newest one."""
    made = scenario(
        name, [*[put(0, "k0")] * 4, get(0, "k0", 20_000_000)], value="1006 B", vary=TESTBED,
        failures=[{"fault": "server[0] process", "at": "1 ms"}],
    )  # fmt: skip
    assert found(performed(made, only_variant(made)))[-2:] == [("put", "ok", None), ("get", "ok", left)]


@pytest.mark.parametrize(
    ("name", "lost"),
    [("pmrsync", True), ("pmrsync-barrier", False), ("pmrdirect", True), ("pmemdirect", True), ("ssdsync", False),
     ("rdma-dram", True), ("pmemaccess", True)],
)  # fmt: skip
def test_what_a_path_loses_of_what_it_acknowledged(name, lost):
    walked = Explorer(at_work(name, [put(0, "k0")], keys=1, value="16 B")).walk()
    assert walked.exhaustive and (Condition.NO_LOST_ACK in walked.first) is lost


def test_the_papers_reading_of_a_completion_makes_a_write_to_optane_durable():
    vary = TESTBED | {"ddio_off_ack_durable": ["on"]}
    walked = Explorer(run("pmemdirect", [put(0, "k0")], vary=vary, keys=1, value="16 B")).walk()
    assert walked.exhaustive and Condition.NO_LOST_ACK not in walked.first


def test_a_value_that_no_chunk_has_room_for_is_refused():
    with pytest.raises(InputError, match="at most 65479 B with pmraccess"):
        at_work("pmraccess", [put(0, "k0")], value="64 KiB")


def test_a_server_needs_a_core_for_each_client():
    with pytest.raises(InputError, match=r"roles\.server\.cores: found 2, expected at least 3: a thread of rdma-dram"):
        at_work("rdma-dram", [put(0, "k0")], roles={"client": {"processes": 3}, "server": {"cores": 2}})


@pytest.mark.parametrize("fault", ["client[0] process", "server[0] process"])
def test_a_process_that_dies_takes_no_chunk_with_it(fault):
    made = scenario(
        "pmraccess-repaired[chunk=256 B]", ycsb(60), processes=2, keys=2, value="48 B", vary=TESTBED,
        failures=[{"fault": fault, "at": "40 us"}],
    )  # fmt: skip
    result = performed(made, only_variant(made))
    outcomes = [outcome for _, outcome, _ in found(result)]
    assert outcomes.count("ok") >= 30 and "fail" not in outcomes
    clock = result.system.clock
    clock.run_until(clock.timeout(1_000_000_000))  # the drive has what was on its way
    assert len(server(result).chunks.used) == (1 if fault.startswith("client") else 2)
    report = check_history(history_of(result), "allocator")
    assert {judged.verdict for judged in report.verdicts.values()} == {Verdict.HOLDS}


def without_packets(name, work, lost, client="client[0]", **more):
    """The run of two machines with a client each, of one of which the first packets are lost: 16 break a connection."""
    packets = [{"from": client, "to": "server[0]", "packet": 1 + turn, "lost": True} for turn in range(lost)]
    roles = {"client": {"machines": 2, "processes": 1}}
    return at_work(name, work, network={"packets": packets}, roles=roles, **more)


@pytest.mark.parametrize("name", ["pmraccess[chunks=3]", "pmraccess-repaired[chunks=3]"])
def test_a_client_that_connects_again_gives_its_chunk_back(name):
    second = 1_000_000_000
    work = [put(0, "k0"), put(1, "k1"), put(0, "k0", 2 * second), put(0, "k0", 3 * second), get(0, "k0", 4 * second)]
    result = without_packets(name, work, 32)
    assert [outcome for _, outcome, _ in found(result)] == ["info", "ok", "info", "ok", "ok"]
    chunks = server(result).chunks
    assert server(result).admitted == 4 and len(chunks.used) == 2 and not chunks.waiting


def test_a_client_that_connects_again_gets_a_log_that_nobody_has():
    second = 1_000_000_000
    work = [
        *(put(0, "k0") for _ in range(3)), put(1, "k1"),
        put(0, "k0", 2 * second), put(1, "k1", 2 * second + 10_000), get(0, "k0", 3 * second), get(1, "k1", 3 * second),
    ]  # fmt: skip
    result = without_packets("pmemaccess", work, 48)
    assert server(result).admitted == 5
    puts = {o.object: o.argument for o in result.history.operations if o.f == "put" and o.outcome == "ok"}
    assert {o.object: o.result for o in result.history.operations if o.f == "get"} == puts
    assert len(server(result).free) == 1 and not server(result).waiting


def test_a_client_process_has_its_core_at_the_server_over_every_connection():
    result = without_packets("rdma-dram", [put(0, "k0"), put(1, "k1")], 16, "client[1]")
    machine = server(result)
    cores = {thread.name: thread.core.name for thread in machine.node.threads}
    first, second, again = (cores[f"{machine.node.name} {number}"] for number in range(3))
    assert again == second != first


@pytest.mark.parametrize("name", ["ssdsync", "pmrsync", "pmemdirect", "pmrdirect"])
def test_a_client_of_a_raw_path_that_connects_again_ends_the_connection_before(name):
    """One connection lives of each client process, and its thread at the server stays on the core that it had."""
    second, opened = 1_000_000_000, []
    work = [put(0, "k0"), put(0, "k0", 2 * second), get(0, "k0", 3 * second)]
    with pytest.MonkeyPatch.context() as patched:
        own = ProtectionDomain.create_qp
        patched.setattr(
            ProtectionDomain, "create_qp", lambda *args, **more: opened.append(own(*args, **more)) or opened[-1]
        )
        result = without_packets(name, work, 16)
    machine = server(result)
    here = [qp for qp in opened if qp.device is machine.node.nic]
    assert len(here) > 2 and sum(not qp.error for qp in here) == 2
    if name.endswith("sync"):
        cores = {thread.name: thread.core.name for thread in machine.node.threads}
        first, other, again = (cores[f"{machine.node.name} {number}"] for number in range(3))
        assert again == first != other


def test_a_get_that_the_server_refuses_has_found_nothing_out():
    """Its flag came before its bytes: the server did not look the key up."""
    result = run(
        "pmraccess", ycsb(12, "a"), vary=TESTBED | {"pmrwbm": [1]}, keys=2, value="16 B", schedule=6,
        crash={"perturb": ["hardware"], "schedules": 8},
    )  # fmt: skip
    gets = [(outcome, value) for f, outcome, value in found(result) if f == "get"]
    assert ("info", None) in gets and ("ok", None) not in gets


def test_a_checkpoint_has_nothing_that_no_store_could_hold():
    result = at_work("pmraccess", [put(0, "k0")], keys=1)
    machine, clock, seen = server(result), result.system.clock, []
    entries = [ChunkEntry(PUT, b"k0", bytes(48), 0), ChunkEntry(PUT, bytes(17), bytes(48), 0)]

    def checkpoint(thread):
        yield from machine.log.append(thread, (yield from machine.scheme.entries.image(thread, entries)))
        yield from machine.make_room(thread)
        seen.extend((yield from machine.log.read_checkpoint(thread)))

    clock.run_until(clock.start(checkpoint(machine.node.thread(0, "checkpoint"))))
    assert [entry.key for entry in seen] == [b"k0"]


def test_gauges_begin_anew_with_the_server():
    """They have what recovery finds: of the process before nothing is in use that Meta does not know."""
    made = scenario(SMALL, [put(0, "k0")], keys=1, value="48 B", vary=TESTBED)
    result = run_variant(made, only_variant(made), metered=True)
    machine, clock = server(result), result.system.clock
    for name in ("chunks in use", "chunks to flush"):
        machine.gauge(name, 3)
    space, base = machine.area.device.space, machine.area.device.base
    space.poke(machine.area.meta - base, bytes(8))
    machine.node.process(machine.node.name).end()
    machine.begin()
    clock.run_until(clock.start(machine.recover(machine.node.thread(0, "recovery"))))
    gauges = result.system.meter.gauges
    assert [gauges[machine.node.name, name].value for name in ("chunks in use", "chunks to flush")] == [0, 0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["workload={kind: ycsb, mix: load, keys: 10, value: 48 B, operations: 600}"],
         "--set workload: workload.keys: found 10 keys, for 600 operations, expected a new key for each operation of "
         "load"),
        (["schemes=[pmrdirect]", "workload={kind: ycsb, mix: update-only, keys: 2000, value: 4 KiB, operations: 10}"],
         "rpsim: workload: found pmr: no room for places (22016000 bytes), expected fewer objects or smaller ones: "
         "what pmrdirect keeps has to fit"),
        (["schemes=['pmraccess[chunk=5 MiB]']"],
         "rpsim: schemes: found pmr: no room for Meta and a chunk (10485760 bytes), expected smaller chunks (the "
         "option chunk): what pmraccess[chunk=5 MiB] keeps has to fit"),
        (["schemes=[pmraccess]", "workload.value=128 KiB"],
         "--set workload.value: found '128 KiB', expected at most 65479 B with pmraccess: a chunk of 65536 B, with a "
         "key and a CHUNKALLOC"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_in_a_line(settings, told, capsys):
    assert main(["run", "pmr-stacks", *(word for one in settings for word in ("--set", one))]) == 2
    assert capsys.readouterr().err.strip() == told
