"""Do trials of seeded faults choose machines by a scheme's roles, and platforms by their memory?"""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.registry import scheme
from rpsim.protocols.scheme import Scheme
from rpsim.validation.mutation.fates import faults
from rpsim.validation.mutation.mutants import planted
from rpsim.validation.mutation.shown import Shown, ways
from rpsim.validation.mutation.trying import (
    AFTER_POWER,
    AFTER_SERVER,
    AWAY,
    Life,
    Load,
    of_lives,
    of_machines,
    of_power,
    of_successors,
    one_of_several,
    power_of,
    process_of,
    tried_on,
)  # fmt: skip


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
    assert tried_on(Drive, "optane-adr", "on") and not tried_on(Drive, "optane-eadr", "on")
    made = Load("a", 4, 1, "16 B").scenario(Saw, "server[0] power", "optane-adr", "on")
    assert {variant.platform for variant in made.variants()} == {"optane-adr"}


@pytest.mark.long
def test_a_scheme_of_several_machines_has_trials_of_its_own():
    short = Load("update-only", 2, 1, "8 B", clients=1)
    asks = of_machines(short, AFTER_SERVER), of_power(short, "optane-eadr", "on")
    found = {name: [ask(mirrored(name), ()) for ask in asks] for name in ("mirrored", "mirrored-hasty")}
    assert found["mirrored"] == [Shown(frozenset()), Shown(frozenset())]
    assert "no_lost_ack" in found["mirrored-hasty"][0].broken and found["mirrored-hasty"][1] == Shown(frozenset())
    assert of_machines(short, AFTER_SERVER)(Saw, ()) == Shown(frozenset(), exhaustive=False)
    assert of_lives("optane-eadr", "on", 2, Life())(mirrored("mirrored"), ()) == Shown(frozenset())


RECOVERY = {
    "drop DurableServer.recover_unit: yield from ring.clear(thread, operator.sequence)": "successor",
    "drop DurableServer.execute_again: yield from self.table.flush(thread, request.object)": "again",
    "drop DurableServer.recover_unit: yield from self.execute_again(thread, ring, operator)": "once",
    "drop LogRing.clear: yield from thread.flush(self.operator(sequence), WORD)": "again",
}
"""Faults of a log's recovery and removal, and where each is found."""


@pytest.mark.parametrize(("fault", "where"), RECOVERY.items())
def test_faults_of_a_log_are_found_where_calls_wait_in_it(fault, where):
    slow = Load("update-only", 3, 1, "16 B", clients=1, work="5 us")
    ask = of_successors(slow, AFTER_SERVER) if where == "successor" else of_power(slow, *AWAY, again=where == "again")
    durable = scheme("wflush-rpc")
    everything = {"durable", *ways(AFTER_POWER)}
    assert ask(durable, everything) == Shown(frozenset())
    ((module, change),) = [row for row in faults("wflush-rpc").values() if row[1].name == fault]
    with planted(durable, module, change) as mutant:
        assert ask(mutant, everything).broken


def test_batches_and_work_are_for_schemes_that_have_them():
    asked = Load("update-only", 4, 1, "16 B", batch=2), Load("update-only", 4, 1, "16 B", work="5 us")
    fit = {name: [load.fits(scheme(name)) for load in asked] for name in ("wflush-rpc", "rpc", "client-active")}
    assert fit["wflush-rpc"] == [True, True] and fit["rpc"] == [False, True] and not fit["client-active"][0]
    assert of_successors(asked[0], AFTER_SERVER)(Saw, ()) == Shown(frozenset(), exhaustive=False)
