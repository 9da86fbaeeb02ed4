"""Copies, prefetched streams and what else a core waits for at memory, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.host.prefetcher import Prefetcher
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System

from ...rig import LINE, Rig, line
from ..workloads import changed

PAGE = 4096


def machine(platform, code, memory="dram", size=1 << 22):
    """How long code takes on a machine: it gets a thread and the address of a region."""
    system = System(platform, {"server": [NodeSpec(1, ("dram", "pm"))]}, 1)
    node = system.nodes["server"][0]
    address = node.memory[memory].allocate(size, "region", align=PAGE)
    system.clock.run_until(system.clock.start(code(node.thread(0, "core"), address)))
    return system.clock.now_ps


def varied(platform="optane-adr", **changes):
    found = load_platform(platform)
    return replace(found, **{part: replace(getattr(found, part), **values) for part, values in changes.items()})


@pytest.mark.parametrize("lines", [0, 8, 16])
def test_a_long_load_goes_as_fast_as_lines_may_be_under_way(lines):
    """Little's law: so many lines in a latency, those of the fill buffers without a prefetcher."""
    platform = varied(private={"prefetch_lines": lines})
    dram, count = platform.media["dram"], 64 * 64

    def code(thread, address):
        yield from thread.load(address, count * LINE)

    took_ps = machine(platform, code)
    assert took_ps == pytest.approx(count * dram.near_load_ps / (lines or platform.private.fill_buffers), rel=0.03)


def test_loads_that_do_not_depend_on_each_other_are_under_way_together():
    """Closed form: as many in a latency as there are fill buffers; one after the other, a latency each."""
    platform = varied(private={"prefetch_lines": 0})
    count, found = 4 * platform.private.fill_buffers, []
    places = [(7 * turn % count) * PAGE for turn in range(count)]  # each in a page of its own

    def together(thread, address):
        found.append((yield from thread.load_all([address + place for place in places], 8)))

    def alone(thread, address):
        for place in places:
            yield from thread.load(address + place, 8)

    took_ps, alone_ps = machine(platform, together), machine(platform, alone)
    assert took_ps == pytest.approx(alone_ps / platform.private.fill_buffers, rel=0.1)
    assert found == [[bytes(8)] * count]


@pytest.mark.parametrize("overlaps", [True, False])
def test_a_copy_takes_what_its_lines_take_together(overlaps):
    """Closed form: two lines under way for each line copied; one behind the other, its bytes and a latency on top."""
    platform = varied(cpu={"memcpy_overlaps": overlaps}, private={"prefetch_lines": 0})
    cpu, dram, count = platform.cpu, platform.media["dram"], 64

    def code(thread, address):
        yield from thread.memcpy(address + 2 * PAGE, address, count * LINE)

    together_ps = 2 * count * dram.near_load_ps / platform.private.fill_buffers
    alone_ps = count * (LINE * 8 * 10**12 // cpu.memcpy_bits_per_s + cpu.store_ps) + dram.load_ps
    took_ps = machine(platform, code) - cpu.memcpy_start_ps
    assert machine(varied(cpu={"memcpy_overlaps": overlaps}), code) < 0.9 * took_ps  # with a prefetcher
    assert took_ps == pytest.approx(together_ps + (0 if overlaps else alone_ps), rel=0.15)


def test_a_copy_copies_what_is_there():
    rig = Rig()
    rig.server.store(line(3, 2))
    thread, address = rig.server.threads[0], rig.address(0)
    rig.server.run(thread.memcpy(rig.address(8), address + 13, 100))
    rig.server.run(thread.memcpy(rig.address(16), address, 0))
    rig.run(rig.clock.now_ps + 1_000_000)
    assert rig.memory(8) == line(3, 2)[13 : 13 + LINE]


def test_lines_of_a_stream_are_asked_for_ahead():
    """A line each 100 ps: from the third on, as far ahead as the prefetcher runs, and not beyond the page."""
    prefetcher = Prefetcher(4)
    leads = []
    for number in range(66):
        stream = prefetcher.follow(number, number, False, 100 * number)
        leads.append(prefetcher.lead_ps(stream, number, 100 * number))
    assert leads[:8] == [0, 0, 100, 200, 300, 400, 400, 400]
    assert leads[63:] == [400, 0, 0]


def test_stores_loads_and_jumps_are_streams_of_their_own():
    prefetcher = Prefetcher(4)
    for number in range(3):
        prefetcher.follow(number, number, False, number)
    assert prefetcher.follow(3, 3, True, 5).first == 3
    assert prefetcher.follow(3, 3, False, 6).first == 0
    assert prefetcher.follow(9, 9, False, 7).first == 9
    assert prefetcher.lead_ps(prefetcher.follow(10, 10, False, 8), 10, 8) == 0


def test_who_appends_to_a_log_finds_its_lines_prefetched():
    """Published: 120 ns a line (Kalia et al., SoCC'20), 114 ns (Chen et al., ASPLOS'20); else they are read late."""

    def persisted_ps(work, **private):
        def code(thread, address):
            for number in range(64):
                yield from work(thread)
                yield from thread.store(address + number * LINE, bytes(LINE))
                yield from thread.flush(address + number * LINE, LINE)

        return machine(varied(private=private), code, "pm") / 64

    def busy(thread):
        yield from thread.compute()

    def nothing(thread):
        yield from ()

    request_ps = load_platform("optane-adr").cpu.request_ps
    assert 80_000 < persisted_ps(nothing) < 150_000
    assert 80_000 < persisted_ps(busy) - request_ps < 150_000
    assert persisted_ps(busy, prefetch_lines=0) - request_ps > 300_000


@pytest.mark.parametrize(("length", "reads"), [(64, False), (8, True)])
def test_a_part_of_a_line_by_a_non_temporal_store_reads_the_line(length, reads):
    took = {}
    for partial in ("read", "free"):
        rig = Rig(imc={"partial_ntstore": partial})
        rig.server.ntstore(line(1)[:length])
        took[partial] = rig.server.sfence()
    assert took["read"] - took["free"] == (rig.platform.media["optane"].load_ps if reads else 0)


def test_a_part_of_a_line_that_a_cache_has_is_merged_there():
    rig = Rig()
    rig.server.store(line(1))
    rig.run(rig.clock.now_ps + 1_000_000)
    start = rig.clock.now_ps
    rig.server.ntstore(line(2)[:8])
    assert rig.server.sfence() - start < rig.platform.media["optane"].load_ps


def test_a_completion_is_loaded_from_dram_where_ddio_is_off():
    dram, llc = load_platform("optane-adr").media["dram"], load_platform("optane-adr").llc
    more = {
        (ddio, completions): load_platform("optane-adr", ddio=ddio)
        for ddio in ("on", "off")
        for completions in ("as_memory", "at_hand")
    }
    found = {key: replace(one, llc=replace(one.llc, completions=key[1])).poll_ps for key, one in more.items()}
    usual_ps = load_platform("optane-adr").nic.poll_ps
    assert found.pop(("off", "as_memory")) == usual_ps + dram.load_ps - llc.load_ps
    assert set(found.values()) == {usual_ps}


def test_a_poll_takes_that_miss():
    done = {}
    for completions in ("as_memory", "at_hand"):
        rig = Rig(ddio="off", llc={"completions": completions})
        rig.client.write(line(1))
        done[completions] = rig.completions[0].at_ps if hasattr(rig.completions[0], "at_ps") else rig.clock.now_ps
    platform = load_platform("optane-adr")
    assert done["as_memory"] - done["at_hand"] == platform.media["dram"].load_ps - platform.llc.load_ps


def test_a_line_persisted_and_touched_again_is_read_after_its_persist():
    """Closed forms of Xiang et al., EuroSys'22: a read waits, unless its XPLine has been at rest for long enough."""
    for waits_ps in (950_000, 0):
        platform = load_platform("optane-adr")
        rests = replace(platform.media["optane"].controller, read_after_persist_ps=waits_ps, settle_ps=2_380_000)
        rig = Rig(changed(platform, media={"controller": rests}))
        optane = rig.platform.media["optane"]
        took = []
        for rest_ps in (0, 2_000_000, 2_380_000):
            rig.server.ntstore(line(1))
            came_ps = rig.server.sfence() - rig.platform.cpu.sfence_ps
            if rest_ps:
                rig.run(came_ps + rest_ps)
            start = rig.clock.now_ps
            rig.server.load()
            took.append(rig.clock.now_ps - start - optane.near_load_ps)
            start = rig.clock.now_ps
            rig.server.load(line=1)  # the rest of the XPLine waits no more
            assert rig.clock.now_ps - start == (rig.platform.cpu.load_ps if rest_ps else optane.load_ps)
        assert took == ([waits_ps, 380_000, 0] if waits_ps else [0, 0, 0])
