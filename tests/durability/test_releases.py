"""Release edges by themselves: what a bound on one channel demands of the others."""

from __future__ import annotations

import pytest

from rpsim.models.durability.releases import Releases
from rpsim.sim.trace import NEVER, Trace

A, B, C = range(3)


@pytest.fixture
def chain():
    """C is behind B, and B behind A; nothing says that C is behind A."""
    trace = Trace()
    for name in "abc":
        trace.channel(name)
    for number, (channel, behind) in enumerate([(A, ()), (A, ()), (B, ((A, 2),)), (B, ()), (C, ((B, 1),))]):
        trace.write(0, channel, 64 * number, b"x", "dma, ddio on", "w", [0, 0, 0, NEVER, NEVER], behind)
    return Releases(trace, lambda channel: True)


def settle(releases, decided, cut=(), begun=()):
    return releases.settle(dict(cut), decided, dict(begun), {A: (0, 2), B: (0, 2), C: (0, 1)}.__getitem__)


def test_a_channel_without_edges_is_left_alone(chain):
    assert chain.channels == {A, B, C}
    assert settle(chain, {7: (1, 2)}) == {7: (1, 2)}


def test_what_is_there_brings_along_what_it_is_behind_link_by_link(chain):
    assert settle(chain, {B: (1, 2)}) == {A: (2, 2), B: (1, 2), C: (0, 1)}
    assert settle(chain, {C: (1, 1)}) == {A: (2, 2), B: (1, 2), C: (1, 1)}


def test_what_is_missing_keeps_out_what_is_behind_it_link_by_link(chain):
    assert settle(chain, {A: (0, 1)}) == {A: (0, 1), B: (0, 0), C: (0, 0)}
    assert settle(chain, {B: (0, 0)}) == {A: (0, 2), B: (0, 0), C: (0, 0)}


def test_a_chunk_that_has_begun_counts_for_what_it_is_behind(chain):
    assert settle(chain, {B: (0, 0)}, begun={B: 1}) == {A: (2, 2), B: (0, 0), C: (0, 0)}


def test_what_was_decided_before_may_rule_it_out(chain):
    assert settle(chain, {C: (1, 1)}, cut={A: (0, 1)}) is None
    assert settle(chain, {A: (1, 1)}, cut={B: (1, 2)}) is None
    assert settle(chain, {A: (2, 2)}, cut={B: (1, 2)}) == {A: (2, 2), B: (1, 2)}


def test_edges_of_channels_whose_lines_are_independent_tie_nothing(chain):
    trace = Trace()
    trace.channel("a")
    trace.write(0, trace.channel("b"), 0, b"x", "dma, ddio on", "w", [0, 0, 0, NEVER, NEVER], ((A, 0),))
    assert Releases(trace, lambda channel: False).channels == set()
