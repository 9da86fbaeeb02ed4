"""A second kind of adapter, that of docs/adding-hardware.md: cores on the card, one file and one part of a platform."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import Span

from ...rig import Rig, line

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
PLATFORM = load_platform(str(EXAMPLES / "card-cores.yaml"))
PS_PER_BYTE = 1_000


@pytest.fixture(scope="module")
def card():
    spec = importlib.util.spec_from_file_location("card_cores", EXAMPLES / "card_cores.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rigs(card, **more):
    return Rig(PLATFORM, **more), Rig(PLATFORM, adapter=card.CardNic, **more)


def test_the_platforms_part_is_its_numbers():
    assert (PLATFORM.nic.processing_units, PLATFORM.cpu.crc_ps_per_byte) == (4, PS_PER_BYTE)


def test_a_packet_is_checked_before_it_is_taken_in(card):
    plain, carded = rigs(card)
    before, after = plain.client.write(line(1)), carded.client.write(line(1))
    assert after.ps - before.ps == 64 * PS_PER_BYTE
    assert carded.server.node.nic.cores.found == [zlib.crc32(line(1))]
    assert carded.story()[0][1] - plain.story()[0][1] == 64 * PS_PER_BYTE


def test_packets_of_one_queue_pair_wait_for_their_core(card):
    _, carded = rigs(card, nic={"mtu_bytes": 1024})
    carded.client.write(line(1, 64))
    starts = [chunk.reached_ps[0] for chunk in carded.chunks(0)[:1] + carded.chunks(16)[:1] + carded.chunks(32)[:1]]
    assert starts[2] - starts[1] == starts[1] - starts[0] == 1024 * PS_PER_BYTE


def test_a_read_behind_a_write_finds_its_bytes(card):
    _, carded = rigs(card)
    carded.client.post_write(data=line(3, 16))
    assert carded.client.read(64).data == line(3, 16)[:64]


def test_the_hop_shows_in_a_span(card):
    _, carded = rigs(card)
    span = carded.client.thread.span = Span("one WRITE")
    carded.client.write(line(1))
    hops = [hop for hop, _ in span.marks]
    assert hops.index("wire and switch") < hops.index("core on the card") < hops.index("responder NIC")
