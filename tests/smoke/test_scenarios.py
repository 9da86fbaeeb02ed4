"""The shipped scenarios load, mean what they say, and survive being written out and read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.profiles.platform import load_platform
from rpsim.protocols.failures import ALL
from rpsim.protocols.registry import scheme
from rpsim.scenarios.history import Torn
from rpsim.scenarios.run.workload import initial_values
from rpsim.scenarios.schema.known import KnownNames, RoleFacts, SchemeFacts
from rpsim.scenarios.schema.load import (
    explored,
    load_scenario,
    scenario_from_data,
    scenario_names,
    scenario_title,
    validate,
)
from rpsim.scenarios.values import MAX_STAMP, decode_value, encode_value
from rpsim.sim.errors import InputError
from rpsim.sim.yaml_source import parse_yaml

STORE = SchemeFacts(
    {"server": RoleFacts(), "client": RoleFacts(many=True, invokes=True)}, ("put", "get"), frozenset({"put"})
)
SWITCHES = {"ddio": ("on", "off")}
KNOWN = KnownNames(
    dict.fromkeys(("client-active", "efactory", "saw"), STORE),
    {"optane-adr": SWITCHES, "optane-eadr": SWITCHES | {"iio_wc": ("off", "on")}},
)

STAMPS = st.integers(0, 1000) | st.integers(0, MAX_STAMP)
LENGTHS = st.integers(8, 300)


@pytest.mark.parametrize("name", scenario_names())
def test_a_shipped_scenario_loads_with_the_shipped_names(name):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.title == scenario_title(name) != ""
    assert scenario.variants()
    roles = {role for name in scenario.schemes for role in scheme(name).role_types}
    assert {part.role for part in scenario.crash.fault.parts} <= {*roles, ALL}


@pytest.mark.parametrize("name", scenario_names())
def test_what_is_resolved_is_complete_json_and_reads_as_the_same_scenario(name):
    scenario = load_scenario(name)
    text = json.dumps(scenario.resolved())
    again = scenario_from_data(json.loads(text), "case.json")
    assert again == scenario.model_copy(update={"options": {}})  # which stand in the names of the schemes
    assert again.variants() == scenario.variants()
    assert json.dumps(again.resolved()) == text


def test_quickstart_is_three_stores_on_four_platforms():
    scenario = load_scenario("quickstart", known=KNOWN)
    labels = ["optane-adr, ddio on", "optane-adr, ddio off", "optane-eadr, ddio on", "optane-eadr, ddio off"]
    assert [(v.scheme, v.label) for v in scenario.variants()] == [
        (scheme, label) for scheme in ("client-active", "saw", "efactory") for label in labels
    ]
    assert scenario.variants()[1].settings == {"ddio": "off"}
    assert (scenario.role("client").machines, scenario.role("client").processes) == (2, 8)
    assert (scenario.role("server").machines, scenario.seed) == (1, 1)
    assert scenario.workload.value_bytes == 256
    assert str(scenario.crash.fault) == "server[0] power"
    assert scenario.expect["client-active"] == {"no_lost_ack": "violated"}
    durable = {"optane-adr": "violated", "optane-eadr": "holds"}
    assert scenario.expect["saw"] == {"no_lost_ack": "holds", "committed": "holds", "durable": durable}


def test_axes_vary_in_the_order_of_the_file():
    scenario = load_scenario("quickstart", ["vary={ddio: [off, on], platform: [optane-eadr, optane-adr]}"], known=KNOWN)
    assert [v.label for v in scenario.variants()][:3] == [
        "optane-eadr, ddio off",
        "optane-adr, ddio off",
        "optane-eadr, ddio on",
    ]


def test_overrides_replace_what_the_file_says_and_what_it_varies():
    overrides = ["workload.keys=1e3", "workload.value=4 KiB", "platform=optane-adr", "schemes=saw", "crash.view=timed"]
    scenario = load_scenario("quickstart", overrides, seed=7, known=KNOWN)
    assert (scenario.workload.keys, scenario.workload.value_bytes, scenario.seed) == (1000, 4096, 7)
    assert [v.label for v in scenario.variants()] == ["optane-adr, ddio on", "optane-adr, ddio off"]
    assert scenario.crash.view == "timed"
    varied = load_scenario(
        "update-only", ["vary.ddio=[on, off]", "schemes[1]=client-active", "schemes[0]=saw"], known=KNOWN
    )
    assert [(v.scheme, v.label) for v in varied.variants()][1:3] == [
        ("saw", "optane-adr, ddio off"),
        ("client-active", "optane-adr, ddio on"),
    ]


def test_any_switch_of_a_platform_may_vary():
    overrides = ["platform=optane-eadr", "vary.iio_wc=[off, on]", "vary.ddio=off"]
    scenario = load_scenario("quickstart", overrides, known=KNOWN)
    assert [(v.label, v.settings) for v in scenario.variants()][:2] == [
        ("optane-eadr, ddio off, iio_wc off", {"ddio": "off", "iio_wc": "off"}),
        ("optane-eadr, ddio off, iio_wc on", {"ddio": "off", "iio_wc": "on"}),
    ]


@pytest.mark.parametrize(
    ("overrides", "operations", "keys"),
    [
        ([], 500, 200),
        (["workload.operations=2000"], 2000, 200),
        (["workload.operations=80", "workload.keys=8"], 80, 8),
        (["crash.operations=30", "workload.operations=60"], 30, 200),
        (["crash.operations="], 2000, 200),
        (["crash.keys=50"], 500, 50),
    ],
    ids=["the file's", "set as it is", "set smaller", "crash set as well", "no longer", "fewer keys"],
)
def test_crashes_are_explored_in_a_smaller_workload_unless_one_is_set(overrides, operations, keys):
    scenario = load_scenario("quickstart", overrides)
    found = explored(scenario)
    assert (found.workload.operations, found.workload.keys) == (operations, keys)
    assert found == explored(found) == explored(scenario_from_data(scenario.resolved(), "quickstart"))
    assert "workload.operations=2000" not in overrides or scenario.workload.operations == 2000


def test_a_workload_that_is_explored_has_no_warm_up_left_to_leave_out():
    scenario = load_scenario("update-only", ["crash.operations=100"])
    assert (scenario.workload.warmup, explored(scenario).workload.warmup) == (200, 0)


@pytest.mark.parametrize(
    ("name", "override", "found"),
    [
        ("quickstart", "crash.keys=300", "found '300', expected at most the workload's 200"),
        ("hotpot-commit", "crash.keys=2", "found '2 of a workload of kind schedule', expected ycsb or mix"),
    ],
)
def test_a_crash_has_no_more_than_the_workload(name, override, found):
    with pytest.raises(InputError) as error:
        load_scenario(name, [override])
    assert found.replace("'", "") in str(error.value).replace("'", "")


def test_an_expectation_may_differ_by_variant():
    text = "expect.saw.durable={'optane-adr, ddio on': violated, optane-eadr: holds}"
    scenario = load_scenario("quickstart", [text], known=KNOWN)
    assert scenario.expect["saw"]["durable"] == {"optane-adr, ddio on": "violated", "optane-eadr": "holds"}


def test_truths_count_as_positions_of_a_switch():
    text = "scenario: x\nschemes: saw\nplatform: optane-adr\nvary: {ddio: [true, false]}\n"
    text += "workload: {kind: ycsb, mix: C, keys: 1, value: 8 B, operations: 1}\n"
    assert [v.label for v in validate(parse_yaml(text, "x"), known=KNOWN).variants()] == [
        "optane-adr, ddio on",
        "optane-adr, ddio off",
    ]


# values --------------------------------------------------------------------------------------------------------


def test_everything_is_loaded_with_stamp_zero():
    values = initial_values(load_scenario("quickstart", known=KNOWN).workload)
    assert list(values)[:3] == ["k0", "k1", "k2"]
    assert len(values) == 200
    assert {decode_value(value, 256) for value in values.values()} == {0}


@given(STAMPS, LENGTHS)
def test_a_value_says_its_stamp(stamp, length):
    value = encode_value(stamp, length)
    assert len(value) == length
    assert decode_value(value, length) == stamp


@given(STAMPS, STAMPS, LENGTHS)
def test_two_stamps_differ_in_every_word(one, other, length):
    if one != other:
        a, b = encode_value(one, length), encode_value(other, length)
        assert all(a[at : at + 8] != b[at : at + 8] for at in range(0, length - 7, 8))


@pytest.mark.long
@given(STAMPS, STAMPS, st.integers(2, 40), st.data())
def test_words_of_two_writes_are_torn_and_say_whose(one, other, words, data):
    if one == other:
        return
    mine = data.draw(st.sets(st.integers(0, words - 1), min_size=1, max_size=words - 1))
    a, b = encode_value(one, 8 * words), encode_value(other, 8 * words)
    mixed = b"".join((a if i in mine else b)[8 * i : 8 * i + 8] for i in range(words))
    assert isinstance(decode_value(mixed), Torn)


@given(STAMPS, LENGTHS, st.data())
def test_one_changed_byte_is_noticed(stamp, length, data):
    value = bytearray(encode_value(stamp, length))
    value[data.draw(st.integers(0, length - 1))] ^= data.draw(st.integers(1, 255))
    decoded = decode_value(bytes(value), length)
    # A value of a single word has nothing else to be compared with: it may look like another stamp, if rarely.
    assert isinstance(decoded, Torn) or (length < 16 and decoded != stamp)


@given(st.binary(max_size=100))
def test_no_bytes_are_too_strange(data):
    decoded = decode_value(data)
    assert isinstance(decoded, Torn) or encode_value(decoded, len(data)) == data


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (encode_value(7, 256)[:32] + encode_value(2, 256)[32:], "words 0-3 of v7, words 4-31 of v2"),
        (
            encode_value(7, 256)[:36] + encode_value(2, 256)[36:],
            "words 0-3 of v7, word 4 of v7 and of v2, words 5-31 of v2",
        ),
        (encode_value(0, 64)[:24] + bytes(40), "words 0-2 of v0, words 3-7 zeros"),
        (bytes(64), "never written: zeros"),
        (b"x" * 64, "words 0-7 of nobody"),
        (encode_value(7, 256)[:64], "64 of 256 bytes, of v7"),
        (bytes(5), "5 bytes, too few to carry a stamp"),
        (encode_value(7, 27)[:24] + encode_value(2, 27)[24:], "words 0-2 of v7, word 3 of nobody"),
    ],
)
def test_torn_values_in_words(data, note):
    assert decode_value(data, 256 if note.startswith("64 of") else None) == Torn(note)


def test_a_stamp_needs_eight_bytes_and_fits_into_32_bits():
    with pytest.raises(ValueError, match="at least 8"):
        encode_value(1, 7)
    with pytest.raises(ValueError, match="not -1"):
        encode_value(-1, 8)
    with pytest.raises(ValueError, match="a stamp is a number"):
        encode_value(1 << 32, 8)


@pytest.mark.long
def test_a_platform_may_be_a_file_of_the_users(tmp_path):
    profile = tmp_path / "ours.yaml"
    profile.write_text("platform: ours\ntitle: our lab\nextends: optane-adr\n", encoding="utf-8")
    scenario = load_scenario("quickstart", [f"platform={profile}"])
    assert [v.label for v in scenario.variants()][:2] == [f"{profile}, ddio on", f"{profile}, ddio off"]
    assert load_platform(scenario.variants()[0].platform, ddio="on").title == "our lab"


def test_the_mistakes_of_a_users_platform_are_told_with_their_place(tmp_path):
    profile = tmp_path / "ours.yaml"
    profile.write_text("platform: ours\ntitle: our lab\nextends: optane-adr\nnic: {dorbell: 1 ns}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"ours.yaml:4: .*dorbell") as caught:
        load_scenario("quickstart", [f"platform={profile}"])
    assert caught.value.mistakes[0].nearest == "doorbell"


NEVER_RUN = """\
scenario: mine
vary: {platform: [optane-adr, optane-eadr]}
schemes: [saw, efactory]
workload: {kind: ycsb, mix: a, keys: 2, value: 64 B, operations: 4}
expect:
  erda: {durable: holds}
  saw: {durable: {optane-adr: holds, optane-adr-roce: holds}}
"""


def test_what_is_expected_of_a_variant_that_never_runs_is_a_mistake(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(NEVER_RUN)
    with pytest.raises(InputError) as caught:
        load_scenario(str(file))
    assert str(caught.value).replace(str(file), "mine.yaml").splitlines() == [
        "mine.yaml:6: expect.erda: found 'erda', expected a scheme that runs here: saw, efactory",
        "mine.yaml:7: expect.saw.durable.optane-adr-roce: found 'optane-adr-roce', expected what runs here: "
        "optane-adr, optane-eadr; did you mean 'optane-adr'?",
    ]
    assert load_scenario(str(file), ["schemes=[saw]", "vary.platform=[optane-adr]"]).schemes == ("saw",)
