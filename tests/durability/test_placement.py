"""Relaxed ordering, out-of-order placement, releases: what may survive without what, and what a run itself shows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.verbs import REMOTE, Access, Opcode
from rpsim.sim.trace import Stage

from ..rig import LINE, Rig, line
from ..verbs import post, post_atomic_write, word

OLD = bytes(LINE)
WAYS = ["relaxed", "out of order"]
FLAG = word(7) + OLD[8:]


class Loose:
    """A rig whose client's WRITEs may be placed in any order, or in order (``way`` is None)."""

    def __init__(self, way, platform="optane-eadr", **how):
        self.rig = Rig(platform, whole_lines=True, **how)
        rig, client = self.rig, self.rig.client
        self.key = rig.region.key
        if way == "relaxed":
            access = REMOTE | Access.IBV_ACCESS_RELAXED_ORDERING
            self.key = rig.server_pd.reg_mr(rig.address(0), 64 * LINE, access).key
        elif way == "out of order":
            client.peer = rig.server_pd.create_qp(rig.server.sent, rig.server.received, out_of_order=True)
            client.qp = client.node.alloc_pd().create_qp(client.cq, client.receive_cq)
            client.peer.connect(client.qp)

    def post_write(self, data, number):
        return self.rig.client.post_write(data=data, line=number, rkey=self.key)

    def settle(self):
        """Run until even the latest WRITE shows."""
        self.rig.run()
        self.rig.run(self.rig.clock.now_ps + 10**8)

    def images(self, lines, at_ps):
        return self.rig.adversarial.images(lines, at_ps)


# what may survive ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [[0, 1], [1, 0]])
@pytest.mark.parametrize("way", [None, *WAYS])
def test_without_order_the_second_of_two_writes_may_be_there_alone(way, lines):
    loose = Loose(way)
    loose.post_write(line(1), 0)
    done = loose.rig.client.wait(loose.post_write(line(2), 1))
    contents = [{OLD, line(number + 1)} for number in lines]
    found = loose.images(lines, done.ps)
    alone = (OLD, line(2)) if lines == [0, 1] else (line(2), OLD)
    assert found == (set(product(*contents)) if way else set(product(*contents)) - {alone})


@pytest.mark.parametrize("way", [None, *WAYS])
def test_in_one_line_too(way):
    loose = Loose(way, platform="optane-adr")
    loose.post_write(word(1), 0)
    done = loose.rig.client.wait(loose.rig.client.post_write(data=word(2), offset=8, line=0, rkey=loose.key))
    alone = OLD[:8] + word(2) + OLD[16:]
    assert (alone in loose.rig.adversarial.contents(0, done.ps)) is (way is not None)


@pytest.mark.parametrize("way", WAYS)
def test_what_was_certainly_there_before_a_write_is_not_lost_under_it(way):
    """A receive completion has published the first; a line that has the second has the first."""
    loose = Loose(way, platform="optane-adr")
    rig = loose.rig
    rig.server.post_recv(rig.client)
    loose.post_write(word(1), 0)
    rig.client.post_send()
    rig.server.receive()
    done = rig.client.wait(rig.client.post_write(data=word(2), offset=8, line=0, rkey=loose.key))
    assert OLD[:8] + word(2) + OLD[16:] not in rig.adversarial.contents(0, done.ps)
    assert word(1) + word(2) + OLD[16:] in rig.adversarial.contents(0, done.ps)


@pytest.mark.parametrize("way", WAYS)
def test_a_receive_completion_publishes_whatever_the_placement(way):
    loose = Loose(way)
    rig = loose.rig
    rig.server.post_recv(rig.client)
    for number in range(6):
        loose.post_write(line(number + 1), number)
    rig.client.post_send()
    received = rig.server.receive()
    assert loose.images(range(6), received.ps) == {tuple(line(number + 1) for number in range(6))}
    assert rig.memory(0, 6) == b"".join(line(number + 1) for number in range(6))


@pytest.mark.parametrize(("way", "pushed"), [(None, True), ("relaxed", False), ("out of order", True)])
def test_a_read_pushes_writes_unless_they_carry_the_relaxed_bit(way, pushed):
    loose = Loose(way)
    loose.post_write(line(1), 0)
    done = loose.rig.client.read(line=9, rkey=loose.key)
    assert loose.rig.adversarial.durable(0, line(1), done.ps) is pushed


# releases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("way", [None, *WAYS])
def test_an_atomic_write_survives_with_all_before_it_and_without_what_comes_behind(way, lines):
    loose = Loose(way)
    loose.post_write(line(1), 0)
    post_atomic_write(loose.rig.client, word(7), line=1)
    loose.post_write(line(3), 2)
    loose.rig.run()
    found = {
        tuple(content for _, content in sorted(zip(lines, image, strict=True)))
        for image in loose.images(lines, loose.rig.clock.now_ps)
    }
    assert {image for image in found if image[1] == FLAG} <= {(line(1), FLAG, OLD), (line(1), FLAG, line(3))}
    assert (line(1), FLAG, OLD) in found
    assert (line(1), OLD, line(3)) in found  # a later WRITE may overtake it
    assert ((OLD, OLD, line(3)) in found) is (way is not None)


def test_behind_the_caches_an_atomic_write_may_last_alone():
    """It is no flush: the line of the data may be in a cache."""
    loose = Loose(None, platform="optane-adr")
    loose.post_write(line(1), 0)
    post_atomic_write(loose.rig.client, word(7), line=1)
    loose.rig.run()
    assert (OLD, FLAG) in loose.images([0, 1], loose.rig.clock.now_ps)


@pytest.mark.parametrize("way", [None, *WAYS])
def test_who_sees_an_atomic_write_sees_what_was_before_it(way):
    loose = Loose(way, platform="optane-adr")
    rig = loose.rig
    loose.post_write(line(1), 0)
    post_atomic_write(rig.client, word(7), line=1)
    loose.settle()
    assert rig.server.load(line=1)[:8] == word(7)
    seen = rig.clock.now_ps
    assert {"nic", "pcie"} & rig.adversarial.places(0, seen - 1)
    assert rig.adversarial.places(0, seen) == {"llc", "wpq", "media"}
    rig.server.flush(line=0)
    assert rig.adversarial.durable(0, line(1), rig.clock.now_ps)


# the run itself -----------------------------------------------------------------------------------------------------


def shown(way, seed):
    """When each of twelve WRITEs, and an ATOMIC WRITE in their middle, shows in this run."""
    loose = Loose(way, seed=seed)
    for number in range(6):
        loose.post_write(line(number + 1), number)
    post_atomic_write(loose.rig.client, word(7), line=20)
    for number in range(6, 12):
        loose.post_write(line(number + 1), number)
    loose.rig.run()
    visible = [loose.rig.chunks(number)[0].reached_ps[Stage.VISIBLE] for number in range(12)]
    return visible, loose.rig.chunks(20)[0].reached_ps[Stage.VISIBLE]


@pytest.mark.parametrize("seed", range(3))
def test_in_order_means_in_order_whatever_the_seed(seed):
    visible, _ = shown(None, seed)
    assert visible == sorted(visible)
    assert (visible, _) == shown(None, seed + 100)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_without_order_writes_really_overtake_each_other(way):
    runs = [shown(way, seed) for seed in range(8)]
    assert len({tuple(visible) for visible, _ in runs}) == 8
    assert all(visible != sorted(visible) for visible, _ in runs)
    assert shown(way, 3) == runs[3]


@pytest.mark.parametrize("way", WAYS)
def test_a_release_shows_behind_all_before_it_in_every_run(way):
    for seed in range(8):
        visible, release = shown(way, seed)
        assert max(visible[:6]) <= release


def test_of_two_writes_to_one_line_either_may_win():
    winners = set()
    for seed in range(12):
        loose = Loose("relaxed", seed=seed)
        loose.post_write(line(1), 0)
        loose.post_write(line(2), 0)
        loose.settle()
        winners.add(loose.rig.memory(0))
    assert winners == {line(1), line(2)}


# destinations -------------------------------------------------------------------------------------------------------


def two_destinations(way=None, pmrwbm=3, **how):
    """The pool is in a drive's region; the memory called dram keeps what its controllers have."""
    profile = load_platform("pmr", pmrwbm=pmrwbm)
    memory = {"pm": profile.memory["pmr"], "dram": profile.memory["pm"]}
    loose = Loose(way, platform=replace(profile, memory=memory), **how)
    flag = loose.rig.server.node.memory["dram"].allocate(64, "flag")
    loose.flag, loose.flag_key = flag, loose.rig.server_pd.reg_mr(flag, 64).key
    return loose


def flag_lines(loose):
    device = loose.rig.server.node.memory["dram"]
    return device.number, (loose.flag - device.base) // LINE


@pytest.mark.parametrize("opcode", [Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_ATOMIC_WRITE])
def test_a_flag_in_host_memory_tells_nothing_of_data_in_a_region(opcode):
    """Not even an ATOMIC WRITE: PCIe keeps no order between destinations."""
    loose = two_destinations()
    rig = loose.rig
    rig.client.post_write(data=line(1))
    post(rig.client, opcode, word(7), remote_address=loose.flag, rkey=loose.flag_key)
    rig.run()
    thread = rig.server.threads[0]
    assert rig.server.run(thread.load(loose.flag, 8)) == word(7)
    now = rig.clock.now_ps
    assert "nic" in rig.adversarial.places(0, now)
    rig.server.run(thread.flush(loose.flag, 8))
    views, now = rig.views(), rig.clock.now_ps
    assert {content.data for content in views.contents(flag_lines(loose), now, {})} == {FLAG}
    assert rig.adversarial.contents(0, now) == {OLD, line(1)}
    assert {chunk.channel for chunk in rig.chunks(0)}.isdisjoint(
        chunk.channel for chunk in rig.trace.chunks if chunk.device == flag_lines(loose)[0]
    )


def test_an_atomic_write_to_the_region_releases_what_went_to_the_region():
    loose = two_destinations("relaxed")
    rig = loose.rig
    loose.post_write(line(1), 0)
    post_atomic_write(rig.client, word(7), line=1)
    loose.settle()
    assert rig.server.load(8, line=1) == word(7)
    assert rig.adversarial.places(0, rig.clock.now_ps) <= {"device_buffer", "pmr"}


def test_in_a_region_too_a_release_shows_behind_all_before_it():
    for seed in range(8):
        loose = two_destinations("relaxed", seed=seed)
        for number in range(4):
            loose.post_write(line(number + 1), number)
        post_atomic_write(loose.rig.client, word(7), line=9)
        loose.settle()
        earlier = [loose.rig.chunks(number)[0].reached_ps[Stage.VISIBLE] for number in range(4)]
        assert max(earlier) <= loose.rig.chunks(9)[0].reached_ps[Stage.VISIBLE]


# regions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nt", [False, True])
def test_no_flush_of_a_core_makes_a_region_last(nt):
    loose = two_destinations()
    rig = loose.rig
    rig.client.write(line(1))
    (rig.server.ntstore if nt else rig.server.store)(line(2), line=1)
    for flush in (rig.server.clwb, rig.server.clflush):
        flush(line=0, lines=2)
        rig.server.sfence()
    now = rig.clock.now_ps
    assert rig.adversarial.contents(0, now) == {OLD, line(1)}
    assert OLD in rig.adversarial.contents(1, now)
    rig.server.load(8, line=9)  # a barrier, for what the buffer certainly held: this core's own store
    now = rig.clock.now_ps
    assert rig.adversarial.contents(0, now) == {OLD, line(1)}
    assert rig.adversarial.contents(1, now) == {line(2)}


def test_nor_what_its_buffer_certainly_shows():
    """Where only PMRSTS is a barrier, a READ proves that the buffer has it: a cached line could be flushed then."""
    rig = two_destinations(pmrwbm=2).rig
    rig.client.post_write(data=line(1))
    rig.client.read(line=9)
    rig.server.flush(line=0)
    assert rig.adversarial.places(0, rig.clock.now_ps) == {"device_buffer", "pmr"}
    rig.server.run(rig.server.threads[0].read_pmrsts(rig.address(0)))
    assert rig.adversarial.durable(0, line(1), rig.clock.now_ps)


def test_in_this_timing_a_region_has_it_once_it_has_left_the_buffer():
    rig = two_destinations().rig
    rig.client.write(line(1))
    rig.run()
    buffered, kept = (dict(rig.story(0))[place] for place in ("device_buffer", "pmr"))
    assert buffered < kept
    assert rig.timed.lost(0, kept - 1) and rig.timed.survives(0, kept)


def test_with_whole_system_persistence_a_region_keeps_what_the_adapter_accepted():
    profile = load_platform("pmr")
    drive = replace(profile.memory["pmr"], domain="wsp")
    rig = Rig(replace(profile, memory={"pm": drive, "dram": profile.memory["dram"]}))
    rig.client.post_write(data=line(1))
    rig.run()
    accepted = rig.story(0)[0][1]
    assert rig.adversarial.contents(0, accepted) == {line(1)}
    assert rig.adversarial.contents(0, accepted - 1) == {OLD}
