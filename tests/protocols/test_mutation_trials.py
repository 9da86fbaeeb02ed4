"""Do trials of seeded faults choose machines by a scheme's roles, and platforms by their memory?"""

from __future__ import annotations

from pathlib import Path

import pytest

from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.registry import scheme
from rpsim.protocols.scheme import Scheme
from rpsim.validation.mutation.shown import Shown
from rpsim.validation.mutation.trying import (
    AFTER_SERVER,
    Life,
    Load,
    of_lives,
    of_machines,
    of_power,
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
