"""Are faults planted where they should be, one at a time, and is nothing left of them afterwards?"""

from __future__ import annotations

import ast
import sys
from textwrap import dedent

import pytest

from rpsim.app.main import main
from rpsim.protocols.efactory import EFactory
from rpsim.protocols.guarantees import Verdict
from rpsim.protocols.saw import Saw
from rpsim.protocols.scheme import Scheme
from rpsim.validation.mutation import score as score_module
from rpsim.validation.mutation.mutants import modules_of, planted, seeded
from rpsim.validation.mutation.operators import changes

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
        texts = [ast.unparse(change.tree) for _, change in seeded(kind, shared=False)]
        assert len(set(texts)) == len(texts) > 3
        names = [change.name for _, change in seeded(kind, shared=False)]
        assert len(set(names)) == len(names)


def test_the_modules_of_a_scheme_come_in_the_order_of_their_imports():
    names = [module.__name__.rpartition(".")[2] for module in modules_of(Saw)]
    assert names[-1] == "saw"
    assert names.index("index") < names.index("kv") < names.index("saw")
    assert "scheme" not in names


def test_a_planted_fault_is_gone_when_its_trial_is_over():
    registry, modules = dict(Scheme.registry), [sys.modules[module.__name__] for module in modules_of(Saw)]
    for module, change in seeded(Saw):
        with planted(Saw, module, change) as mutant:
            assert mutant is not Saw and mutant.name == "saw"
            assert Scheme.registry["saw"] is mutant
    assert Scheme.registry == registry
    assert [sys.modules[module.__name__] for module in modules_of(Saw)] == modules


def test_every_fault_of_saw_is_found():
    fates = list(score_module.score(Saw))
    assert len(fates) == 4
    assert all("violated" in fate.killed_by for fate in fates)


@pytest.mark.parametrize(("known", "status"), [(True, 0), (False, 1)])
def test_the_command_tells_what_survives_and_why(known, status, monkeypatch, capsys):
    monkeypatch.setattr(score_module, "trials", lambda: {"none": lambda scheme: {"durable": Verdict.HOLDS}})
    faults = {f"saw {change.name}": "Because." for _, change in seeded(Saw, shared=False)} if known else {}
    monkeypatch.setattr(score_module, "_reasons", lambda: faults)
    assert main(["mutate", "saw"]) == status
    said = capsys.readouterr().out
    assert "not found: 4" in said and ("Because." in said) == known
    assert max(len(line) for line in said.splitlines()) <= 80


def test_reasons_are_of_faults_that_there_are():
    there = {f"{module.__name__.rpartition('.')[2]} {change.name}" for kind in (Saw, EFactory)
             for module, change in seeded(kind)}  # fmt: skip
    assert set(score_module._reasons()) <= there


def test_a_trial_that_does_not_come_to_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(score_module, "SECONDS", 0.05)

    def forever(_):
        while True:
            pass

    monkeypatch.setattr(score_module, "trials", lambda: {"forever": forever})
    assert score_module._killed_by(Saw, {"forever": {}}) == "forever: does not come to an end"


def test_an_unknown_scheme_is_told(capsys):
    assert main(["mutate", "sw"]) == 2
    assert "did you mean 'saw'?" in capsys.readouterr().err
