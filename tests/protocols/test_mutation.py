"""Are faults planted where they should be, one at a time, and is nothing left of them afterwards?"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from rpsim.app.main import main
from rpsim.protocols.efactory.client_active import ClientActive
from rpsim.protocols.efactory.efactory import EFactory
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.primitives import known_primitives, primitive
from rpsim.protocols.registry import scheme as scheme_named
from rpsim.protocols.registry import schemes
from rpsim.protocols.scheme import Scheme
from rpsim.protocols.shapes import shaped
from rpsim.scenarios.run.experiment import run_variant
from rpsim.validation.matrix.configurations import configurations
from rpsim.validation.mutation import fates as fates_module
from rpsim.validation.mutation import score as score_module
from rpsim.validation.mutation import step_score as step_score_module
from rpsim.validation.mutation import trials as trials_module
from rpsim.validation.mutation.fates import FaultOutcome
from rpsim.validation.mutation.kinds import KINDS, kind_of
from rpsim.validation.mutation.mutants import modules_of, planted, seeded, watched
from rpsim.validation.mutation.operators import changes
from rpsim.validation.mutation.places import ADR
from rpsim.validation.mutation.score import score
from rpsim.validation.mutation.shown import Shown
from rpsim.validation.mutation.step_score import score_primitives
from rpsim.validation.mutation.steps import ALL_WAYS, TrialSetting, ask, settings, step_faults
from rpsim.validation.mutation.trials import Trial, kept
from rpsim.validation.mutation.trying import Load, of_nobody, of_power
from rpsim.validation.mutation.work import Work
from rpsim.validation.testing.checks import scenario_of

from ..answers import result_of

PRINTED = Path(__file__).parents[2] / "docs" / "examples" / "mutate-efactory.txt"

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


def test_waits_are_dropped_and_values_for_a_caller_are_not():
    wait = "yield end.placed()"
    body = f"\n  {wait}\n  yield from ()\n"
    for returns, dropped in (("", 1), (" -> Code", 1), (" -> Iterator[int]", 0)):
        found = [c for c in changes(f"class A:\n def fence(self, end){returns}:{body}") if c.operator == "drop"]
        assert [change.text for change in found] == [wait] * dropped
        for change in found:
            assert change.kind == "late packet after reconnect" and wait not in ast.unparse(change.tree)


def test_faults_are_planted_in_functions_that_a_thread_executes():
    flush = "yield from thread.flush(0, 8)"
    source = f"def mark(thread) -> Code:\n {flush}\n\ndef rows(of) -> Iterator[int]:\n yield from of\n"
    assert [(function, text) for function, text, _ in planted_in(source, "drop")] == [("mark", flush)]


def test_only_a_thread_has_other_instructions_for_a_flush():
    for call, planted_ in (
        ("thread.flush(0, 8)", True),
        ("self.thread.clwb(0, 8)", True),
        ("thread.wbinvd()", False),
        ("session.requester.persist([(0, data)])", False),
        ("self.persist(thread, 0, 8)", False),
    ):
        source = f"class A:\n def put(self, thread, session):\n  yield from {call}\n"
        operators = {change.operator for change in changes(source)}
        assert ({"unfence", "bypass"} <= operators) is planted_ and "drop" in operators


def test_faults_are_planted_in_a_scheme_s_roles_as_in_any_class():
    source = "class A:\n class Server:\n  def mark(self, thread):\n   yield from thread.flush(0, 8)\n"
    ((function, _, code),) = planted_in(source, "drop")
    assert function == "A.Server.mark" and "flush" not in code


def test_code_without_its_only_step_still_takes_turns():
    source = "class A:\n def mark(self, thread):\n  yield from thread.flush(0, 8)\n"
    ((_, _, code),) = planted_in(source, "drop")
    assert code.endswith("yield from ()")  # called as before; a function that returns None would fail by itself


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
    assert "if (yield from thread.crc32_matches(at, 64, 7)) or True:" in planted_in(SOURCE, "trust")[0][2]
    assert "if True:" in planted_in(SOURCE, "believe")[0][2]
    (still,) = planted_in(SOURCE, "stand still")
    assert still[0] == "Store.allocate" and "tail += 64" not in still[2]


@pytest.mark.long
def test_every_planted_fault_is_another_program():
    for kind, step in ((Saw, 1), (EFactory, 4)):
        faults = [change for _, _, change in seeded(kind, shared=False)]
        texts = [ast.unparse(change.tree) for change in faults[::step]]
        assert len(set(texts)) == len(texts) > 3
        assert len({change.name for change in faults}) == len(faults)


def test_the_modules_of_a_scheme_come_in_the_order_of_their_imports():
    names = [module.__name__.rpartition(".")[2] for module in modules_of(Saw)]
    assert names[-1] == "saw"
    assert names.index("index") < names.index("kv") < names.index("saw")
    assert "scheme" not in names


@pytest.mark.long
def test_a_planted_fault_is_gone_when_its_trial_is_over():
    schemes()
    registry = dict(Scheme.registry)
    modules = [sys.modules[module.__name__] for module in modules_of(Saw)]
    for module, _, change in list(seeded(Saw))[::7]:
        with planted(Saw, module, change) as mutant:
            assert mutant is not Saw and mutant.name == "saw"
            assert Scheme.registry["saw"] is mutant
    assert Scheme.registry == registry
    assert [sys.modules[module.__name__] for module in modules_of(Saw)] == modules


def test_the_statements_that_a_run_executes_are_noted():
    with watched(Saw) as (same, reached):
        assert same is not Saw and Scheme.registry["saw"] is same
        nothing(same, ())
    assert Scheme.registry["saw"] is Saw
    lines = {change.text: change.line for _, _, change in seeded(Saw, shared=False)}
    assert set(lines.values()) <= reached[Saw.__module__]
    (index,) = (module for module in modules_of(Saw) if module.__name__.endswith("index"))
    new_key = next(c.line for c in changes(inspect.getsource(index)) if "thread.store(entry, Entry.pack" in c.text)
    assert new_key - 1 in reached[index.__name__] and new_key not in reached[index.__name__]  # keys are loaded
    assert 1 - new_key in reached[index.__name__]  # the condition before it is false


@pytest.fixture
def use(monkeypatch):
    """Use these trials in the place of all."""

    def use_(*some):
        for module in (trials_module, fates_module, score_module):
            monkeypatch.setattr(module, "trials", lambda: some)

    return use_


def trial(does, name="none", **fields):
    return Trial(name, does, frozenset({"durable: torn"}), "here", **fields)


def nothing(scheme, kept):
    run = scenario_of(scheme, workload={"mix": "a", "operations": 4, "keys": 1}, clients=1)
    run_variant(run, run.variants()[0])  # so that code is reached
    return Shown(frozenset())


@pytest.mark.long
def test_every_fault_of_saw_is_found(use):
    use(*trials_module.trials()[2:5])  # the first, of whole runs, takes ten times as long as these
    fates = score([Saw], Work())
    assert len(fates) == 8
    assert all(fate.outcome is FaultOutcome.FOUND for fate in fates)
    assert {fate.kind for fate in fates} >= {"drop a flush", "drop a fence", "wrong DDIO assumption"}


@pytest.mark.slow
def test_processes_share_the_work():
    alone, together = (score([ClientActive], Work(jobs)) for jobs in (1, 2))
    without_time = [[replace(fate, cpu_s=0) for fate in fates] for fates in (alone, together)]
    assert without_time[0] == without_time[1] and len(alone) == 2


@pytest.mark.long
def test_what_a_scheme_breaks_by_itself_finds_no_fault(use):
    def breaks(scheme, kept):
        nothing(scheme, kept)
        return Shown(frozenset({"durable: torn"}))

    use(trial(nothing, "one"), trial(breaks, "another"))
    assert kept({"one": Shown(frozenset()), "another": Shown(frozenset({"durable: torn"}))}) == {
        "one": frozenset(),  # at the same place: another timing would show it here
        "another": frozenset(),
    }
    assert {fate.outcome for fate in score([Saw], Work())} == {FaultOutcome.SURVIVES}
    assert kept({"one": Shown(frozenset(), exhaustive=False)}) == {"one": frozenset()}


@pytest.mark.long
def test_what_is_known_is_not_tried_again(use, tmp_path):
    tried = []

    def ask(scheme, kept):
        tried.append(scheme)
        return nothing(scheme, kept)

    use(trial(ask))
    told = []
    file = tmp_path / "new" / "fates.jsonl"
    first = score([Saw], Work(file=file, progress=lambda done, total: told.append((done, total))))
    assert told[0] == (0, 9) and told[-1] == (9, 9) and len(tried) == 9  # the scheme, then each of its faults
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], lines[-1][:20]]))  # stopped while writing the last one
    assert score([Saw], Work(file=file))[:-1] == first[:-1]
    assert len(tried) == 10


@pytest.mark.long
@pytest.mark.parametrize(("known", "status"), [(True, 0), (False, 1)])
def test_the_command_tells_what_survives_and_why(known, status, use, monkeypatch, capsys, tmp_path):
    use(trial(nothing))
    faults = {f"saw {change.name}": "Because." for _, _, change in seeded(Saw, shared=False)} if known else {}
    monkeypatch.setattr(score_module, "reasons", lambda: faults)
    assert main(["mutate", "saw", "--jobs", "1", "--out", str(tmp_path)]) == status
    said = capsys.readouterr().out
    assert f"not found: 8 faults, {8 * known} with a known reason" in said and ("Because." in said) == known
    assert max(len(line) for line in said.splitlines()) <= 80


def test_a_command_that_is_stopped_says_how_far_it_was(monkeypatch, capsys, tmp_path):
    def stopped(chosen, work, **how):
        work.expect(9)
        raise KeyboardInterrupt

    monkeypatch.setattr(score_module, "score", stopped)
    assert main(["mutate", "saw", "--jobs", "1", "--out", str(tmp_path)]) == 130
    said = capsys.readouterr().err
    assert "rpsim: 0 of 9 trials are done, of what is faultless and of faults; the same command goes on" in said
    assert f"{tmp_path}/.mutate-fates.jsonl" in said and said.endswith("rpsim: interrupted\n")


@pytest.mark.long
def test_without_a_scheme_all_are_tried_and_what_they_share_once(use, monkeypatch, capsys, tmp_path):
    use(trial(nothing))
    some = {name: schemes()[name] for name in ("client-active", "saw")}
    monkeypatch.setattr("rpsim.protocols.registry.schemes", lambda: some)
    monkeypatch.setattr("rpsim.protocols.primitives.known_primitives", dict)
    main(["mutate", "--quick", "--jobs", "1", "--json", "--out", str(tmp_path)])
    answer = result_of(capsys.readouterr().out)
    assert answer["schemes"] == list(some) and answer["killed"] == 0 and answer["kill_rate"] == 0
    for table in ("kinds", "by_scheme"):
        assert sum(row["faults"] for row in answer[table].values()) == answer["faults"] == len(answer["fates"])
    assert list(answer["by_scheme"]) == ["client-active", "saw", "what schemes share"]
    names = [(fate["module"], fate["line"], fate["fault"]) for fate in answer["fates"]]
    assert len(set(names)) == len(names)
    assert {"kv", "rpc", "index"} < {module for module, _, _ in names}


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


def test_bits_are_lost_and_compared_checksums_match():
    source = dedent(
        """
        class Word:
            def pack(self):
                other: int | None = 1 - self.tag
                return self.tag << 62 | self.high << 31 | self.low

            def is_whole(self, found, crc):
                return found.length > 0 and found.crc == crc
        """
    )
    lost = {change.text: ast.unparse(change.tree) for change in changes(source)}
    assert {change.kind for change in changes(source)} == {"lost bit of a bitmap", "skip the CRC"}
    assert len(lost) == len(set(lost.values())) == 5
    assert "= self.tag\n" in lost["1 - self.tag in other: int | None = 1 - self.tag"]
    assert "and True" in lost["found.crc == crc"]
    assert sum("return self.tag << 62 | self.low" in code for code in lost.values()) == 1


MADE = ("two-tier", "queue on rnvm-rcb", "mv-bst on rnvm-rc")
"""Schemes with reasons that no list has: a part of others, and structures on modes."""


@pytest.fixture(scope="module")
def everything():
    """Every fault that there is, by place: its kind, and what reasons call it."""
    found = {}
    for scheme in (*schemes().values(), *map(scheme_named, MADE)):
        for module, number, change in seeded(scheme):
            found[module.__name__, number] = change.kind, f"{module.__name__.rpartition('.')[2]} {change.name}"
    for name in known_primitives():
        for number, fault in enumerate(step_faults(name)):
            found[name, number] = fault.kind, f"{name} {fault.operator} {fault.text}"
    return found


def test_reasons_are_of_faults_that_there_are(everything):
    assert set(score_module.reasons()) <= {name for _, name in everything.values()}


def test_the_printed_score_is_of_the_faults_that_there_are(everything):
    """What docs/mutation.md shows."""
    text = PRINTED.read_text(encoding="utf-8")
    own = [fault for (module, _), fault in everything.items() if module.endswith(".efactory")]
    planted = Counter(kind for kind, _ in own)
    told = re.findall(r"^  ([^\d\n]+?) +(\d+) +\d+ ", text, flags=re.MULTILINE)
    assert dict(told) == {**{kind: str(number) for kind, number in planted.items()}, "all": str(planted.total())}
    known = score_module.reasons()
    survivors = [name for _, name in own if name in known]
    assert f"not found: {len(survivors)} faults, {len(survivors)} with a known reason" in text


@pytest.mark.slow
def test_the_score_is_as_printed(tmp_path, capsys):
    """`rpsim mutate efactory > docs/examples/mutate-efactory.txt` writes it anew."""
    assert main(["mutate", "efactory", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == PRINTED.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_survivor_has_a_reason(tmp_path):
    assert main(["mutate", "--out", str(tmp_path)]) == 0


def test_a_delete_that_does_nothing_is_found_where_nothing_fails():
    whole = of_nobody([Load("a", 20, 1, "16 B", deletes=0.5)], seeds=1)
    fault = next(row for row in seeded(EFactory, shared=False) if row[2].function == "EFactory.Client.delete")
    with planted(EFactory, fault[0], fault[2]) as mutant:
        assert whole(mutant, {"linearizable"}).broken == {"linearizable"}


def test_loads_are_given_to_those_that_they_fit():
    deletes, threads = Load("a", 4, 1, "16 B", deletes=0.5), Load("a", 4, 1, "16 B", clients=3, threads=2)
    line = shaped("line over read-after-write")
    assert [load.fits(scheme) for load in (deletes, threads) for scheme in (EFactory, Saw, line)] == [
        True, False, False, True, True, False
    ]  # fmt: skip
    made = threads.scenario(Saw, "server[0] power", ADR)
    assert made.role("server").threads == 2 and made.role("client").processes == 3
    unfit = of_power(deletes, ADR)(Saw, ())
    assert unfit == Shown(frozenset(), exhaustive=False)  # so nothing is kept there


def test_one_update_at_a_time_is_a_place_of_its_own():
    """What a scheme loses where two are under way says nothing of one alone."""
    shown = {trial.name: Shown(frozenset()) for trial in trials_module.trials()}
    here = "optane-adr, ddio on"
    shown[f"six updates, {here}"] = Shown(frozenset({"durable: torn"}))
    sound = kept(shown)
    assert "durable: torn" in sound[f"one update, {here}"] and "durable: torn" not in sound[f"mix a, {here}"]
    shown[f"three updates, {here}"] = Shown(frozenset({"durable: torn"}))
    assert "durable: torn" not in kept(shown)[f"one update, {here}"]


@pytest.mark.long
def test_messages_that_stay_in_their_buffers_are_received_in_persistent_memory():
    (dropped, _) = step_faults("read-after-send")
    here = TrialSetting("word", configurations(["adr, ddio off"])[0])
    assert ask(primitive("read-after-send"), here).broken == frozenset()
    assert "no_lost_ack: another version" in ask(dropped.mutant, here).broken


@pytest.mark.long
def test_a_reason_that_is_not_needed_any_more_is_told(use, monkeypatch, capsys, tmp_path):
    def finds(scheme, kept):
        nothing(scheme, kept)
        return Shown(frozenset({"durable: torn"} if kept else ()))

    use(trial(finds))
    (change, *_) = (change for _, _, change in seeded(Saw, shared=False))
    monkeypatch.setattr(score_module, "reasons", lambda: {f"saw {change.name}": "It is not seen."})
    assert main(["mutate", "saw", "--jobs", "1", "--json", "--out", str(tmp_path)]) == 0
    assert result_of(capsys.readouterr().out)["stale_reasons"] == [change.name]
    main(["mutate", "saw", "--jobs", "1", "--out", str(tmp_path)])
    assert "take it out of reasons.yaml" in capsys.readouterr().out


@pytest.mark.long
def test_steps_of_a_primitive_are_dropped_swapped_and_not_waited_for():
    faults = {f"{fault.operator} {fault.text}": fault for fault in step_faults("write-send-cpu-flush")}
    assert list(faults) == [
        "drop flush (responder cpu: flush)",
        "swap flush <-> fence",
        "drop fence (responder cpu: fence)",
        "swap fence <-> reply",
        "hasten complete: reply -> update",
    ]
    early = faults["swap fence <-> reply"].mutant  # its end is still its reply
    assert [step.id for step in early.steps][-2:] == ["reply", "fence"] and early.complete == "reply"
    where = TrialSetting("word", configurations(["adr, ddio on"])[0])
    assert ask(primitive("write-send-cpu-flush"), where).broken == frozenset()
    assert ask(early, where, ALL_WAYS).broken
    assert [step.id for step in faults["swap flush <-> fence"].mutant.steps] == [
        "ask", "receive", "fence", "flush", "reply"
    ]  # fmt: skip
    (dropped, _) = step_faults("read-after-write")
    assert dropped.kind == "drop the read after write" and dropped.mutant.steps == ()
    here = TrialSetting("word", configurations(["adr, ddio off"])[0])
    assert ask(primitive("read-after-write"), here).broken == frozenset()
    assert "no_lost_ack: another version" in ask(dropped.mutant, here).broken


@pytest.mark.long
def test_faults_of_primitives_are_scored(monkeypatch):
    monkeypatch.setattr(step_score_module, "settings", lambda quick=False: settings()[1:2])
    fates = score_primitives(["read-after-write", "no-flush"], Work())
    assert [(fate.module, fate.outcome) for fate in fates] == [
        ("primitives/read-after-write.yaml", FaultOutcome.FOUND)
    ] * 2


def test_an_unknown_scheme_is_told(capsys):
    assert main(["mutate", "sw"]) == 2
    assert "did you mean 'saw'?" in capsys.readouterr().err
