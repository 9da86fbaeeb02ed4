"""Scenarios put together in Python: the same as from a file, and wrong in the same words."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios import arguments
from rpsim.scenarios.build import Draft
from rpsim.scenarios.schema import equipment, failures, listed, network, ranking, schema, transactions, workloads
from rpsim.scenarios.schema.load import load_scenario
from rpsim.sim.errors import InputError

SMALL = {"kind": "ycsb", "mix": "a", "keys": 20, "value": "64 B", "operations": 40}
MODELS = {
    arguments.ScenarioFields: schema.Scenario,
    arguments.RoleFields: schema.RoleCount,
    arguments.BackgroundFields: schema.Background,
    arguments.GroupFields: workloads.ClientGroup,
    arguments.FailureFields: failures.Failure,
    arguments.DrawnFailureFields: failures.DrawnFailures,
    arguments.YcsbFields: workloads.Ycsb,
    arguments.PageRankFields: ranking.PageRank,
    arguments.TransactionsFields: transactions.Transactions,
    arguments.ScheduleFields: listed.ListedWorkload,
    arguments.OperationFields: listed.ScheduledOperation,
    arguments.CrashFields: schema.CrashSection,
    arguments.OutageFields: schema.Outage,
    arguments.HeldFields: schema.Held,
    arguments.NetworkFields: network.NetworkSection,
    arguments.PacketFields: network.ChosenPacket,
}


@pytest.mark.parametrize("fields", MODELS, ids=lambda fields: fields.__name__)
def test_arguments_are_the_keys_of_a_file(fields):
    model = MODELS[fields].model_fields
    assert set(typing.get_type_hints(fields)) == {field.alias or name for name, field in model.items()}
    if fields is not arguments.ScenarioFields:  # of a scenario that is opened everything is there already
        needed = {field.alias or name for name, field in model.items() if field.is_required()}
        hints = typing.get_type_hints(fields, include_extras=True)
        required = {name for name, hint in hints.items() if typing.get_origin(hint) is typing.Required}
        assert (required or (set(hints) if fields.__total__ else set())) == needed


def test_every_kind_of_map_has_its_arguments():
    modules = (schema, network, equipment, workloads, listed, transactions, ranking, failures)
    everything = [found for module in modules for found in vars(module).values()]
    maps = {m for m in everything if isinstance(m, type) and issubclass(m, BaseModel) and m.model_fields}
    assert maps - {workloads.Draws} == set(MODELS.values())


def test_a_scenario_from_nothing_is_that_of_the_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "scenario: mine\nplatform: optane-adr\nschemes: [saw]\nroles: {client: {machines: 2}}\n"
        "workload: {kind: ycsb, mix: a, keys: 20, value: 64 B, operations: 40}\nexpect: {saw: {no_lost_ack: holds}}\n"
    )
    made = Draft.new(
        "mine",
        scenario="mine",
        platform="optane-adr",
        schemes=("saw",),
        roles={"client": {"machines": 2}},
        workload=SMALL,
        expect={"saw": {Condition.NO_LOST_ACK: Verdict.HOLDS}},
        network=None,
    )
    assert made.build() == load_scenario(str(file)) == Draft.opened(file).build() == Draft.of(made.build()).build()


def test_a_draft_never_changes():
    before = Draft.opened("quickstart")
    data = dict(before.data)
    after = before.with_(workload=SMALL, platform="optane-adr").set({"workload.keys": 7, "vary.ddio": ["on"]})
    assert before.data == data and before.build() == load_scenario("quickstart")
    assert after.build().workload.keys == 7
    assert after.set({"workload.keys": 9}).build().workload.keys == 9 and after.build().workload.keys == 7


def test_what_is_set_is_no_longer_varied_and_the_other_way_round():
    one = Draft.opened("quickstart").with_(platform="optane-eadr", ddio="off", schemes=["saw"])
    assert [variant.label for variant in one.build().variants()] == ["optane-eadr, ddio off"]
    both = one.with_(vary={"platform": ["optane-adr", "optane-eadr"], "ddio": ["on"]})
    assert [variant.label for variant in both.build().variants()] == ["optane-adr, ddio on", "optane-eadr, ddio on"]


def test_what_is_none_has_its_default_again():
    draft = Draft.opened("quickstart").set({"workload.zipf": 0.5, "seed": 9})
    assert draft.build().workload.zipf == 0.5
    again = draft.set({"workload.zipf": None}).with_(seed=None).build()
    assert (again.workload.zipf, again.seed) == (0.99, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d.with_(schemes=["sav"]), "argument schemes: schemes[0]: found 'sav', expected a scheme:"),
        (lambda d: d.with_(schemes=["sav"]), "did you mean 'saw'?"),
        (lambda d: d.with_(shemes=["saw"]), "found the unknown argument 'shemes', expected one of scenario,"),
        (lambda d: Draft.new("mine", shemes=["saw"]), "found the unknown argument 'shemes', expected one of scenario,"),
        (lambda d: d.with_(seed=-1), "argument seed: found -1, expected at least 0"),
        (
            lambda d: d.with_(workload=3),
            "argument workload: found 3, expected a map with kind "
            "(ycsb or mix or pagerank or transactions or schedule)",
        ),
        (lambda d: d.set({"workload.kees": 3}), "argument set: workload.kees: found the unknown key 'kees'"),
        (lambda d: d.set({"workload.keys": "x"}), "argument set: workload.keys: found 'x', expected a whole number"),
        (
            lambda d: d.set({"title.x": 1}),
            "one power cut' in title, expected a map to set x in",
        ),
        (lambda d: d.set({"workload..": 1}), "argument set: workload..: found 'workload..', expected the path of"),
        (lambda d: Draft.new("mine", scenario="m", workload=SMALL), "mine: schemes: found nothing, expected a list of"),
        (lambda d: Draft.opened(Path("quickstrat")), "did you mean 'quickstart'?"),
    ],
)
def test_a_mistake_names_the_argument(make, message):
    with pytest.raises(InputError) as caught:
        make(Draft.opened("quickstart")).build()
    assert message in str(caught.value)


def test_all_mistakes_come_at_once():
    with pytest.raises(InputError) as caught:
        Draft.opened("quickstart").with_(platform="optane", schemes=["sav"], seed=1.5).build()
    assert len(caught.value.mistakes) == 3
