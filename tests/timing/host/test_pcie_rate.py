"""What a link carries: the rates that pcie-model prints (the companion of Neugebauer et al., SIGCOMM'18)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.pcie.link import PcieLink
from rpsim.models.profiles.parameters import pcie_rate
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.errors import InputError

PCIE = load_platform("optane-adr").pcie
SECOND = 10**12


def slot(generation, lanes, mps=256):
    return replace(PCIE, generation=generation, lanes=lanes, mps_bytes=mps, tlp_bits_per_s=0)


@pytest.mark.parametrize(
    ("generation", "lanes", "raw"), [(1, 1, 2.0), (2, 8, 32.0), (3, 8, 63.02), (3, 16, 126.03), (4, 16, 252.06)]
)
def test_what_is_left_after_encoding(generation, lanes, raw):
    assert pcie_rate.raw_bits_per_s(generation, lanes) / 1e9 == pytest.approx(raw, abs=0.005)


@pytest.mark.parametrize(
    ("lanes", "symbols"), [(8, {128: 163, 256: 203, 512: 182}), (16, {128: 144, 256: 168, 512: 182})]
)
def test_the_intervals_of_acknowledgements_and_flow_control(lanes, symbols):
    assert {mps: pcie_rate.update_interval_symbols(3, lanes, mps) for mps in symbols} == symbols


def test_the_intervals_of_the_first_generation_are_those_of_the_specification():
    """PCIe base specification, table 3-5, by lanes and payload."""
    table = {
        128: {1: 237, 2: 128, 4: 73, 8: 67, 12: 58, 16: 48, 32: 33},
        256: {1: 416, 2: 217, 4: 118, 8: 107, 12: 90, 16: 72, 32: 45},
        512: {1: 559, 2: 289, 4: 154, 8: 86, 12: 109, 16: 86, 32: 52},
    }
    for mps, row in table.items():
        assert {lanes: pcie_rate.update_interval_symbols(1, lanes, mps) for lanes in row} == row


@pytest.mark.parametrize(
    ("generation", "lanes", "mps", "printed"),
    [
        (3, 8, 128, 56.67),
        (3, 8, 256, 57.88),
        (3, 8, 512, 57.31),
        (3, 16, 128, 111.7),
        (3, 16, 256, 113.7),
        (3, 16, 512, 114.62),
        (4, 16, 128, 223.4),
        (4, 16, 256, 227.4),
        (4, 16, 512, 229.25),
    ],
)
def test_what_is_left_for_tlps(generation, lanes, mps, printed):
    assert slot(generation, lanes, mps).tlp_bits_per_s / 1e9 == pytest.approx(printed, abs=0.006)


def test_a_profile_may_state_the_rate_itself():
    assert replace(PCIE, tlp_bits_per_s=50 * 10**9).tlp_bits_per_s == 50 * 10**9


@pytest.mark.parametrize(
    ("lanes", "size", "written", "read"),
    [
        (8, 64, 42.1, 44.1),
        (8, 256, 52.9, 53.7),
        (8, 1024, 52.9, 53.7),
        (8, 4096, 52.9, 53.7),
        (16, 64, 82.7, 86.6),
        (16, 256, 104.0, 105.5),
        (16, 4096, 104.0, 105.5),
    ],
)
def test_what_writes_and_reads_of_one_size_get(lanes, size, written, read):
    """Streams of them on one link: the payload's rate."""
    writes, reads, count = PcieLink(slot(3, lanes)), PcieLink(slot(3, lanes)), 3000
    for number in range(count):
        end_ps = writes.writes(0, number * size, size)[-1][2]
        asked_ps = reads.read_request(0, size, number * size)
        back_ps = reads.read_completion(0, size, number * size)
    payload = count * size * 8 * SECOND / 1e9
    assert payload / end_ps == pytest.approx(written, abs=0.06)
    assert payload / max(asked_ps, back_ps) == pytest.approx(read, abs=0.06)


@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([64, 128, 256]), st.sampled_from([128, 512, 4096]))
def test_completions_end_where_they_may_and_requests_do_not_cross_a_page(address, length, most, mrrs):
    """A link whose headers alone take time counts them: each aligned piece of a read has one."""
    slow = replace(PCIE, tlp_bits_per_s=8 * 10**12, completion_bytes=most, mrrs_bytes=mrrs)  # a byte is a picosecond
    link = PcieLink(slow)
    touched = {at // most for at in range(address, address + length)} or {0}
    asked = {at // mrrs for at in range(address, address + length)} or {0}
    assert link.requests(length, address) == len(asked)
    assert link.read_request(0, length, address) == len(asked) * PCIE.tlp_header_read_bytes
    assert link.read_completion(0, length, address) == len(touched) * PCIE.tlp_header_completion_bytes + length


def test_a_generation_that_there_is_not_is_refused(tmp_path):
    profile = tmp_path / "odd.yaml"
    profile.write_text(
        "platform: odd\ntitle: odd\nextends: optane-adr\npcie:\n"
        "  generation: {value: 9, source: none}\n  lanes: {value: 7, source: none}\n"
    )
    with pytest.raises(InputError) as caught:
        load_platform(str(profile))
    text = str(caught.value)
    assert "one of 1, 2, 3, 4, 5" in text and "one of 1, 2, 4, 8, 12, 16, 32" in text
