"""Clover: round trips, chains, free buffers, what survives, and what its twins lose."""

from __future__ import annotations

import json
import math

import pytest

from rpsim.models.cpu.smoothing import WEIGHT, SmoothedTime
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.pdpm.clover import space
from rpsim.protocols.pdpm.clover.header import pack_version
from rpsim.protocols.pdpm.clover.messages import Delete
from rpsim.protocols.pdpm.clover.metadata import ROW_BYTES
from rpsim.protocols.pdpm.clover.walk import LONGEST_TRIPS, Aborted, Walk
from rpsim.protocols.pdpm.data import Links
from rpsim.scenarios.run.inject import Strike, run_with_fault, run_with_faults
from rpsim.sim.errors import InputError
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history

from ...small import get, put
from . import twins
from .nodes import COMMITTED, JUDGED, LOST, ran, small, violated, waiting

CYCLED = "spare=0,batch=1"
"""Few free buffers, each of which is used again soon."""


def trips(result, f):
    return {one.depth / 2 for one in result.took[f]}


@pytest.mark.parametrize(
    "options, f, found",
    [
        ("", "put", 2), ("", "get", 1), ("[durable=commit]", "put", 2), ("[replicas=2]", "put", 3),
        ("[replicas=2,rounds=2]", "put", 2), ("[replicas=2]", "get", 1), ("[cache=0%]", "get", 2),
    ],
)  # fmt: skip
def test_round_trips_are_those_of_the_paper(options, f, found):
    mix = "c" if f == "get" else "update-only"
    assert trips(ran(f"clover{options}", mix, machines=1, operations=12), f) == {found}


def test_the_metadata_server_says_nothing_to_data_nodes():
    traffic = ran("clover[batch=2]", "a", operations=60, keys=4).metered["traffic"]
    pairs = {(one["from"], one["to"]) for one in traffic}
    assert ("client[0]", "metadata[0]") in pairs
    assert not any(here.startswith("metadata") and there.startswith("data") for here, there in pairs)


def test_a_cursor_of_another_machine_is_stale_after_a_put():
    result = ran("clover", [put(0, "k0"), get(1, "k0", 20_000), get(1, "k0", 40_000)])
    first, second = result.took["get"]
    assert (first.depth / 2, second.depth / 2) == (2, 1)
    assert first.counts["hops"] + first.counts["shortcuts"] == 1


def test_threads_of_a_machine_share_their_cursors():
    result = ran("clover", [put(0, "k0"), get(1, "k0", 20_000)], machines=1, processes=2)
    assert result.took["get"][0].depth / 2 == 1


def test_buffers_are_used_again_and_a_stale_cursor_is_found_out():
    work = [*(put(0, "k0") for _ in range(12)), get(1, "k0", 400_000)]
    result = ran(f"clover[{CYCLED}]", work, keys=1, nodes=1)
    (last,) = [o for o in result.history.operations if o.f == "get"]
    assert last.result == 12 and result.took["get"][0].depth / 2 > 1


CONTENDED = {"operations": 120, "keys": 3, "processes": 2}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("options", [CYCLED, f"{CYCLED},replicas=2", f"{CYCLED},cache=40%"])
def test_without_a_fault_it_is_linearizable_and_a_buffer_has_one_owner(options, seed):
    work = {"mix": "a", "deletes": 0.2}
    assert violated(f"clover[{options}]", "no fault", work, seed=seed, **CONTENDED) == set()
    result = ran(f"clover[{options}]", work, seed=seed, **CONTENDED)
    report = check_history(history_of_buffers(result), "allocator", [Condition.LINEARIZABLE])
    assert report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.HOLDS


def test_without_gc_versions_a_stale_cursor_finds_another_keys_value():
    found = [violated(f"clover[{CYCLED},gc=strawman]", "no fault", "a", seed=seed, **CONTENDED) for seed in range(1, 9)]
    assert any(COMMITTED in one for one in found)


def reads_of(trip, lengths):
    """Whether each of the READs of so many bytes of a value, one after the other, is complete before it is aborted."""
    result = ran("clover", [get(0, "k0")], machines=1, keys=1, value="32000 B")
    client, clock = result.scheme.roles["client"][0], result.system.clock
    session = client.connect(client.node.thread(0, "reader"))

    def read(length):
        try:
            walk = Walk(session.links, result.scheme.geometry, 0, length, client.choose, trip)
            yield from walk.from_cursor(client.library.cursors.find(0))
        except Aborted:
            return False
        return True

    for length in lengths:
        reading = clock.start(read(length))
        clock.run_until(reading)
        yield reading.value


def smoothed(trip):
    return trip._smoothed_ps


@pytest.mark.parametrize("short, long, some", [(0, 2000, False), (0, 8000, True), (0, 32000, True)])
def test_reads_are_aborted_until_the_machine_knows_that_trips_have_lengthened(short, long, some):
    """An aborted READ counts with twice the smoothed trip: that grows by an eighth of itself with each."""
    before, after = SmoothedTime(), SmoothedTime()
    assert all(reads_of(before, [short])) and all(reads_of(after, [long]))
    most = math.log(smoothed(after) / (LONGEST_TRIPS * smoothed(before))) / math.log(1 + (LONGEST_TRIPS - 1) / WEIGHT)
    trip = SmoothedTime()
    complete = list(reads_of(trip, [short, *[long] * 40]))
    aborted = complete.count(False)
    assert complete == [True, *[False] * aborted, *[True] * (40 - aborted)]
    assert (aborted > 0) == some and aborted <= max(0, math.ceil(most))
    assert smoothed(trip) == pytest.approx(smoothed(after), rel=0.1)


def test_where_aborted_reads_do_not_count_every_longer_one_is_aborted():
    complete = list(reads_of(twins.QuickTrips(), [0, *[32000] * 40]))
    assert complete == [True, *[False] * 40]


@pytest.mark.parametrize("name", ["clover", twins.NeverIdle.name])
def test_a_cursor_of_time_zero_is_gone_before_its_buffer_has_that_gc_version_again(name, monkeypatch):
    """GC versions wrap around after 4. In two of these runs the newest value of k0 is in the first buffer of k1."""
    monkeypatch.setattr(space, "VERSIONS", 4)
    found = set()
    for puts in range(21, 27):
        work = [put(0, "k1"), *(put(0, "k0") for _ in range(puts)), get(1, "k1", 1_000_000)]
        result = ran(f"{name}[{CYCLED},epoch=100 us]", work, nodes=1)
        found |= {o.result for o in result.history.operations if o.f == "get"}
    assert (found == {1}) == (name == "clover")


def test_a_client_that_takes_no_notice_of_epochs_keeps_no_buffers_from_others(monkeypatch):
    """GC versions wrap around after 4: far more than 16 epochs end, and client[1] does nothing in any of them."""
    monkeypatch.setattr(space, "VERSIONS", 4)
    result = ran(f"clover[{CYCLED},epoch=10 us]", [put(0, "k0") for _ in range(200)], nodes=1, keys=2)
    assert len(result.took["put"]) == 200


@pytest.mark.parametrize("cache, past", [("100%", 0), ("100%", 200), ("50%", 200)])
def test_a_cursor_of_the_past_is_not_used_for_longer_than_an_epoch(cache, past):
    work = {"mix": "c", "zipf": 0.0, "past": past}

    def misses(name):
        result = ran(f"{name}[cache={cache},epoch=20 us]", work, machines=1, operations=40, keys=40)
        return sum(one.counts.get("misses", 0) for one in result.took["get"])

    assert misses("clover") > misses(twins.NeverIdle.name)


def history_of_buffers(result):
    return parse_history("\n".join(map(json.dumps, result.scheme.histories["buffers"])), "the buffers")


def given_twice(rows):
    """Whether a buffer was given to somebody while somebody had it; rows are in their order."""
    out = set()
    for row in rows:
        if row["type"] == "ok" and row["f"] == "alloc":
            if row["value"][0] in out:
                return True
            out.add(row["value"][0])
        elif row["type"] == "ok":
            out.discard(row["value"])
    return False


IN_HAND = [
    *(put(0, "k0", 10_000 * turn) for turn in range(90)),
    *({"process": 1, "f": "delete", "object": "k1", "at": f"{at} us"} for at in (120, 250)),
    *(put(1, "k2", 600_000) for _ in range(4)),
]
"""A client that tells the next server what it has in its hands, and uses that when the epoch is over."""
SILENT = [one for one in IN_HAND if one["f"] != "delete"]
"""The same client, which the next server hears of later than that."""


@pytest.mark.parametrize("work", [IN_HAND, SILENT], ids=["in hand", "silent"])
@pytest.mark.parametrize("name", ["clover", twins.ForgetsHeld.name, twins.NeverForgets.name])
def test_a_buffer_has_one_owner_after_a_fail_over_too(name, work):
    made = small(f"{name}[batch=4,epoch=200 us]", work, keys=3, metadata=2, crash={"fault": "metadata[0] process"})
    (variant,) = made.variants()
    after = run_with_fault(made, variant, 100_000_000).result
    broken = name == twins.NeverForgets.name or (name == twins.ForgetsHeld.name and work is IN_HAND)
    assert given_twice(after.scheme.histories["buffers"]) == broken
    if not broken:
        report = check_history(history_of_buffers(after), "allocator", [Condition.LINEARIZABLE])
        assert report.verdicts[Condition.LINEARIZABLE].verdict is Verdict.HOLDS


def test_a_server_that_has_begun_again_sees_what_has_been_linked_since_without_its_knowing():
    """Client 0 has buffers in its hands, says nothing, and links two of them while the next server waits."""
    work = [
        put(0, "k0"), {"process": 1, "f": "delete", "object": "k1", "at": "105 us"}, put(0, "k0", 130_000),
        put(0, "k0", 150_000), *(put(1, "k2", 600_000) for _ in range(20)),
    ]  # fmt: skip
    made = small("clover[batch=4,epoch=200 us]", work, keys=3, metadata=2, crash={"fault": "metadata[0] process"})
    (variant,) = made.variants()
    after = run_with_fault(made, variant, 100_000_000)
    assert after.finished and not given_twice(after.result.scheme.histories["buffers"])
    assert [o.result for o in after.history.operations if (o.f, o.object) == ("get", "k0")] == [4]


def test_what_was_linked_while_a_server_began_again_is_reclaimed():
    """Client 0 links buffers that the next server has read in no chain, and retires them before it names the others."""
    work = [
        *(put(0, "k0", 8_000 * turn) for turn in range(110)),
        {"process": 1, "f": "delete", "object": "k1", "at": "905 us"}, put(0, "k0", 930_000), put(0, "k0", 940_000),
        *(put(0, "k0", 1_400_000 + 8_000 * turn) for turn in range(40)),
    ]  # fmt: skip
    fault = {"fault": "metadata[0] process"}
    made = small("clover[batch=4,spare=0,epoch=200 us]", work, keys=3, nodes=1, metadata=2, crash=fault)
    (variant,) = made.variants()
    after = run_with_fault(made, variant, 900_000_000)
    server = after.result.scheme.roles["metadata"][1]
    assert after.finished and len(server.chains.of(0).behind) <= 4 and server.space.free[0]
    assert not given_twice(after.result.scheme.histories["buffers"])


@pytest.mark.parametrize(
    "scheme, more, complaint",
    [
        ("clover[replicas=4]", {}, r"roles\.data\.machines: found 2, expected at least 4"),
        ("clover[cache=120%]", {}, "expected a share from 0% to 100%"),
        ("clover", {"value": "64 KiB"}, "at most 32760 B with clover"),
        ("clover", {"crash": {"fault": "data[7] power"}}, "an index below 2: so many data machines there are"),
        ("clover", {"crash": {"fault": "data[0] process"}}, "found 'process', expected something of a data"),
    ],
)
def test_what_cannot_be_is_refused(scheme, more, complaint):
    with pytest.raises(InputError, match=complaint):
        small(scheme, **more)


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("domain", ["adr", "eadr"])
def test_a_write_that_is_acknowledged_is_not_durable_where_the_adapter_is_not(domain, ddio):
    assert {LOST, COMMITTED} <= violated("clover", "all power", domain=domain, ddio=ddio)


@pytest.mark.parametrize("options", ["", "[replicas=2]", "[durable=commit]"])
def test_under_the_papers_premise_nothing_is_lost(options):
    assert violated(f"clover{options}", "all power", "a", operations=8) == set()


@pytest.mark.parametrize("ddio", ["on", "off"])
@pytest.mark.parametrize("domain", ["adr", "eadr"])
def test_with_the_commit_nothing_is_lost_anywhere(domain, ddio):
    assert violated("clover[durable=commit]", "all power", domain=domain, ddio=ddio) == set()


def test_a_link_without_a_commit_is_lost():
    assert LOST in violated(f"{twins.LinkUnflushed.name}[durable=commit]", "all power", domain="adr")


def test_data_that_nobody_waited_for_are_lost():
    assert violated(twins.NotAwaited.name, "all power", [put(0, "k0"), put(0, "k0")]) & JUDGED


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("fault", ["data[0] lost", "data[1] lost"])
def test_a_node_may_be_lost_where_there_are_two_copies(fault, rounds):
    assert LOST in violated("clover", fault)
    assert violated(f"clover[replicas=2,rounds={rounds}]", fault) == set()


def test_where_the_only_node_is_lost_a_put_says_that_nobody_knows():
    work = [put(0, "k0"), *(put(0, "k0") for _ in range(2))]
    assert LOST in violated("clover", "data[0] lost", work, nodes=1)


BALANCED = [
    {"processes": 1, "keys": 1, "reads": 1.0},
    {"processes": 1, "first": 3, "keys": 1, "reads": 1.0},
    *({"processes": 1, "first": key, "keys": 1, "reads": 0.0} for key in (1, 2, 4, 5)),
]
"""k0 and k3 are read, whose first copies are on the first of three nodes; the others are updated, by a thread each."""


@pytest.mark.long
def test_balanced_reads_and_writes_spread_the_bytes_over_the_nodes():
    def shares(balance):
        """Of the bytes from all nodes, to all nodes, and of both together, those of each node."""
        shape = {"operations": 600, "keys": 6, "value": "1000 B", "machines": 1, "processes": 6, "nodes": 3}
        work = {"groups": BALANCED, "zipf": 0.0}
        traffic = ran(f"clover[replicas=3,copied=3,balance={balance}]", work, **shape).metered["traffic"]
        moved = {end: [0, 0, 0] for end in ("from", "to")}
        for one in traffic:
            for end, nodes in moved.items():
                role, _, number = one[end].rstrip("]").partition("[")
                if role == "data":
                    nodes[int(number)] += one["payload_bytes"]
        both = [sum(ends) for ends in zip(*moved.values(), strict=True)]
        return [[each / sum(nodes) for each in nodes] for nodes in (*moved.values(), both)]

    reads, writes, _ = shares("none")
    assert reads[0] > 0.98 and max(writes) / min(writes) < 1.05
    _, balanced, _ = shares("writes")
    assert balanced[0] < writes[0] and balanced[1] > writes[1] and balanced[2] > writes[2]
    _, _, loads = shares("reads and writes")
    assert max(loads) / min(loads) < 1.05


def test_a_copy_that_is_not_written_is_missed():
    assert any(violated(f"{twins.OneCopy.name}[replicas=2]", f"data[{node}] lost") & JUDGED for node in (0, 1))


@pytest.mark.parametrize("domain, options", [("wsp", ""), ("adr", ",durable=commit")])
@pytest.mark.parametrize("name", ["clover", twins.InPlaceRow.name])
def test_a_head_of_two_copies_moves_as_one(name, domain, options):
    work = [put(0, "k0"), put(0, "k0", 10_000)]
    shape = {"machines": 1, "keys": 1, "domain": domain}
    found = violated(f"{name}[replicas=2,batch=1{options}]", "all power", work, **shape)
    assert (LOST in found) == (name == twins.InPlaceRow.name)


BACKED = {"metadata": 2, "operations": 14}
QUICK = "batch=2,epoch=1 ms"


@pytest.mark.parametrize("fault", ["metadata[0] lost", "metadata[0] power", "metadata[0] process"])
def test_a_backup_takes_over(fault):
    work = {"mix": "update-only", "deletes": 0.2}
    assert violated(f"clover[{QUICK}]", fault, work, **BACKED) == set()


def delete(process, key, at):
    return {"process": process, "f": "delete", "object": key, "at": f"{at} ns"}


TWICE = [
    put(0, "k0"), delete(1, "k1", 105_000), put(1, "k1", 160_000), put(0, "k0", 200_000), delete(0, "k2", 900_000)
]  # fmt: skip
"""Time lies between the operations."""


@pytest.mark.parametrize(
    "servers, first, then",
    [
        (2, "metadata[0] process @ 100", "metadata[1] process @ 400"),
        (2, "metadata[0] process @ 100", "metadata[1] process @ 112"),
        (2, "metadata[1] process @ 100", "metadata[0] lost @ 600"),
        (2, "metadata[0] + metadata[1] process @ 250", "metadata[0] lost @ 600"),
        (3, "metadata[0] process @ 100", "metadata[1] lost @ 400"),
        (3, "metadata[0] process @ 100", "metadata[1] process @ 130"),
        (3, "metadata[0] lost @ 100", "metadata[1] lost @ 400"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_after_two_faults_one_server_serves_and_has_all_rows(threads, servers, first, then):
    after = struck_twice("clover", servers, first, then, threads)
    assert after.finished and there_at_last(after) == {"k0", "k1"}
    gone = [number for number in range(servers) if f"metadata[{number}] lost" in first + then]
    serve = [one.serves for one in after.result.scheme.roles["metadata"] if one.number not in gone]
    assert sum(serve) == 1


def test_where_any_server_takes_over_a_key_is_lost():
    after = struck_twice(twins.AnyServes.name, 2, "metadata[1] process @ 100", "metadata[0] lost @ 600")
    assert there_at_last(after) == {"k0"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["clover", twins.CopyUnfenced.name])
def test_a_backups_copy_is_durable_before_it_answers(name):
    work = [delete(0, "k1", 0), put(0, "k1", 50_000)]
    shape = {"machines": 1, "nodes": 1, "metadata": 2, "domain": "adr"}
    found = violated(f"{name}[durable=commit]", "metadata[0] lost then metadata[1] power", work, **shape)
    assert (LOST in found) == (name == twins.CopyUnfenced.name)


@pytest.mark.long
def test_a_server_that_begins_again_waits_for_a_data_node_that_is_away(monkeypatch):
    shape = {"machines": 1, "nodes": 1, "domain": "adr"}
    asked = "clover[durable=commit]", "metadata[0] power then data[0] power", [put(0, "k0")]
    assert waiting(*asked, **shape) == 0
    monkeypatch.setattr(Links, "repeated", lambda links, code: code())
    assert waiting(*asked, **shape) > 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["clover", twins.KeepsBuffers.name])
def test_a_put_that_creates_a_key_gives_up_buffers_that_may_be_others(name):
    """Its server is away for longer than the epoch, and takes the buffers for free when it is back."""
    created = {"process": 0, "f": "delete", "object": "k0", "at": "0 ns"}, put(0, "k0")
    work = [*created, *(put(0, "k1") for _ in range(4))]
    shape = {"machines": 1, "nodes": 1, "domain": "adr"}
    found = violated(f"{name}[durable=commit,batch=2,epoch=200 us]", "metadata[0] power", work, **shape)
    assert (COMMITTED in found) == (name == twins.KeepsBuffers.name)


def struck_twice(name, servers, first, then, threads=1):
    """The run with two faults, each at so many microseconds."""
    parts, at = zip(*(fault.split(" @ ") for fault in (first, then)), strict=True)
    faults = {"fault": " then ".join(parts)}
    made = small(f"{name}[batch=4,epoch=200 us]", TWICE, keys=3, metadata=servers, threads=threads, crash=faults)
    (variant,) = made.variants()
    fault = made.crash.fault
    assert fault.then is not None
    strikes = [Strike(10**6 * int(us), one.parts) for one, us in zip((fault, fault.then), at, strict=True)]
    return run_with_faults(made, variant, strikes)


def there_at_last(after):
    """The keys that the fresh client found at the end."""
    gets = [o for o in after.history.operations if o.f == "get" and o.outcome == "ok"]
    return {o.object for o in gets[-3:] if o.result is not None}


@pytest.mark.parametrize("fault", ["metadata[0] lost", "metadata[0] power", "metadata[1] lost"])
@pytest.mark.parametrize("name", ["clover", twins.Unwatched.name])
def test_who_waits_for_a_reply_finds_out_that_the_server_is_gone(name, fault):
    work = {"mix": "update-only", "deletes": 0.2}
    for_ever = waiting(f"{name}[{QUICK}]", fault, work, metadata=2, operations=8)
    assert (for_ever > 0) == (name == twins.Unwatched.name)


@pytest.mark.parametrize(
    "options, fault, servers",
    [("", "metadata[0] lost", 1), (",cache=0%", "metadata[0] lost", 1), ("", "metadata[0] + metadata[1] lost", 2)],
)
def test_nobody_waits_for_a_metadata_server_where_all_are_lost(options, fault, servers):
    """A put that finds no free buffer gives up, and so does a get that knows no version; others go on."""
    work = [*(put(0, "k0") for _ in range(6)), get(1, "k1", 1000)]
    name = f"clover[{CYCLED}{options}]"
    made = small(name, work, metadata=servers, nodes=1, crash={"fault": fault})
    (variant,) = made.variants()
    after = run_with_fault(made, variant, 2_000_000)
    outcomes = {f: [one.outcome for one in after.history.operations if one.f == f] for f in ("put", "get")}
    assert after.finished and outcomes["put"].count("info") > 2
    assert set(outcomes["get"]) == ({"info"} if options else {"ok"})


def test_a_delete_that_comes_late_ends_no_other_chain_and_leaves_its_row():
    work = [put(0, "k0"), {"process": 0, "f": "delete", "object": "k0", "at": "0 ns"}, put(0, "k0")]
    result = ran("clover", work, machines=1)
    server, clock = result.scheme.roles["metadata"][0], result.system.clock
    thread = server.node.thread(0, "late")

    def row():
        loading = clock.start(thread.load(server.row(0), ROW_BYTES))
        clock.run_until(loading)
        return loading.value

    before, chain = row(), server.chains.of(0)
    assert chain.generation == 1
    late = Delete.pack(key=0, generation=0, version=pack_version(result.scheme.pool.first_version(0), 1))
    clock.run_until(clock.start(server.on_delete(thread, Delete.unpack(late))))
    assert server.chains.of(0) is chain and row() == before


def test_a_server_alone_finds_the_chains_again():
    assert (
        violated(f"clover[{QUICK}]", "metadata[0] process", {"mix": "update-only", "deletes": 0.2}, operations=14)
        == set()
    )


@pytest.mark.parametrize(
    "name, work, seed",
    [
        (f"{twins.ToldLater.name}[{QUICK}]", {"mix": "update-only", "deletes": 0.3}, 1),
        (f"{twins.Unmarked.name}[{QUICK}]", {"mix": "update-only", "deletes": 0.3}, 1),
        (f"clover[{QUICK},heads=at create]", {"mix": "update-only"}, 3),
    ],
)
def test_what_the_backup_does_not_know_is_lost(name, work, seed):
    assert violated(name, "metadata[0] lost", work, metadata=2, operations=30, keys=2, seed=seed) & JUDGED


def test_a_client_that_dies_leaves_its_keys_to_others():
    assert (
        violated("clover[replicas=2,patience=50 us]", "client[0] process", "update-only", keys=1) & {LOST, COMMITTED}
        == set()
    )
