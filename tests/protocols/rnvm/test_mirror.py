"""The mirror: what had returned in time is rebuilt from its bytes alone, and each twin of it loses something."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.registry import scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.inject import run_with_fault, run_with_faults
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore

from ...small import only_variant, run, scenario
from . import mirror_twins as twins
from .chain import Chain
from .test_modes import find, insert, vary

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, LOST, DURABLE}
CHAIN = Chain.name
BEFORE = "mirror=back-end,mirrored=before"
SAFE = (
    f"rnvm-r[{BEFORE}]",
    "rnvm-r[mirror=front-end]",
    f"rnvm-rcb[batch=2,oplog=awaited,{BEFORE}]",
    "rnvm-rcb[batch=2,oplog=awaited,mirror=front-end]",
)
TWO = [insert("k0"), insert("k1")]
SIX = [insert(f"k{turn % 3}") for turn in range(6)]
NEW = {"kind": "schedule", "loaded": 1, "operations": [insert(f"k{turn}") for turn in (1, 2, 3)]}
"""Each needs a block of its own."""


def refuted(mode, work, fault="server[0] lost", *, keys=3, domain="wsp", waits=False):
    """What is violated after a fault, executed at every instant."""
    name, more = f"{CHAIN} on {mode}", {"vary": vary(domain), "keys": keys, "crash": {"fault": fault}}
    made = scenario(name, work, **more)
    report = explore(run(name, work, **more), made, only_variant(made), examples=())
    assert report.exhaustive and bool(report.waiting) == waits, report.over
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"} & JUDGED


@pytest.mark.long
@pytest.mark.parametrize("mode", SAFE)
def test_what_had_returned_is_rebuilt_once_the_back_end_is_lost(mode):
    assert refuted(mode, [*TWO, find("k0")]) == set()


@pytest.mark.long
def test_a_copy_behind_the_acknowledgement_may_come_too_late():
    assert refuted("rnvm-r[mirror=back-end]", TWO) == {LOST, DURABLE}


@pytest.mark.long
@pytest.mark.parametrize(
    "twin, more, work, keys",
    [
        (twins.SaysItFirst, "", TWO, 3),
        (twins.DataAlone, "", TWO, 3),
        (twins.OneShort, "", TWO, 3),
        (twins.OperationsAlone, "batch=3,oplog=awaited,", TWO, 3),
        (twins.RoundAndRound, "log=256 B,", SIX, 3),
        (twins.LpnFirst, "log=256 B,", SIX, 3),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_twin_of_the_mirror_is_caught(twin, more, work, keys):
    assert refuted(f"{twin.name}[{more}{BEFORE}]", work, keys=keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, work, keys", [("", NEW, 4), ("log=256 B,", SIX[:4], 3), ("log=256 B,mirror=front-end", SIX, 3)]
)
def test_the_mode_itself_loses_nothing_by_what_its_twins_lose_something_by(more, work, keys):
    mode = f"rnvm-r[{more}{'' if 'mirror' in more else BEFORE}]"
    assert refuted(mode, work, keys=keys) == set()


@pytest.mark.long
@pytest.mark.parametrize("fault", ["mirror[0] lost", "mirror[0] power", "server[0] process", "client[0] process"])
@pytest.mark.parametrize("mode", SAFE[1:3])
def test_whatever_else_fails_is_survived_as_without_a_mirror(mode, fault):
    assert refuted(mode, TWO, fault) == set()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["server[0] power", "server[0] lost then spare[0] power"])
@pytest.mark.parametrize("mode", SAFE[:2])
def test_a_back_end_comes_back_and_a_rebuilding_begins_again(mode, fault):
    assert refuted(mode, TWO[:1], fault, keys=2) == set()


def test_the_spare_gives_no_block_that_is_in_use():
    """The back-end is lost once all have returned; what was allocated in the run is taken on the spare, too."""

    def taken(name):
        made = scenario(f"{CHAIN} on {name}[{BEFORE}]", NEW, vary=vary(), keys=4, crash={"fault": "server[0] lost"})
        variant = only_variant(made)
        whole = run_with_faults(made, variant, ())
        after = run_with_fault(made, variant, max(o.return_ps for o in whole.history.operations if o.process == 0))
        found = []
        for role in ("server", "spare"):
            machine = after.result.scheme.roles[role][0]
            area, now_ps = machine.areas[0], after.result.system.clock.now_ps
            bits = machine.pm.space.read(now_ps, area.bits - machine.pm.base, 64)
            found.append(dict(area.bitmap().taken_in(bits)))
        return found

    server, spare = taken("rnvm-r")
    assert server == spare
    server, spare = taken(twins.NoBits.name)
    assert server != spare


@pytest.mark.parametrize("mode, whose", [(BEFORE, "server[0]"), ("mirror=front-end", "client[0]")])
def test_only_who_copies_sends_anything_to_the_mirror(mode, whose):
    """And the mirror sends back no more than its adapter does."""
    made = scenario(f"{CHAIN} on rnvm-r[{mode}]", TWO, vary=vary(), keys=2, crash={"fault": "mirror[0] lost"})
    traffic = run_variant(made, only_variant(made), metered=True).metered["traffic"]
    sent = {pair["from"]: pair["verbs"] for pair in traffic if pair["to"] == "mirror[0]"}
    assert sent.keys() == {whose} and sent[whose] == {"WRITE": 2}


def test_a_copy_costs_an_operation_what_it_waits_for_and_behind_it_nothing():
    def took(mode):
        made = run(f"{CHAIN} on rnvm-r{mode}", TWO, vary=vary(), keys=2)
        return [one.return_ps - one.invoke_ps for one in made.history.operations]

    alone, behind, before, own = map(took, ("", "[mirror=back-end]", f"[{BEFORE}]", "[mirror=front-end]"))
    assert behind == alone
    assert all(a < f < b for a, f, b in zip(alone, own, before, strict=True))


@pytest.mark.parametrize(
    "mode, words",
    [
        ("rnvm-r[mirrored=before]", "found mirrored=before in .* expected mirror=back-end or mirror=front-end"),
        ("rnvm-rcb[mirror=back-end,mirrored=before]", "expected oplog=awaited beside it: nothing waits"),
        ("rnvm-r[mirror=backend]", "found 'mirror=backend'.* expected none or back-end or front-end.*'back-end'"),
        ("symmetric[mirror=back-end]", "found 'mirror'"),
    ],
)
def test_a_mirror_that_is_nowhere_is_refused(mode, words):
    with pytest.raises(InputError, match=words):
        scheme(f"{CHAIN} on {mode}")


def test_without_the_option_there_is_neither_mirror_nor_spare():
    assert set(scheme(f"{CHAIN} on rnvm-r").role_types) == {"client", "server"}
    with pytest.raises(InputError, match="something of a server that may fail"):
        scenario(f"{CHAIN} on rnvm-r", TWO, vary=vary(), crash={"fault": "server[0] lost"})
