"""Are faults planted where they should be, one at a time, and is nothing left of them afterwards?"""

from __future__ import annotations

import ast
import json
import sys
from textwrap import dedent

import pytest

from rpsim.app.main import main
from rpsim.protocols.client_active import ClientActive
from rpsim.protocols.efactory import EFactory
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.saw import Saw
from rpsim.protocols.scheme import Scheme, schemes
from rpsim.validation.mutation import score as score_module
from rpsim.validation.mutation.kinds import KINDS, kind_of
from rpsim.validation.mutation.mutants import modules_of, planted, seeded
from rpsim.validation.mutation.operators import changes
from rpsim.validation.mutation.trials import Trial
from rpsim.validation.oracle import Inconsistent, assert_implications

SOURCE = dedent(
    '''
    class Store:
        """A docstring is no step."""

        def put(self, thread, at):
            entry = yield from self.look(thread)
            yield from thread.flush(at, 64)
            yield from thread.flush(entry, 8)
            if (yield from thread.crc32_matches(at, 64, 7)):
                return at
            yield from ()

        def allocate(self):
            self.tail += 64
            return self.tail

        def plain(self):
            return self.tail
    '''
)


def planted_in(source, operator):
    return [(change.function, change.text, ast.unparse(change.tree)) for change in changes(source)
            if change.operator == operator]  # fmt: skip


def test_steps_are_dropped_one_at_a_time():
    dropped = planted_in(SOURCE, "drop")
    assert [text for _, text, _ in dropped] == [
        "yield from thread.flush(at, 64)",
        "yield from thread.flush(entry, 8)",
    ]
    for _, text, code in dropped:
        assert code.count("flush") == 1 and text not in code


def test_steps_change_places_unless_one_needs_the_other():
    texts = [text for _, text, _ in planted_in(SOURCE, "swap")]
    assert texts == [
        "entry = (yield from self.look(thread)) <-> yield from thread.flush(at, 64)",
        "yield from thread.flush(at, 64) <-> yield from thread.flush(entry, 8)",
    ]
    more = SOURCE.replace("thread.flush(at, 64)", "thread.load(entry, 64)")  # which uses what is made before it
    (_, _, code), *others = planted_in(more, "swap")
    assert others == [] and code.index("flush(entry") < code.index("load(entry")


def test_checks_are_believed_and_counters_stand_still():
    assert [text for _, text, _ in planted_in(SOURCE, "trust")] == ["(yield from thread.crc32_matches(at, 64, 7))"]
    assert "if True:" in planted_in(SOURCE, "trust")[0][2]
    assert "if True:" in planted_in(SOURCE, "believe")[0][2]
    (still,) = planted_in(SOURCE, "stand still")
    assert still[0] == "Store.allocate" and "tail += 64" not in still[2]


def test_every_planted_fault_is_another_program():
    for kind in (Saw, EFactory):
        texts = [ast.unparse(change.tree) for _, _, change in seeded(kind, shared=False)]
        assert len(set(texts)) == len(texts) > 3
        names = [change.name for _, _, change in seeded(kind, shared=False)]
        assert len(set(names)) == len(names)


def test_the_modules_of_a_scheme_come_in_the_order_of_their_imports():
    names = [module.__name__.rpartition(".")[2] for module in modules_of(Saw)]
    assert names[-1] == "saw"
    assert names.index("index") < names.index("kv") < names.index("saw")
    assert "scheme" not in names


def test_a_planted_fault_is_gone_when_its_trial_is_over():
    registry, modules = dict(Scheme.registry), [sys.modules[module.__name__] for module in modules_of(Saw)]
    for module, _, change in seeded(Saw):
        with planted(Saw, module, change) as mutant:
            assert mutant is not Saw and mutant.name == "saw"
            assert Scheme.registry["saw"] is mutant
    assert Scheme.registry == registry
    assert [sys.modules[module.__name__] for module in modules_of(Saw)] == modules


def test_every_fault_of_saw_is_found():
    fates = list(score_module.score([Saw]))
    assert len(fates) == 8
    assert all("violated" in fate.killed_by for fate in fates)
    assert {fate.kind for fate in fates} >= {"drop a flush", "drop a fence", "wrong DDIO assumption"}


@pytest.mark.slow
def test_processes_share_the_work():
    alone, together = (list(score_module.score([ClientActive], jobs=jobs)) for jobs in (1, 2))
    assert alone == together and len(alone) == 2


@pytest.mark.parametrize(("known", "status"), [(True, 0), (False, 1)])
def test_the_command_tells_what_survives_and_why(known, status, monkeypatch, capsys):
    always = Trial(lambda scheme, kept: {"durable": Verdict.HOLDS})
    monkeypatch.setattr(score_module, "trials", lambda: {"none": always})
    faults = {f"saw {change.name}": "Because." for _, _, change in seeded(Saw, shared=False)} if known else {}
    monkeypatch.setattr(score_module, "_reasons", lambda: faults)
    assert main(["mutate", "saw", "--jobs", "1"]) == status
    said = capsys.readouterr().out
    assert f"not found: 8 faults, {8 * known} with a known reason" in said and ("Because." in said) == known
    assert max(len(line) for line in said.splitlines()) <= 80


def test_without_a_scheme_all_are_tried_and_what_they_share_once(monkeypatch, capsys):
    tried = []

    def ask(scheme, kept):
        tried.append(scheme.name)
        return {"durable": Verdict.HOLDS}

    monkeypatch.setattr(score_module, "trials", lambda: {"none": Trial(ask)})
    some = {name: schemes()[name] for name in ("client-active", "imm", "saw")}
    monkeypatch.setattr("rpsim.app.mutate.schemes", lambda: some)
    main(["mutate", "--shared", "--jobs", "1", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["schemes"] == list(some) and answer["killed"] == 0
    assert sum(kind["faults"] for kind in answer["kinds"].values()) == answer["faults"] == len(answer["fates"])
    names = [(fate["module"], fate["line"], fate["fault"]) for fate in answer["fates"]]
    assert len(set(names)) == len(names)
    assert {"kv", "rpc", "index"} < {module for module, _, _ in names}
    assert len(tried) > len(names)  # those with every scheme that has them


def test_that_the_oracle_contradicts_itself_finds_no_fault():
    def ask(scheme, kept):
        assert_implications({Condition.STRICT: Verdict.HOLDS, Condition.DURABLE: Verdict.VIOLATED})

    def fails(error):
        def ask(scheme, kept):
            raise error

        return ask

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_module, "trials", lambda: {"odd": Trial(ask)})
        with pytest.raises(Inconsistent):
            score_module.killed(Saw, {"odd": frozenset()})
        patch.setattr(score_module, "trials", lambda: {"odd": Trial(fails(MemoryError("log: no room")))})
        assert score_module.killed(Saw, {"odd": frozenset()}) == "odd: MemoryError: log: no room"


@pytest.mark.parametrize(
    ("operator", "function", "text", "kind"),
    [
        ("drop", "A.put", "yield from thread.flush(self.log + at, 64)", "drop a flush"),
        ("drop", "A.put", "yield from thread.sfence()", "drop a fence"),
        ("unfence", "A.put", "yield from thread.flush(at, 64)", "drop a fence"),
        ("drop", "A.put", "yield from session.connection.read(at, key, 8)", "drop the read after write"),
        ("swap", "A.put", "yield from self.publish(at) <-> yield from thread.flush(at, 8)", "swap publish and persist"),
        ("bypass", "A.put", "yield from thread.flush(at, 64)", "wrong DDIO assumption"),
        ("trust", "A.get", "(yield from thread.crc32_matches(at, 8, crc))", "skip the CRC"),
        ("stand still", "A.put", "self.version += 1", "reuse a version number"),
        ("stand still", "A.put", "self.taken |= 1 << slot", "lost bit of a bitmap"),
        ("drop", "A.recover_unit", "yield from thread.flush(at, 8)", "recovery is not idempotent"),
        ("retry", "A.perform", "raise OutcomeUnknown(str(error))", "late packet after reconnect"),
        ("drop", "A.reconnect", "session.qp.destroy()", "late packet after reconnect"),
    ],
)  # fmt: skip
def test_every_kind_of_the_catalogue_has_its_name(operator, function, text, kind):
    assert kind_of(operator, function, text) == kind
    assert kind in KINDS


def test_every_kind_of_the_catalogue_is_planted_where_it_can_be():
    source = dedent(
        """
        class Store:
            def put(self, session, thread, at):
                yield from session.connection.write(at, 1)
                yield from session.connection.read(at, 1, 8)
                yield from thread.store(at, 1)
                yield from thread.flush(at, 8)
                yield from thread.sfence()
                self.version += 1
                self.taken |= 1 << at
                if not (yield from thread.crc32_matches(at, 64, 7)):
                    raise OutcomeUnknown("torn")

            def recover_unit(self, thread, at):
                yield from thread.store(at, 0)
        """
    )
    kinds = {change.kind for change in changes(source)}
    assert kinds >= set(KINDS) - {"drop another step", "swap two other steps"}


def test_reasons_are_of_faults_that_there_are():
    there = {f"{module.__name__.rpartition('.')[2]} {change.name}" for kind in schemes().values()
             for module, _, change in seeded(kind)}  # fmt: skip
    assert set(score_module._reasons()) <= there


@pytest.mark.parametrize("endless", [True, False])
def test_a_trial_that_does_not_come_to_an_end_is_ended(endless, monkeypatch):
    monkeypatch.setattr(score_module, "SECONDS", 0.05)

    def forever(scheme, kept):
        while True:
            pass

    monkeypatch.setattr(score_module, "trials", lambda: {"forever": Trial(forever, endless)})
    found = score_module.killed(Saw, {"forever": frozenset()})
    assert found == ("forever: does not come to an end" if endless else "")


def test_an_unknown_scheme_is_told(capsys):
    assert main(["mutate", "sw"]) == 2
    assert "did you mean 'saw'?" in capsys.readouterr().err
