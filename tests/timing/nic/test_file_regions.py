"""Files as memory regions: what an extent costs the adapter and the program, and where a file's bytes go."""

from __future__ import annotations

import pytest

from rpsim.models.profiles.parameters.adapter import TableCache
from rpsim.models.verbs import FLUSHES, REMOTE, FlushLevel, FlushType, Opcode, SendFlags, SendWR, Status

from ...persisting import World
from ...rig import LINE, Rig, line
from ..hops import Hops

KIB = 1 << 10


def ranges(rig, count, length=64 * KIB, gap=64 * KIB):
    """So many pieces of the server's persistent memory, with a gap behind each."""
    start = rig.server.node.memory["pm"].allocate(count * (length + gap), "file", align=4 * KIB)
    return [(start + number * (length + gap), length) for number in range(count)]


def rig_with(count=4, length=64 * KIB, **nic):
    rig = Rig(nic={"page_bytes": 4 * KIB, **nic})
    extents = ranges(rig, count, length)
    return rig, extents, rig.server_pd.reg_file_mr(extents)


def request(rig, region, opcode, offset, data=b"", length=None, **more):
    """A request to an offset of a file, to its completion."""
    client = rig.client
    work = client.work(opcode, data, length, inline=False, rkey=region.key)
    work.remote_address = offset
    for name, value in more.items():
        setattr(work, name, value)
    return client.wait(client.post(work, rig.clock.now_ps))


def write(rig, region, offset, data):
    return request(rig, region, Opcode.IBV_WR_RDMA_WRITE, offset, data)


def read(rig, region, offset, length):
    return request(rig, region, Opcode.IBV_WR_RDMA_READ, offset, length=length)


def memory(rig, address, length):
    device, offset = rig.server.node.memory.locate(address)
    return device.space.read(rig.clock.now_ps, offset, length)


# what it takes of the SRAM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 16])
def test_a_file_takes_an_entry_an_extent_and_an_ordinary_region_one_a_page(count):
    rig, extents, region = rig_with(count)
    nic, parameters = rig.server.node.nic, rig.platform.nic
    before = nic.sram.demand_bytes
    rig.server_pd.dereg_mr(region)
    assert before - nic.sram.demand_bytes == parameters.mpt_bytes + count * parameters.extent_entry_bytes
    before = nic.sram.demand_bytes
    for address, length in extents:
        rig.server_pd.reg_mr(address, length)
    assert nic.sram.demand_bytes - before == count * (parameters.mpt_bytes + 16 * parameters.mtt_bytes)


def test_an_extent_misses_once_however_many_of_its_pages_are_read():
    """Room for a context and some entries: of 16 pages in one extent the first READ misses, of ordinary pages each."""
    for file in (True, False):
        rig = Rig(nic={"page_bytes": 4 * KIB, "sram_bytes": 700})
        [extent] = ranges(rig, 1)
        region = rig.server_pd.reg_file_mr([extent]) if file else rig.server_pd.reg_mr(*extent)
        rig.server.node.alloc_pd().create_qp(rig.server.sent, rig.server.received)
        assert rig.server.node.nic.sram.crowded
        for page in range(16):
            read(rig, region, page * 4 * KIB + (0 if file else extent[0]), 8)
        counters = rig.server.node.nic.counters()
        kind, misses = ("extent", 1) if file else ("page", 16)
        assert counters[f"sram_misses {kind}"] == misses


def test_a_miss_is_one_read_of_what_the_step_lacks():
    rig, _, region = rig_with(count=1, sram_bytes=600)
    rig.server.node.alloc_pd().create_qp(rig.server.sent, rig.server.received)
    hops, nic = Hops(rig.platform), rig.platform.nic
    write(rig, region, 0, line(1))
    second = rig.clock.now_ps
    write(rig, region, 0, line(2))
    warm = rig.clock.now_ps - second
    rig2, _, region2 = rig_with(count=1, sram_bytes=600)
    rig2.server.node.alloc_pd().create_qp(rig2.server.sent, rig2.server.received)
    cold = write(rig2, region2, 0, line(1)).ps
    lacking = nic.qp_context_bytes + nic.mpt_bytes + nic.extent_entry_bytes
    assert cold - warm == hops.dma_fetch(lacking, hops.cached_read())


def test_files_share_the_cache_of_translations():
    rig, _, region = rig_with(caches={"translations": TableCache(3, 1)})
    room = rig.server.node.nic.sram
    assert room.crowded and not room.shared.crowded  # 3 entries of 8 B hold one extent of 24 B
    for _ in range(2):
        read(rig, region, 0, 8)
    counters = rig.server.node.nic.counters()
    assert (counters["sram_misses extent"], counters["sram_hits extent"]) == (1, 1)


def test_adapters_without_files_say_nothing_of_extents():
    assert "sram_hits extent" not in Rig().server.node.nic.counters()


# where its bytes go --------------------------------------------------------------------------------------------------


def test_offsets_of_the_file_are_bytes_of_its_extents():
    rig, extents, region = rig_with()
    for number, (address, length) in enumerate(extents):
        write(rig, region, number * length + 128, line(number + 1))
        assert memory(rig, address + 128, 64) == line(number + 1)
        assert read(rig, region, number * length + 128, 64).data == line(number + 1)


def test_a_request_over_the_end_of_an_extent_goes_to_both():
    rig, extents, region = rig_with()
    data = line(1, 128)  # 8 KiB: two packets, of which the first lies on both sides
    write(rig, region, 64 * KIB - 1000, data)
    assert memory(rig, extents[0][0] + 64 * KIB - 1000, 1000) == data[:1000]
    assert memory(rig, extents[1][0], len(data) - 1000) == data[1000:]
    assert read(rig, region, 64 * KIB - 1000, len(data)).data == data


def test_atomics_name_offsets_too():
    rig, extents, region = rig_with()
    request(rig, region, Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD, 64 * KIB + 8, length=8, compare_add=5)
    assert memory(rig, extents[1][0] + 8, 8) == (5).to_bytes(8, "little")


def test_what_is_not_in_the_file_is_refused():
    rig, _, region = rig_with()
    assert write(rig, region, 4 * 64 * KIB - 8, line(1)).status is Status.IBV_WC_REM_ACCESS_ERR


def test_a_file_s_key_opens_no_local_buffer():
    rig, _, region = rig_with()
    work = SendWR(1, Opcode.IBV_WR_RDMA_WRITE, 0, 64, 0, region.key, SendFlags.IBV_SEND_SIGNALED, lkey=region.key)
    assert not rig.server.node.nic.regions.local(work.lkey, 0, 64, written=False)


@pytest.mark.parametrize("level", list(FlushLevel))
def test_a_flush_covers_the_extents_and_not_what_lies_between_them(level):
    """Between two extents lies a region of its own: a FLUSH of the file writes nothing of it back."""
    rig = Rig()
    start = rig.server.node.memory["pm"].allocate(12 * KIB, "file", align=4 * KIB)
    file = rig.server_pd.reg_file_mr([(start, 4 * KIB), (start + 8 * KIB, 4 * KIB)], REMOTE | FLUSHES)
    between = rig.server_pd.reg_mr(start + 4 * KIB, 4 * KIB)
    write(rig, file, 4 * KIB - 64, line(1))
    write(rig, file, 4 * KIB, line(2))
    write(rig, between, start + 4 * KIB, line(3))
    kind = FlushType.IBV_FLUSH_PERSISTENT
    request(rig, file, Opcode.IBV_WR_FLUSH, 4 * KIB - 64, length=128, flush_type=kind, flush_level=level)
    offset = start - rig.server.node.memory["pm"].base
    flushed = {chunk.address - offset: bool(chunk.flushed_ps) for chunk in rig.trace.chunks}
    assert flushed == {4 * KIB - 64: True, 8 * KIB: True, 4 * KIB: False}


class FileWorld(World):
    """A file of two extents of 4 KiB, and a region of its own between them."""

    def _open(self, relaxed, lines):
        start = self.pool
        self.service.register_file([(start, 4 * KIB), (start + 8 * KIB, 4 * KIB)])
        self.service.register(start + 4 * KIB, 4 * KIB)


@pytest.mark.parametrize("scope", ["range", "queue pair"])
def test_a_primitive_covers_the_extents_unless_all_that_was_drained(scope):
    world = FileWorld("rcommit", choices={"scope": scope}, lines=12 * KIB // LINE)
    world.run(world.requester.write([(world.pool + 4 * KIB, line(3))]))
    world.run(world.requester.persist([(4 * KIB - 64, line(1)), (4 * KIB, line(2))]))
    offset = world.pool - world.pm.base
    flushed = {chunk.address - offset: bool(chunk.flushed_ps) for chunk in world.system.trace.chunks}
    assert flushed == {4 * KIB - 64: True, 8 * KIB: True, 4 * KIB: scope == "queue pair"}


# how it changes -------------------------------------------------------------------------------------------------------


def test_an_appended_extent_costs_one_entry_and_no_registration():
    rig, _, region = rig_with()
    [more] = ranges(rig, 1)
    thread, system = rig.server.threads[0], rig.platform.cpu.os
    before, demand = rig.clock.now_ps, rig.server.node.nic.sram.demand_bytes
    region_now = rig.server.run(thread.append_extent(rig.server_pd, region, *more))
    appended = rig.clock.now_ps - before
    assert appended == system.reg_mr_page_ps < system.reg_mr_ps
    assert rig.server.node.nic.sram.demand_bytes - demand == rig.platform.nic.extent_entry_bytes
    assert region_now.key == region.key and region_now.length == 5 * 64 * KIB
    write(rig, region, 4 * 64 * KIB, line(9))
    assert memory(rig, more[0], 64) == line(9)
    before = rig.clock.now_ps
    rig.server.run(thread.reg_mr(rig.server_pd, *more))
    assert rig.clock.now_ps - before == system.reg_mr_ps + 16 * system.reg_mr_page_ps


def test_registering_a_file_takes_an_entry_an_extent():
    rig, extents, _ = rig_with()
    before, system = rig.clock.now_ps, rig.platform.cpu.os
    rig.server.run(rig.server.threads[0].reg_file_mr(rig.server_pd, extents))
    assert rig.clock.now_ps - before == system.reg_mr_ps + 4 * system.reg_mr_page_ps


def test_a_remapped_range_is_found_under_the_same_key():
    rig, extents, region = rig_with()
    write(rig, region, 8 * KIB, line(1))
    [(elsewhere, _)] = ranges(rig, 1)
    before = rig.server.node.nic.sram.demand_bytes
    now = rig.server.run(rig.server.threads[0].remap(rig.server_pd, region, 8 * KIB, elsewhere, 4 * KIB))
    assert [(e.offset, e.length) for e in now.extents][:3] == [(0, 8 * KIB), (8 * KIB, 4 * KIB), (12 * KIB, 52 * KIB)]
    assert rig.server.node.nic.sram.demand_bytes - before == 2 * rig.platform.nic.extent_entry_bytes
    write(rig, region, 8 * KIB, line(2))
    assert memory(rig, extents[0][0] + 8 * KIB, 64) == line(1)
    assert memory(rig, elsewhere, 64) == line(2) == read(rig, region, 8 * KIB, 64).data
    assert now.places(0, 16 * KIB) == [
        (extents[0][0], 8 * KIB), (elsewhere, 4 * KIB), (extents[0][0] + 12 * KIB, 4 * KIB),
    ]  # fmt: skip


def test_an_entry_that_was_cached_is_not_used_after_a_remap():
    rig, _, region = rig_with(count=1, sram_bytes=600)
    rig.server.node.alloc_pd().create_qp(rig.server.sent, rig.server.received)
    read(rig, region, 0, 8)
    [more] = ranges(rig, 1)
    rig.server_pd.remap(region, 0, *more)
    read(rig, region, 0, 8)
    assert rig.server.node.nic.counters()["sram_misses extent"] == 2


def test_what_is_no_file_is_refused():
    rig, extents, region = rig_with()
    dram = rig.server.node.memory["dram"].allocate(64 * KIB, "elsewhere")
    for wrong in ([], [(extents[0][0], 0)], [extents[0], (dram, 64 * KIB)]):
        with pytest.raises(ValueError, match=f"a file of {len(wrong)} extents"):
            rig.server_pd.reg_file_mr(wrong)
    with pytest.raises(ValueError, match="are not in a file of 262144"):
        rig.server_pd.remap(region, 256 * KIB - 8, dram, 16)
    rig.server_pd.append_extent(region, *ranges(rig, 1)[0])
    with pytest.raises(ValueError, match="has changed since"):
        rig.server_pd.append_extent(region, *ranges(rig, 1)[0])
