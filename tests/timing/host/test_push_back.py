"""Memory pushes back with DDIO on: who waits for a dirty line that has to go, and in which order lines reach a DIMM."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import pytest

from rpsim.models.host.privatecaches import Caches
from rpsim.models.memory.imc import MemoryController
from rpsim.models.memory.xpbuffer import XpBuffer
from rpsim.models.profiles.parameters.memory import Controller
from rpsim.models.profiles.platform import load_platform
from rpsim.validation.naive.arithmetic import arithmetic
from rpsim.validation.naive.model import naive
from rpsim.validation.naive.workload import Connection, Instruction, Program, Request, Workload, difference

from ..workloads import changed

MIB = 1 << 20
PLATFORM = load_platform("optane-adr")
SLOW = {"write_bandwidth_bits_per_s": 200_000_000 * 8, "controller": Controller(buffer_bytes=0)}
"""A medium of 200 MB/s, line by line."""
WRITES = 16
"""Of 4 KiB, by each of two clients."""


def crowded(**llc):
    """A server whose I/O ways hold 192 lines, over one slow DIMM, with an adapter that holds little."""
    llc = {"size_bytes": 64 * 96 * 11, "slices": 1, **llc}
    platform = changed(PLATFORM, llc=llc, media=SLOW, nic={"staging_bytes": 8192})
    return replace(platform, memory={name: replace(one, dimms=1) for name, one in platform.memory.items()})


def streams(platform, program=()):
    """Two clients that WRITE to pages of their own, one behind the other."""
    pages = [range(end * WRITES, (end + 1) * WRITES) for end in (0, 1)]
    requests = [tuple(Request("WRITE", 4096, page * 4096) for page in own) for own in pages]
    ends = tuple(Connection(1 + end, 0, 0, 0, 8, requests[end], one_buffer=True) for end in (0, 1))
    return Workload(platform, 3, 1, "pm", ends, program, pool_bytes=2 * WRITES * 4096)


def took_us(platform):
    """How long it takes until all have been acknowledged."""
    return max(seen.at_ps for seen in arithmetic(streams(platform)).seen) / 1e6


def test_what_the_medium_takes_is_what_the_wire_gets():
    """Closed form: at 200 MB/s, but for what I/O ways, staging and credits hold; at the wire's rate if nobody waits."""
    total = 2 * WRITES * 4096
    assert took_us(crowded(victims_hold=False)) < total / 5_000
    assert took_us(crowded()) == pytest.approx((total - 192 * 64 - 8192 - 8192) / 200, rel=0.1)


@pytest.mark.long
def test_both_models_agree_where_victims_hold_credits_and_fill_buffers():
    loads = tuple(Instruction("load", 8192 * at, 1024) for at in range(20))
    core = {"l1_bytes": 512, "l1_ways": 2, "l2_bytes": 1024, "l2_ways": 4, "fill_buffers": 2}
    for hold in (True, False):
        platform = changed(crowded(victims_hold=hold), private=core)
        found = difference(streams(platform, (Program(0, 0, 400_000, loads),)), naive, arithmetic)
        assert found is None, found


def test_a_core_waits_for_the_line_that_its_miss_puts_out():
    """Loads over dirty lines: each brings a line in and puts one out, which a DIMM takes 320 ns for."""
    ends_ps = {}
    for hold in (True, False):
        few = changed(
            PLATFORM,
            llc={"size_bytes": 64 * 8 * 11, "slices": 1, "victims_hold": hold},
            private={"l1_bytes": 512, "l1_ways": 2, "l2_bytes": 1024, "l2_ways": 4},
            media=SLOW,
        )
        platform = replace(few, memory={name: replace(one, dimms=1) for name, one in few.memory.items()})
        code = (*(Instruction("store", 64 * at, 64) for at in range(400)), Instruction("load", 64 * 500, 64))
        workload = Workload(platform, 2, 1, "pm", (), (Program(0, 0, 0, code),), pool_bytes=64 * 600)
        assert difference(workload, naive, arithmetic) is None
        ends_ps[hold] = max(seen.at_ps for seen in arithmetic(workload).seen)
    assert ends_ps[True] > 200 * 320_000 > ends_ps[False]


def test_lines_leave_the_cache_in_another_order_than_they_came():
    """Two ways a set, whose victim is drawn every other time: half of the XPLines leave in two parts."""
    caches = Caches(replace(PLATFORM.llc, size_bytes=33 * MIB // 24, slices=1), PLATFORM.private)
    lines = 16_000
    left = caches.io_writes(deque([(turn, 0, turn * 64, turn * 64 + 64) for turn in range(lines)]), lines)
    gone = [key for _, key, reads in left if not reads]
    follows = sum(after == before + 1 for before, after in pairwise(gone)) / len(gone)
    assert 0.2 < follows < 0.8
    ordered = replace(PLATFORM.llc, size_bytes=33 * MIB // 24, slices=1, policy="lru")
    left = Caches(ordered, PLATFORM.private).io_writes(deque([(0, 0, 0, lines * 64)]), 0)
    gone = [key for _, key, reads in left if not reads]
    assert gone == sorted(gone)


def amplification(order, port, cores=0):
    """Bytes written over bytes given of one DIMM that a root port floods with 64 KiB in order, beside some cores."""
    imc = replace(PLATFORM.imc, port_order=order)
    controller = MemoryController(imc, PLATFORM.media["optane"], 1)
    for line in range(1024):
        controller.write_line(line, 5_000 * line, port=port)
        for core in range(cores):
            controller.write_line((core + 1) * MIB + 97 * line, 5_000 * line)
    traffic = controller.traffic
    return traffic, traffic.media_written_bytes / traffic.written_bytes


def test_a_root_ports_lines_keep_their_order_where_they_queue_before_a_dimm():
    assert amplification("kept", 0)[1] == 1
    assert amplification("drawn", 0)[1] == amplification("kept", None)[1] > 1.5
    assert amplification("kept", 0, cores=1)[1] > 1.5  # a core's lines come in between


def test_the_mediums_counters_cover_the_lines_that_wait():
    """All of a backlog is counted, and to ask for it changes nothing."""
    traffic, _ = amplification("kept", 0)
    assert traffic.media_written_bytes == traffic.written_bytes == 1024 * 64
    asked, unasked = XpBuffer(PLATFORM.media["optane"]), XpBuffer(PLATFORM.media["optane"])
    for line in range(3000):
        for buffer in (asked, unasked):
            buffer.write(line * 7 % 4096, line, 40, 20)
        if line % 300 == 0:
            asked.emptied(line)
    assert asked.media_written_bytes == unasked.media_written_bytes
    assert asked.emptied(3000).media_written_bytes > asked.media_written_bytes
