"""What a power failure may leave, told as stories of one or two writes; and what no run may lose."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.durability.places import Domain, Path, Place, safe_stage, survives
from rpsim.models.durability.views import Views
from rpsim.sim.trace import NEVER, Stage, Trace

from ..rig import LINE, Rig, line

OLD = bytes(LINE)
ELSEWHERE = 64


def words(data):
    return [data[at : at + 8] for at in range(0, len(data), 8)]


def mixes(*versions):
    """Every line that takes each of its words from one of these versions."""
    return {b"".join(parts) for parts in product(*(set(column) for column in zip(*map(words, versions), strict=True)))}


# one write ---------------------------------------------------------------------------------------------------------


def test_before_it_is_accepted_there_is_nothing_new(rig):
    rig.client.post_write(data=line(1))
    rig.run()
    accepted = rig.story(0)[0][1]
    assert rig.adversarial.contents(0, accepted - 1) == {OLD}
    assert OLD in rig.adversarial.contents(0, accepted) and line(1) in rig.adversarial.contents(0, accepted)


@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_a_dma_write_is_there_by_any_subset_of_its_words(platform):
    rig = Rig(platform)
    done = rig.client.write(line(1))
    assert rig.adversarial.contents(0, done.ps) == mixes(OLD, line(1))
    whole = Rig(platform, whole_lines=True)
    done = whole.client.write(line(1))
    assert whole.adversarial.contents(0, done.ps) == {OLD, line(1)}


@pytest.mark.parametrize("platform", ["optane-adr", "optane-eadr"])
def test_a_store_of_several_words_is_there_by_its_first_words(platform):
    rig = Rig(platform)
    now = rig.server.store(line(1))
    assert rig.adversarial.contents(0, now) == {line(1)[: 8 * count] + OLD[8 * count :] for count in range(9)}


@pytest.mark.parametrize("offset", [0, 8, 56])
def test_an_aligned_store_of_eight_bytes_is_never_torn(rig, offset):
    now = rig.server.store(line(1)[:8], offset=offset)
    new = OLD[:offset] + line(1)[:8] + OLD[offset + 8 :]
    assert rig.adversarial.contents(0, now) == {OLD, new}


def test_an_unaligned_one_may_be(rig):
    now = rig.server.store(b"\xff" * 8, offset=4)
    assert OLD[:4] + b"\xff" * 4 + OLD[8:] in rig.adversarial.contents(0, now)


def test_a_line_is_in_the_domain_from_the_instant_it_enters_the_queue(rig):
    rig.client.write(line(1))
    rig.run()
    rig.server.load()
    end = rig.server.flush()
    queued = dict(rig.story(0))["wpq"]
    assert queued < end
    assert rig.timed.lost(line=0, crash_ps=queued - 1)
    assert rig.timed.survives(line=0, crash_ps=queued)
    assert not rig.adversarial.durable(0, line(1), end - 1)
    assert rig.adversarial.durable(0, line(1), end)


# versions and order -------------------------------------------------------------------------------------------------


def test_a_line_holds_any_version_since_its_last_flush():
    rig = Rig(whole_lines=True)
    rig.server.post_recv(rig.client, count=3)
    for version in (1, 2):
        rig.client.write(line(version))
        rig.client.send()
        rig.server.receive()
    assert rig.adversarial.contents(0, rig.clock.now_ps) == {OLD, line(1), line(2)}
    rig.server.flush()
    assert rig.adversarial.contents(0, rig.clock.now_ps) == {line(2)}
    rig.client.write(line(3))
    assert rig.adversarial.contents(0, rig.clock.now_ps) == {line(2), line(3)}


def test_stores_of_one_core_to_one_line_persist_in_their_order(rig):
    rig.server.store(b"a" * 8)
    now = rig.server.store(b"b" * 8, offset=8)
    found = {content[:16] for content in rig.adversarial.contents(0, now)}
    assert found == {bytes(16), b"a" * 8 + bytes(8), b"a" * 8 + b"b" * 8}


def test_behind_the_caches_lines_are_independent():
    """WRITE x; WRITE f: the flag may be there without the data."""
    rig = Rig("optane-adr", whole_lines=True)
    rig.client.post_write(data=line(1))
    now = rig.client.write(line(2), line=1).ps
    assert rig.adversarial.images([0, 1], now) == set(product({OLD, line(1)}, {OLD, line(2)}))
    rig.server.store(line(3), line=5)
    rig.server.store(line(4), line=6)
    assert (OLD, line(4)) in rig.adversarial.images([5, 6], rig.clock.now_ps)


@pytest.mark.parametrize("lines", [[0, 1], [1, 0]])
def test_where_visible_is_durable_a_queue_pairs_writes_survive_as_a_prefix(lines):
    rig = Rig("optane-eadr")
    rig.client.post_write(data=line(1))
    now = rig.client.write(line(2), line=1).ps
    images = {image[:: 1 if lines[0] == 0 else -1] for image in rig.adversarial.images(lines, now)}
    assert images == {(first, OLD) for first in mixes(OLD, line(1))} | {
        (line(1), second) for second in mixes(OLD, line(2))
    }


def test_a_cores_stores_survive_as_a_prefix_too():
    rig = Rig("optane-eadr")
    rig.server.store(b"a" * 8, line=0)
    now = rig.server.store(b"b" * 8, line=1)
    found = {(first[:1], second[:1]) for first, second in rig.adversarial.images([1, 0], now)}
    assert found == {(b"\0", b"\0"), (b"\0", b"a"), (b"b", b"a")}


def test_two_queue_pairs_are_not_ordered_with_each_other():
    rig = Rig("optane-eadr", connections=2, whole_lines=True)
    rig.clients[0].write(line(1))
    now = rig.clients[1].write(line(2), line=1).ps
    assert rig.adversarial.images([0, 1], now) == set(product({OLD, line(1)}, {OLD, line(2)}))


def test_a_tlp_of_several_lines_is_torn_anywhere_but_only_the_last_one():
    rig = Rig("optane-eadr", whole_lines=True)
    data = line(1, 8)  # two TLPs of 256 bytes
    now = rig.client.write(data).ps
    pieces = [data[at : at + LINE] for at in range(0, 512, LINE)]
    images = rig.adversarial.images(range(8), now)
    there = {tuple(got == new for got, new in zip(image, pieces, strict=True)) for image in images}
    any_of_four = set(product([False, True], repeat=4))
    assert there == {(*first, False, False, False, False) for first in any_of_four} | {
        (True, True, True, True, *second) for second in any_of_four
    }


# domains ------------------------------------------------------------------------------------------------------------


def survivors(domain, iio_wc_survives=False):
    return {str(place) for place in Place if survives(place, domain, iio_wc_survives)}


def test_which_places_survive():
    assert survivors(Domain.NONE) == set()
    assert survivors(Domain.MEDIA) == {"media"}
    assert survivors(Domain.ADR) == survivors(Domain.ADR, True) == {"wpq", "media"}
    assert survivors(Domain.EADR) == {"llc", "wpq", "media"}
    assert survivors(Domain.EADR, True) == {"llc", "iio_wc", "wpq", "media"}
    assert survivors(Domain.WSP) == {"nic", "pcie", "iio_wc", "llc", "wpq", "media", "device_buffer", "pmr"}
    assert survivors(Domain.PMR) == {"pmr"}


def test_from_which_stage_on_a_path_is_safe():
    assert safe_stage(Path.DMA_DDIO, Domain.EADR) is Stage.VISIBLE
    assert safe_stage(Path.DMA_NO_DDIO, Domain.EADR) is Stage.QUEUED
    assert safe_stage(Path.DMA_NO_DDIO, Domain.EADR, iio_wc_survives=True) is Stage.VISIBLE
    assert safe_stage(Path.NTSTORE, Domain.EADR) is safe_stage(Path.STORE, Domain.ADR) is Stage.QUEUED
    assert safe_stage(Path.DMA_DDIO, Domain.WSP) is Stage.ACCEPTED
    assert safe_stage(Path.STORE, Domain.WSP) is Stage.VISIBLE  # store buffers die with the power
    assert safe_stage(Path.STORE, Domain.MEDIA) is Stage.STORED
    assert safe_stage(Path.STORE, Domain.NONE) is None
    assert safe_stage(Path.PEER, Domain.PMR) is safe_stage(Path.MMIO, Domain.PMR) is Stage.QUEUED
    assert safe_stage(Path.PEER, Domain.WSP) is Stage.ACCEPTED
    assert safe_stage(Path.MMIO, Domain.WSP) is Stage.TRANSIT  # posted, and out of the core
    assert safe_stage(Path.DMA_DDIO, Domain.PMR) is safe_stage(Path.PEER, Domain.EADR) is None


def test_memory_that_keeps_nothing(rig):
    rig = Rig(domain="none")
    rig.client.write(line(1))
    rig.run()
    rig.server.store(line(2))
    now = rig.server.flush()
    assert rig.adversarial.contents(0, now) == {OLD}
    assert rig.timed.content(0, now) == OLD
    assert rig.trace.chunks == []  # what certainly dies is not recorded


def test_the_medium_alone_has_it_some_time_after_the_queue():
    rig = Rig(domain="media")
    rig.server.store(line(1))
    end = rig.server.flush()
    stored = dict(rig.story(0))["media"]
    assert stored > end
    assert rig.timed.lost(0, stored - 1) and rig.timed.survives(0, stored)
    assert OLD in rig.adversarial.contents(0, stored + 10**9)


def test_with_whole_system_persistence_what_the_adapter_accepted_survives():
    rig = Rig(domain="wsp")
    rig.client.post_write(data=line(1))
    rig.run()
    accepted = rig.story(0)[0][1]
    assert rig.adversarial.contents(0, accepted) == {line(1)}
    assert rig.timed.lost(0, accepted - 1) and rig.timed.survives(0, accepted)
    now = rig.server.store(line(2), line=1)
    assert OLD in rig.adversarial.contents(1, now)


@pytest.mark.parametrize("kept", [True, False])
def test_whether_the_write_cache_of_the_iio_survives_is_a_switch(kept):
    rig = Rig("optane-eadr", ddio="off", iio_wc_survives=kept, whole_lines=True)
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    received = rig.server.receive()
    assert rig.adversarial.durable(0, line(1), received.ps) is kept
    visible = dict(rig.story(0))["iio_wc"]
    assert rig.timed.survives(0, visible) is kept


# conservation -------------------------------------------------------------------------------------------------------

WRITES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 500), st.integers(1, 700), st.integers(0, 4_000_000), st.booleans()),
    min_size=1,
    max_size=12,
)


@pytest.mark.long
@settings(max_examples=40)
@given(WRITES, st.sampled_from(["on", "off"]), st.sampled_from([{}, {"mtu_bytes": 256}, {"staging_bytes": 4096}]))
def test_no_byte_is_lost_and_none_comes_twice(writes, ddio, nic):
    """A queue pair's last WRITE to an address wins over its earlier ones; each byte was recorded exactly once."""
    rig = Rig(ddio=ddio, clients=3, nic=nic)
    last = [dict() for _ in rig.clients]
    posted = 0
    for number, (who, start, length, at, signalled) in enumerate(writes, 1):
        data = bytes([number]) * length
        rig.clients[who].post_write(at, data, line=0, offset=start, signalled=signalled)
        last[who].update(dict.fromkeys(range(start, start + length), number))
        posted += length
    rig.run()
    assert sum(len(chunk.data) for chunk in rig.trace.chunks) == posted
    memory = rig.memory(0, 32)
    for at, found in enumerate(memory):
        allowed = {mine[at] for mine in last if at in mine}
        assert found in (allowed or {0})
    ordered = bytearray(len(memory))
    base = rig.key(0)[1] * LINE
    for chunk in sorted(rig.trace.chunks, key=lambda chunk: chunk.reached_ps[Stage.VISIBLE]):
        ordered[chunk.address - base : chunk.address - base + len(chunk.data)] = chunk.data
    assert memory == bytes(ordered)


@settings(max_examples=20)
@given(WRITES)
def test_what_this_timing_left_may_be_at_any_instant(writes):
    rig = Rig(clients=3, whole_lines=True)
    for number, (who, start, length, at, _) in enumerate(writes, 1):
        rig.clients[who].post_write(at, bytes([number]) * min(length, 200), offset=start)
    rig.run()
    rig.server.load(length=1024)
    rig.server.flush(lines=16)
    views = rig.views()
    for at_ps, key in views.changes():
        contents = {content.data for content in views.contents(key, at_ps, {})}
        assert views.timed(key, at_ps).data in contents
    for number in range(11):
        assert rig.adversarial.contents(number, rig.clock.now_ps) == {rig.memory(number)}


INSTANT = st.integers(0, 12)
BACKS = st.lists(st.tuples(INSTANT, INSTANT, INSTANT), max_size=6)


@pytest.mark.long
@given(st.sampled_from([Domain.ADR, Domain.MEDIA]), st.lists(INSTANT, min_size=1, max_size=4), BACKS, BACKS)
def test_in_this_timing_a_write_survives_with_the_first_write_back_that_showed_it(domain, visible, backs, others):
    trace = Trace()
    core = trace.channel("a core")
    for at_ps in sorted(visible):
        trace.write(0, core, 0, bytes([1]), Path.STORE, "w", [at_ps, at_ps, at_ps, NEVER, NEVER])
    for line_number, rows in enumerate((backs, others)):
        for row in rows:
            trace.wrote_back(0, line_number, *row)
    (pieces,) = Views(trace, {0: domain}, lambda key: OLD).pieces.values()
    stage = 1 if domain is Domain.ADR else 2
    assert [piece.timed_ps for piece in pieces] == [
        min((row[stage] for row in backs if row[0] >= at_ps), default=NEVER) for at_ps in sorted(visible)
    ]
