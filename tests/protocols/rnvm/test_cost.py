"""The cost model: shared devices are never more than those of machines that have their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.rnvm.cost import asymmetric_devices, symmetric_devices

SIZES = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=40)
DEVICE = st.integers(1, 1 << 42)


@given(SIZES, DEVICE)
def test_sharing_never_needs_more(sizes, device):
    assert asymmetric_devices(sizes, device) <= symmetric_devices(sizes, device)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=40), st.integers(1 << 20, 1 << 40))
def test_below_a_device_each_every_machine_has_one(shares, device):
    """Section 10.2: n1 = m where each S_i is below S_0."""
    sizes = [int(share * device) for share in shares]
    assert symmetric_devices(sizes, device) == len(sizes)


def test_the_papers_shares():
    """Section 1: of eight machines that use 40 % of theirs, four devices are enough."""
    assert symmetric_devices([24] * 8, 60) == 8 and asymmetric_devices([24] * 8, 60) == 4


@pytest.mark.parametrize(("sizes", "device"), [([1], 0), ([-1], 1)])
def test_what_is_no_size_is_refused(sizes, device):
    for devices in (symmetric_devices, asymmetric_devices):
        with pytest.raises(ValueError, match="on devices of"):
            devices(sizes, device)
