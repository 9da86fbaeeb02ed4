"""What the reader of primitives says of mistakes: file, line, field, found, expected, nearest name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.app.main import main
from rpsim.models.primitives.reader import FIELDS, parse_primitive
from rpsim.models.primitives.schema import reference, schema
from rpsim.models.primitives.vocabulary import ACTIONS, StepPlace
from rpsim.protocols.primitives import known_primitives, primitive
from rpsim.sim.errors import InputError
from rpsim.sim.yaml_source import read_yaml

from ..answers import result_of
from ..persisting import HEADER, outcome, platform_of

ROOT = Path(__file__).resolve().parents[2]


def complaints(text: str, header: str = HEADER, **switches: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_primitive(header + text, "p.yaml", switches)
    return [str(mistake) for mistake in caught.value.mistakes]


def of_steps(*steps: str, rest: str = "complete: update\n") -> list[str]:
    return complaints("steps:\n" + "".join(f"- {step}\n" for step in steps) + rest)


def test_mistakes_come_in_the_order_of_their_lines():
    text = "steps:\n- {at: pcie, do: reed}\ntransport: [RX]\nbathing: 3\nfollows: [FOO]\n"
    places = [one.partition(" found")[0] for one in complaints(text)]
    assert places == [
        "p.yaml:6: steps[0].do:",
        "p.yaml:7: transport[0]:",
        "p.yaml:8: bathing:",
        "p.yaml:9: follows[0]:",
    ]


PACKET = "{id: p, at: wire, do: send, packet: P}"
ANSWER = "{id: a, at: wire, do: acknowledge}"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            [PACKET, "{at: wire, do: [x]}"],
            "steps[1].do: found a list of 1, expected what is done at the wire: send, acknowledge, notify",
        ),
        (
            ["{at: nic, do: drain}"],
            "p.yaml:6: steps[0].at: found 'nic', expected a place: requester cpu, requester nic,",
        ),
        (["{at: pcie, do: raed}"], "found 'raed', expected what is done at the pcie: read, request, complete; did you"),
        (["{at: pcie, do: read, lenght: 1 B}"], "steps[0].lenght: found the unknown key 'lenght', expected one of id,"),
        (["{at: pcie, do: read, length: 1}"], "steps[0].length: found 1, expected a size, as in 16 B"),
        (["{at: responder nic, do: compute}"], "steps[0].takes: found nothing, expected a duration, as in 7 us"),
        (["{at: responder nic, do: compute, takes: soon}"], "found 'soon', expected a duration, as in 7 us"),
        (["{at: responder nic, do: compute, takes: 1e400 ns}"], "found '1e400 ns', expected at most a day (86400 s)"),
        (
            ["{at: responder nic, do: drain, of: al}"],
            "found 'al', expected one of queue pair, all; did you mean 'all'?",
        ),
        (["{at: pcie, do: request, promise: no}"], "steps[0].promise: found 'no', expected true or false"),
        (["nothing"], "p.yaml:6: steps[0]: found 'nothing', expected a step, as in {at: pcie, do: read}"),
        (["{at: wire, do: send}"], "found neither verb nor packet, expected a verb, or the packet's own name"),
        (
            ["{at: wire, do: send, verb: READ, packet: P}"],
            "found verb and packet, expected a verb, or the packet's own",
        ),
        (["{at: wire, do: send, verb: REED}"], "found 'REED', expected one of READ, SEND, FLUSH, ATOMIC_WRITE, WRITE,"),
        (
            [PACKET, "{at: wire, do: acknowledge, after: q}"],
            "steps[1].after: found 'q', expected steps above it: update, p",
        ),
        (
            [PACKET, "{id: p, at: wire, do: acknowledge}"],
            "p.yaml:7: steps[1].id: found a second step 'p', expected an id",
        ),
        (["{id: update, at: requester nic, do: fence}"], "found 'update', expected a name of letters, digits"),
        ([PACKET], "p.yaml:6: steps.p: found a packet that nothing at the responder acts on, expected steps behind it"),
        (
            [PACKET, "{at: responder nic, do: drain}"],
            "steps.drain 2: found no answer to 'p', expected wire: acknowledge",
        ),
        ([PACKET, ANSWER, "{at: wire, do: acknowledge}"], "found a second answer to 'p', expected one"),
        ([PACKET, "{at: llc, do: write back}", ANSWER], "found a step at the llc that no `request` has asked for"),
        ([PACKET, "{at: pcie, do: complete}", ANSWER], "found a completion of no request, expected `request` first"),
        (
            [PACKET, "{at: pcie, do: request}", "{at: imc, do: wait}", "{at: pcie, do: complete}", ANSWER],
            "found a wait for lines that nobody has written back, expected `write back` or `invalidate` first",
        ),
        (
            [PACKET, "{id: r, at: pcie, do: request}", ANSWER],
            "found a step at the wire behind one of the root complex, 'r', expected pcie: complete between them",
        ),
        (["{at: wire, do: send, verb: READ}", "{at: responder nic, do: drain}"], "behind a READ, which the adapter"),
        (
            ["{at: wire, do: send, verb: SEND}", "{at: responder nic, do: drain}"],
            "behind a SEND, expected `receive` at",
        ),
        (
            [PACKET, "{at: responder cpu, do: flush}", ANSWER],
            "found a step of the responder cpu behind p, expected one",
        ),
        (["{at: responder cpu, do: receive}"], "found a receive of a WRITE, expected updates or a `send` that"),
        ([PACKET, "{at: responder nic, do: copy}", ANSWER], "found a copy of a WRITE, expected to follow SEND"),
        (["{at: requester cpu, do: poll, of: p}"], "found 'p', expected a send above it to poll for: update"),
        (
            ["{at: requester cpu, do: poll, of: r}", "{id: r, at: wire, do: send, verb: READ}"],
            "p.yaml:6: steps.poll 1: found 'r', expected a send above it to poll for: update",
        ),
        (
            [PACKET, ANSWER, "{id: q, at: wire, do: send, packet: Q}", "{at: pcie, do: read, after: [p, q]}"],
            "found steps of two packets to wait for: 'p' and 'q', expected steps that one packet has brought there",
        ),
        (
            [PACKET, "{id: d, at: responder nic, do: drain}", ANSWER, "{at: requester nic, do: fence, after: d}"],
            "found a step of the requester that waits for 'd', which is at the responder nic, expected to wait for one",
        ),
    ],
)
def test_a_mistake_in_a_step(steps, expected):
    found = of_steps(*steps)
    assert any(expected in line for line in found), found
    assert all(line.startswith("p.yaml") for line in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps: 3\n", "p.yaml:5: steps: found 3, expected a list of steps"),
        ("complet: update\n", "found the unknown key 'complet', expected one of name, title"),
        ("complete: flush\n", "p.yaml:5: complete: found 'flush', expected a step: update"),
        (
            "follows: WRIT\n",
            "follows: found 'WRIT', expected one of WRITE, WRITE_WITH_IMM, SEND; did you mean 'WRITE'",
        ),
        ("transport: XRC\n", "transport: found 'XRC', expected one of RC, UC, UD"),
        ("transport: UD\n", "follows: found 'WRITE' over UD, expected ways of updates that UD carries"),
        (
            "transport: UC\nsteps:\n- {id: r, at: wire, do: send, verb: READ}\n",
            "p.yaml:7: steps.r: found READ over UC, expected what UC carries",
        ),
        ("batching: 0\n", "batching: found 0, expected a whole number from 1 to 1024"),
        ("header: 3\n", "header: found 3, expected a size, as in 16 B"),
        ("claims: [durable]\n", "claims: found a list of 1, expected a map of conditions"),
        ("claims: {durable: 3}\n", "claims.durable: found 3, expected where it is claimed"),
        ("options: {x: {text: t}}\n", "options.x: found a map of 1, expected a map with text, default and choices"),
        (
            "options: {x: {text: t, default: c, choices: {a: {source: s}, b: {source: s, set: {y.z: 1}}}}}\n",
            "options.x.default: found 'c', expected one of a, b",
        ),
        (
            "options: {x: {text: t, default: a, choices: {a: {source: s}, b: {source: s, drop: [y]}}}}\n",
            "options.x.choices.b.drop: found a list of 1, expected a list of steps:",
        ),
    ],
)
def test_a_mistake_in_a_field(text, expected):
    assert any(expected in line for line in complaints(text)), complaints(text)


def test_all_mistakes_are_told_at_once():
    found = complaints("steps:\n- {at: nowhere}\n- {at: pcie, do: nothing}\nbatching: x\n", "name: a b\nstatus: new\n")
    assert len(found) == 7, found


def test_a_switch_that_there_is_not():
    with pytest.raises(InputError, match="the switch 'levle', expected level; did you mean 'level'"):
        primitive("ibta-flush-global", {"levle": "region"})
    with pytest.raises(InputError, match="found 'regio', expected one of range, region; did you mean 'region'"):
        primitive("ibta-flush-global", {"level": "regio"})


def test_an_end_that_there_is_not_in_a_reading_that_nobody_has_chosen():
    options = "options: {o: {text: t, default: a, choices: {a: {source: s}, b: {source: s, set: {complete: reed}}}}}\n"
    read = "steps:\n- {id: read, at: wire, do: send, verb: READ}\ncomplete: read\n"
    expected = "p.yaml:8: options.o.choices.b.set.complete: found 'reed', expected a step: update, read"
    assert complaints(read + options) == [f"{expected}; did you mean 'read'?"]


def test_a_step_that_two_switches_drop():
    one = "{text: t, default: without, choices: {with: {source: s}, without: {source: s, drop: [gone]}}}"
    read = "- {id: NAME, at: wire, do: send, verb: READ}\n"
    steps = "steps:\n" + read.replace("NAME", "gone") + read.replace("NAME", "read")
    text = HEADER + steps + "complete: read\noptions: {x: ONE, y: ONE}\n".replace("ONE", one)
    for switches, left in (({}, 1), ({"x": "with"}, 1), ({"x": "with", "y": "with"}, 2)):
        assert len(parse_primitive(text, "p.yaml", switches).steps) == left


def test_a_primitive_that_there_is_not(tmp_path):
    with pytest.raises(InputError, match=r"primitive: found 'wflsh', expected a file, or a shipped.*mean 'wflush'"):
        primitive("wflsh")
    with pytest.raises(InputError, match=r"mine\.yaml: found no such file"):
        primitive(tmp_path / "mine.yaml")


def test_a_file_that_is_named_without_its_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wflushes.yaml").write_text(HEADER)
    with pytest.raises(InputError, match=r"found 'wflushes', expected .*; did you mean 'wflushes\.yaml'\?"):
        primitive("wflushes")


def test_a_claim_that_is_no_condition(tmp_path):
    (tmp_path / "p.yaml").write_text(HEADER + "claims: {durabel: always}\n")
    with pytest.raises(
        InputError, match=r"yaml:5: claims: found 'durabel', expected a condition: .*; did you mean 'durable'"
    ):
        primitive(tmp_path / "p.yaml")


def test_a_claim_for_a_place_that_there_is_not(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(HEADER + 'claims: {durable: always, no_lost_ack: "adr, ddio offf; eadrr; always; haishen5"}\n')
    with pytest.raises(InputError) as caught:
        primitive(path)
    expected = "expected always alone, or a domain, a platform, a switch, a device, as in 'adr, ddio off; eadr'"
    found = (("ddio offf", "; did you mean 'ddio off'?"), ("eadrr", "; did you mean 'eadr'?"), ("always", ""))
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        f"{path}:5: claims.no_lost_ack: found '{part}', {expected}{hint}" for part, hint in found
    ]
    path.write_text(HEADER + 'claims: {durable: "optane-adr, ddio off, ro; mine.yaml, turbo on"}\n')
    assert primitive(path).claims


# the starting point, the schema, the page -----------------------------------------------------------------------------


def test_a_new_primitive_runs_and_is_never_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "primitive", "mine"]) == 0
    assert capsys.readouterr().out == (
        "mine.yaml: a primitive to start from; rpsim matrix primitives mine.yaml\n"
        "  --platforms quick judges and times it\n"
    )
    assert outcome(primitive("mine.yaml"), platform_of("adr"))[0]
    (tmp_path / "mine.yaml").write_text("precious")
    assert main(["new", "primitive", "mine"]) == 2
    assert "found a file that is there already, expected a name that nothing has" in capsys.readouterr().err
    assert (tmp_path / "mine.yaml").read_text() == "precious"
    assert main(["new", "primitive", "other.yaml", "--json"]) == 0
    assert result_of(capsys.readouterr().out) == {"kind": "primitive", "name": "other", "file": "other.yaml"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yaml", "other.yaml"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["new", "primtive", "x"],
            "expected a kind: scenario, primitive, scheme, litmus, lab; did you mean 'primitive'?",
        ),
        (["new", "primitive"], "rpsim new primitive: found no NAME, expected a name for the new primitive"),
        (
            ["new", "primitive", "a b"],
            "NAME: found 'a b', expected a name of letters, digits, '-' and '_', a letter first",
        ),
        (["new", "primitive", "no/such/place"], "found a place that cannot be written to"),
        (["list", "schemes", "--schema"], "--schema: found it with rpsim list schemes, expected rpsim list primitives"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys, arguments, expected):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_schema_knows_every_word(capsys):
    assert main(["list", "primitives", "--schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(schema()))
    assert set(found["properties"]) == set(FIELDS)
    steps = found["properties"]["steps"]["items"]["oneOf"]
    assert len(steps) == sum(len(ACTIONS[place]) for place in StepPlace)
    for step in steps:
        action = ACTIONS[StepPlace(step["properties"]["at"]["const"])][step["properties"]["do"]["const"]]
        assert {one.name for one in action.parameters} <= set(step["properties"])


def accepts(rule, value) -> bool:
    """As much of JSON schema as the schema uses."""
    if rule is True or rule is False:
        return rule
    if "const" in rule:
        return value == rule["const"]
    if "enum" in rule:
        return value in rule["enum"]
    if rule.get("type") == "object":
        known = rule.get("properties", {})
        further = rule.get("additionalProperties", True)
        own = isinstance(value, dict) and all(name in value for name in rule.get("required", ()))
        if not own or len(value) < rule.get("minProperties", 0):
            return False
        inside = all(accepts(known.get(name, further), one) for name, one in value.items())
        return inside and sum(all(n in value for n in one["required"]) for one in rule.get("oneOf", ())) in (
            {1} if "oneOf" in rule else {0}
        )
    if "oneOf" in rule:
        return sum(accepts(one, value) for one in rule["oneOf"]) == 1
    if rule.get("type") == "array":
        return isinstance(value, list) and all(accepts(rule["items"], one) for one in value)
    kinds = {"string": str, "integer": int, "boolean": bool}
    return isinstance(value, kinds[rule["type"]])


def test_the_schema_accepts_what_is_shipped_and_the_starting_point():
    paths = [*known_primitives().values(), ROOT / "app" / "templates" / "primitive.yaml"]
    for path in paths:
        data = read_yaml(path).data
        assert accepts(schema(), data), path
        assert not accepts(schema(), {**data, "steps": [{"at": "pcie", "do": "raed"}]})


def test_the_reference_has_every_place_and_action():
    made = reference()
    for place, actions in ACTIONS.items():
        own = made.partition(f"### {place}\n")[2].partition("\n### ")[0]
        for name, action in actions.items():
            assert f"| `{name}` |" in own, action
            assert all(f"`{parameter.name}`: {parameter.text}" in own for parameter in action.parameters), action


def places(data, at=()):
    """The place of each value of a document, as keys from the top."""
    yield at
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from places(value, (*at, key))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_a_value_of_another_kind_anywhere_is_a_mistake_of_the_file(draw):
    """`do: [x]` was a TypeError."""
    whole = yaml.safe_load(draw.draw(st.sampled_from(list(known_primitives().values()))).read_text(encoding="utf-8"))
    *outer, last = draw.draw(st.sampled_from(list(places(whole))[1:]))
    inside = whole
    for key in outer:
        inside = inside[key]
    inside[last] = draw.draw(st.sampled_from([["x"], [["x"]], {"a": "b"}, {1: 2}, [{}], None, True, -1, 1.5, ""]))
    try:
        parse_primitive(yaml.safe_dump(whole), "p.yaml")
    except InputError as error:
        assert all(mistake.file == "p.yaml" for mistake in error.mistakes)


def test_the_page_names_every_shipped_primitive_and_each_rule():
    from rpsim.models.durability.primitive_rules import PRIMITIVE_RULES

    page = (ROOT / "docs" / "primitives.md").read_text(encoding="utf-8")
    for name in known_primitives():
        assert f"`{name}`" in page, name
    for rule in PRIMITIVE_RULES:
        assert f"| `{rule.name}` | {rule.event} | {rule.stage.name} | {rule.source} |" in page
