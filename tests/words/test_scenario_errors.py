"""What somebody reads whose scenario is wrong: every mistake at once, with its place, in plain words."""

# ruff: noqa: E501 (messages are quoted whole)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpsim.scenarios.schema.known import KnownNames, RoleFacts, SchemeFacts
from rpsim.scenarios.schema.load import load_scenario, scenario_from_data, scenario_names, validate
from rpsim.sim.errors import InputError
from rpsim.sim.yaml_source import parse_yaml, read_yaml

ROLES_OF_A_STORE = {"server": RoleFacts(), "client": RoleFacts(many=True, invokes=True)}
STORE = SchemeFacts(ROLES_OF_A_STORE, ("put", "get"), frozenset({"put"}))
MIRRORED = SchemeFacts(
    {
        "primary": RoleFacts(),
        "mirror": RoleFacts(many=True, passive=True),
        "client": RoleFacts(many=True, invokes=True),
    },
    ("put", "get"),
    frozenset({"put"}),
)
TWO = SchemeFacts(ROLES_OF_A_STORE | {"data": RoleFacts(many=True)}, ("put", "get"), frozenset({"put"}))
HEAP = SchemeFacts(ROLES_OF_A_STORE, ("alloc", "free"), frozenset({"alloc", "free"}))
SWITCHES = {"ddio": ("on", "off")}
ANOTHER = f"or another of {len(scenario_names())} (rpsim list scenarios)"
KNOWN = KnownNames(
    {"client-active": STORE, "saw": STORE, "slabs": HEAP},
    {"optane-adr": SWITCHES, "optane-eadr": SWITCHES | {"iio_wc": ("off", "on")}},
)

GOOD = """\
scenario: mine
title: Two stores
vary: {platform: [optane-adr, optane-eadr], ddio: [on, off]}
roles: {client: {machines: 2, processes: 8}}
schemes: [client-active, saw]
workload: {kind: ycsb, mix: a, keys: 200, value: 256 B, operations: 2000}
crash: {fault: "server[0] power", instants: all}
expect:
  saw: {no_lost_ack: holds}
"""


def messages(text: str, *overrides: str, seed: Any = None) -> list[str]:
    with pytest.raises(InputError) as caught:
        validate(parse_yaml(text, "mine.yaml"), overrides, seed, known=KNOWN)
    return str(caught.value).split("\n")


def changed(*changes: tuple[str, str]) -> list[str]:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return messages(text)


def read(content: bytes | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(folder)
    if content is not None:
        Path("mine.yaml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_scenario("mine.yaml", known=KNOWN)
    return str(caught.value).split("\n")


# the nine that everybody writes once -----------------------------------------------------------------------------


def test_an_unknown_scheme():
    assert changed(("active, saw]", "active, sav]")) == [
        "mine.yaml:5: schemes[1]: found 'sav', expected a scheme: client-active, saw, slabs; did you mean 'saw'?"
    ]


def test_an_unknown_scheme_alone_is_one_mistake():
    assert changed(("[client-active, saw]", "[sav]")) == [
        "mine.yaml:5: schemes[0]: found 'sav', expected a scheme: client-active, saw, slabs; did you mean 'saw'?"
    ]
    assert changed(("[client-active, saw]", "[]")) == [
        "mine.yaml:5: schemes: found an empty list, expected a list with at least 1"
    ]


def test_a_negative_size():
    assert changed(("256 B", "-256 B")) == [
        "mine.yaml:6: workload.value: found '-256 B', expected a size of at least 8 B"
    ]


def test_more_operations_than_memory_holds(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 300}.get)
    bound = "expected at most 1,200: a run keeps 1 KiB or more of each in this machine's memory"
    assert changed() == [f"mine.yaml:6: workload.operations: found 2,000, {bound}"]


def test_a_misspelt_key_is_one_mistake_and_not_a_missing_key_as_well():
    assert changed(("operations:", "opertions:")) == [
        "mine.yaml:6: workload.opertions: found the unknown key 'opertions', expected one of kind, mix, reads, "
        "inserts, scans, modifies, shares, keys, value, operations, zipf, warmup, order, deletes, scan_length, loaded, steps, "
        "step_reads, amount, batch, work, think, past, own, groups, seed; did you mean 'operations'?"
    ]


def test_a_missing_file(tmp_path, monkeypatch):
    assert read(None, tmp_path, monkeypatch) == [
        f"mine.yaml: found no such file, expected the path of a scenario file, or one of pmr-barrier, pdpm-client, filemr {ANOTHER}"
    ]


def test_a_missing_file_beside_one_with_nearly_that_name(tmp_path, monkeypatch):
    (tmp_path / "mien.yaml").write_text(GOOD)
    assert read(None, tmp_path, monkeypatch)[0].endswith("; did you mean 'mien.yaml'?")


def test_a_missing_scenario():
    with pytest.raises(InputError) as caught:
        load_scenario("quickstrat", known=KNOWN)
    assert str(caught.value) == (
        f"quickstrat: found no such scenario, expected the path of a scenario file, or one of quickstart {ANOTHER}; "
        "did you mean 'quickstart'?"
    )


def test_an_empty_file(tmp_path, monkeypatch):
    assert read(b"", tmp_path, monkeypatch) == ["mine.yaml: found an empty file, expected a YAML map"]
    assert read(b"# later\n", tmp_path, monkeypatch) == ["mine.yaml: found only comments, expected a YAML map"]


def test_a_list_where_a_map_is_due():
    assert changed(("{machines: 2, processes: 8}", "[2, 8]")) == [
        "mine.yaml:4: roles.client: found a list of 2, expected a map with machines, processes, cores, threads, pinned, waits, "
        "core_type, retries, background"
    ]
    assert changed(("{client: {machines: 2, processes: 8}}", "[client]")) == [
        "mine.yaml:4: roles: found a list of 1, expected a map"
    ]
    assert messages("- one\n- two\n") == [
        "mine.yaml:1: found a list of 2, expected a map with scenario, schemes, workload, ..."
    ]


def test_a_syntax_error():
    assert changed(("[client-active, saw]", "[client-active, saw")) == [
        "mine.yaml:6: found a YAML syntax error (column 9): a list whose '[' (line 5) is not closed before this, "
        "expected ',' or ']'"
    ]


def test_a_python_tag():
    assert changed(("title: Two stores", "title: !!python/object/apply:os.getcwd []")) == [
        "mine.yaml:2: title: found the YAML tag !!python/object/apply:os.getcwd, expected plain text, numbers, lists "
        "and maps without tags"
    ]


def test_binary_rubbish(tmp_path, monkeypatch):
    assert read(b"\x7fELF\x02\x01\x01\x00\x00", tmp_path, monkeypatch) == [
        "mine.yaml: found a binary file (byte 7 is zero), expected YAML text in UTF-8"
    ]
    assert read(b"scenario: x\ntitle: \xff\xfe\n", tmp_path, monkeypatch) == [
        "mine.yaml:2: found a binary file (byte 19 is 0xff), expected YAML text in UTF-8"
    ]


# the rest --------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_file_are_said_at_once_in_its_order():
    found = changed(
        ("optane-eadr", "optane-eard"),
        ("[on, off]", "[on, of]"),
        ("machines: 2", "machines: 0"),
        ("mix: a", "mix: g"),
        ("keys: 200", "keys: 2.5"),
        ("256 B", "256"),
        ("server[0]", "sever[0]"),
        ("instants: all", "instants: some, view: adversary"),
        ("no_lost_ack: holds", "no_lost_acks: broken"),
    )
    assert found == [
        "mine.yaml:3: vary.platform[1]: found 'optane-eard', expected a platform: optane-adr, optane-eadr; "
        "did you mean 'optane-eadr'?",
        "mine.yaml:3: vary.ddio[1]: found 'of', expected a position of ddio: on, off; did you mean 'off'?",
        "mine.yaml:4: roles.client.machines: found 0, expected at least 1",
        "mine.yaml:6: workload.mix: found 'g', expected a mix: a, b, c, d, e, f, update-only, load",
        "mine.yaml:6: workload.keys: found 2.5, expected a whole number",
        "mine.yaml:6: workload.value: found 256 without a unit, expected a size with its unit, e.g. '256 B' or '4 KiB'",
        "mine.yaml:7: crash.fault: found 'sever', expected a fault of a role of these schemes: server, client; "
        "did you mean 'server'?",
        "mine.yaml:7: crash.instants: found 'some', expected all, or how many instants to sample (at least 1)",
        "mine.yaml:7: crash.view: found 'adversary', expected a view: adversarial, timed; did you mean 'adversarial'?",
        "mine.yaml:9: expect.saw.no_lost_acks: found 'no_lost_acks', expected a condition: committed, exactly_once, "
        "session, monotonic, bounded_loss, no_lost_ack, buffered_cut, buffered, linearizable, durable, persistent, "
        "strict; did you mean 'no_lost_ack'?",
        "mine.yaml:9: expect.saw.no_lost_acks: found 'broken', expected a verdict: holds, violated, undecided",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("keys: 200", "keys: 0", "6: workload.keys: found 0, expected at least 1"),
        ("keys: 200", "keys: true", "6: workload.keys: found true, expected a whole number"),
        ("keys: 200", "keys: 200, own: yes please", "6: workload.own: found 'yes please', expected true or false"),
        ("keys: 200", f"keys: {10**80}", f"6: workload.keys: found {10**80}, expected at most 1,000,000,000"),
        ("mix: a", "mix: a, zipf: .nan", "6: workload.zipf: found nan, expected a finite number"),
        ("256 B", "4 B", "6: workload.value: found '4 B', expected a size from 8 B (room for a stamp) to 1 GiB"),
        ("operations: 2000", "operations: 9, warmup: 9", "6: workload.warmup: found 9, expected fewer than the 9 operations"),
        ("kind: ycsb", "kind: ycbs", "6: workload.kind: found 'ycbs', expected a kind of workload: ycsb, mix, pagerank, transactions, schedule; did you mean 'ycsb'?"),
        ("kind: ycsb, ", "", "6: workload.kind: found nothing, expected a kind of workload: ycsb, mix, pagerank, transactions, schedule"),
        ("{client: {machines: 2, processes: 8}}", "{server: {machines: 2}}", "4: roles.server.machines: found 2, expected 1, since these schemes have one server"),
        ("{client:", "{cleint:", "4: roles.cleint: found 'cleint', expected a role of these schemes: server, client; did you mean 'client'?"),
        ("server[0] power", "server[1] power", "7: crash.fault: found 'server[1] power', expected an index below 1: so many server machines there are, counted from 0"),
        ("server[0] power", "client[2] power", "7: crash.fault: found 'client[2] power', expected an index below 2: so many client machines there are, counted from 0"),
        ("server[0] power", "server[0] pwoer", "7: crash.fault: found 'pwoer', expected something of a server that may fail: power, process, power in recovery; did you mean 'power'?"),
        ("server[0] power", "client power in recovery", "7: crash.fault: found 'power in recovery', expected something of a client that may fail: power, process"),
        ("server[0] power", "client[16] process", "7: crash.fault: found 'client[16] process', expected an index below 16: so many client processes there are"),
        ("server[0] power", "server[1] process", "7: crash.fault: found 'server[1] process', expected an index below 1: so many server machines there are, counted from 0"),
        ("active, saw]", "active, client-active]", "5: schemes: found 'client-active' twice, expected each name once"),
        ("active, saw]", "active, slabs]", "6: workload.kind: found 'ycsb' for slabs (operations: alloc, free), expected schemes with put and get"),
        ("title: Two stores", "title: Two stores\nddio: on", "4: vary.ddio: found both ddio and vary.ddio, expected one of them"),
        ("ddio: [on, off]", "iio_wc: on", "3: vary.iio_wc: found a switch that optane-adr does not have, expected one that it has"),
        ("ddio: [on, off]", "ddoi: on", "3: vary.ddoi: found 'ddoi', expected something that may vary: platform, ddio, iio_wc; did you mean 'ddio'?"),
        ("scenario: mine", "scenario: ../../mine", "1: scenario: found '../../mine', expected a name of letters, digits, '-', '_' and '.'"),
        ("title: Two stores", "title: Two stores\ntitle: Three", "3: title: found the key 'title' a second time, expected each key once (it is first given in line 2)"),
    ],
)  # fmt: skip
def test_one_mistake(old, new, expected):
    assert changed((old, new)) == [f"mine.yaml:{expected}"]


def test_a_condition_that_does_not_fit_the_fault():
    assert changed(("no_lost_ack: holds", "linearizable: holds")) == [
        "mine.yaml:9: expect.saw.linearizable: found 'linearizable', expected a condition that server[0] power is judged "
        "by: committed, monotonic, no_lost_ack, durable, bounded_loss, buffered_cut, buffered"
    ]


def test_an_expectation_by_variant_names_what_varies():
    assert changed(("no_lost_ack: holds", "durable: {optane-adrr: violated, 'ddio onn': holds}")) == [
        "mine.yaml:9: expect.saw.durable.optane-adrr: found 'optane-adrr', expected a platform, a switch, or several "
        "with ', ': optane-adr, optane-eadr, ddio on, ddio off, iio_wc off, iio_wc on; did you mean 'optane-adr'?",
        "mine.yaml:9: expect.saw.durable.ddio onn: found 'ddio onn', expected a platform, a switch, or several with "
        "', ': optane-adr, optane-eadr, ddio on, ddio off, iio_wc off, iio_wc on; did you mean 'ddio on'?",
    ]


def test_nothing_but_a_name():
    assert messages("scenario: mine\n") == [
        "mine.yaml:1: platform: found nothing, expected a platform (optane-adr, optane-eadr), or several in vary",
        "mine.yaml:1: schemes: found nothing, expected a list of schemes, e.g. [saw]",
        "mine.yaml:1: workload: found nothing, expected a map with the workload",
    ]


def test_a_schedule_names_processes_operations_and_objects_that_exist():
    operations = "[{process: 16, f: puts, object: k1, at: 5}, {process: 0, f: get}]"
    schedule = f"workload: {{kind: schedule, keys: 3, value: 64 B, operations: {operations}}}\n"
    line = GOOD.splitlines(keepends=True)[5]
    assert changed((line, schedule)) == [
        "mine.yaml:6: workload.operations[0].process: found 16, expected a process below 16: so many there are, "
        "counted from 0",
        "mine.yaml:6: workload.operations[0].f: found 'puts', expected an operation of client-active: put, get; "
        "did you mean 'put'?",
        "mine.yaml:6: workload.operations[0].at: found 5, expected a time from the start with its unit, e.g. '1.2 us'",
        "mine.yaml:6: workload.operations[1]: found nothing, expected the object, e.g. k17",
    ]
    schedule = schedule.replace(operations, "[{process: 1, f: put, object: k3}, {process: 1, f: put, object: k01}]")
    assert changed((line, schedule)) == [
        "mine.yaml:6: workload.operations[0].object: found 'k3', expected an object from k0 to k2",
        "mine.yaml:6: workload.operations[1].object: found 'k01', expected an object from k0 to k2",
    ]


def test_mistakes_of_the_command_line_say_so():
    overrides = (
        "workload",
        "workload.keys=-5",
        "workload.kyes=3",
        "vary.platform[3]=x",
        "title.text=x",
        "crash.view=[",
        "schemes=saww",
        "workloads.keys=5",
    )
    assert messages(GOOD, *overrides, seed=-1) == [
        "--set: found 'workload', expected field=value, e.g. workload.keys=50",
        "--set vary.platform[3]: found [3], expected a position below 2 in vary.platform",
        "--set title.text: found 'Two stores' in title, expected a map to set text in",
        "--set crash.view: found a YAML syntax error (column 2): the end of the file, expected what was begun to be "
        "closed or given",
        "--seed: found -1, expected at least 0",
        "--set schemes: found 'saww', expected a scheme: client-active, saw, slabs; did you mean 'saw'?",
        "--set workload.keys: found -5, expected at least 1",
        "--set workload.kyes: found the unknown key 'kyes', expected one of kind, mix, reads, inserts, "
        "scans, modifies, shares, keys, value, operations, zipf, warmup, order, deletes, scan_length, loaded, steps, step_reads, "
        "amount, batch, work, think, past, own, groups, seed; did you mean 'keys'?",
        "--set workloads.keys: workloads: found the unknown key 'workloads', expected one of scenario, title, "
        "description, seed, platform, ddio, vary, roles, schemes, options, workload, scale, crash, failures, outages, held, network, expect; did you mean 'workload'?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c\n", "1: found a YAML syntax error (column 5): a ':' where no key can end, expected one 'key: value' a line, or quotes around a text with ': '"),
        ("a:\n\t- b\n", "2: found a YAML syntax error (column 1): a tab where a value should start, expected text, a number, '[' or '{' (indent with spaces; quote texts that start with a special sign)"),
        ("a: 'x\n", "2: found a YAML syntax error (column 1): a text whose quote (line 1) is never closed, expected a closing quote"),
        ("- a\nb: 1\n", "2: found a YAML syntax error (column 1): an entry that is indented like none above it, expected entries of one map or list in one column"),
        ("a: 1\n---\nb: 2\n", "2: found a YAML syntax error (column 1): a second document ('---'), expected one document a file"),
        ("a: *b\n", "1: found a YAML syntax error (column 4): undefined alias 'b', expected an alias whose anchor stands above it"),
        ("a: \a\n", "1: found the control character U+0007, expected YAML text"),
        ("a: &a [*a]\n", "1: a[0]: found an alias to a map or list that contains it, expected data that ends"),
        ("? [a]\n: b\n", "1: found a key that is a list or a map, expected a key that is text"),
    ],
)  # fmt: skip
def test_yaml_that_is_none(text, expected):
    assert messages(text) == [f"mine.yaml:{expected}"]


@pytest.mark.long
def test_nested_too_deeply_and_aliases_without_end():
    assert messages("[" * 5000) == ["mine.yaml: found maps and lists nested too deeply, expected at most 60 levels"]
    bomb = "a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
    bomb += "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
    )
    assert messages(bomb)[0].endswith("found more than 200,000 values (through aliases?), expected a smaller file")


def test_a_directory(tmp_path):
    with pytest.raises(InputError, match=r": found a directory, expected a YAML file$"):
        load_scenario(str(tmp_path), known=KNOWN)


def test_yaml_words_that_look_like_truths_dates_and_octals_stay_what_was_written():
    source = parse_yaml(
        "a: [on, off, yes, no, y, 1e6, 1_000, 010, 0x10, 12:30, 2024-01-01, 1.5, true, ~, '7']\n1: x\n", "f"
    )
    assert source.data == {
        "a": ["on", "off", "yes", "no", "y", 1_000_000, 1000, 10, 16, "12:30", "2024-01-01", 1.5, True, None, "7"],
        "1": "x",
    }
    assert [type(value) for value in source.data["a"][5:9]] == [int] * 4
    assert (source.line(("1",)), source.line(("a", 3)), source.line(("b", "c"))) == (2, 1, 1)


@pytest.mark.long
@given(st.text(alphabet=st.characters(codec="utf-8")) | st.text(alphabet="ab:[]{},-&*!|>'\"#%@? \n\t"))
@example("%a")
@example("!!int x")
def test_any_text_is_read_or_refused_in_words(text):
    try:
        parse_yaml(text, "f")
    except InputError as error:
        assert error.mistakes
        assert all(mistake.found and mistake.expected for mistake in error.mistakes)


PATHS = [
    ("scenario",), ("title",), ("seed",), ("platform",), ("ddio",), ("vary",), ("vary", "platform"), ("vary", "ddio"), ("roles",),
    ("roles", "client"), ("roles", "client", "machines"), ("schemes",), ("schemes", 0), ("workload",), ("workload", "kind"),
    ("workload", "mix"), ("workload", "keys"), ("workload", "value"), ("workload", "zipf"), ("workload", "operations"),
    ("workload", "warmup"), ("crash",), ("crash", "fault"), ("crash", "instants"), ("crash", "budget"), ("expect",),
    ("expect", "saw"), ("expect", "saw", "no_lost_ack"), ("expect", "saw", "durable"), ("any", "thing"),
]  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["on", "saw", "schedule"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("kind"), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@pytest.mark.long
@given(st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=4))
def test_any_junk_in_any_field_is_refused_in_words_or_means_something(changes):
    data = parse_yaml(GOOD, "f").data
    for path, junk in changes:
        node = data
        for part in path[:-1]:
            inside = node.get(part) if isinstance(node, dict) else None
            node = inside if isinstance(inside, dict) or (isinstance(inside, list) and inside) else node
        if isinstance(node, dict):
            node[str(path[-1])] = junk
        elif isinstance(path[-1], int):
            node[path[-1]] = junk
    try:
        scenario = scenario_from_data(data, "f", known=KNOWN)
    except InputError as error:
        assert all(mistake.found and mistake.expected and "pydantic" not in str(mistake) for mistake in error.mistakes)
    else:
        assert scenario_from_data(scenario.resolved(), "f", known=KNOWN) == scenario


def test_a_file_that_is_read_keeps_its_name(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    source = read_yaml(path)
    assert source.file == str(path)
    assert source.data["scenario"] == "mine"


OTHERS = KnownNames({"client-active": STORE, "saw": STORE, "mirrored": MIRRORED, "two": TWO}, KNOWN.platforms)


def of_others(*changes):
    """The good scenario with other schemes that have other roles."""
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_yaml(text, "mine.yaml")


@pytest.mark.parametrize(
    ("schemes", "fault", "told"),
    [
        ("mirrored", "server[0] power", "'server', expected a fault of a role of these schemes: primary, mirror, client, as in 'primary[0] power'"),
        ("mirrored", "mirror[0] process", "'process', expected something of a mirror that may fail: power"),
        ("mirrored", "mirror[0] lost", "'lost', expected something of a mirror that may fail: power"),
        ("mirrored, saw", "primary[0] power", "'primary[0] power', expected a fault of a role of saw: server, client"),
        ("two", "data[9] power", "'data[9] power', expected an index below 1: so many data machines there are, counted from 0"),
        ("two", "data[0,0] power", "'data[0]' twice, expected each machine once"),
        ("two", "data[0] + data power", "'data[0]' twice, expected each machine once"),
        ("two", "data[0]", "'data[0]', expected a role with its index and what fails, e.g. 'server[0] power', or 'no fault'"),
        ("two", "all lost", "'lost', expected something of all machines that may fail: power"),
        ("two", "all power then data power", "'all power then data power', expected before 'then' a fault that somebody survives"),
        ("two", "data power then data power then data power", "'data power then data power then data power', expected one 'then': a fault, and another that follows it"),
    ],
)  # fmt: skip
def test_a_fault_is_of_a_machine_that_every_scheme_has_and_that_may_fail_alone(schemes, fault, told):
    source = of_others(("schemes: [client-active, saw]", f"schemes: [{schemes}]"), ("server[0] power", fault))
    source.data.pop("expect")
    with pytest.raises(InputError) as caught:
        validate(source, known=OTHERS)
    assert str(caught.value) == f"mine.yaml:7: crash.fault: found {told}"


def test_power_of_the_first_machine_that_recovers_is_what_fails_unless_a_scenario_says_otherwise():
    for schemes, fault in (("saw", "server[0] power"), ("mirrored", "primary[0] power")):
        source = of_others(("schemes: [client-active, saw]", f"schemes: [{schemes}]"))
        for name in ("expect", "crash"):
            source.data.pop(name)
        assert str(validate(source, known=OTHERS).crash.fault) == fault
        source.data["crash"] = {"nested": 1}
        assert str(validate(source, known=OTHERS).crash.fault) == f"{fault} in recovery"


# machines ---------------------------------------------------------------------------------------------------------

ROLES = "roles: {client: {machines: 2, processes: 8}}"


@pytest.mark.parametrize(
    ("role", "told"),
    [
        ("{waits: slep}", "roles.client.waits: found 'slep', expected a way to wait for completions: poll, sleep, adaptive; did you mean 'sleep'?"),
        ("{core_type: arm-a27}", "roles.client.core_type: found 'arm-a27', expected a kind of cores of optane-adr: arm-a72; did you mean 'arm-a72'?"),
        ("{background: [{kind: compte}]}", "roles.client.background[0].kind: found 'compte', expected a kind of background load: compute, memory, network; did you mean 'compute'?"),
        ("{background: [{kind: memory}]}", "roles.client.background[0]: found a load of kind memory without bandwidth, expected device, bandwidth"),
        ("{background: [{kind: memory, bandwidth: 10}]}", "roles.client.background[0].bandwidth: found 10, expected a rate with its unit, e.g. '10 GB/s' or '40 Gb/s'"),
        ("{background: [{kind: memory, device: drum, bandwidth: 1 GB/s}]}", "roles.client.background[0].device: found 'drum', expected a memory device of optane-adr: pm, dram; did you mean 'dram'?"),
        ("{background: [{kind: memory, bandwidth: 100 GB/s}]}", "roles.client.background[0].bandwidth: found 100 GB/s of dram: its DIMMs have 76.8 GB/s, expected less"),
        ("{background: [{kind: compute, bandwidth: 1 GB/s}]}", "roles.client.background[0].bandwidth: found 'bandwidth' of a load of kind compute, expected threads"),
    ],
)  # fmt: skip
def test_what_a_machine_has_not(role, told):
    found = changed(
        (ROLES, f"roles: {{client: {role}}}"),
        ("vary: {platform: [optane-adr, optane-eadr], ddio", "platform: optane-adr\nvary: {ddio"),
    )
    assert [message.split(": ", 1)[1] for message in found] == [told]


@pytest.mark.parametrize(
    ("load", "told"),
    [
        ("{to: 'server[1]', size: 64 B, rate: 1}", ".to: found 'server[1]', expected an index below 1: so many server machines there are, counted from 0"),
        ("{to: 'sevrer[0]', size: 64 B, rate: 1}", ".to: found 'sevrer', expected a role of these schemes: server, client; did you mean 'server'?"),
        ("{to: server, size: 64 B, rate: 1}", ".to: found 'server', expected a role with its index, e.g. 'client[0]'"),
        ("{to: 'client[1]', size: 64 B, rate: 1}", ".to: found 'client[1]', expected a machine of another role than client"),
        ("{to: 'server[0]', size: 64 B, rate: 0}", ".rate: found 0, expected at least 1"),
        ("{to: 'server[0]', size: 64 B}", ": found a load of kind network without rate, expected to, size, rate"),
        ("{to: 'server[0]', size: 64 B, rate: 1, threads: 2}", ".threads: found 'threads' of a load of kind network, expected to, size, rate"),
    ],
)  # fmt: skip
def test_packets_to_machines_that_are_not_there(load, told):
    found = changed((ROLES, f"roles: {{client: {{machines: 2, background: [{{kind: network, {load[1:]}]}}}}"))
    assert [message.split(": ", 1)[1] for message in found] == [f"roles.client.background[0]{told}"]
