"""Names of schemes: options, modes and primitives in them, and files of one's own."""

from __future__ import annotations

import string
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rpsim
from rpsim.app.main import main
from rpsim.protocols.naming import Mode, Option
from rpsim.protocols.naming.names import NamePart, ParsedName, parse_name
from rpsim.protocols.registry import scheme, schemes, small
from rpsim.protocols.scheme import Role, Scheme
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError

from ..answers import result_of

OPTIONS = {
    "replicas": Option(1, at_least=1, at_most=8, source="section 5.4"),
    "durable": Option("write", choices=("write", "commit"), source="section 3.4"),
    "crc": Option(False, source="assumption: silent"),
    "share": Option(0.2, at_least=0, at_most=1, source="assumption: some"),
    "wait": Option("10 ms", quantity="time", source="assumption: long enough"),
    "room": Option("4 KiB", quantity="size", source="assumption: a page"),
    "of": Option(3, at_least=1, source="an example"),
}


class Space(Mode):
    """The modes of one family."""


@pytest.fixture
def made(monkeypatch):
    """A scheme with options of every kind, over a primitive, and a structure on a mode."""
    schemes()
    monkeypatch.setattr(Scheme, "registry", dict(Scheme.registry))
    monkeypatch.setattr(Mode, "registry", dict(Mode.registry))
    saw = scheme("saw")

    class Toy(saw, name="toy"):
        title = "a toy"
        options = OPTIONS
        over = "read-after-write"

        class Server(saw.role_types["server"]):
            pass

    class Bst(saw, name="toy-tree"):
        title = "a tree"
        on = Space

    class Cached(Space, name="cached"):
        title = "cached nodes"
        claims: ClassVar = {"durable": "adr"}
        options: ClassVar = {"batch": Option(1, at_least=1, source="section 4")}

    return {"toy": Toy, "toy-tree": Bst, "cached": Cached}


def refused(name):
    with pytest.raises(InputError) as caught:
        scheme(name)
    (mistake,) = caught.value.mistakes
    return str(mistake)


WORDS = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=8).filter(
    lambda word: word not in ("on", "over", "of", "by", "into")
)
PARTS = st.builds(
    lambda word, options: NamePart(word, options=options),
    WORDS,
    st.dictionaries(WORDS | st.sampled_from(["of", "by", "into"]), WORDS, max_size=3),
)
PLAIN_PARTS = st.builds(
    lambda word, options: NamePart(word, options=options), WORDS, st.dictionaries(WORDS, WORDS, max_size=2)
)


def parts(name):
    return [(part.word, dict(part.options)) if part else None for part in (name.system, name.mode, name.primitive)]


@given(st.builds(ParsedName, PARTS, st.none() | PLAIN_PARTS, st.none() | PLAIN_PARTS))
def test_what_is_written_is_read_again(name):
    assert parts(parse_name(str(name))) == parts(name)
    assert str(parse_name(str(name))) == str(name)


@given(st.text("abn over[]=,1: ", max_size=24))
def test_every_text_is_a_name_or_one_mistake_with_its_place(text):
    try:
        parse_name(text)
    except InputError as error:
        (mistake,) = error.mistakes
        assert "at character" in mistake.found


def test_options_have_values_and_defaults(made):
    kind = scheme("toy[replicas=2, crc=yes, room=8 KiB]")
    values = {option: kind.option(option) for option in OPTIONS}
    assert values == {
        "replicas": 2, "durable": "write", "crc": True, "share": 0.2, "wait": "10 ms", "room": 8192, "of": 3,
    }  # fmt: skip
    assert made["toy"].option("room") == 4096
    assert kind.name == "toy[replicas=2, crc=yes, room=8 KiB]" and kind.over == "read-after-write"
    assert scheme("toy of 5 over no-flush").option("of") == 5
    with pytest.raises(KeyError):
        kind.option("replica")


def test_a_mode_brings_its_claims_and_its_own_options(made):
    kind = scheme("toy-tree on cached[batch=8]")
    assert (kind.name, kind.title) == ("toy-tree on cached[batch=8]", "a tree, on cached nodes")
    assert kind.mode.option("batch") == 8 and made["cached"].option("batch") == 1
    assert kind.claims["durable"] == "adr"


@pytest.mark.parametrize(
    ("name", "found", "close"),
    [
        ("toy[replica=2]", "'replica' at character 5 of 'toy[replica=2]', expected an option of toy: re", "replicas"),
        ("toy[replicas=9]", "'replicas=9' at character 5 of 'toy[replicas=9]', expected a whole number of at", ""),
        ("toy[replicas=x]", "expected a whole number of at least 1 and at most 8 for the option 'replicas' of toy", ""),
        ("toy[durable=comit]", "expected write or commit for the option 'durable' of toy", "commit"),
        ("toy[wait=10]", "expected a time with its unit, e.g. '10 ms' for the option 'wait' of toy", ""),
        ("toy[share=nan]", "expected a number of at least 0 and at most 1", ""),
        ("toy over no-flus", "'no-flus' at character 10 of 'toy over no-flus'", "no-flush"),
        ("tox over no-flush", "'tox' at character 1 of 'tox over no-flush', expected a scheme", "toy"),
        ("toy-tree", "expected 'toy-tree on' and a mode", ""),
        (
            "toy-tree on cache",
            "'cache' at character 13 of 'toy-tree on cache', expected a mode of toy-tree: cached",
            "cached",
        ),
        ("toy on cached", "expected no 'on': toy goes on none", ""),
        ("line", "expected 'line over' and a primitive", ""),
        ("saw over no-flush", "expected no 'over': saw goes over none", ""),
        ("nowhere/toy.py:toy", "no such file", ""),
        ("line over no-flush by WRITE by SEND", "'by' a second time at character 29", ""),
    ],
)  # fmt: skip
def test_a_wrong_part_is_named_with_its_place(made, name, found, close):
    told = refused(name)
    assert found in told and (f"did you mean '{close}'?" if close else "") in told


OWN = '''
"""A store of one's own."""
from rpsim.protocols.efactory.saw import Saw

class Mine(Saw, name="mine-own"):
    title = "mine"
'''


def test_a_file_of_ones_own_is_named_by_its_path(made, tmp_path):
    file = tmp_path / "store.py"
    file.write_text(OWN)
    assert scheme(f"{file}:mine-own").title == scheme(str(file)).title == "mine"
    name = f"{file}:mine-on"
    place = f"'mine-on' at character {len(str(file)) + 2} of '{name}'"
    assert f"found {place}, expected a scheme: mine-own; did you mean 'mine-own'?" in refused(name)
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import nothing_of_that_name\n")
    assert refused(f"{wrong}:x").startswith(f"{wrong}:1: found ModuleNotFoundError")


def draft(**more):
    return Draft.new(
        "mine", scenario="mine", platform="optane-adr",
        workload={"kind": "ycsb", "mix": "a", "keys": 4, "value": "64 B", "operations": 4}, **more,
    )  # fmt: skip


def test_options_of_a_scenario_stand_in_the_names(made):
    built = draft(schemes=["toy", "saw"], options={"replicas": 2, "toy": {"crc": True}}).build()
    assert [variant.scheme for variant in built.variants()] == ["toy[replicas=2, crc=true]", "saw"]
    again = Draft.of(built).build()
    assert again == built.model_copy(update={"options": {}})
    swept = draft(schemes=["toy"], expect={"toy": {"durable": "holds"}}).set({"options.replicas": 3}).build()
    assert swept.schemes == ("toy[replicas=3]",) and list(swept.expect) == ["toy[replicas=3]"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"replica": 2}, "options.replica: found 'replica', expected an option of toy, saw: crc,"),
        ({"tox": {"replicas": 2}}, "options.tox: found 'tox', expected one of the schemes: toy, saw; did you"),
        ({"toy": {"replicas": 0}}, "options.toy.replicas: found 0, expected a whole number of at least 1"),
        ({"saw": {"replicas": 2}}, "found 'replicas', expected an option of saw: none has any"),
        ({"replicas": [1]}, "options.replicas: found a list"),
        (3, "options: found 3, expected a map"),
    ],
)  # fmt: skip
def test_a_wrong_option_of_a_scenario(made, options, found):
    with pytest.raises(InputError) as caught:
        draft(schemes=["toy", "saw"], options=options).build()
    assert found in str(caught.value)


def test_an_option_twice_is_a_mistake(made):
    with pytest.raises(InputError, match=r"replicas=3 beside 'toy\[replicas=2\]'"):
        draft(schemes=["toy[replicas=2]"], options={"replicas": 3}).build()


def test_an_option_says_how_many_machines_play_a_role(made):
    class Many(made["toy"], name="many"):
        class Extra(Role, passive=True, memory=("pm",), counted_by="replicas"):
            pass

    built = draft(schemes=["many[replicas=3]"]).set({"workload.operations": 1}).build()
    result = run_variant(built, built.variants()[0])
    assert len(result.scheme.roles["extra"]) == 3 and result.scheme_name == "many[replicas=3]"
    with pytest.raises(InputError, match=r"extra\.machines: found 2, expected 1, as the options of the schemes say"):
        draft(schemes=["many"], roles={"extra": {"machines": 2}}).build()


@pytest.mark.long
def test_crash_takes_a_shape_over_a_primitive(tmp_path, capsys):
    """From Python as on the command line."""
    less = {"workload": {"kind": "ycsb", "mix": "update-only", "keys": 1, "value": "48 B", "operations": 1}}
    answer = rpsim.crash(
        "quickstart", schemes=["line over read-after-write"], platform="optane-eadr", ddio="on", **less
    )
    assert answer.verdicts["line over read-after-write"]["no_lost_ack"] == "holds"
    few = ["schemes", "word over no-flush,line over wflush", "--platforms", "optane-eadr", "--faults", "no fault"]
    main(["matrix", *few, "--quick", "--out", str(tmp_path), "--json", "--jobs", "1"])
    rows = result_of(capsys.readouterr().out)["rows"]
    assert {row["subject"] for row in rows} == {"word over no-flush", "line over wflush"}


def test_a_share_is_a_percentage_and_none_above_all():
    share = Option("10%", quantity="share", source="assumption: a tenth")
    assert share.read("2.5%") == "2.5%" and share.usual == "10%"
    for wrong in ("101%", "1.1", "-1%", "nan%", "a tenth"):
        with pytest.raises(ValueError, match="a share from 0% to 100%"):
            share.read(wrong)


# small runs ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "as_small"),
    [
        ("tailwind", "tailwind[backups=2, segment=3]"),
        ("tailwind[segment=100]", "tailwind[segment=100, backups=2]"),
        ("tailwind over wflush", "tailwind[backups=2, segment=3] over wflush"),
        ("saw", "saw"),
        ("queue on rnvm-rcb[batch=4]", "queue on rnvm-rcb[batch=4, oplog=awaited]"),
        ("queue on rnvm-rcb[oplog=posted]", "queue on rnvm-rcb[oplog=posted]"),
    ],
)
def test_a_small_run_takes_the_options_that_a_name_leaves_open(name, as_small):
    found = small(scheme(name))
    assert found.name == as_small and small(found).name == as_small
    assert "tailwind" not in name or found.option("backups") == 2


def test_what_small_runs_take_may_be_chosen():
    with pytest.raises(ValueError, match="at least 2"):
        Option(3, at_least=2, small=1, source="a test")
