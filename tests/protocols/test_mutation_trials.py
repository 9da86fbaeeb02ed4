"""Do trials of seeded faults choose machines by a scheme's roles, and platforms by their memory?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.pdpm.clover.repair import ChainReader
from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.mutation import fates
from rpsim.validation.mutation.fates import Try, faults
from rpsim.validation.mutation.mutants import planted, seeded, watched
from rpsim.validation.mutation.places import ACCEPTED, ADR, AWAY, EADR, other_place, premise, usual_place
from rpsim.validation.mutation.shown import Shown, ways
from rpsim.validation.mutation.trials import Trial, trials
from rpsim.validation.mutation.trying import (
    AFTER_POWER,
    AFTER_SERVER,
    SERVED,
    Life,
    Load,
    of_lives,
    of_machines,
    of_pairs,
    of_power,
    of_successors,
    one_after_another,
    one_of_several,
    power_of,
    process_of,
    ways_of_machines,
    ways_of_pairs,
)  # fmt: skip
from rpsim.validation.testing.checks import scenario_of


def mirrored(name):
    return scheme(f"{Path(__file__).parents[2] / 'docs' / 'examples' / 'mirrored.py'}:{name}")


def test_machines_and_platforms_are_chosen_by_what_a_scheme_says():
    assert [power_of(Saw), power_of(Saw, again=True)] == ["server[0] power", "server[0] power in recovery"]
    assert process_of(Saw) == "server[0] process" and one_of_several(Saw) == []
    several = mirrored("mirrored")
    assert [power_of(several), process_of(several)] == ["all power", "primary[0] process"]
    assert one_of_several(several) == ["primary[0] power", "mirror[0] power", "mirror[0] lost"]

    class Drive(Saw, name="saw-of-a-drive"):
        class Server(Saw.Server, memory=("dram", "pmr")):
            pass

    del Scheme.registry["saw-of-a-drive"]
    assert ADR.has(Drive) and not EADR.has(Drive)
    made = Load("a", 4, 1, "16 B").scenario(Saw, "server[0] power", ADR)
    assert {variant.platform for variant in made.variants()} == {"optane-adr"}


def test_a_testbed_whose_domain_keeps_what_an_adapter_has_accepted_is_a_place_of_its_own():
    """A plain WRITE that was acknowledged is lost elsewhere, so nothing of such a scheme is kept there."""
    kinds = queue, clover, _ = [scheme(name) for name in ("queue on rnvm-rcb", "clover", "tailwind")]
    assert [premise(kind) for kind in (Saw, *kinds)] == [None, "rnvm-testbed", "clover-testbed", None]
    assert [ADR.has(kind, long=True) for kind in (Saw, *kinds)] == [True, False, False, True] and ADR.has(queue)
    assert [usual_place(kind) for kind in (Saw, *kinds)] == [ADR, ACCEPTED, ACCEPTED, ADR]
    assert usual_place(Saw, AWAY) == AWAY
    made = {"platform": "rnvm-testbed", "domain": "wsp", "ddio": "on", "line_atomicity": "whole"}
    assert ACCEPTED.settings(queue) == made and "line_atomicity" not in ACCEPTED.settings(clover)
    assert ACCEPTED.settings(scheme("queue on naive")).keys() == {"platform", "domain", "ddio"}  # has no log
    assert AWAY.settings(queue) == {"platform": "optane-adr", "ddio": "off", "line_atomicity": "whole"}
    assert str(ACCEPTED) == "domain wsp" and str(ADR) == "optane-adr, ddio on"


def test_several_machines_are_tried_also_where_all_that_is_accepted_lasts():
    """What a scheme loses by itself elsewhere hides what a fault in its recovery loses."""
    assert [ACCEPTED.has(kind) for kind in (Saw, scheme("mojim"), scheme("tailwind"))] == [False, True, True]
    assert ACCEPTED.settings(scheme("mojim")) == {"platform": "any-server", "ddio": "on", "domain": "wsp"}
    assert [other_place(kind) for kind in (Saw, scheme("mojim"), scheme("clover"))] == [None, ACCEPTED, None]


def test_a_structure_that_is_watched_has_the_small_batches_and_logs_of_any():
    """Executed anew it is no structure of the class that is known here: no trial came to a batch's end."""
    queue = scheme("queue on rnvm-rcb over ibta-flush-persistent")
    assert ADR.has(queue, long=True)  # where the primitive keeps what was acknowledged
    with watched(queue) as (same, _):
        made = Load("update-only", 1, 1, "16 B").scenario(same, "server[0] power", ADR).variants()[0]
    assert "rnvm-rcb[batch=4, " in made.scheme and "log=2048 B" in made.scheme


@pytest.mark.long
def test_a_queue_keeps_on_its_testbed_what_was_acknowledged_and_a_fault_is_found_there():
    queue = scheme("queue on rnvm-rcb[oplog=awaited]")
    three = Load("update-only", 3, 1, "16 B", clients=1)
    lost = "no_lost_ack: another version"
    assert lost in of_power(three, ADR)(queue, ()).broken and of_power(three, ACCEPTED)(queue, ()) == Shown(frozenset())


@pytest.mark.parametrize("name", ["syncaccess-leveldb", "groupaccess-leveldb", "clover"])
def test_a_module_is_executed_anew_behind_those_that_it_imports(name):
    """Else a class has an old base class beside the new one, and a system is made twice."""
    with watched(schemes()[name]) as (same, _):
        names = [one.__qualname__ for one in same.__mro__]
    assert len(set(names)) == len(names)


def test_a_scheme_that_is_watched_knows_a_lost_machine_as_the_others_do():
    """Executed anew, the failures that it compares would be of another class than those that happen."""
    with watched(schemes()["hotpot"]) as (same, _):
        short = Load("c", 1, 1, "16 B", clients=1).scenario(same, "node[0] lost", ADR)
        (variant,) = short.variants()
        walk = Walk(short, variant)
        assert next(iter(walk.states(walk.instants[:1]))).aftermath.finished


@pytest.mark.long
def test_a_recovery_that_ends_with_an_error_ends_so_in_a_scheme_that_is_watched(monkeypatch):
    """Executed anew, the error of a work request would be of another class than those that a run expects."""
    load = Load("update-only", 1, 1, "16 B", clients=1)

    def asked(scheme):
        short = load.scenario(scheme, "metadata[0] power then data[0] power", ADR)
        (variant,) = short.variants()
        walk = Walk(short, variant)
        walk.most = 20
        return [state.aftermath.finished for state in walk.states(walk.instants)]

    def unmended(scheme):
        """The recovery does not wait for a data node that is away."""
        with monkeypatch.context() as patched:
            links = sys.modules[ChainReader.__module__].Links
            patched.setattr(links, "repeated", lambda links, code: code())
            return asked(scheme)

    with watched(schemes()["clover"]) as (same, _):
        anew = unmended(same)
    assert False in anew
    assert anew == unmended(schemes()["clover"])


@pytest.mark.long
def test_a_scheme_of_several_machines_has_trials_of_its_own():
    short = Load("update-only", 2, 1, "8 B", clients=1)
    asks = of_machines(short, AFTER_SERVER), of_power(short, EADR)
    found = {name: [ask(mirrored(name), ()) for ask in asks] for name in ("mirrored", "mirrored-hasty")}
    assert found["mirrored"] == [Shown(frozenset()), Shown(frozenset())]
    assert "no_lost_ack: power, another version" in found["mirrored-hasty"][0].broken <= ways_of_machines(AFTER_SERVER)
    assert found["mirrored-hasty"][1] == Shown(frozenset())
    assert of_machines(short, AFTER_SERVER)(Saw, ()) == Shown(frozenset(), exhaustive=False)
    assert of_lives(EADR, 2, Life())(mirrored("mirrored"), ()) == Shown(frozenset())


@pytest.mark.long
def test_a_pair_of_failures_is_a_way_of_its_own():
    """What the late twin has not mirrored, one failure of the primary takes along, and so does any pair that has it."""
    short = Load("update-only", 1, 1, "8 B", clients=1)
    assert one_after_another(mirrored("mirrored")).keys() == {
        "primary[0] power then primary[0] power", "primary[0] power then mirror[0] power",
        "mirror[0] power then primary[0] power", "mirror[0] power then mirror[0] power",
        "mirror[0] lost then primary[0] power",
    }  # fmt: skip
    found = {name: of_pairs(short, AFTER_SERVER)(mirrored(name), ()) for name in ("mirrored", "mirrored-hasty")}
    again = "no_lost_ack: power, then its power again, another version"
    assert again in found["mirrored-hasty"].broken - found["mirrored"].broken
    assert found["mirrored-hasty"].broken <= ways_of_pairs(AFTER_SERVER)
    assert of_pairs(short, AFTER_SERVER)(Saw, ()) == Shown(frozenset(), exhaustive=False)


RECOVERY = {
    "drop DurableServer.recover_ring: yield from ring.clear(thread, operator.sequence)": "successor",
    "drop DurableServer.execute_again: yield from self.table.flush(thread, request.object)": "again",
    "drop DurableServer.recover_ring: yield from self.execute_again(thread, ring, operator)": "once",
    "drop LogRing.clear: yield from thread.flush(self.operator(sequence), WORD)": "again",
}
"""Faults of a log's recovery and removal, and where each is found."""


@pytest.mark.parametrize(("fault", "where"), RECOVERY.items())
def test_faults_of_a_log_are_found_where_calls_wait_in_it(fault, where):
    slow = Load("update-only", 3, 1, "16 B", clients=1, work="5 us")
    ask = of_successors(slow, AFTER_SERVER) if where == "successor" else of_power(slow, AWAY, again=where == "again")
    durable = scheme("wflush-rpc")
    everything = {"durable", *ways(AFTER_POWER)}
    assert ask(durable, everything) == Shown(frozenset())
    ((module, change),) = [row for row in faults("wflush-rpc").values() if row[1].name == fault]
    with planted(durable, module, change) as mutant:
        assert ask(mutant, everything).broken


WAITING = {
    "believe DurableServer.execute: if self.removals.may_go(call)": "three batches, optane-adr, ddio off",
    "drop DurableServer.remove: yield from end.ring.clear(thread, one.sequence, "
    "self.scheme.option('removal') == 'durable')": "six that wait, optane-adr, ddio off",
    "drop DurableClient.write: yield from session.room()": "six that wait, optane-adr, ddio off",
}
"""Faults of a call's end: its entry goes with its first request, or never; its slot is used before."""


@pytest.mark.long
@pytest.mark.parametrize(("fault", "where"), WAITING.items())
def test_faults_of_a_calls_end_are_found_where_slots_are_used_again(fault, where):
    (trial,) = [each for each in trials() if each.name == where]
    durable = scheme("wflush-rpc")
    ((module, change),) = [row for row in faults("wflush-rpc").values() if row[1].name == fault]
    with planted(durable, module, change) as mutant:
        assert trial.ask(mutant, trial.all_ways).broken


def test_a_trial_that_is_broken_off_leaves_dear_ones_to_be_tried(monkeypatch):
    """Explorations take as long as there is something to lose; what a log's recovery loses is found behind them."""
    asked = []

    def slow(scheme, kept):
        asked.append("slow")
        raise fates._TooLong

    def ask(name):
        return lambda scheme, kept: asked.append(name) or Shown(frozenset())

    tried = [("a", slow, False), ("b", ask("cheap"), False), ("c", ask("dear"), True), ("d", ask("dear"), True)]
    known = tuple(Trial(name, each, frozenset({"durable"}), "place", dear) for name, each, dear in tried)
    monkeypatch.setattr(fates, "trials", lambda: known)
    monkeypatch.setattr(fates, "SECONDS", 0.0)
    monkeypatch.setattr(fates, "run_alone", lambda mutant: None)
    tries = [Try(Saw.name, trial.name, trial.all_ways) for trial in known]
    assert not fates.judged(Saw, tries, fates.FateVerdict())
    assert asked == ["slow", "dear", "dear"]


def test_batches_and_work_are_for_schemes_that_have_them():
    asked = Load("update-only", 4, 1, "16 B", batch=2), Load("update-only", 4, 1, "16 B", work="5 us")
    fit = {name: [load.fits(scheme(name)) for load in asked] for name in ("wflush-rpc", "rpc", "client-active")}
    assert fit["wflush-rpc"] == [True, True] and fit["rpc"] == [False, True] and not fit["client-active"][0]
    assert of_successors(asked[0], AFTER_SERVER)(Saw, ()) == Shown(frozenset(), exhaustive=False)


def test_a_condition_that_is_false_in_no_run_is_believed_in_vain():
    """The run would be the same: nothing can come of it there. What only counts is no step."""
    durable = scheme("wflush-rpc")
    with watched(durable) as (same, reached):
        run = scenario_of(same, workload={"mix": "a", "operations": 4, "keys": 1}, clients=1)
        run_variant(run, run.variants()[0])
    tried = {c.name: c.noted in reached[module.__name__] for module, _, c in seeded(durable, shared=False)}
    assert tried["believe DurableServer.poll: if found % 2"]
    assert not tried["believe DurableServer.execute: if self.scheme.option('work') == 'done'"]
    assert not tried["believe DurableServer.execute: if self.removals.may_go(call)"]  # each call has one request here
    assert not any("self.count(" in name for name in tried)


def test_a_folder_is_of_the_scheme_whose_name_it_bears():
    """Two schemes are in protocols/hotpot: of what they share, faults are planted with hotpot."""
    own = {name: {module.__name__.rpartition(".")[2] for module, _, _ in seeded(scheme(name), shared=False)}
           for name in ("hotpot", "hotpot-public")}  # fmt: skip
    assert {"commit", "node", "holder"} <= own["hotpot"] and "public" not in own["hotpot"]
    assert own["hotpot-public"] == {"public"}


def test_a_scheme_with_options_is_tried_with_the_fault_and_the_options():
    named = scheme("orion[mds=2]")
    rows = ((module, change) for module, _, change in seeded(named, shared=False))
    module, change = next(row for row in rows if "OrionMetadata.append" in row[1].name)
    with planted(named, module, change) as mutant:
        assert mutant.name == "orion[mds=2]" and mutant.option("mds") == 2
        assert mutant.Mds.append is not named.Mds.append and mutant.Mds.on_commit is not named.Mds.on_commit
    assert scheme("orion[mds=2]").Mds is named.Mds


def test_a_scheme_that_refuses_everything_keeps_all_but_that_every_operation_is_ok():
    (trial,) = (one for one in trials() if one.name == "nothing fails")
    named = scheme("orion")
    rows = [(module, change) for module, _, change in seeded(named, shared=False)]
    module, change = next(row for row in rows if row[1].name.endswith("Client.post: if not under_way"))
    assert SERVED in trial.all_ways - trial.ask(named, ()).broken
    with planted(named, module, change) as mutant:
        assert trial.ask(mutant, {SERVED}).broken == {SERVED}


def test_every_scheme_can_be_given_each_load_that_fits_it():
    loads = [Load("a", 2, 2, "16 B"), Load("a", 2, 2, "4 KiB"), Load("a", 2, 2, "16 B", threads=2)]
    fitted = {
        kind.name: [load for load in loads if load.fits(kind) and load.scenario(kind, "no fault", AWAY)]
        for kind in schemes().values()
    }
    assert loads[0] in fitted["herd"] and loads[1] not in fitted["herd"]  # a datagram
    assert loads[1] in fitted["saw"] and loads[0] in fitted["filemr"]  # whose pages are 4 KiB at least
