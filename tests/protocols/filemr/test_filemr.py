"""FileMR: messages, entries and their misses, a file that grows, and what stays of it over which primitive."""

from __future__ import annotations

import pytest

from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.sim.errors import InputError
from rpsim.validation.testing.checks import scenario_of

from ..several import ALL, DURABLE, LOST, ran, violated
from .twins import TellsFirst, UnflushedFile

KINDS = ("file", "ordinary")
SMALL = "extent=4 KiB"
GROWING = {"mix": "load"}


def name(regions, *more):
    return f"filemr[{','.join((f'regions={regions}', *more))}]"


def verbs(result):
    """How many messages of each verb went from one role to another."""
    found = {}
    for one in result.metered["traffic"]:
        for verb, count in one["verbs"].items():
            way = one["from"].partition("[")[0], verb
            found[way] = found.get(way, 0) + count
    return found


# what an operation is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regions", KINDS)
def test_an_operation_is_one_verb_and_the_server_sees_nothing(regions):
    result = ran(name(regions), mix="a", keys=8, value="64 B")
    operations = result.history.operations
    puts = sum(operation.f == "put" for operation in operations)
    gets = len(operations) - puts
    assert verbs(result) == {("client", "WRITE"): puts, ("client", "READ"): gets}


def test_a_record_over_the_end_of_an_extent_is_one_request_of_a_file_and_two_of_ordinary_regions():
    """Records of 3 KiB in extents of 4 KiB: the second one is in two of them."""
    for regions, expected in (("file", 12), ("ordinary", 24)):
        result = ran(name(regions, SMALL), mix="update-only", keys=2, value="3 KiB", operations=12)
        seconds = sum(operation.object == "k1" for operation in result.history.operations)
        assert verbs(result)[("client", "WRITE")] == 12 + (seconds if expected == 24 else 0)
        assert 0 < seconds < 12


@pytest.mark.parametrize("regions", KINDS)
def test_what_is_read_is_what_was_written(regions):
    for size in ("8 B", "3 KiB", "9000 B"):
        how = {"mix": "a", "keys": 3, "operations": 12, "value": size, "clients": 1}
        result = ran(name(regions, SMALL), **how)
        newest = {}
        for operation in result.history.operations:
            if operation.f == "put":
                newest[operation.object] = operation.argument
            elif operation.object in newest:
                assert operation.result == newest[operation.object]


# the adapter's SRAM ---------------------------------------------------------------------------------------------------


def counters(regions, *more, **changes):
    result = ran(name(regions, *more), mix="c", value="64 B", **{"keys": 1024, "operations": 64, **changes})
    nic = result.system.nodes["server"][0].nic
    return nic.counters(), nic.sram.demand_bytes, result


def test_the_adapter_holds_an_entry_an_extent_or_a_region_and_its_pages_for_each():
    """64 KiB in 16 extents of 4 KiB: as entries 16 times 24 B and one region, or 16 regions with a page each."""
    (_, file, result), (_, ordinary, _) = (counters(regions, SMALL) for regions in KINDS)
    nic = result.system.nodes["server"][0].nic.parameters
    assert ordinary - file == 15 * nic.mpt_bytes + 16 * nic.mtt_bytes - 16 * nic.extent_entry_bytes


@pytest.mark.long
def test_the_shipped_scenario_s_extents_fit_and_its_pages_do_not():
    made = load_scenario("filemr", ["workload.operations=600", "workload.warmup=0"])
    rates, misses = {}, {}
    for variant in made.variants():
        result = run_variant(made, variant)
        nic = result.system.nodes["server"][0].nic
        operations = result.history.operations
        rates[variant.scheme] = len(operations) / max(operation.return_ps for operation in operations)
        misses[variant.scheme] = nic.counters()["sram_misses page"]
    file, ordinary, huge = rates
    assert misses[file] == misses[huge] == 0 < misses[ordinary]
    assert rates[file] == pytest.approx(rates[huge], rel=0.01)
    assert rates[ordinary] < 0.9 * rates[file]


# a file that grows ----------------------------------------------------------------------------------------------------


def grown(regions, **more):
    """Six new records of an extent each, of which the file has one at first."""
    return ran(name(regions, SMALL), value="4 KiB", keys=6, operations=6, **GROWING, **more)


def test_an_extent_more_is_a_call_and_no_registration():
    took = {}
    for regions in KINDS:
        result = grown(regions)
        assert verbs(result)[("client", "WRITE")] == 6
        assert verbs(result)[("client", "SEND")] == verbs(result)[("server", "SEND")] == 5
        took[regions] = sorted(operation.return_ps - operation.invoke_ps for operation in result.history.operations)[3]
        system = result.system.nodes["server"][0].cpu.os
    assert took["ordinary"] - took["file"] == pytest.approx(system.reg_mr_ps, abs=1_000_000)


@pytest.mark.parametrize("regions", KINDS)
def test_new_records_are_found_by_who_did_not_write_them(regions):
    result = ran(name(regions, SMALL), value="4 KiB", keys=1, operations=200, clients=3, mix="d")
    found = [operation for operation in result.history.operations if operation.f == "get"]
    assert found and all(operation.outcome == "ok" for operation in found)


# failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regions", KINDS)
def test_over_a_write_alone_what_is_acknowledged_may_be_lost(regions):
    assert violated(name(regions), "server[0] power") == {LOST, DURABLE}


@pytest.mark.parametrize("regions", KINDS)
@pytest.mark.parametrize(
    "primitive", ["ibta-flush-persistent", "write-imm-cpu-flush", "rcommit", "write-send-cpu-flush"]
)
def test_over_a_primitive_that_flushes_a_word_stays(regions, primitive):
    assert violated(f"{name(regions)} over {primitive}", "server[0] power") == set()


@pytest.mark.parametrize("regions", KINDS)
def test_a_record_of_many_words_is_torn_all_the_same(regions):
    found = violated(f"{name(regions)} over ibta-flush-persistent", "server[0] power", value="64 B")
    assert found == ALL - {LOST} or found == {*ALL}


@pytest.mark.parametrize("regions", KINDS)
def test_a_file_that_has_grown_is_as_long_after_the_failure(regions):
    work = {**GROWING, "value": "4 KiB", "operations": 2, "keys": 2}
    lasting = f"{name(regions, SMALL)} over ibta-flush-persistent"
    assert LOST not in violated(lasting, "server[0] power", exhaustive=False, **work)


def test_twins_are_caught():
    assert violated(UnflushedFile.name, "server[0] power") == {LOST, DURABLE}
    work = {**GROWING, "value": "4 KiB", "operations": 2, "keys": 2}
    assert LOST in violated(f"{TellsFirst.name}[{SMALL}]", "server[0] power", exhaustive=False, **work)


@pytest.mark.parametrize("regions", KINDS)
@pytest.mark.parametrize("fault", ["server[0] process", "client[0] process", "client[0] power"])
def test_the_rest_go_on(regions, fault):
    assert violated(f"{name(regions)} over ibta-flush-persistent", fault, exhaustive=False, clients=2) == set()


# mistakes -------------------------------------------------------------------------------------------------------------


def test_a_primitive_whose_updates_stay_in_their_buffers_is_refused():
    with pytest.raises(InputError, match="a primitive whose updates get to their place"):
        scheme("filemr over read-after-send")


def test_extents_are_pages_at_least():
    with pytest.raises(InputError, match="extent"):
        scenario_of(scheme("filemr[extent=64 B]"))
