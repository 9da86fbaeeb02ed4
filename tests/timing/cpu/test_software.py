"""Named costs of software: of a platform, with sources, and slower on slower cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.profiles.parameters.cpu import CoreType, SoftwareCost
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.sim.errors import InputError

PROFILE = """\
platform: our-lab
title: ours
extends: optane-adr
cpu:
  software:
    malloc: {time: {value: 80 ns, source: "our allocator, measured"}}
    lookup: {time: {value: 1 us, source: "our table, measured"}}
"""


@pytest.fixture
def platform(tmp_path):
    file = tmp_path / "our-lab.yaml"
    file.write_text(PROFILE)
    return load_platform(str(file))


def took(platform, name, core_type=None):
    system = System(platform, {"server": [NodeSpec(core_type=core_type)]}, 1)
    thread = system.nodes["server"][0].thread(0, "server")
    system.clock.run_until(system.clock.start(thread.software(name)))
    return system.clock.now_ps


def test_a_call_takes_what_the_platform_says(platform):
    assert (took(platform, "malloc"), took(platform, "lookup")) == (80_000, 1_000_000)


def test_it_takes_longer_on_slower_cores(platform):
    cpu = replace(platform.cpu, types={"arm": CoreType(50, 0)})
    assert cpu.of_type(cpu.types["arm"]).software["malloc"] == SoftwareCost(160_000)
    assert took(platform, "malloc", "arm-a72") == 80_000 * 100 // 30


def test_an_unknown_name_is_answered_with_the_nearest(platform):
    with pytest.raises(InputError, match="expected one of malloc, lookup; did you mean 'malloc'"):
        took(platform, "maloc")
    with pytest.raises(InputError, match="expected a platform that has named costs"):
        took(load_platform("optane-adr"), "malloc")


def test_a_cost_without_a_source_is_refused(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(PROFILE.replace(', source: "our table, measured"', ""))
    with pytest.raises(InputError, match=r"wrong\.yaml:7: cpu\.software\.lookup\.time.*source"):
        load_platform(str(file))


def test_rnvms_testbed_has_what_its_table_2_says_of_allocators():
    """21.0, 57.0, 1.42 and 1.38 million calls a second: fitted, so no claim counts for them.

    The flushed line of a bit, 331 ns, is not software.
    """
    software = load_platform("rnvm-testbed").cpu.software
    for name, calls_per_us, line_ps in (
        ("malloc", 21.0, 0), ("free", 57.0, 0), ("pmem_alloc", 1.42, 331_000), ("pmem_free", 1.38, 329_000),
    ):  # fmt: skip
        assert 1e6 / (software[name].time_ps + line_ps) == pytest.approx(calls_per_us, rel=0.005)
