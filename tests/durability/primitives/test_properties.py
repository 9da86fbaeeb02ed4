"""Random primitives: what is written reads back, what runs ends, and waiting for more never makes less durable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.primitives.language import Primitive, Step
from rpsim.models.primitives.reader import parse_primitive
from rpsim.models.primitives.vocabulary import ACTIONS, UPDATE, Kind, StepPlace
from rpsim.models.primitives.writer import dump_primitive
from rpsim.protocols.primitives import known_primitives, primitive

from ...persisting import World, platform_of
from ...rig import line

IMMEDIATE = ("WRITE_WITH_IMM", "WRITE")
DURATIONS = (0, 1, 250, 30_000, 7_000_000)


@st.composite
def step_of(draw, place: StepPlace, do: str, id: str, after: tuple[str, ...]) -> Step:
    """A step with random parameters."""
    values = {}
    for one in ACTIONS[place][do].parameters:
        match one.kind:
            case Kind.WORD:
                words = [word for word in one.words if word != "flag"] if do != "write flag" else one.words
                values[one.name] = draw(st.sampled_from(words))
            case Kind.DURATION:
                values[one.name] = draw(st.sampled_from(DURATIONS))
            case Kind.SIZE:
                values[one.name] = draw(st.sampled_from((0, 1, 16)))
            case Kind.TRUTH:
                values[one.name] = draw(st.booleans())
            case _:
                values[one.name] = None
    return Step(id, place, do, values, after)


@st.composite
def blocks(draw, carrier: str) -> tuple[list[Step], list[str]]:
    """Steps at the responder that one carrier starts, and those that others may wait for."""
    steps: list[Step] = []
    ends: list[str] = []
    kinds = st.sampled_from(("drain", "compute", "read", "root complex", "write flag", "interrupt"))
    for number, kind in enumerate(draw(st.lists(kinds, min_size=1, max_size=5))):
        after = tuple(draw(st.lists(st.sampled_from(ends), min_size=1, unique=True))) if ends else (carrier,)
        if draw(st.integers(0, 5)) == 0:
            after = (carrier,)

        def add(place: StepPlace, do: str, waits: tuple[str, ...], number: int = number) -> str:
            id = f"{do} {number}-{len(steps)}"
            steps.append(draw(step_of(place, do, id, waits)))
            return id

        match kind:
            case "drain" | "compute" | "write flag":
                ends.append(add(StepPlace.RESPONDER_NIC, kind, after))
            case "read":
                ends.append(add(StepPlace.PCIE, "read", after))
            case "root complex":
                last = add(StepPlace.PCIE, "request", after)
                for do in draw(st.lists(st.sampled_from(("write back", "invalidate")), max_size=2)):
                    last = add(StepPlace.LLC, do, (last,))
                    if draw(st.booleans()):
                        last = add(draw(st.sampled_from((StepPlace.IMC, StepPlace.MEDIUM))), "wait", (last,))
                ends.append(add(StepPlace.PCIE, "complete", (last,)))
            case "interrupt":
                last = add(StepPlace.RESPONDER_NIC, "interrupt", after)
                for do in draw(st.lists(st.sampled_from(("flush", "fence", "store flag")), max_size=3)):
                    last = add(StepPlace.RESPONDER_CPU, do, (last,))
                ends.append(last)
    return steps, ends


@st.composite
def primitives(draw) -> Primitive:
    """One whose adapter has steps, behind a packet of its own or on arrival of the update."""
    packet = draw(st.booleans())
    carrier = "packet" if packet else UPDATE
    steps, ends = draw(blocks(carrier))
    waits = tuple(draw(st.lists(st.sampled_from([*ends, carrier]), min_size=1, unique=True)))
    steps.append(Step("answer", StepPlace.WIRE, "acknowledge", {}, waits))
    if packet:
        send = draw(step_of(StepPlace.WIRE, "send", "packet", (UPDATE,)))
        values = {**send.parameters, "verb": None, "packet": "MINE", "address": "data"}
        values["holds"] = draw(st.sampled_from((None, ("WRITE",), ("WRITE", "READ"))))
        steps.insert(0, replace(send, parameters=values))
    return Primitive(
        name="mine",
        title='a "title": with signs',
        source="here, line 3",
        status="proposed",
        transport=("RC",),
        follows=draw(st.sampled_from((("WRITE",), ("SEND",), ("SEND", "WRITE"), *((IMMEDIATE,) if packet else ())))),
        steps=tuple(steps),
        complete="packet" if packet else "answer",
        batching=draw(st.sampled_from((1, 1, 3))),
        claims=draw(st.sampled_from(({}, {"durable": "adr, ddio off; eadr"}))),
        header_bytes=draw(st.sampled_from((0, 12))),
        packet=draw(st.sampled_from(("", "P-1"))),
    )


platforms = st.builds(platform_of, st.sampled_from(("adr", "eadr", "media", "wsp", "pmr")), ddio=st.booleans())


@pytest.mark.long
@settings(max_examples=50)
@given(primitives())
def test_what_is_written_reads_back(made):
    assert parse_primitive(dump_primitive(made), "mine.yaml") == made


def test_what_is_shipped_reads_back_once_its_switches_are_set():
    for name in known_primitives():
        found = primitive(name)
        assert parse_primitive(dump_primitive(found), "again.yaml") == replace(found, options={}, chosen={})


@pytest.mark.long
@settings(max_examples=60)
@given(primitives(), platforms, st.integers(1, 3), st.sampled_from((8, 64, 5000)))
def test_it_ends_and_no_step_ends_before_it_can_begin(made, platform, clients, length):
    world = World(made, platform, connections=clients, lines=512)
    data = bytes(1 + at % 255 for at in range(length))
    running = [
        world.clock.start(one.persist([(world.address(128 * number), data), (world.address(128 * number + 90), b"x")]))
        for number, one in enumerate(world.requesters)
    ]
    for one in running:
        world.clock.run_until(one)
    world.settle()
    hops = {step.hop: step for step in made.steps if step.do not in ("send", "interrupt")}
    for one in world.requesters:
        assert (
            one.qp.peer is not None and not one.qp.peer.end.receive.order.running
        ) or one.qp.peer.end.receive.order.idle(world.now_ps)
        ended: dict[str, list[int]] = {}
        for hop, at_ps in one.thread.span.marks:
            ended.setdefault(hop, []).append(at_ps)
        for hop, step in hops.items():
            runs = ended[hop]
            assert len(runs) >= 1 and min(runs) > 0
            for before in step.after:
                mine = next((other.hop for other in made.steps if other.id == before), None)
                if mine in hops:
                    assert all(late >= early for early, late in zip(sorted(ended[mine]), sorted(runs), strict=True))


@pytest.mark.long
@settings(max_examples=60)
@given(primitives(), platforms, st.data())
def test_an_answer_that_waits_for_more_proves_no_less(made, platform, data):
    """Also: an answer that waits for nothing but the arrival proves nothing more than an ACK."""
    answer = made.step("answer")
    carrier = made.steps[0].id if made.steps[0].do == "send" else UPDATE
    inner = (StepPlace.LLC, StepPlace.IMC, StepPlace.MEDIUM, StepPlace.RESPONDER_CPU)
    able = [s.id for s in made.steps if s.do not in ("send", "request") and s.place not in inner and s is not answer]
    more = data.draw(st.lists(st.sampled_from([*able, carrier]), unique=True))
    waits = tuple(dict.fromkeys((*answer.after, *more)))

    def certain(after: tuple[str, ...]) -> bool:
        steps = tuple(replace(step, after=after) if step.id == "answer" else step for step in made.steps)
        world = World(replace(made, steps=steps, follows=("WRITE",), batching=1), platform)
        places = world.persist((0, line(1)))
        return world.durable(places, line(1))

    assert certain(waits) >= certain(answer.after)
    if not {"interrupt", "write flag"} & {step.do for step in made.steps}:  # these are done behind what they wait for
        assert certain((carrier,)) == (platform.memory["pm"].domain == "wsp")
