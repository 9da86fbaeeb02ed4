"""Every rule of the table, one story each: what its event forces, from which instant on, and what it does not force."""

from __future__ import annotations

from rpsim.models.durability.block_rules import BLOCK_RULES
from rpsim.models.durability.ordering import RULES, Event, Scope, events_that_force
from rpsim.models.durability.places import Place
from rpsim.models.durability.primitive_rules import PRIMITIVE_RULES
from rpsim.models.verbs import Opcode
from rpsim.sim.trace import Stage

from ..rig import ANYWHERE, ELSEWHERE, IIO, LINE, LLC, MEDIA, NIC, PCIE, WPQ, Rig, line
from ..verbs import (
    post,
    post_atomic_write,
    word,
)
from . import test_ordering_rules_pmr, test_ordering_rules_verbs


def test_the_stories_here_cover_the_table():
    told = {
        name.removeprefix("test_rule_").split("__")[0].replace("_", "-")
        for name in (*globals(), *dir(test_ordering_rules_verbs), *dir(test_ordering_rules_pmr))
        if name.startswith("test_rule_")
    }
    assert {rule.name for rule in RULES} == told


def test_a_completed_write_may_still_be_in_the_nic(rig):
    done = rig.client.write(data=line(1))
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE
    rig.run(done.ps + 10**9)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == ANYWHERE  # time proves nothing


# READ ------------------------------------------------------------------------------------------------------------


def test_rule_read_pushes_writes(rig):
    rig.client.post_write(data=line(1))
    response = rig.client.read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_pushes_writes__not_those_of_another_queue_pair():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    response = rig.clients[1].read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == ANYWHERE


def test_rule_read_pushes_writes__not_those_behind_it(rig):
    read = rig.client.post_read(line=ELSEWHERE)
    rig.client.post_write(data=line(1))
    done = rig.client.wait(read)
    rig.run()
    assert rig.chunks(0)[0].reached_ps[Stage.VISIBLE] < done.ps  # this timing had it in the cache, and proves nothing
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_read_pushes_writes__a_read_of_nothing_does_not(rig):
    rig.client.post_write(data=line(1))
    done = rig.client.read(length=0, line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_read_pushes_writes__an_unsignalled_read_by_the_completion_behind_it(rig):
    rig.client.post_write(data=line(1), signalled=False)
    rig.client.post_read(line=ELSEWHERE, signalled=False)
    done = rig.client.write(data=line(2), line=1)
    assert rig.adversarial.places(line=0, crash_ps=done.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == ANYWHERE


def test_rule_appliance_read():
    rig = Rig(ddio="off")
    rig.client.post_write(data=line(1))
    response = rig.client.read(line=ELSEWHERE)
    assert rig.adversarial.places(line=0, crash_ps=response.ps - 1) == {NIC, PCIE, IIO, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=response.ps) == {WPQ, MEDIA}


def test_rule_appliance_read__not_for_another_queue_pair_nor_for_what_is_behind():
    rig = Rig(ddio="off", connections=2)
    rig.clients[1].write(data=line(1))
    read = rig.clients[0].post_read(at=rig.clock.now_ps, line=ELSEWHERE)
    rig.clients[0].post_write(data=line(2), line=1)
    response = rig.clients[0].wait(read)
    for number in (0, 1):
        assert NIC in rig.adversarial.places(line=number, crash_ps=response.ps)


def test_rule_read_returns_visible():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    rig.clients[0].write(data=line(2), line=1)
    rig.run()
    done = rig.clients[1].read(line=0)
    assert done.data == line(1)[:8]
    assert rig.adversarial.places(line=0, crash_ps=done.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=done.ps) == ANYWHERE
    behind = rig.clients[1].read(line=1)  # and what came before it on its queue pair, had nobody looked at it
    assert rig.adversarial.places(line=1, crash_ps=behind.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__with_what_came_before_in_order():
    rig = Rig(connections=2)
    rig.clients[0].write(data=line(1))
    rig.clients[0].write(data=line(2), line=1)
    rig.run()
    done = rig.clients[1].read(line=1)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__but_not_what_another_write_has_hidden():
    rig = Rig(connections=3)
    rig.clients[0].write(data=line(1), line=1)
    rig.clients[0].write(data=line(2))
    rig.clients[1].write(data=line(3))
    rig.run()
    done = rig.clients[2].read(line=0, length=64)
    assert done.data == line(3)
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == {LLC, WPQ, MEDIA}
    for number, chunk in ((0, 0), (1, 0)):
        assert rig.adversarial.places(line=number, crash_ps=done.ps, chunk=chunk) == ANYWHERE


# receive completions ------------------------------------------------------------------------------------------------


def test_rule_receive_publishes(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    rig.client.post_write(data=line(2), line=1)
    received = rig.server.receive()
    assert rig.adversarial.places(line=0, crash_ps=received.ps - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=received.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=received.ps) == ANYWHERE


def test_rule_receive_publishes__nothing_to_the_sender(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    done = rig.client.send()
    assert rig.adversarial.places(line=0, crash_ps=done.ps) == ANYWHERE


def test_rule_receive_publishes__nothing_of_another_queue_pair():
    rig = Rig(connections=2, ddio="off")
    rig.server.post_recv(rig.clients[1])
    rig.clients[0].write(data=line(1))
    rig.clients[1].post_write(data=line(2), line=1)
    rig.clients[1].post_send(at=rig.clock.now_ps)
    received = rig.server.receive()
    assert NIC in rig.adversarial.places(line=0, crash_ps=received.ps)
    assert rig.adversarial.places(line=1, crash_ps=received.ps) == {IIO, WPQ, MEDIA}


def test_rule_receive_publishes__behind_an_immediate(rig):
    rig.server.post_recv(rig.client)
    rig.client.post_write(data=line(1))
    post(rig.client, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM, line(2), line=1)
    post_atomic_write(rig.client, word(3), line=2)
    received = rig.server.receive()
    for number in (0, 1):
        assert rig.adversarial.places(line=number, crash_ps=received.ps - 1) == ANYWHERE
        assert rig.adversarial.places(line=number, crash_ps=received.ps) == {LLC, WPQ, MEDIA}


def test_rule_receive_publishes__no_atomic_write(rig):
    rig.server.post_recv(rig.client)
    post_atomic_write(rig.client, word(3), line=2)
    rig.client.post_write(data=line(1))
    rig.client.post_send()
    received = rig.server.receive()
    assert rig.adversarial.places(line=0, crash_ps=received.ps) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=2, crash_ps=received.ps) == ANYWHERE


# loads --------------------------------------------------------------------------------------------------------------


def test_rule_load_returns_visible(rig):
    rig.client.write(data=line(1))
    rig.client.write(data=line(2), line=1)
    rig.run()
    assert rig.server.load() == line(1)
    now = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=now - 1) == ANYWHERE
    assert rig.adversarial.places(line=0, crash_ps=now) == {LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=now) == ANYWHERE


def test_rule_load_returns_visible__a_store_to_other_cores_only(rig):
    rig.server.store(line(1))
    rig.server.load(core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps)
    rig.server.load(core=1)
    assert rig.adversarial.places(line=0, crash_ps=rig.clock.now_ps) == {LLC, WPQ, MEDIA}


def test_rule_read_returns_visible__each_line_as_of_its_own_instant():
    """Whoever looks at the memory while a READ of many lines is under way makes none of them newer."""
    found = []
    for looks in (False, True):
        rig = Rig(connections=26, pcie={"tlp_bits_per_s": 10**8})
        read = rig.client.post_read(at=0, length=4096)
        for number, client in enumerate(rig.clients[1:]):  # visible 7 us apart, and none of them proves another
            client.post_write(at=0, data=line(1), line=number)
        if looks:
            rig.clock.call_at(200_000_000, rig.memory, 0)
        done = rig.client.wait(read)
        found.append(done.data)
    assert done.ps > 300_000_000
    assert found[0] == found[1]
    new = [number for number in range(64) if done.data[number * LINE :][:LINE] == line(1)]
    assert 0 < len(new) < 25
    for number in new:
        assert rig.adversarial.places(line=number, crash_ps=done.ps) == {LLC, WPQ, MEDIA}


# fences and flushes -------------------------------------------------------------------------------------------------


def test_rule_fence_drains_stores(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1, core=1)
    retired = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=retired) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    end = rig.server.sfence(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)


def test_rule_fence_drains_wc(rig):
    rig.server.ntstore(line(1))
    rig.server.ntstore(line(2), line=1, core=1)
    before = rig.clock.now_ps
    assert rig.adversarial.places(line=0, crash_ps=before) == {Place.WC_BUFFER, WPQ, MEDIA}
    end = rig.server.sfence(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=end) == {Place.WC_BUFFER, WPQ, MEDIA}


def test_rule_fence_completes_flushes(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1)
    issued = rig.server.clwb(line=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=issued)
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=1, crash_ps=end) == {LLC, WPQ, MEDIA}  # not flushed


def test_rule_fence_completes_flushes__not_a_store_behind_them(rig):
    rig.server.store(line(1))
    rig.server.clwb()
    rig.server.store(line(2))
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end, chunk=0) == {WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end, chunk=1) == {LLC, WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_another_cores_store(rig):
    rig.server.store(line(1), core=1)
    end = rig.server.flush(core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=end)
    rig.server.load(core=0)
    end = rig.server.flush(core=0)
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_a_dma_write_that_nothing_had_forced(rig):
    """This timing had it in the cache, and wrote it back; another one may have it in the NIC still."""
    rig.client.write(data=line(1))
    rig.run()
    end = rig.server.flush()
    assert rig.timed.survives(line=0, crash_ps=end)
    assert rig.adversarial.places(line=0, crash_ps=end) == ANYWHERE
    rig.server.load()
    end = rig.server.flush()
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}


def test_rule_fence_completes_flushes__not_what_was_seen_only_after_their_issue(rig):
    rig.client.write(data=line(1))
    rig.run()
    rig.server.clwb()
    rig.server.load()
    end = rig.server.sfence()
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}


def test_rule_clflush_completes(rig):
    rig.server.store(line(1, 2))
    rig.client.write(data=line(3), line=9)
    rig.run()
    end = rig.server.clflush(line=0)
    assert rig.adversarial.places(line=0, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
    assert rig.adversarial.places(line=0, crash_ps=end) == {WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)
    end = rig.server.clflush(line=9)
    assert rig.adversarial.places(line=9, crash_ps=end) == ANYWHERE


def test_rule_clflush_completes__for_all_lines_with_wbinvd(rig):
    rig.server.store(line(1, 2))
    rig.server.store(line(2), line=5, core=1)
    rig.client.write(data=line(3), line=9)
    rig.run()
    thread = rig.server.threads[0]
    rig.server.run(thread.wbinvd())
    end = rig.clock.now_ps
    for own in (0, 1):
        assert rig.adversarial.places(line=own, crash_ps=end - 1) == {Place.STORE_BUFFER, LLC, WPQ, MEDIA}
        assert rig.adversarial.places(line=own, crash_ps=end) == {WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=5, crash_ps=end)  # of another core, and not fenced
    assert rig.adversarial.places(line=9, crash_ps=end) == ANYWHERE  # nobody has seen it
    assert rig.timed.survives(line=5, crash_ps=end) and rig.timed.survives(line=9, crash_ps=end)


def test_rule_doorbell_drains_stores(rig):
    rig.server.store(line(1))
    rig.server.store(line(2), line=1, core=1)
    end = rig.server.post_send(rig.client, core=0)
    assert Place.STORE_BUFFER in rig.adversarial.places(line=0, crash_ps=end - 1)
    assert rig.adversarial.places(line=0, crash_ps=end) == {LLC, WPQ, MEDIA}
    assert Place.STORE_BUFFER in rig.adversarial.places(line=1, crash_ps=end)


# the table itself ---------------------------------------------------------------------------------------------------


def test_every_event_has_a_rule_and_every_rule_a_source():
    assert {rule.event for rule in (*RULES, *PRIMITIVE_RULES, *BLOCK_RULES)} == set(Event)
    assert all(len(rule.source) > 10 for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_what_would_have_forced_a_write_in_words():
    assert events_that_force(Scope.FLUSH_TARGET) == (
        "FLUSH response (global visibility) or FLUSH response (persistence)"
    )
    assert events_that_force(Scope.RETURNED) == "READ completion, atomic result or load"
