"""Primitives by name in litmus programs: their steps alone decide, and each of them counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rpsim.models.primitives.language import Primitive
from rpsim.models.primitives.reader import parse_primitive
from rpsim.protocols.primitives import known_primitives, primitive
from rpsim.validation.litmus.families.families import PROFILES
from rpsim.validation.litmus.families.promises import PRIMITIVES
from rpsim.validation.litmus.language.expansion import Expanded, NoWords
from rpsim.validation.litmus.language.expression import parse_outcome
from rpsim.validation.litmus.language.format import read_file
from rpsim.validation.litmus.language.operations import parse_operation
from rpsim.validation.litmus.language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test
from rpsim.validation.litmus.machine.explorer import Reduce, all_looks, explore
from rpsim.validation.litmus.simulator.simulate import clashes
from rpsim.validation.litmus.simulator.witness import SCHEDULES

from ...persisting import HEADER

OFF, ON = PROFILES["ADR, DDIO off"], PROFILES["ADR, DDIO on"]


def program(texts: list[str], known: dict[str, Primitive], b: tuple[str, ...] = ()) -> Test:
    found = Expanded()
    for text in texts:
        operation = parse_operation(text, of_a=True)
        found.add(operation, known.get(operation.primitive))
    own = tuple(parse_operation(text, of_a=False) for text in b)
    return Test("t", tuple(found.a), (*found.b, *own), (), parts=tuple(found.parts), served=len(found.b))


def found(
    test: Test, profile: LitmusProfile, outcome: str = "pm.x==0", crash: CrashMoment = CrashMoment.END_A
) -> OutcomeFinding:
    case = LitmusCase(profile, crash, parse_outcome(outcome), OutcomeFinding.ALLOWED, "")
    (answer,) = explore(replace(test, cases=(case,)))
    assert not answer.vacuous
    return answer.found


def lost(what: Primitive, profile: LitmusProfile) -> bool:
    return found(program(["P q1 it x 1"], {"it": what}), profile) is OutcomeFinding.ALLOWED


def shown(test: Test, profile: LitmusProfile, crash: CrashMoment, names: list[str], reduce: Reduce = Reduce.ALL) -> set:
    looks = all_looks(test, profile, crash, names, reduce=reduce)
    return {frozenset(item for item in look.items() if not item[0].startswith("_")) for look in looks}


@pytest.mark.parametrize("name", known_primitives())
def test_every_shipped_primitive_has_words(name):
    test = program(["P q1 it x 1"], {"it": primitive(name)})
    assert {lost(primitive(name), profile) for profile in (OFF, ON)} <= {True, False}
    assert test.a[-1].verb in ("poll", "wait")


def test_the_table_names_shipped_primitives():
    assert set(PRIMITIVES) <= set(known_primitives())


@pytest.mark.parametrize("name", ["wflush", "rofence", "wflush-ddio", "rflush-write", "sflush", "rdfence"])
@pytest.mark.parametrize("profile", [ON, OFF, PROFILES["eADR, DDIO on"]], ids=lambda profile: profile.name)
def test_the_reductions_lose_nothing_where_primitives_are(name, profile):
    test = program(["P q1 it x 1", "W q1 y 1"], {"it": primitive(name)})
    for crash, names in ((CrashMoment.NONE, []), (CrashMoment.ANY, ["x", "y"]), (CrashMoment.END_A, ["x"])):
        full = shown(test, profile, crash, names, Reduce.NOTHING)
        reduced = shown(test, profile, crash, names)
        assert reduced <= full and all(any(look <= other for other in reduced) for look in full)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
@pytest.mark.parametrize(("name", "verb"), [("ibta-flush-persistent", "persist"), ("ibta-flush-global", "global")])
def test_the_flush_of_annex_a19_by_its_steps_is_the_verb(name, verb, profile):
    steps = program(["W q1 y 1", "P q1 it x 1", "W q1 z 1"], {"it": primitive(name)})
    verbs = program(["W q1 y 1", "W q1 x 1", f"FLUSH q1 x {verb}", "poll q1", "W q1 z 1"], {})
    for crash in (CrashMoment.NONE, CrashMoment.END_A, CrashMoment.ANY):
        names = [] if crash is CrashMoment.NONE else ["x", "y", "z"]
        assert shown(steps, profile, crash, names) == shown(verbs, profile, crash, names)


WITHOUT = [
    ("wflush", "push", OFF),
    ("wflush", "drain", OFF),
    ("wflush-ddio", "flush", ON),
    ("wflush-ddio", "fence", replace(ON, name="no fence")),
    ("write-send-cpu-flush", "flush", ON),
    ("write-send-cpu-flush", "fence", ON),
    ("ibta-flush-persistent", "queued", ON),
    ("rdfence", "drain", ON),
    ("rcommit", "queued", ON),
    ("rdma-pwrite", "drain", ON),
]


@pytest.mark.parametrize(("name", "step", "profile"), WITHOUT, ids=lambda value: getattr(value, "name", value))
def test_a_step_less_is_noticed(name, step, profile):
    whole = primitive(name)
    assert not lost(whole, profile)
    gone = whole.step(step)

    def behind(after: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for one in after for n in (gone.after if one == step else (one,))))

    steps = tuple(replace(one, after=behind(one.after)) for one in whole.steps if one is not gone)
    without = replace(whole, steps=steps)
    if (name, step) == ("wflush-ddio", "fence"):  # CLFLUSH needs none: the line is written back before the answer
        assert not lost(without, profile)
    else:
        assert lost(without, profile)


def test_an_answer_that_does_not_wait_proves_nothing():
    whole = primitive("wflush")
    early = tuple(replace(s, after=("wflush",)) if s.do in ("acknowledge", "drain") else s for s in whole.steps)
    assert lost(replace(whole, steps=early), OFF)


def test_a_fence_holds_later_requests_up_and_is_answered_at_once():
    rofence = {"it": primitive("rofence")}
    test = program(["P q1 it x 1", "W q1 flag 1", "poll q1"], rofence)
    assert lost(primitive("rofence"), ON)
    assert found(test, ON, "pm.flag==1 and pm.x==0", CrashMoment.ANY) is OutcomeFinding.FORBIDDEN
    elsewhere = program(["P q1 it x 1", "W q2 flag 1", "poll q2"], rofence)
    assert found(elsewhere, ON, "pm.flag==1 and pm.x==0", CrashMoment.ANY) is OutcomeFinding.ALLOWED


EARLY = {
    "a reply": "follows: SEND\nsteps:\n- {at: responder cpu, do: receive}\n- {at: responder cpu, do: copy}\n"
    "- {id: early, at: responder cpu, do: reply}\n",
    "a notification": "packet: P\nsteps:\n- {at: wire, do: acknowledge, after: update}\n"
    "- {id: early, at: wire, do: notify, after: update}\n- {at: wire, do: send, verb: SEND}\n"
    "- {at: responder cpu, do: receive}\n",
}


@pytest.mark.parametrize("early", EARLY.values(), ids=list(EARLY))
def test_a_message_that_is_not_the_end_ends_nothing(early):
    flushed = "- {at: responder cpu, do: flush}\n- {at: responder cpu, do: fence}\n"
    for end, durable in (("late", True), ("early", False)):
        steps = f"{early}{flushed}- {{id: late, at: responder cpu, do: reply}}\ncomplete: {end}\n"
        assert lost(parse_primitive(HEADER + steps, "p.yaml"), ON) is not durable


def test_steps_on_another_queue_pair_cover_nothing():
    for name in ("wflush", "ibta-flush-persistent", "rdfence", "read-after-write"):
        test = program(["W q1 x 1", "poll q1", "P q2 it x"], {"it": primitive(name)})
        assert found(test, OFF) is OutcomeFinding.ALLOWED
        same = program(["W q1 x 1", "poll q1", "P q1 it x"], {"it": primitive(name)})
        assert found(same, OFF) is OutcomeFinding.FORBIDDEN


def test_what_there_are_no_words_for_is_refused():
    whole = primitive("wflush")
    steps = tuple(replace(s, parameters={"of": "all"}) if s.do == "drain" else s for s in whole.steps)
    with pytest.raises(NoWords, match="drains all queue pairs"):
        program(["P q1 it x 1"], {"it": replace(whole, steps=steps)})
    with pytest.raises(NoWords, match="acts when its update arrives"):
        program(["P q1 it x"], {"it": primitive("rflush-write-emulated")})


DRAIN = (Path(__file__).parents[3] / "docs/examples/primitive-drain.yaml").read_text(encoding="utf-8")


def test_a_file_of_ones_own_and_switches_by_local_names(tmp_path):
    assert lost(parse_primitive(DRAIN, "drain"), OFF)
    (tmp_path / "mine.yaml").write_text(DRAIN, encoding="utf-8")
    path = tmp_path / "t.yaml"
    path.write_text(
        "profiles: {P: {domain: adr, ddio: off}}\n"
        "primitives: {mine: mine.yaml, direct: {use: rdfence, responder: direct}}\n"
        "tests:\n"
        "- id: a\n"
        "  A: [P q1 mine x 1]\n"
        "  cases: [{p: P, crash: end_A, outcome: pm.x==0, verdict: allowed}]\n"
        "- id: b\n"
        "  A: [P q1 direct x 1]\n"
        "  cases: [{p: P, crash: end_A, outcome: pm.x==0, verdict: allowed}]\n",
        encoding="utf-8",
    )
    assert all(answer.agrees for test in read_file(path) for answer in explore(test))


RUN = ["wflush", "write-imm-cpu-flush", "rdma-pwrite", "rflush-write", "send-cpu-copy", "rofence"]


@pytest.mark.parametrize("name", RUN)
def test_the_simulator_never_shows_what_is_forbidden_of_a_primitive(name):
    test = program(["W q1 y 1", "P q1 it x 1", "W q1 z 1", "poll q1"], {"it": primitive(name)})
    asked = parse_outcome("pm.x>=0 and pm.z>=0")
    for turn, profile in enumerate((OFF, ON, PROFILES["eADR, DDIO on"])):
        cases = tuple(
            LitmusCase(profile, crash, asked, OutcomeFinding.ALLOWED, "")
            for crash in (CrashMoment.END_A, CrashMoment.ANY)
        )
        found = clashes(replace(test, cases=cases), [turn], schedules=SCHEDULES)
        assert not found, str(found[0])


def test_an_adapter_copies_a_message_once_it_is_in_its_buffer():
    """Also where staging holds the message up: it once copied what the buffer had held before."""
    test = program(["P q1 it x 1"], {"it": primitive("sflush")})
    case = LitmusCase(OFF, CrashMoment.END_A, parse_outcome("pm.x==0"), OutcomeFinding.FORBIDDEN, "")
    found = clashes(replace(test, cases=(case,)), [2, 10], schedules=SCHEDULES)
    assert not found, str(found[0])


def test_a_service_that_forgets_a_step_shows_what_is_forbidden():
    """The explorer is asked about the whole primitive, the simulator runs one without its CPU's flush."""
    test = program(["P q1 it x 1"], {"it": primitive("write-send-cpu-flush")})
    case = LitmusCase(ON, CrashMoment.END_A, parse_outcome("pm.x==0"), OutcomeFinding.FORBIDDEN, "")
    (part,) = test.parts
    left = [step for step in part.primitive.steps if step.id != "flush"]
    without = tuple(replace(step, after=("receive",)) if step.id == "fence" else step for step in left)
    forgets = replace(part, primitive=replace(part.primitive, steps=without))
    assert not clashes(replace(test, cases=(case,)), range(4))
    assert clashes(replace(test, cases=(case,), parts=(forgets,)), range(4))
