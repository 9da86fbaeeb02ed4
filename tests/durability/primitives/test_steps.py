"""What single steps prove: stories of the primitives' own rules, FLUSH beside its steps, and steps left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.places import Place
from rpsim.models.durability.primitive_rules import PRIMITIVE_RULES
from rpsim.models.primitives.messages import FLAG, TRAILER
from rpsim.models.primitives.order import PrimitiveOrder
from rpsim.models.primitives.plan import plan
from rpsim.protocols.primitives import primitive
from rpsim.sim.errors import InputError

from ...persisting import World, outcome, platform_of, written
from ...rig import LINE, line

PACKET = "steps:\n- {id: packet, at: wire, do: send, packet: MINE, header: 20 B}\n"
ANSWER = "- {id: answer, at: wire, do: acknowledge}\ncomplete: packet\n"
DRAIN = "- {id: drain, at: responder nic, do: drain}\n"
ZERO = "- {id: zero, at: pcie, do: read, length: 0 B}\n"
READ = "- {id: read, at: pcie, do: read}\n"
ASK = "- {id: ask, at: pcie, do: request}\n"
BACK = "- {id: back, at: llc, do: write back}\n"
WAIT = "- {id: wait, at: imc, do: wait}\n"
STORED = "- {id: stored, at: medium, do: wait}\n"
TELL = "- {id: tell, at: pcie, do: complete}\n"


def steps(*parts: str) -> str:
    return PACKET + "".join(parts) + ANSWER


def places(world: World, number: int = 0) -> set[Place]:
    """Where the newest write to a line of the pool may be at the end."""
    key = world.keys([(world.address(number), 1)])[0]
    chunks = [c for c in world.system.trace.chunks if c.device == key[0] and c.address // LINE == key[1]]
    return set(world.views().places(chunks[-1], world.now_ps))


def after(*parts: str, **platform) -> set[Place]:
    world = World(written(steps(*parts)), platform_of(**platform))
    world.persist((0, line(1)))
    return places(world)


NIC, PCIE, LLC, IIO, WPQ, MEDIA = Place.NIC, Place.PCIE, Place.LLC, Place.IIO_WC, Place.WPQ, Place.MEDIA


# the rules ----------------------------------------------------------------------------------------------------------


def test_each_rule_has_a_story_here():
    stories = {name.removeprefix("test_rule_") for name in globals() if name.startswith("test_rule_")}
    assert {rule.name.replace("-", "_") for rule in PRIMITIVE_RULES} == stories
    assert all(len(rule.source) > 10 for rule in PRIMITIVE_RULES)


def test_rule_drain_empties_staging():
    assert after() == {NIC, PCIE, LLC, WPQ, MEDIA}
    assert after(DRAIN) == {PCIE, LLC, WPQ, MEDIA}


def test_rule_zero_read_pushes_writes():
    assert after(DRAIN, ZERO) == {LLC, WPQ, MEDIA}
    assert after(ZERO) == {NIC, PCIE, LLC, WPQ, MEDIA}  # what waits in the adapter is behind it
    assert after(DRAIN, ZERO, ddio=False) == {IIO, WPQ, MEDIA}  # Intel speaks of a read of a byte at least
    assert after(DRAIN, READ, ddio=False) == {WPQ, MEDIA}
    assert NIC not in after(DRAIN, ZERO, ddio=False)


def test_rule_write_back_queues():
    assert after(DRAIN, ASK, BACK, WAIT, TELL) == {WPQ, MEDIA}
    assert after(DRAIN, ASK, BACK, TELL) == {LLC, WPQ, MEDIA}  # nobody waits
    assert after(ASK, BACK, WAIT, TELL) == {NIC, PCIE, LLC, WPQ, MEDIA}  # what was written back need not be this
    assert after(DRAIN, ASK, BACK.replace("write back", "invalidate"), WAIT, TELL) == {WPQ, MEDIA}


def test_rule_write_back_stores():
    for parts, certain in (((BACK, WAIT), False), ((BACK, STORED), True), ((BACK, WAIT, STORED), True)):
        found, _ = outcome(written(steps(DRAIN, ASK, *parts, TELL)), platform_of("media"))
        assert found is certain


def test_a_proof_is_worth_what_its_answer_waits_for():
    early = ANSWER.replace("acknowledge}", "acknowledge, after: packet}")
    world = World(written(PACKET + DRAIN + ASK + BACK + WAIT + TELL + early))
    world.persist((0, line(1)))
    assert NIC in places(world)


def test_steps_may_overlap_and_an_answer_may_wait_for_both():
    both = (
        "- {id: left, at: responder nic, do: compute, takes: 2 us, after: drain}\n"
        "- {id: right, at: responder nic, do: compute, takes: 3 us, after: drain}\n"
    )
    answer = ANSWER.replace("acknowledge}", "acknowledge, after: [left, right]}")
    one = World(written(steps(DRAIN)))
    two = World(written(PACKET + DRAIN + both + answer))
    for world in (one, two):
        world.persist((0, line(1)))
    assert two.now_ps == one.now_ps + 3_000_000


def test_a_flag_is_never_there_before_what_its_steps_prove():
    flag = "- {id: flag, at: responder nic, do: write flag}\n"
    for parts, safe in (((DRAIN, ASK, BACK, WAIT, TELL, flag), True), ((flag,), False)):
        world = World(written(steps(*parts)))
        world.persist((0, line(1)), flag=(world.address(5), b"\7" * 8))
        world.settle()
        both = [(world.address(0), LINE), (world.address(5), 8)]
        left = {image for at in range(0, 4_000_000, 20_000) for image in world.images(both, at)}
        assert ((bytes(LINE), b"\7" * 8 + bytes(56)) in left) is not safe
        assert (line(1), b"\7" * 8 + bytes(56)) in left


@pytest.mark.parametrize("name", ["wflush", "sflush", "rflush-write", "rflush-send", "rflush-write-emulated"])
def test_a_packet_whose_steps_name_the_flag_carries_it(name):
    """16 bytes more, where it belongs and what it is: beside the same packet for the data alone."""
    sizes = []
    for operator in ("none", "behind data"):
        world = World(name, choices={"operator": operator})
        (program,) = world.service.plan.programs.values()
        sizes.append(PrimitiveOrder(program, ((world.address(0), LINE),)).header_bytes - program.header_bytes)
    assert sizes == [0, 16]


@pytest.mark.parametrize("length", [8, 40, 200])
def test_the_cpu_reads_the_flag_from_the_message_that_brought_it(length):
    world = World("rflush-send-emulated", choices={"target": "memory", "operator": "behind data"})
    data, flag = bytes(range(1, length + 1)), (world.address(5), b"operator")
    world.persist((0, data), flag=flag)
    dram, slot = world.server.memory["dram"], world.requester.slots[0]
    message = data + TRAILER.pack(world.address(0), length) + FLAG.pack(*flag)
    assert dram.space.read(world.now_ps, slot - dram.base, len(message)) == message
    assert world.pm.space.read(world.now_ps, flag[0] - world.pm.base, 8) == flag[1]
    other = FLAG.pack(world.address(7), b"another!")  # what the message says is what the CPU stores
    world.requester._carried_flag = lambda carrier, ticket: other
    world.persist((0, data), flag=flag)
    assert world.pm.space.read(world.now_ps, world.address(7) - world.pm.base, 8) == b"another!"


def test_an_immediate_brings_no_flag():
    text = (
        "steps:\n- {id: receive, at: responder cpu, do: receive}\n- {id: flag, at: responder cpu, do: store flag}\n"
        "- {id: reply, at: responder cpu, do: reply}\ncomplete: reply\n"
    )
    with pytest.raises(InputError, match="a flag that a WRITE_WITH_IMM would have to bring"):
        plan(written(text, follows="[WRITE_WITH_IMM]"))
    assert plan(written(text, follows="[SEND]")).trailer_bytes == TRAILER.size + FLAG.size


# FLUSH, in its own steps --------------------------------------------------------------------------------------------

VERB = {
    "persistent": "steps:\n- {id: flush, at: wire, do: send, verb: FLUSH, placement: persistent}\ncomplete: flush\n",
    "global": "steps:\n- {id: flush, at: wire, do: send, verb: FLUSH, placement: global}\ncomplete: flush\n",
}


def story(world: World, clients: int) -> tuple[int, list[object]]:
    """Several updates of several clients at once: when all have ended, and every edge that the trace has."""
    code = [
        requester.persist([(world.address(8 * number + turn), line(turn + 1)) for turn in range(3)])
        for number, requester in enumerate(world.requesters)
    ]
    running = [world.clock.start(one) for one in code]
    for one in running:
        world.clock.run_until(one)
    world.settle()
    chunks = world.system.trace.chunks
    edges = [(tuple(c.reached_ps), tuple(c.forced_ps), dict(c.flushed_ps)) for c in chunks]
    ends = [span.marks[-1] for span in (r.thread.span for r in world.requesters) if span is not None]
    return ends, [*edges, sorted(world.system.trace.persisted.items())]


@pytest.mark.parametrize("kind", sorted(VERB))
@pytest.mark.parametrize("domain", ["adr", "eadr", "media"])
@pytest.mark.parametrize("ddio", [True, False])
@pytest.mark.parametrize("clients", [1, 3])
def test_the_steps_of_flush_are_the_verb(kind, domain, ddio, clients):
    found = [
        story(World(what, platform_of(domain, ddio=ddio), connections=clients), clients)
        for what in (written(VERB[kind]), f"ibta-flush-{kind}")
    ]
    assert found[0] == found[1]


# steps left out ---------------------------------------------------------------------------------------------------


def without(name: str, *gone: str):
    """A shipped primitive without some of its steps; what waited for one waits for what that waited for."""
    found = primitive(name)
    left = list(found.steps)
    for id in gone:
        dropped = next(step for step in left if step.id == id)
        left = [
            replace(step, after=tuple(n for a in step.after for n in (dropped.after if a == id else (a,))))
            for step in left
            if step.id != id
        ]
    return replace(found, steps=tuple(left))


def in_order(name: str, *ids: str):
    """A shipped primitive with its last steps in another order, one after the other."""
    found = primitive(name)
    first = [step for step in found.steps if step.id not in ids]
    before = [first[-1].id, *ids[:-1]]
    moved = [replace(found.step(id), after=(last,)) for id, last in zip(ids, before, strict=True)]
    return replace(found, steps=(*first, *moved))


@pytest.mark.parametrize(
    ("name", "ddio", "gone"),
    [
        ("wflush", False, "drain"),
        ("wflush", False, "push"),
        ("sflush", False, "drain"),
        ("sflush", False, "push"),
        ("rflush-write", False, "drain"),
        ("rcommit", True, "drain"),
        ("rcommit", True, "queued"),
        ("rdma-pwrite", True, "drain"),
        ("rdma-pwrite", True, "queued"),
        ("rdfence", True, "queued"),
        ("write-send-cpu-flush", True, "flush"),
        ("write-imm-cpu-flush", True, "flush"),
        ("send-cpu-copy", True, "flush"),
        ("wflush-ddio", True, "flush"),
        ("ibta-flush-persistent", True, "queued"),
    ],
)
def test_a_step_less_is_noticed(name, ddio, gone):
    platform = platform_of("adr", ddio=ddio)
    assert outcome(name, platform)[0]
    assert not outcome(without(name, gone), platform)[0]


def test_a_fence_less_is_noticed_where_the_instruction_needs_one():
    platform = platform_of("adr")
    assert not outcome(without("write-send-cpu-flush", "fence"), platform)[0]  # clwb
    text = "steps:\n- {id: ask, at: wire, do: send, verb: SEND}\n- {at: responder cpu, do: receive}\n"
    text += "- {at: responder cpu, do: flush, instruction: clflush}\n"
    assert outcome(written(text + "- {id: r, at: responder cpu, do: reply}\ncomplete: r\n"), platform)[0]


def paused_at(what, hop: str) -> bool:
    """Whether the update is certain at the end in a schedule in which the server's core pauses once ``hop`` is done."""
    platform = platform_of("adr")
    _, world = outcome(what, platform)
    assert world.requester.thread.span is not None
    done_ps = max(at for name, at in world.requester.thread.span.marks if name == hop)
    return outcome(what, platform, outages={"server[0] core 0": [(done_ps, 10_000_000)]})[0]


def test_a_reply_before_the_flush_is_noticed():
    for name in ("write-send-cpu-flush", "write-imm-cpu-flush"):
        for order, safe in ((("flush", "fence", "reply"), True), (("reply", "flush", "fence"), False)):
            changed = in_order(name, *order)
            assert all(paused_at(changed, f"responder cpu: {step}") for step in order) is safe
        assert not outcome(in_order(name, "fence", "flush", "reply"), platform_of("adr"))[0]


def test_a_copy_less_leaves_nothing_at_the_target():
    with pytest.raises(InputError, match="a wait for lines"):
        World(without("rcommit", "write back"))
    certain, world = outcome(without("send-cpu-copy", "copy"), platform_of("adr"), receive_in="pm")
    assert certain  # in the receive buffer, which was flushed
    assert world.images([(world.address(0), LINE)]) == {(bytes(LINE),)}


@pytest.mark.parametrize(("step", "certain"), [("nothing", True), ("barrier", False), ("read", False)])
def test_reading_pmrsts_is_the_barrier_of_a_region_that_says_so(step, certain):
    """Bit 1 alone: neither the READ nor the register is enough without the other."""
    base = platform_of("pmr")
    kind = base.memory["pm"].device
    platform = replace(base, peers={**base.peers, kind: replace(base.peers[kind], pmrwbm=2)})
    what = primitive("pmr-write-status-read") if step == "nothing" else without("pmr-write-status-read", step)
    assert outcome(what, platform)[0] == certain
