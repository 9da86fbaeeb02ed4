"""Which faults ``every`` stands for, which platforms a scheme gets, which scenario a fault."""

import pytest

from rpsim.protocols.naming import Option
from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.scheme import Role, Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.matrix.configurations import configurations
from rpsim.validation.matrix.groups import group_jobs
from rpsim.validation.matrix.guarantees import (
    AGAIN,
    OPAQUE,
    REMOVALS,
    ROUNDS,
    SEVERAL,
    UNDISTURBED,
    every,
    file_of,
    fitted_to,
    scenario_of,
    usual,
)
from rpsim.validation.matrix.testbeds import fits, fitting

STORE = ["no fault", "client[0] process", "server[0] process", "server[0] power", "server[0] power in recovery"]


@pytest.mark.parametrize(
    "name",
    sorted(
        n for n, kind in schemes().items() if "server" in kind.role_types and n not in ("octopus", "octopus-mongodb")
    ),
)
def test_a_store_may_suffer_what_one_server_may(name):
    kind = schemes()[name]
    power = [OPAQUE, OPAQUE] if kind.role_types["server"].opaque() else ["server-power", "power-in-recovery"]
    files = dict(zip(STORE, ["no-fault", "survivors", "survivors", *power], strict=True))
    assert every(kind) == list(files)
    assert usual(kind) == "server[0] power"
    assert {fault: scenario_of(fault, kind) for fault in files} == files


def test_a_scheme_of_which_a_scenario_says_how_many_servers_has_several_machines():
    kind = schemes()["octopus"]
    assert {"server[0] lost", "all power"} < set(every(kind))
    assert {scenario_of(fault, kind) for fault in every(kind)} == {"no-fault", SEVERAL}


class Replicated(Scheme):
    class Client(Role, invokes=True):
        pass

    class Primary(Role, memory=("dram", "pm")):
        pass

    class Mirror(Role, memory=("dram", "pmr"), passive=True):
        pass

    operations, updates = ("put", "get"), frozenset({"put"})
    faults = {"primary": ("power",), "mirror": ("power", "lost")}  # noqa: RUF012


def test_a_scheme_of_several_machines_declares_its_own():
    assert every(Replicated) == [
        "no fault", "client[0] process", "primary[0] power", "mirror[0] power", "primary[0] power in recovery",
        "mirror[0] lost", "all power", "all power in recovery",
    ]  # fmt: skip
    assert {scenario_of(fault, Replicated) for fault in every(Replicated)[1:]} == {SEVERAL}


class Counted(Replicated):
    class Backup(Role, memory=("dram", "pm"), counted_by="backups"):
        pass

    faults = {"primary": ("power",), "backup": ("power", "lost")}  # noqa: RUF012
    options = {"backups": Option(4, at_least=1, small=3, text="how many", source="a test")}  # noqa: RUF012


def test_the_last_of_machines_that_an_option_counts_is_tried_beside_the_first():
    """As many as a small run has: there a scheme is explored with small options."""
    quick = [fault for fault in every(Counted) if "[2]" not in fault]
    assert quick == every(Counted, last=False)
    assert [fault for fault in every(Counted) if fault not in quick] == ["backup[2] power", "backup[2] lost"]
    assert UNDISTURBED[0] in fitted_to(schemes()["hotpot"], SEVERAL, "node[2] power")
    assert UNDISTURBED[0] not in fitted_to(schemes()["hotpot"], SEVERAL, "node[0] power")
    more = {"hotpot": "node[2]", "nvfs": "data-node[2]", "tailwind": "backup[1]", "hyperloop": "replica[1]"}
    for name, last in more.items():
        assert {f"{last} power", f"{last} lost"} < set(every(schemes()[name]))
    assert not [fault for fault in every(schemes()["mojim"]) if "[0]" not in fault and fault.endswith("lost")]


def test_a_group_is_tried_without_its_first_and_without_its_last_replica():
    at = configurations(["adr, ddio on"])
    jobs = group_jobs(["chain of 2", "quorum"], ["no-flush"], at)
    found = [(job.group, job.fault) for job in jobs]
    both = ["all power", "replica[0] lost"]
    assert found[:4] == [(group, fault) for fault in both for group in ("chain of 2", "quorum")]
    assert found[4:] == [("chain of 2", "replica[1] lost"), ("quorum", "replica[2] lost")]


def test_platforms_are_those_with_the_memory_that_the_roles_need():
    store = schemes()["saw"]
    assert fitting(store, ["optane-adr", "optane-eadr"]) == ["optane-adr", "optane-eadr"]
    found = fitting(Replicated, ["optane-adr"])
    assert found and "optane-adr" not in found and all(fits(Replicated, name) for name in found)


def test_where_one_without_code_fails_no_core_pauses_before():
    kind = schemes()["clover"]
    assert fitted_to(kind, SEVERAL, "data[0] power") == UNDISTURBED
    assert fitted_to(kind, SEVERAL, "metadata[0] power") == REMOVALS
    assert fitted_to(kind, SEVERAL, "metadata[0] power in recovery") == (*AGAIN, *REMOVALS)
    assert fitted_to(kind, SEVERAL, "all power in recovery") == AGAIN


def test_transactions_are_of_several_objects():
    kind = schemes()["hotpot"]
    assert (scenario_of("all power", kind), scenario_of("no fault", kind)) == (SEVERAL, "no-fault")
    for fault, operations in (("all power", 2), ("all power in recovery", 2), ("no fault", 60)):
        name = scenario_of(fault, kind)
        made = load_scenario(
            file_of(name), overrides=("schemes=[hotpot]", f"crash.fault={fault}", *fitted_to(kind, name, fault))
        )
        run = run_variant(made, made.variants()[0])
        steps = [operation.argument or operation.result for operation in run.history.operations]
        assert len(steps) == operations and {len(each) for each in steps} == {2}


def test_a_log_of_slots_comes_round():
    power = "server[0] power"
    assert fitted_to(schemes()["wflush-rpc"], "server-power", power) == ROUNDS
    assert fitted_to(schemes()["wflush-rpc"], "no-fault", "no fault") == ()
    assert fitted_to(schemes()["saw"], "server-power", power) == ()
    kind = schemes()["wflush-rpc"]
    writes = 120 // 2 // 4  # of each of four processes
    assert writes > 2 * kind.option("slots")


@pytest.mark.parametrize("fault", ["no fault", "server[0] power", "server[0] power in recovery", "client[0] process"])
def test_an_allocator_is_asked_for_blocks_of_one_heap(fault):
    kind = scheme("two-tier")
    name = scenario_of(fault, kind)
    chosen = ("schemes=[two-tier]", f"crash.fault={fault}", *fitted_to(kind, name, fault))
    workload = load_scenario(file_of(name), overrides=chosen).workload
    assert workload.shares == {"alloc": 0.6, "free": 0.4} and workload.keys == 1 and workload.operations <= 30
    assert workload.amount == workload.value_bytes
