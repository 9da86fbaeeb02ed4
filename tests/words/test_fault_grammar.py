"""The text of a fault: what is written is read back as it was; what a text means; whom it leaves alive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.failures import Failing
from rpsim.protocols.scheme import Role, Scheme
from rpsim.scenarios.schema.faults import DOWN_PS, Fault
from rpsim.scenarios.schema.known import KnownNames, RoleFacts, SchemeFacts
from rpsim.scenarios.schema.load import scenario_from_data

EVERY = ("power", "process", "lost")
ROLES = {
    "client": RoleFacts(many=True, invokes=True),
    "meta": RoleFacts(),
    "data": RoleFacts(many=True),
    "memory": RoleFacts(many=True, passive=True),
}
DECLARED = {"meta": EVERY, "data": EVERY, "memory": ("power", "lost")}
SYSTEM = SchemeFacts(ROLES, ("put", "get"), frozenset({"put"}), DECLARED)
STORE = SchemeFacts({role: ROLES[role] for role in ("client", "meta")}, ("put", "get"), frozenset({"put"}))
NODES = SchemeFacts({role: ROLES[role] for role in ("client", "memory")}, ("put", "get"), frozenset({"put"}))
KNOWN = KnownNames({"system": SYSTEM, "store": STORE, "nodes": NODES}, {"optane-adr": {"ddio": ("on", "off")}})
COUNTS = {"client": {"machines": 2, "processes": 2}, "data": {"machines": 3}, "memory": {"machines": 2}}


def scenario(fault, scheme="system", **crash):
    roles = {role: count for role, count in COUNTS.items() if role in KNOWN.schemes[scheme].roles}
    data = {"scenario": "s", "platform": "optane-adr", "schemes": [scheme], "roles": roles,
            "workload": {"kind": "ycsb", "mix": "a", "keys": 1, "operations": 2, "value": "64 B"},
            "crash": {"fault": fault, **crash}}  # fmt: skip
    return scenario_from_data(data, "s", known=KNOWN)


def read(fault, scheme="system"):
    return scenario(fault, scheme).crash.fault


@st.composite
def at_once(draw):
    places = [("meta", 0), *(("data", n) for n in range(3)), *(("memory", n) for n in range(2)), ("client", 1)]
    parts = []
    for role, index in draw(st.lists(st.sampled_from(places), min_size=1, max_size=3, unique=True)):
        kinds = {"client": ("power", "process"), "memory": ("power", "lost")}.get(role, EVERY)
        parts.append(Failing(role, index, draw(st.sampled_from(kinds))))
    return Fault(tuple(parts))


@pytest.mark.long
@given(at_once(), st.none() | at_once(), st.booleans())
def test_a_fault_is_read_as_it_is_written(first, then, spaced):
    lost = {part.at for part in first.parts if part.kind == "lost"}
    if then is not None and any(part.at in lost for part in then.parts):
        then = None
    fault = Fault(first.parts, then=then)
    found = read(str(fault).replace(" ", "  ") if spaced else str(fault))
    assert (found.parts, found.then and found.then.parts) == (fault.parts, then and then.parts)
    assert str(found) == str(fault)
    assert read(found) == found
    assert "[" not in found.family


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("data[0,2] lost", "data[0] + data[2] lost"),
        ("data[0]+data[1] power", "data[0] + data[1] power"),
        ("meta lost + data[1] power", "meta[0] lost + data[1] power"),
        ("data[1] crash", "data[1] process"),
        ("all power in recovery", "all power in recovery"),
        ("data[0] lost then meta[0] power in recovery", "data[0] lost then meta[0] power in recovery"),
        ("none", "no fault"),
    ],
)
def test_short_and_long_forms(text, meaning):
    assert str(read(text)) == meaning


@pytest.mark.parametrize(
    ("scheme", "text", "executed"),
    [
        ("store", "meta[0] power", False),  # clients alone live on: derived
        ("store", "meta[0] process", True),
        ("store", "client[0] power", True),
        ("store", "all power", False),
        ("system", "all power", False),
        ("system", "all power in recovery", False),
        ("system", "meta[0] power", True),
        ("system", "data[0,1,2] power", True),
        ("system", "meta[0] + data[0,1,2] + memory[0,1] power", False),
        ("system", "meta[0] + data[0,1,2] power + memory[0,1] lost", True),
        ("system", "data[0] lost then meta[0] power", True),
        ("nodes", "memory[0] power", True),
        ("nodes", "memory[0,1] power", False),
        ("nodes", "no fault", True),
    ],
)  # fmt: skip
def test_a_fault_is_executed_where_somebody_lives_on(scheme, text, executed):
    assert read(text, scheme).executed is executed


def test_which_machines_lose_what_they_had():
    fault = read("data[1] power + meta[0] process")
    assert fault.strikes("data", 1) and not fault.strikes("data", 0) and not fault.strikes("meta", 0)
    assert all(read("all power").strikes(role, 0) for role in ROLES)


def test_a_machine_is_away_for_a_second_unless_the_scenario_says():
    assert scenario("all power").crash.away_ps == DOWN_PS
    short = scenario("all power", down="5 us")
    assert short.crash.away_ps == 5_000_000 and short.resolved()["crash"]["down"] == "5 us"
    assert "down" not in scenario("all power").resolved()["crash"]


def test_the_power_of_passive_memory_is_the_usual_fault_where_nobody_runs_code_but_clients():
    data = scenario("no fault", "nodes").resolved()
    del data["crash"]
    assert str(scenario_from_data(data, "s", known=KNOWN).crash.fault) == "memory[0] power"


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ({"mirror": ("power",)}, "faults of 'mirror', which is none of its roles: client, data"),
        ({"data": ("process",)}, r"data may suffer process; expected some of power, lost"),
        ({"all": ("lost",)}, r"all may suffer lost; expected some of power"),
    ],
)
def test_a_scheme_declares_faults_of_its_own_roles_that_they_can_have(faults, told):
    client, data = type("Client", (Role,), {}, invokes=True), type("Data", (Role,), {}, passive=True)
    with pytest.raises(TypeError, match=told):
        type("Wrong", (Scheme,), {"Client": client, "Data": data, "faults": faults}, name="wrong")
    assert "wrong" not in Scheme.registry
