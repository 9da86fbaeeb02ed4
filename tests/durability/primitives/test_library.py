"""The shipped primitives on every kind of platform: what may be lost at the end of each, found by the models' views.

The table is that of docs/architecture.md and its sources, written down here a second time: nothing in rpsim reads it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.rules import Switches
from rpsim.models.fabric.disturbance import Disturbance
from rpsim.models.persist.requester import PrimitiveFailed
from rpsim.models.primitives.messages import TRAILER
from rpsim.protocols.primitives import known_primitives, primitive

from ...persisting import World, outcome, platform_of, written
from ...rig import line

PLATFORMS = {
    "adr on": platform_of("adr", ddio=True),
    "adr off": platform_of("adr", ddio=False),
    "eadr on": platform_of("eadr", ddio=True),
    "eadr off": platform_of("eadr", ddio=False),
    "media on": platform_of("media", ddio=True),
    "media off": platform_of("media", ddio=False),
    "wsp on": platform_of("wsp", ddio=True),
    "pmr": platform_of("pmr"),
}
NEVER = "wsp on"
"""The end proves that the adapter had it, and no more."""
PUSHED = "adr off, eadr on, eadr off, wsp on, pmr"
"""A read behind it, as the appliance method has it; of a PMR it is the barrier."""
SHOWN = "eadr on, wsp on"
"""It is visible, and nothing else."""
FLUSHED_BY_CPU = "adr on, adr off, eadr on, eadr off, wsp on"
"""A core's clwb or clflush reaches the queue, not the medium, and no PMR."""
FENCED_BY_CPU = "eadr on, eadr off, wsp on"
"""Its stores are in its caches, which survive there; DDIO makes no difference to them."""
LOADED = ", pmr"
"""The responder's CPU has loaded from the PMR, to see that something has come: that is the barrier."""
PERSISTENT = FLUSHED_BY_CPU + ", media on, media off"
DURABLE = {
    "no-flush": NEVER,
    "battery": NEVER,
    "pmr-write": NEVER,
    "gflush": NEVER,
    "rofence": NEVER,
    "rofence buffers=one": NEVER,
    "rofence buffers=few": NEVER,
    "rofence buffers=many": NEVER,
    "gflush adapter=asks the host": SHOWN,
    "read-after-write": PUSHED,
    "read-after-imm": PUSHED,
    "read-after-send": NEVER,
    "read-after-send in pm": PUSHED,
    "pmr-write-read-back": PUSHED,
    "wflush": PUSHED,
    "wflush operator=behind data": PUSHED,
    "wflush-emulated": PUSHED,
    "wflush-emulated read=nothing": NEVER,
    "wflush-batched": PUSHED,
    "wflush-ddio": FLUSHED_BY_CPU + ", pmr",
    "sflush": PUSHED,
    "sflush look up=emulated": PUSHED,
    "sflush look up=none": PUSHED,
    "sflush operator=behind data": PUSHED,
    "sflush-emulated": NEVER,
    "sflush-emulated in pm": PUSHED,
    "sflush-emulated in pm order=public code": PUSHED,
    "rflush-write": PUSHED,
    "rflush-write operator=behind data": PUSHED,
    "rflush-send": NEVER,
    "rflush-send in pm": PUSHED,
    "rflush-send operator=behind data": NEVER,
    "rflush-send target=memory": PUSHED,
    "rflush-write-emulated": FLUSHED_BY_CPU + LOADED,
    "rflush-write-emulated flush=one line": SHOWN + LOADED,
    "rflush-write-emulated flush=nothing": SHOWN + LOADED,
    "rflush-write-emulated operator=behind data": FLUSHED_BY_CPU + LOADED,
    "rflush-write-emulated instruction=best": FLUSHED_BY_CPU + LOADED,
    "rflush-send-emulated": NEVER,
    "rflush-send-emulated in pm": FLUSHED_BY_CPU + LOADED,
    "rflush-send-emulated in pm flush=nothing": SHOWN + LOADED,
    "rflush-send-emulated target=memory": FLUSHED_BY_CPU,
    "rflush-send-emulated operator=behind data": NEVER,
    "rflush-send-emulated instruction=best": NEVER,
    "write-send-cpu-flush": FLUSHED_BY_CPU,
    "write-imm-cpu-flush": FLUSHED_BY_CPU,
    "send-cpu-copy": FLUSHED_BY_CPU,
    "send-cpu-copy-fence": FENCED_BY_CPU,
    "pmr-write-status-read": PUSHED,
    "ibta-flush-global": SHOWN,
    "ibta-flush-global level=region": SHOWN,
    "ibta-flush-persistent": PERSISTENT,
    "ibta-flush-persistent level=region": PERSISTENT,
    "atomic-write-after-flush": PERSISTENT,
    "atomic-write-after-flush wait=polled": PERSISTENT,
    "rcommit": PERSISTENT,
    "rcommit scope=queue pair": PERSISTENT,
    "rdfence": PERSISTENT,
    "rdfence responder=direct": SHOWN,
    "rdma-pwrite": PERSISTENT,
    "rdma-pwrite buffers=one": PERSISTENT,
    "rdma-pwrite buffers=few": PERSISTENT,
    "rdma-pwrite buffers=many": PERSISTENT,
    "rdma-pwrite engine=slow": PERSISTENT,
    "rdma-pwrite engine=busy": PERSISTENT,
    "rdma-pwrite engine=quick": PERSISTENT,
}
IBTA_ONLY = ("ibta-flush", "atomic-write")
"""A region beside the adapter takes no FLUSH access flags (ibv_reg_dmabuf_mr)."""
IN_DRAM = ("send-after", "read-after-send", "sflush-emulated", "rflush-send", "rflush-send-emulated")


def parts(case: str) -> tuple[str, dict[str, str], str]:
    """Name, switches, and where receive buffers are."""
    head, *choices = case.partition(" in pm")[0].split(" ", 1)
    text = choices[0] if choices else case.partition(" in pm")[2].strip()
    name, _, value = text.partition("=")
    return head, {name: value} if value else {}, "pm" if " in pm" in case else "dram"


def test_each_primitive_and_each_of_its_switches_is_in_the_table():
    assert {case.split(" ")[0] for case in DURABLE} == set(known_primitives())
    for name in known_primitives():
        for option, values in primitive(name).options.items():
            for value in values.choices:
                assert any(
                    parts(case)[0] == name and parts(case)[1].get(option, values.default) == value for case in DURABLE
                )


@pytest.mark.parametrize("case", DURABLE)
def test_what_is_certain_at_the_end(case):
    name, choices, buffers = parts(case)
    expected = set(DURABLE[case].split(", "))
    lost = buffers == "dram" and name.startswith(IN_DRAM) and choices.get("target") != "memory"
    found = set()
    for label, platform in PLATFORMS.items():
        if label == "pmr" and name.startswith(IBTA_ONLY):
            continue
        certain, world = outcome(name, platform, choices=choices, receive_in=buffers)
        if lost:  # DRAM keeps nothing, whatever else holds
            assert not certain
            continue
        found |= {label} if certain else set()
        assert world.requester.packets >= 1
    if not lost:
        assert found == expected


@pytest.mark.parametrize("name", sorted(known_primitives()))
def test_its_claims_are_found_or_refuted_never_stored(name):
    """Nothing in the models knows a primitive by its name: renamed and stripped of its claims it comes out the same."""
    one = primitive(name)
    other = replace(one, name="nobody", claims={}, title="", source="", status="emulated")
    for ddio in (True, False):
        platform = platform_of("adr", ddio=ddio)
        mine, world = outcome(one, platform, receive_in="pm")
        renamed, again = outcome(other, platform, receive_in="pm")
        assert (mine, world.now_ps) == (renamed, again.now_ps)


def test_flush_on_another_queue_pair_covers_nothing_of_this_one():
    for name in ("ibta-flush-persistent", "read-after-write", "wflush", "rcommit", "rdfence"):
        world = World(name, platform_of("adr", ddio=False), connections=2)
        first, second = world.requesters
        places = world.run(first.write([(world.address(0), line(1))]))
        world.settle()
        world.run(second.flush(places))
        assert not world.durable(places, line(1)), name
        world.run(first.flush(places))
        assert world.durable(places, line(1)), name


def test_a_drain_of_all_queue_pairs_covers_what_others_wrote():
    steps = """
steps:
- {id: packet, at: wire, do: send, packet: MINE}
- {id: drain, at: responder nic, do: drain, of: WHOSE}
- {id: read, at: pcie, do: read}
- {id: answer, at: wire, do: acknowledge}
complete: packet
"""
    for whose, covered in (("queue pair", False), ("all", True)):
        world = World(written(steps.replace("WHOSE", whose)), platform_of("adr", ddio=False), connections=2)
        places = world.run(world.requesters[0].write([(world.address(0), line(1))]))
        world.settle()
        world.run(world.requesters[1].flush(places))
        assert world.durable(places, line(1)) is covered


def test_rofence_orders_what_it_does_not_make_durable():
    """The second of two writes is never there without the first, in any crash state; without the fence it may be."""
    for name, ordered in (("rofence", True), ("no-flush", False)):
        world = World(name)
        first, second = (world.run(world.requester.post([(world.address(n), line(n + 1))])) for n in (0, 2))
        world.run(world.requester.wait(second))
        world.settle()
        places = [*first.places, *second.places]
        left = {image for at in range(0, 4_000_000, 50_000) for image in world.images(places, at)}
        assert ((bytes(64), line(3)) in left) is not ordered
        assert (line(1), line(3)) in left


def test_batching_covers_several_updates_with_one_packet():
    world = World("wflush-batched", platform_of("adr", ddio=False))

    def four():
        tickets = []
        for number in range(4):
            tickets.append((yield from world.requester.post([(world.address(number), line(number + 1))])))
        for ticket in tickets:
            yield from world.requester.wait(ticket)
        return tickets

    tickets = world.run(four())
    assert world.requester.packets == 5
    for number, ticket in enumerate(tickets):
        assert world.durable(ticket.places, line(number + 1))


def test_relaxed_ordering_takes_the_read_s_promise_away():
    """Of a READ, which carries the region's bit; not of a request of the adapter's own that carries none."""
    push = "steps:\n- {id: p, at: wire, do: send, packet: P}\n- {at: responder nic, do: drain}\n"
    push += "- {at: pcie, do: read, relaxed: true}\n- {at: wire, do: acknowledge}\ncomplete: p\n"
    for what, certain in (
        ("read-after-write", False),
        (written(push), False),
        ("wflush", True),
        ("rcommit", True),
        ("ibta-flush-persistent", True),
        ("write-send-cpu-flush", True),
    ):
        assert outcome(what, platform_of("adr", ddio=False), relaxed=True)[0] is certain, what


def test_a_reading_of_the_sources_that_lets_reads_pass_writes_does_so_too():
    platform = platform_of("adr", ddio=False, switches={"relaxed_reads": True})
    assert platform.switches == Switches(relaxed_reads=True)
    assert not outcome("wflush", platform)[0]


@pytest.mark.long
@pytest.mark.parametrize("length", [1, 63, 9000])
def test_updates_of_any_length_arrive_whole(length):
    data = bytes(1 + at % 251 for at in range(length))
    for name in known_primitives():
        world = World(name, platform_of("wsp"), lines=512, receive_in="pm")
        places = world.persist((1, data))
        world.settle()
        device, offset = world.server.memory.locate(places[0][0])
        assert device.space.read(world.now_ps, offset, length) == data, name
        assert world.durable(places, data), name


@pytest.mark.parametrize("case", ["rflush-send-emulated", "rflush-send", "sflush-emulated", "read-after-send"])
@pytest.mark.parametrize("length", [48, 64, 192])
def test_a_message_that_stays_in_its_buffer_lasts_with_its_trailer(case, length):
    """Recovery needs the trailer: it says where the bytes belong, and may lie in a line of its own."""
    for label in ("adr on", "adr off", "eadr on"):
        world = World(case, PLATFORMS[label], receive_in="pm")
        data = bytes(1 + at % 251 for at in range(length))
        ((start, _),) = places = world.persist((0, data))
        assert places == [(start, length + TRAILER.size)]
        certain = label in DURABLE[f"{case} in pm"].split(", ")
        assert world.durable(places, data + TRAILER.pack(world.address(0), length)) is certain, label
        assert world.durable([(start, length)], data) is certain, label


@pytest.mark.parametrize("name", sorted(known_primitives()))
def test_several_pieces_of_one_operation(name):
    world = World(name, platform_of("wsp"), receive_in="pm")
    for turn in range(20):  # more than there are receive buffers
        places = world.persist((0, line(turn + 1)), (3, line(turn + 2)))
    for number, place in enumerate(places):
        assert world.durable([place], line(20 + number))


def test_unreliable_connections_have_no_answer_but_a_notification():
    for name in ("rflush-write", "rflush-send", "rflush-write-emulated", "rflush-send-emulated"):
        certain, world = outcome(name, platform_of("adr", ddio=False), transport="UC", receive_in="pm")
        assert certain and not world.requester.qp.reliable, name
        if "send" in name:
            certain, world = outcome(name, platform_of("adr", ddio=False), transport="UD", receive_in="pm")
            assert certain and world.requester.qp.peer is None, name


@pytest.mark.parametrize(
    "name", ["rcommit", "rdma-pwrite", "sflush", "rflush-write", "wflush-ddio", "rflush-write-emulated"]
)
def test_packets_that_are_lost_late_or_repeated_change_nothing_but_time(name):
    weather = Disturbance(loss=0.1, delay_ps=3_000_000, reorder=0.1, repeat=0.1)
    for seed in range(3):
        world = World(name, platform_of("adr", ddio=False), seed=seed, disturbance=weather, lines=128)
        for turn in range(3):
            places = world.persist((0, line(turn + 1, 80)))
            assert world.durable(places, line(turn + 1, 80))


def test_an_adapter_that_has_to_read_its_tables_does_the_same_later():
    """What the WRITE before has read is there for what follows it: only a target that is looked up is read anew."""
    for name in ("wflush", "rdma-pwrite", "sflush"):
        small = platform_of("adr", ddio=False, nic={"sram_bytes": 512})
        (certain, late), (_, early) = (outcome(name, platform) for platform in (small, platform_of("adr", ddio=False)))
        assert certain and late.now_ps >= early.now_ps
        assert late.now_ps > early.now_ps or name != "sflush"


def test_what_cannot_be_persisted_is_refused():
    world, messages = World("wflush"), World("send-cpu-copy", slot_bytes=128)
    for one, updates, complaint in (
        (world, [], "no updates to persist"),
        (world, [(63, bytes(128))], "128 bytes at 0x1fc0 are not in the region that the first update begins in"),
        (world, [(-90, b"x")], "is in no region that this service has registered"),
        (messages, [(0, bytes(120))], "an update of 120 bytes, while receive buffers take 112"),
    ):
        with pytest.raises(ValueError, match=complaint):
            one.persist(*updates)
    for how, complaint in (({"follows": "SEND"}, "wflush follows WRITE, not SEND"), ({"transport": "UC"}, "not UC")):
        with pytest.raises(ValueError, match=complaint):
            World("wflush", **how)
    with pytest.raises(PrimitiveFailed, match="PRIMITIVE: remote access error"):
        world.run(world.requester.flush([(world.address(60), 4096)]))


def test_an_adapter_copies_only_messages_of_its_own_queue_pair():
    """SFlush on a queue pair that no SEND came on has nothing to copy, and ends."""
    world = World("sflush", connections=2)
    world.run(world.requesters[0].write([(world.address(0), bytes(8))]))
    world.run(world.requesters[1].flush([(world.address(0), 8)]))
    assert world.now_ps > 0
