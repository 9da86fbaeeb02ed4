"""READs above the MTU: each packet of the answer leaves once its part has come over PCIe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.validation.naive.arithmetic import arithmetic
from rpsim.validation.naive.model import naive
from rpsim.validation.naive.workload import Connection, Request, Workload, difference
from rpsim.validation.published.experiments.verbs import read_completion, write_completion

from ..workloads import changed


@pytest.mark.long
@pytest.mark.parametrize("mtu_bytes", [256, 1024, 4096])
@pytest.mark.parametrize("offset", [0, 8, 63])
@pytest.mark.parametrize("length", [257, 1500, 4097, 9000])
def test_the_model_with_a_process_for_each_packet_says_the_same(mtu_bytes, offset, length):
    platform = changed(load_platform("optane-adr"), nic={"mtu_bytes": mtu_bytes})
    requests = (
        Request("READ", length, offset),
        Request("WRITE", 5000, 512),
        Request("READ", 70, 4),
        Request("READ", length, 0),
    )
    connections = (Connection(1, 0, 0, 0, 4, requests), Connection(2, 0, 0, 1000, 2, requests[::-1]))
    found = difference(Workload(platform, 3, 1, "pm", connections), naive, arithmetic)
    assert found is None, f"\n{found}"


@pytest.mark.long
@pytest.mark.parametrize("mtu_bytes", [1024, 4096])
def test_a_large_read_takes_longer_than_a_small_one_by_what_the_link_takes(mtu_bytes):
    """Closed form: of PCIe and network the slower one carries it, the other one ahead of it."""
    platform = load_platform("optane-adr")
    platform = replace(platform, nic=replace(platform.nic, mtu_bytes=mtu_bytes))
    step, packet_bytes = 64 * mtu_bytes, mtu_bytes + platform.nic.headers.middle_bytes
    wire_ps = 64 * packet_bytes * 8 * 10**12 // platform.fabric.link_bits_per_s
    growth_ps = read_completion(platform, 2 * step) - read_completion(platform, step)
    assert growth_ps == pytest.approx(wire_ps, rel=0.05)
    assert growth_ps == pytest.approx(write_completion(platform, 2 * step) - write_completion(platform, step), rel=0.05)
