"""What instructions take, against closed forms over the platform's parameters and against the published curve."""

from __future__ import annotations

import zlib

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System

from ...rig import LINE, Rig, line

PS = 10**12


@pytest.fixture
def cpu(rig):
    return rig.platform.cpu


def copy_ps(cpu, n_bytes):
    return n_bytes * 8 * PS // cpu.memcpy_bits_per_s


def owned_ps(rig, lines=1):
    """What reading lines before they are stored takes from the beginning of an XPLine on: shared by fill buffers."""
    optane, buffers = rig.platform.media["optane"], rig.platform.private.fill_buffers
    return sum((optane.near_load_ps if one % 4 else optane.load_ps) // buffers for one in range(lines))


def drain_ps(rig):
    """What a fence waits for behind the write pending queue."""
    return rig.platform.media["optane"].controller.ingest_ps


# one instruction -----------------------------------------------------------------------------------------------


def test_a_store_retires_after_its_lines_and_its_bytes(rig, cpu):
    assert rig.server.store(line(1)) == owned_ps(rig) + cpu.store_ps + copy_ps(cpu, 64)
    rig.run(rig.clock.now_ps + 1_000_000)
    start, rest = rig.clock.now_ps, owned_ps(rig, 5) - owned_ps(rig)
    assert rig.server.store(line(1, 4), offset=32) - start == rest + 5 * cpu.store_ps + copy_ps(cpu, 256)


def test_a_load_comes_from_the_device_and_then_from_the_cache(rig, cpu):
    optane = rig.platform.media["optane"]
    rig.server.load()
    assert rig.clock.now_ps == optane.load_ps
    rig.server.load()
    assert rig.clock.now_ps == optane.load_ps + cpu.load_ps
    rig.server.load(length=256)  # the DIMM has the rest of the XPLine, and brings it at once
    assert rig.clock.now_ps == optane.load_ps + optane.near_load_ps + 4 * cpu.load_ps


def test_the_line_of_a_dma_write_is_loaded_from_the_cache_with_ddio_only():
    for ddio in ("on", "off"):
        rig = Rig(ddio=ddio)
        rig.client.write(line(1))
        rig.run(rig.clock.now_ps + 3_000_000)  # no read after persist any more
        start = rig.clock.now_ps
        assert rig.server.load() == line(1)
        expected = rig.platform.llc.load_ps if ddio == "on" else rig.platform.media["optane"].near_load_ps
        assert rig.clock.now_ps - start == expected


def test_store_clwb_sfence_is_between_the_published_figures(rig, cpu):
    """Yang et al., FAST'20: 62.3 ns for a store, a clwb and a fence (figure 2), 116.4 ns (artifact)."""
    rig.server.load()
    start = rig.clock.now_ps
    rig.server.store(line(1))
    end = rig.server.flush()
    way, retired = rig.platform.media["optane"].clwb_to_wpq_ps, start + cpu.store_ps + copy_ps(cpu, 64)
    queued = retired + cpu.clwb_ps + way
    assert end == queued + drain_ps(rig) + cpu.sfence_ps
    assert 62_300 < end - start < 116_400
    optane = rig.platform.media["optane"]
    medium = optane.controller.ingest_ps - (-256 * 8 * PS // optane.write_bandwidth_bits_per_s) + optane.write_ps
    assert rig.story(line=0) == [
        ("store_buffer", retired),
        ("llc", retired),
        ("wpq", queued),
        ("media", queued + medium),
    ]


@pytest.mark.parametrize("instruction", ["clwb", "clflushopt", "clflush"])
@pytest.mark.parametrize("lines", [1, 3])
def test_a_line_is_flushed_no_sooner_than_it_is_there(instruction, lines):
    """Persisting a line that no cache has takes the time of a load and its way, with ``shared`` a third of it."""
    took = {}
    for ownership in ("waited", "shared"):
        rig = Rig(private={"read_for_ownership": ownership})
        thread, address, optane = rig.server.threads[0], rig.address(0), rig.platform.media["optane"]
        rig.server.store(line(1, lines))
        rig.server.run(getattr(thread, instruction)(address, lines * LINE))
        rig.server.sfence()
        took[ownership] = rig.clock.now_ps
    cpu, rest_ps = rig.platform.cpu, (lines - 1) * optane.controller.ingest_ps
    if instruction != "clflush":
        leaves_ps = optane.load_ps + (cpu.store_ps + owned_ps(rig) if lines > 1 else 0)
        assert leaves_ps < took["waited"] <= leaves_ps + optane.clwb_to_wpq_ps + drain_ps(rig) + rest_ps + cpu.sfence_ps
    assert took["waited"] > optane.load_ps + optane.clwb_to_wpq_ps > took["shared"] * 0.9


def test_a_fence_waits_for_stores_that_nobody_flushes(rig, cpu):
    rig.server.store(line(1))
    assert rig.server.sfence() == rig.platform.media["optane"].load_ps + cpu.sfence_ps


def test_a_store_right_behind_a_fence_has_asked_for_its_line_while_the_fence_waited(rig, cpu):
    """Closed form: of two persists in a row the second waits for what is left of its read."""
    optane = rig.platform.media["optane"]
    ends = []
    for far in (0, 64):  # lines of other XPLines
        rig.server.run(rig.server.threads[0].store(rig.address(far), line(1)))
        rig.server.run(rig.server.threads[0].flush(rig.address(far), LINE))
        ends.append(rig.clock.now_ps)
    first, second = ends[0], ends[1] - ends[0]
    waited_ps = first - owned_ps(rig) - cpu.store_ps - copy_ps(cpu, 64) - cpu.clwb_ps
    left_ps = max(0, optane.load_ps - waited_ps)
    assert 0 < left_ps < optane.load_ps / 3
    way_ps = optane.clwb_to_wpq_ps + drain_ps(rig) + cpu.sfence_ps
    assert second == max(left_ps, left_ps // 10 + cpu.store_ps + copy_ps(cpu, 64) + cpu.clwb_ps) + way_ps


def test_ntstore_sfence_is_between_the_published_figures(rig, cpu):
    """Yang et al., FAST'20: 90.4 ns (figure 2), 124.7 ns (artifact)."""
    rig.server.ntstore(line(1))
    assert rig.clock.now_ps == cpu.ntstore_ps
    end = rig.server.sfence()
    assert 90_400 < end < 124_700
    assert dict(rig.story(line=0))["wpq"] == end - cpu.sfence_ps - drain_ps(rig)


def test_clflush_waits_for_each_line(rig, cpu):
    rig.server.load(length=3 * LINE)
    rig.server.store(line(1, 3))
    start = rig.clock.now_ps
    assert rig.server.clflush(lines=3) - start == 3 * cpu.clflush_ps


def test_all_caches_take_as_long_as_walking_through_them_however_little_is_dirty(rig):
    """Zhang et al., ASPLOS'15 (Mojim): 450 us for a cache of 26 MB."""
    thread, llc = rig.server.threads[0], rig.platform.llc
    rig.server.store(line(1, 3))
    start = rig.clock.now_ps
    rig.server.run(thread.wbinvd())
    assert rig.clock.now_ps - start == llc.size_bytes * llc.flush_all_ps_per_byte
    assert rig.clock.now_ps - start == pytest.approx(450e6 * llc.size_bytes / 26e6, rel=0.03)
    start = rig.clock.now_ps
    rig.server.load(length=8)
    assert rig.clock.now_ps - start >= rig.platform.media["optane"].near_load_ps


def test_a_core_waits_for_the_delay_of_emulated_memory_at_each_line_that_it_flushes():
    """rNVM's testbed: DRAM with 200 ns added to a write, which emulators spin for behind the flush of a line."""

    def flushed_ps(**settings):
        rig = Rig(load_platform("rnvm-testbed", **settings))
        rig.server.load(length=4 * LINE)
        rig.server.store(line(1, 4))
        start = rig.clock.now_ps
        rig.server.clflush(lines=4)
        return rig.clock.now_ps - start

    plain = flushed_ps(delay="medium")
    assert (
        flushed_ps()
        == flushed_ps(delay="line")
        == 4 * (200_000 + load_platform("rnvm-testbed").media["slow-dram"].clwb_to_wpq_ps)
    )
    assert plain < flushed_ps() - 3 * 200_000


def test_a_flush_of_nothing_dirty_costs_its_issue_only(rig, cpu):
    assert rig.server.flush(lines=3) == 3 * cpu.clwb_ps + cpu.sfence_ps
    start = rig.clock.now_ps
    assert rig.server.clflush() - start == cpu.clflush_clean_ps
    start = rig.clock.now_ps
    assert rig.server.sfence() - start == cpu.sfence_ps


@pytest.mark.parametrize(("platform", "kept"), [("optane-adr", False), ("optane-eadr", True)])
def test_clwb_keeps_the_line_where_the_processor_does(platform, kept):
    rig = Rig(platform)
    rig.server.store(line(1))
    rig.server.flush()
    rig.run(rig.clock.now_ps + 3_000_000)  # the DIMM has read the XPLine, and written it
    start = rig.clock.now_ps
    rig.server.load()
    expected = rig.platform.cpu.load_ps if kept else rig.platform.media["optane"].near_load_ps  # the DIMM has it
    assert rig.clock.now_ps - start == expected


# many lines: the published curve ------------------------------------------------------------------------------------


def flush_ps(rig, size):
    rig.server.store(line(1, size // LINE))
    start = rig.clock.now_ps
    return rig.server.flush(lines=size // LINE) - start


@pytest.mark.parametrize(
    ("size", "published_ns"),
    [(128, 133.7), (256, 192.5), (512, 327.9), (1024, 601.0), (2048, 1015.2), (4096, 1774.2)],
)
def test_the_published_curve_of_clwb(rig, size, published_ns):
    """Yang et al., FAST'20, artifact NVSL/OptaneStudy, graphs/12-flush_instr_lat.csv: lines that the cache has."""
    rig.server.load(length=size)
    start = rig.clock.now_ps
    rig.server.store(line(1, size // LINE))
    assert (rig.server.flush(lines=size // LINE) - start) / 1000 == pytest.approx(published_ns, rel=0.2)


@pytest.mark.parametrize(
    ("size", "published_ns"),
    [(128, 134.7), (256, 212.0), (512, 304.7), (1024, 484.0), (2048, 853.5), (4096, 1550.6)],
)
def test_the_published_curve_of_ntstore(rig, cpu, size, published_ns):
    """Yang et al., FAST'20, the same file; never issued faster than line after line."""
    rig.server.ntstore(line(1, size // LINE))
    assert rig.clock.now_ps >= cpu.ntstore_ps * size // LINE
    assert rig.server.sfence() / 1000 == pytest.approx(published_ns, rel=0.15)


@pytest.mark.long
def test_flushing_one_dimm_goes_at_the_mediums_rate_once_its_buffers_are_full():
    rig = Rig(imc={"interleave_bytes": 1 << 30})
    times = [flush_ps(Rig(imc={"interleave_bytes": 1 << 30}), LINE * lines) for lines in (4096, 5120)]
    apart = (times[1] - times[0]) / 1024
    medium = LINE * 8 * PS / rig.platform.media["optane"].write_bandwidth_bits_per_s
    assert apart == pytest.approx(medium, rel=0.15)  # lines that wait come mixed: some XPLines are written twice
    assert apart > rig.platform.cpu.clwb_ps
    spread = [flush_ps(Rig(imc={"interleave_bytes": 256}), LINE * lines) for lines in (4096, 5120)]
    assert (spread[1] - spread[0]) / 1024 == rig.platform.cpu.clwb_ps  # six DIMMs take all that one core issues


# threads, and whom they wait for ------------------------------------------------------------------------------------


def both(rig, *codes):
    ends = []

    def run(code):
        yield from code
        ends.append(rig.clock.now_ps)

    for code in codes:
        rig.clock.start(run(code))
    rig.run()
    return ends


def test_threads_of_one_core_queue_and_those_of_two_do_not(rig, cpu):
    again, other = rig.thread(0), rig.server.threads[1]
    first = rig.server.threads[0]
    assert both(rig, first.compute(), again.compute(), other.compute()) == [
        cpu.request_ps,
        cpu.request_ps,
        2 * cpu.request_ps,
    ]


def test_a_flush_behind_another_threads_work_starts_when_the_core_is_free(rig, cpu):
    rig.server.store(line(1))
    start = rig.clock.now_ps
    ends = both(rig, rig.server.threads[0].compute(), rig.thread(0).flush(rig.address(0), LINE))
    way = rig.platform.media["optane"].clwb_to_wpq_ps
    persisted = cpu.request_ps + cpu.clwb_ps + way + drain_ps(rig) + cpu.sfence_ps
    assert [end - start for end in ends] == [cpu.request_ps, persisted]
    assert dict(rig.story(line=0))["wpq"] - start == cpu.request_ps + cpu.clwb_ps + way


def test_a_load_behind_another_threads_work_looks_at_the_caches_when_the_core_is_free(rig, cpu):
    behind, elsewhere = rig.thread(0), rig.server.threads[1]
    address = rig.address(0)
    codes = rig.server.threads[0].compute(), behind.load(address, LINE), elsewhere.load(address, LINE)
    ends = both(rig, *codes)
    assert sorted(ends) == sorted(
        [
            cpu.request_ps,
            cpu.request_ps + rig.platform.llc.load_ps,
            rig.platform.media["optane"].load_ps,
        ]  # the other core has it by then
    )


def test_what_queues_behind_a_load_starts_when_that_is_done(rig, cpu):
    threads = [rig.server.threads[0], rig.thread(0), rig.thread(0)]
    load_ps = rig.platform.media["optane"].load_ps
    codes = threads[0].compute(), threads[1].load(rig.address(0), LINE), threads[2].compute()
    assert sorted(both(rig, *codes)) == [cpu.request_ps, cpu.request_ps + load_ps, 2 * cpu.request_ps + load_ps]


@pytest.mark.long
@pytest.mark.parametrize("way", ["ntstore", "clwb"])
@pytest.mark.parametrize("buffers", [1, 2, 12])
def test_a_core_has_so_many_lines_on_their_way_and_then_waits(way, buffers):
    """Closed form: a buffer is taken until its line is queued; with enough of them only the issue counts."""
    rig = Rig(private={"fill_buffers": buffers}, imc={"interleave_bytes": LINE})
    cpu, optane = rig.platform.cpu, rig.platform.media["optane"]
    rig.server.store(line(1, 64))
    rig.run(rig.clock.now_ps + 1_000_000)
    start = rig.clock.now_ps
    if way == "clwb":
        rig.server.flush(lines=64)
        issue, on_its_way = cpu.clwb_ps, optane.clwb_to_wpq_ps
    else:
        rig.server.ntstore(line(2, 64))
        rig.server.sfence()
        issue, on_its_way = cpu.ntstore_ps, optane.ntstore_to_wpq_ps
    taken = max(on_its_way, cpu.ntstore_hold_ps if way == "ntstore" else 0)
    if buffers * issue >= issue + taken:  # the first one is free again before all are taken
        rounds = 64 * issue + on_its_way
    else:
        before, within = divmod(63, buffers)
        rounds = before * (issue + taken) + (within + 1) * issue + on_its_way
    assert rig.clock.now_ps - start == rounds + drain_ps(rig) + cpu.sfence_ps


def test_two_cores_that_flush_one_line_both_wait_for_it(rig):
    rig.server.store(line(1))
    ends = both(rig, *(thread.flush(rig.address(0), LINE) for thread in rig.server.threads))
    queued = dict(rig.story(line=0))["wpq"]
    assert all(end >= queued for end in ends)


def test_every_flush_of_a_line_that_drains_from_the_iio_waits_for_it():
    rig = Rig(ddio="off", llc={"iio_wc_drain_ps": 50_000_000})
    rig.client.write(line(1))
    ends = both(rig, *(thread.flush(rig.address(0), LINE) for thread in rig.server.threads))
    queued = dict(rig.story(line=0))["wpq"]
    assert all(end == queued + drain_ps(rig) + rig.platform.cpu.sfence_ps for end in ends)


def test_a_core_sees_its_own_non_temporal_store_at_once(rig):
    rig.server.ntstore(line(1))
    assert rig.server.load() == line(1)


def test_a_store_after_a_non_temporal_store_wins(rig):
    rig.server.ntstore(line(1))
    rig.server.store(line(2))
    rig.run(rig.clock.now_ps + 1_000_000)
    assert rig.memory(0) == line(2)


def test_a_non_temporal_store_takes_the_dirty_rest_of_its_line_along(rig):
    rig.server.store(line(1)[:8])
    rig.server.ntstore(line(2)[8:16], offset=8)
    end = rig.server.sfence()
    assert rig.timed.content(0, end)[:16] == line(1)[:8] + line(2)[8:16]


def test_a_fence_waits_for_the_non_temporal_stores_of_its_core_whoever_made_them(rig, cpu):
    rig.server.ntstore(line(1))
    rig.server.run(rig.thread(0).sfence())
    assert rig.clock.now_ps == dict(rig.story(line=0))["wpq"] + drain_ps(rig) + cpu.sfence_ps


def test_loads_that_nobody_waits_for_go_as_fast_as_fill_buffers_allow():
    """Closed form: XPLines of which four lines each are under way, three at a time with ten buffers."""
    rig = Rig(private={"prefetch_lines": 0})
    optane, lines = rig.platform.media["optane"], 400
    rig.server.run(rig.server.threads[0].prefetch(rig.address(0), lines * LINE))
    per_xpline = optane.load_ps / 3
    assert rig.clock.now_ps == pytest.approx(lines / 4 * per_xpline, rel=0.05)


@pytest.mark.parametrize("memory", ["dram", "pm"])
@pytest.mark.parametrize("verb", ["load", "store"])
def test_a_range_takes_in_one_piece_what_it_takes_in_small_ones(memory, verb):
    """The time of a range grows with its length: lines queue for the medium once, not once for each line before."""
    took = {}
    for length, piece in [(4096, 4096), (16384, 16384), (65536, 65536), (65536, 4096)]:
        system = System(load_platform("optane-adr"), {"server": [NodeSpec(1, ("dram", "pm"))]}, 1)
        node = system.nodes["server"][0]
        thread, address = node.thread(0, "core"), node.memory[memory].allocate(length, "range", align=4096)

        def code(thread=thread, address=address, length=length, piece=piece):
            for at in range(address, address + length, piece):
                yield from (thread.load(at, piece) if verb == "load" else thread.store(at, bytes(piece)))

        system.clock.run_until(system.clock.start(code()))
        took[length, piece] = system.clock.now_ps
    assert 3.5 < took[16384, 16384] / took[4096, 4096] < 4.1
    assert 3.6 < took[65536, 65536] / took[16384, 16384] < 4.1
    assert 0.85 < took[65536, 65536] / took[65536, 4096] <= 1.02


def test_a_load_of_a_line_that_is_being_prefetched_waits_for_it(rig):
    thread, optane = rig.server.threads[0], rig.platform.media["optane"]
    rig.server.run(thread.prefetch(rig.address(0), LINE))
    rig.server.load()
    assert rig.clock.now_ps == optane.load_ps
    start = rig.clock.now_ps
    rig.server.load()
    assert rig.clock.now_ps - start == rig.platform.cpu.load_ps


def test_stores_of_one_instant_apply_in_their_order(rig):
    """Also where nothing is recorded: in memory that keeps nothing."""
    host, dram = rig.server.node.host, rig.server.node.memory["dram"]
    address = dram.allocate(64, "word")
    for data in (b"first", b"later"):
        host.store(address, data, 0, "test", 5)
    assert dram.space.read(5, address - dram.base, 5) == b"later"


def test_crc_and_copy(rig, cpu):
    rig.server.store(line(1))
    start = rig.clock.now_ps
    thread = rig.server.threads[0]
    assert rig.server.run(thread.crc32(rig.address(0), 64)) == zlib.crc32(line(1))
    assert rig.clock.now_ps - start == 64 * cpu.crc32_ps_per_byte  # longer than the load, behind which it begins
    start = rig.clock.now_ps
    rig.server.run(thread.memcpy(rig.address(9), rig.address(0), 64))
    assert rig.clock.now_ps - start == max(cpu.load_ps, owned_ps(rig) + cpu.store_ps, copy_ps(cpu, 64))
    assert rig.memory(9) == line(1)


def test_a_large_copy_has_a_start(rig, cpu):
    """String instructions from 2 KiB on: 35 cycles before the first byte."""
    lines = cpu.memcpy_string_bytes // LINE
    rig.server.store(line(1, lines))
    rig.server.load(length=lines * LINE)
    took = []
    for length in (cpu.memcpy_string_bytes - LINE, cpu.memcpy_string_bytes):
        rig.server.run(rig.thread(0).memcpy(rig.address(100), rig.address(0), length))
        start = rig.clock.now_ps
        rig.server.run(rig.thread(0).memcpy(rig.address(100), rig.address(0), length))
        took.append(rig.clock.now_ps - start)
    a_line = took[0] * LINE // (cpu.memcpy_string_bytes - LINE)
    assert took[1] - took[0] == pytest.approx(a_line + cpu.memcpy_start_ps, abs=2)


def test_a_checksum_by_the_instruction_is_six_times_as_fast():
    took = {}
    for how in ("table", "instruction"):
        rig = Rig(load_platform("optane-adr", crc32=how))
        rig.server.run(rig.server.threads[0].crc32_of(bytes(4096)))
        took[how] = rig.clock.now_ps
    assert took == {"table": 4096 * 1074, "instruction": 4096 * 170}


def test_cores_of_another_type_take_longer_for_all_that_software_does(rig, cpu):
    kind = cpu.types["arm-a72"]
    spec = NodeSpec(1, core_type="arm-a72")
    node = System(rig.platform, {"nic": [spec]}, 1).nodes["nic"][0]
    thread = node.thread(0, "arm")
    node.system.clock.start(thread.compute())
    node.system.clock.run_until()
    assert node.system.clock.now_ps == cpu.request_ps * 100 // kind.speed_percent
    nic = rig.platform.nic
    assert (thread._post_ps, thread._poll_ps) == (
        nic.post_wqe_ps * 100 // kind.speed_percent + kind.hop_ps,
        nic.poll_ps * 100 // kind.speed_percent + kind.hop_ps,
    )


def test_a_poll_that_waits_returns_when_the_completion_is_visible(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_send(at=1_000_000)
    received = rig.server.receive()
    assert received.ps > 1_000_000
    rig.server.post_recv(rig.client)
    rig.client.send()
    start = rig.clock.now_ps
    assert rig.server.receive().ps - start == rig.platform.nic.poll_ps


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_one_poll_takes_what_is_there_up_to_its_room(rig, most):
    for _ in range(3):
        rig.server.post_recv(rig.client)
        rig.client.post_send()
    rig.run(rig.clock.now_ps + 20_000_000)
    start, nic, thread = rig.clock.now_ps, rig.platform.nic, rig.server.threads[0]
    found = rig.server.run(thread.poll_some(rig.server.received, most))
    assert len(found) == min(most, 3)
    assert rig.clock.now_ps - start == nic.poll_ps + (len(found) - 1) * nic.poll_next_ps
