"""Objects of every sequential model, explored: what they hold after a power failure, as a fresh client finds it.

One small store in persistent memory serves all models. It keeps a log of what was done to each object, and works out
what an object is from that, so that a twin which loses, repeats or halves an entry breaks each model in its own way.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from rpsim.protocols.guarantees import ALWAYS, Condition
from rpsim.protocols.layout import U32, U64, Bytes, Layout
from rpsim.protocols.objects import OPERATIONS, RUN, conditions_of
from rpsim.protocols.parts.rpc import Listener, VerbsError
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.schema.load import scenario_from_data
from rpsim.sim.errors import InputError
from rpsim.validation.crash.brute_force import compare
from rpsim.validation.crash.explore import replay_case
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.oracle.models.simple import ILLEGAL, MODELS, UNKNOWN, Call
from rpsim.validation.testing.checks import crash_report, scenario_of

DOCS = Path(__file__).parents[2] / "docs" / "examples"


class Entry(Layout):
    """One operation: which, on which object, and its two values; a line."""

    f = U32()
    object = U32()
    value = Bytes(8)
    expected = Bytes(8)
    number = U64()
    """From 1; 0: nothing there. The last word: stores of one line persist in order, so the rest is there if it is."""


NONE = bytes(8)


class Store(Scheme):
    """A log of operations; ``order`` says what makes an entry durable, and when."""

    title = "a log of operations, replayed by a reference model"
    paper, section = "a test", ""
    claims: ClassVar = {Condition.DURABLE: ALWAYS}
    batches = True
    flushes = True
    twice = False

    class Server(Role, memory=("dram", "pm")):
        def __init__(self, scheme, node, number):
            super().__init__(scheme, node, number)
            self.length = 64 * (self.sizes.updates + 8 * self.sizes.clients + 64)
            self.log = node.memory["pm"].allocate(self.length, "log", item_bytes=64)

        def begin(self):
            self.tail, self.entries = 0, []
            self.listener = Listener(self.node, {Entry: self.on_entry}, message_bytes=256)

        def start(self):
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def on_entry(self, thread, request):
            """Append what may change something, then answer."""
            entry = Entry.pack(
                number=self.tail + 1, f=request.f, object=request.object, value=request.value,
                expected=request.expected,
            )  # fmt: skip
            f = self.scheme.operations[request.f]
            before = self.state(request.object)
            after, answer = did(self.scheme.model, before, f, request.value, request.expected)
            if after != before:
                for _ in range(1 + (self.scheme.twice and f in ("append", "enqueue", "fetch_add"))):
                    yield from thread.store(self.log + 64 * self.tail, entry)
                    if self.scheme.flushes:
                        yield from thread.flush(self.log + 64 * self.tail, 64)
                    self.learn(entry)
            yield from thread.compute()
            return answer

        def learn(self, data):
            self.tail += 1
            self.entries.append(Entry.unpack(data))

        def state(self, object):
            state = begins(self.scheme.model, self.sizes.objects, self.scheme.loaded)[object]
            for entry in self.entries:
                if entry.object == object:
                    state, _ = did(
                        self.scheme.model, state, self.scheme.operations[entry.f], entry.value, entry.expected
                    )
            return state

        def recover(self, thread):
            while True:
                data = yield from thread.load(self.log + 64 * self.tail, 64)
                if Entry.unpack(data).number != self.tail + 1:
                    return
                self.learn(data)

    class Client(Role, invokes=True):
        def connect(self, thread):
            return self.scheme.roles["server"][0].listener.accept(thread, self.node, 64)

        def perform(self, session, request):
            answers = []
            for step in request.steps:
                f = self.scheme.operations.index(step.f)
                number = b"" if step.number is None else step.number.to_bytes(8, "little")
                try:
                    reply = yield from session.call(
                        Entry, number=0, f=f, object=self.sizes.objects.index(step.object),
                        value=(step.value or number or NONE), expected=step.expected or NONE,
                    )  # fmt: skip
                except VerbsError as error:
                    raise OutcomeUnknown(str(error)) from error
                answers.append(answered(self.scheme.model, step.f, reply))
            return tuple(answers) if len(request.steps) > 1 else answers[0]

    def load(self, objects):
        self.loaded = dict(objects)
        type(self).loaded = self.loaded

    def probe(self, object):
        return Request.of(PROBES[self.model], object)


PROBES = {
    "register": "read", "kv": "get", "cas-register": "read", "counter": "read", "append": "read", "log": "read_all",
    "set": "read", "queue": "dequeue", "stack": "pop", "allocator": "alloc",
}  # fmt: skip
BLOCKS = 3


def begins(model, objects, loaded):
    if model in ("register", "kv", "cas-register"):
        return [loaded.get(name) for name in objects]
    return [0 if model == "counter" else ()] * len(objects)


def did(model, state, f, value, expected):
    """The state after an operation, and the reply's bytes."""
    items = b"".join(state) if isinstance(state, tuple) and state and isinstance(state[0], bytes) else b""
    if f in ("read", "get", "read_all", "find"):
        if model == "counter":
            return state, state.to_bytes(8, "little")
        return state, items if model in ("append", "log", "set") else state or b""
    if f in ("write", "put", "insert"):
        return value, b"y"
    if f == "delete":
        return None, b"y"
    if f == "cas":
        return (value, b"y") if state == (expected if expected != NONE else None) else (state, b"n")
    if f == "put_if_absent":
        return (value, b"y") if state is None else (state, b"n")
    if f == "fetch_add":
        return state + int.from_bytes(value, "little"), state.to_bytes(8, "little")
    if f in ("append", "enqueue", "push"):
        return (*state, value), b"y"
    if f == "add":
        return tuple(sorted({*state, value})), b"y"
    if f == "remove":
        return tuple(each for each in state if each != value), b"y"
    if f == "contains":
        return state, b"y" if value in state else b"n"
    if f in ("dequeue", "pop"):
        at = 0 if f == "dequeue" else len(state) - 1
        return (state[:at] + state[at + 1 :], state[at]) if state else (state, b"")
    if f == "alloc":
        free = [number for number in range(BLOCKS) if number not in state]
        return ((*state, free[0]), (64 * free[0]).to_bytes(8, "little")) if free else (state, b"")
    assert f == "free"
    return tuple(each for each in state if 64 * each != int.from_bytes(value, "little")), b"y"


def answered(model, f, reply):
    if f in ("cas", "put_if_absent", "contains"):
        return reply == b"y"
    if f == "fetch_add" or (model == "counter" and f == "read"):
        return int.from_bytes(reply, "little")
    if f == "alloc":
        return int.from_bytes(reply, "little") if reply else None
    if model in ("append", "log", "set") and f in ("read", "read_all"):
        return [reply[at : at + 8] for at in range(0, len(reply), 8)]
    return reply or None


@pytest.fixture
def store():
    """Makes schemes of a model, whose names are forgotten after the test."""
    made = []

    def make(model, **body):
        operations = tuple(OPERATIONS[model])
        reads = ("read", "get", "find", "read_all", "contains")
        body = {
            "model": model, "operations": operations, "loaded": {},
            "updates": frozenset(f for f in operations if f not in reads),
            "removals": frozenset({"delete"} & set(operations)), **body,
        }  # fmt: skip
        name = f"store-of-{model}-{len(made)}"
        made.append(name)
        return type("Made", (Store,), body, name=name)

    yield make
    for name in made:
        del Scheme.registry[name]


def operation(process, f, object="k0", **more):
    return {"process": process, "f": f, "object": object, **more}


SCHEDULES = {
    "register": [operation(0, "write"), operation(1, "write"), operation(0, "read"), operation(1, "write")],
    "kv": [operation(0, "insert", "k1"), operation(1, "put"), operation(0, "delete"), operation(1, "get", "k1")],
    "cas-register": [
        operation(0, "cas", argument=0, stamp=5), operation(1, "put_if_absent", "k1", stamp=6),
        operation(0, "cas", argument=5, stamp=7), operation(1, "cas", argument=9, stamp=8), operation(1, "read"),
    ],
    "counter": [operation(0, "fetch_add", argument=2), operation(1, "fetch_add", argument=3), operation(0, "read")],
    "append": [operation(0, "append"), operation(1, "append"), operation(0, "read"), operation(1, "append")],
    "log": [operation(0, "append"), operation(1, "append"), operation(0, "read_all")],
    "set": [
        operation(0, "add", stamp=3), operation(1, "add", stamp=4), operation(0, "remove", argument=3),
        operation(1, "contains", argument=3), operation(1, "read"),
    ],
    "queue": [operation(0, "enqueue"), operation(1, "enqueue"), operation(0, "dequeue"), operation(1, "dequeue")],
    "stack": [operation(0, "push"), operation(1, "push"), operation(0, "pop"), operation(1, "pop")],
    "allocator": [operation(0, "alloc", argument=64), operation(1, "alloc", argument=64), operation(0, "free")],
}  # fmt: skip


def how(model, **more):
    workload = {"kind": "schedule", "keys": 2, "value": "8 B", "operations": SCHEDULES[model], "loaded": 1}
    return {"workload": {**workload, **more}, "ddio": "on"}


@pytest.mark.parametrize("model", SCHEDULES)
def test_what_is_flushed_survives_whatever_the_object_is(store, model):
    report = crash_report(store(model), **how(model))
    assert report.exhaustive and report.states > 8
    asked = {Condition.COMMITTED, Condition.EXACTLY_ONCE, Condition.NO_LOST_ACK, Condition.DURABLE}
    assert report.verdicts == dict.fromkeys(asked & set(conditions_of(model)), "holds")


@pytest.mark.parametrize("model", SCHEDULES)
def test_what_is_not_flushed_is_lost_and_the_case_shows_it_again(store, model, tmp_path):
    report = crash_report(store(model, flushes=False), **how(model))
    lost = [example for example in report.counterexamples if example.condition == "durable"]
    assert report.verdicts["durable"] == report.verdicts["no_lost_ack"] == "violated"
    assert any(row.mark == "LOST" for row in lost[0].timeline)
    assert lost[0].operations <= 2
    path = tmp_path / "case.json"
    path.write_text(json.dumps(lost[0].case), encoding="utf-8")
    again = replay_case(path)
    assert again is not None and again.instant_ps == lost[0].instant_ps and again.explanation == lost[0].explanation


@pytest.mark.long
@pytest.mark.parametrize("flushes", [True, False])
@pytest.mark.parametrize("model", SCHEDULES)
def test_brute_force_agrees(store, model, flushes):
    scenario = scenario_of(store(model, flushes=flushes), **how(model, operations=SCHEDULES[model][:3]))
    found = compare(run_variant(scenario, scenario.variants()[0]), conditions_of(model), at_most=50_000)
    assert found.agree, found


@pytest.mark.long
@pytest.mark.parametrize("fault", ["server[0] process", "client[0] process"])
@pytest.mark.parametrize("model", ["queue", "counter", "append"])
def test_executed_faults_are_judged_alike(store, model, fault):
    few = {**how(model)["workload"], "operations": SCHEDULES[model][:3]}
    report = crash_report(store(model), workload=few, ddio="on", fault=fault)
    assert report.executed and set(report.verdicts.values()) == {"holds"}, report.verdicts
    told = model == "append"  # to shrink each of them takes ten times as long as to find it
    twice = crash_report(store(model, twice=True), workload=few, ddio="on", fault=fault, examples=told)
    assert "violated" in twice.verdicts.values() and bool(twice.counterexamples) is told


@pytest.mark.long
def test_an_update_that_is_executed_twice_shows_in_a_list(store):
    report = crash_report(store("append", twice=True), **how("append"))
    assert report.verdicts["exactly_once"] == "violated"
    (twice,) = [example for example in report.counterexamples if example.condition == "exactly_once"]
    assert "is there 2 times, and was put there once" in twice.explanation


def test_a_drain_that_never_ends_is_a_loss(store):
    class Server(Store.Server):
        def on_entry(self, thread, request):
            if self.scheme.operations[request.f] == "dequeue" and self.entries:
                yield from thread.compute()
                return self.entries[0].value
            return (yield from super().on_entry(thread, request))

    report = crash_report(store("queue", Server=Server), **how("queue", operations=SCHEDULES["queue"][:2]))
    assert report.verdicts["durable"] == "violated"


def test_an_object_that_was_never_there_is_absent_until_it_is_inserted(store):
    scheme = store("kv")
    scenario = scenario_of(scheme, **how("kv", operations=[operation(0, "get", "k1"), operation(0, "insert", "k1")]))
    history = run_variant(scenario, scenario.variants()[0]).history
    assert [one.result for one in history.operations] == [None, None]
    report = crash_report(store("kv", flushes=False), **how("kv", operations=[operation(0, "insert", "k1")]))
    assert report.verdicts["no_lost_ack"] == "violated"
    (lost,) = [one for one in report.counterexamples if one.condition == "no_lost_ack"]
    assert lost.recovered is None and "insert k1" in lost.explanation


# asynchronous stores: what is lost is bounded, or the newest ------------------------------------------------------


class Lazily(Store.Server):
    """Flushes each entry when the next one comes."""

    def on_entry(self, thread, request):
        before = self.tail
        answer = yield from super().on_entry(thread, request)
        if self.tail > before and before:
            yield from thread.flush(self.log + 64 * (before - 1), 64)
        return answer


PACED = [operation(0, "write", at=f"{10 * turn} us", object=f"k{turn % 2}") for turn in range(4)]


def test_the_buffered_conditions_take_all_objects_together(store):
    asked = ["buffered", "buffered_cut", "durable"]
    lazy = store("register", Server=Lazily, flushes=False)
    found = crash_report(lazy, conditions=asked, **how("register", operations=PACED, loaded=2)).verdicts
    assert (found["durable"], found["buffered"], found["buffered_cut"]) == ("violated", "holds", "holds")
    never = store("register", flushes=False)
    found = crash_report(never, conditions=asked, **how("register", operations=PACED, loaded=2)).verdicts
    # a log is read up to its first gap: what survives is always a prefix
    assert (found["durable"], found["buffered"]) == ("violated", "holds")


@pytest.mark.long
def test_a_prefix_that_has_a_gap_is_no_buffered_state(store):
    class Server(Store.Server):
        """Reads all entries, whatever is missing between them."""

        def recover(self, thread):
            for number in range(self.sizes.updates):
                data = yield from thread.load(self.log + 64 * number, 64)
                if Entry.unpack(data).number:
                    self.learn(data)

    asked = ["buffered", "buffered_cut"]
    gaps = store("register", Server=Server, flushes=False)
    report = crash_report(gaps, conditions=asked, **how("register", operations=PACED, loaded=2))
    assert report.verdicts["buffered"] == report.verdicts["buffered_cut"] == "violated"
    (gap,) = [example for example in report.counterexamples if example.condition == "buffered"]
    assert gap.operations == 2 and gap.object == ("k0", "k1")


@pytest.mark.long
@pytest.mark.parametrize(("flushes", "verdict"), [(True, "holds"), (False, "violated")])
def test_what_had_returned_before_a_sync_is_durable_when_it_has(store, flushes, verdict):
    class Server(Store.Server):
        def on_entry(self, thread, request):
            if self.scheme.operations[request.f] != "sync":
                return (yield from super().on_entry(thread, request))
            if flushes:
                yield from thread.flush(self.log, 64 * max(1, self.tail))
            yield from thread.compute()
            return b""

    class Client(Store.Client):
        def perform(self, session, request):
            if request.step.f == "sync":
                request = Request.of("sync", "k0")
            return (yield from super().perform(session, request))

    operations = (*OPERATIONS["register"], "sync")
    synced = store("register", Server=Server, Client=Client, flushes=False, operations=operations)
    few = [operation(0, "write"), {"process": 0, "f": "sync", "at": "20 us"}, operation(0, "write", "k1")]
    given = how("register", operations=few, loaded=2)
    found = crash_report(synced, conditions=["buffered", "buffered_cut"], clients=1, **given).verdicts
    assert (found["durable"], found["buffered"], found["buffered_cut"]) == ("violated", verdict, verdict)


@pytest.mark.parametrize(("loss_us", "verdict"), [(1, "violated"), (15, "holds")])
def test_what_is_lost_had_returned_at_most_so_long_before(store, loss_us, verdict):
    """The entry before is flushed by the next, 10 us later; the last one never: so the last comes with a flush."""

    class Server(Lazily):
        def on_entry(self, thread, request):
            answer = yield from super().on_entry(thread, request)
            if self.tail == len(PACED):
                yield from thread.flush(self.log + 64 * (self.tail - 1), 64)
            return answer

    scheme = store("register", Server=Server, flushes=False, loss_within=f"{loss_us} us")
    found = crash_report(scheme, conditions=["bounded_loss"], **how("register", operations=PACED, loaded=2)).verdicts
    assert (found["bounded_loss"], found["no_lost_ack"]) == (verdict, "violated")


def test_bounded_loss_needs_its_time(store):
    with pytest.raises(InputError, match=r"'bounded_loss' without a time, expected crash\.loss"):
        crash_report(store("register"), conditions=["bounded_loss"], **how("register"))


# what runs record -------------------------------------------------------------------------------------------------


class Promising(Store.Server):
    """Answers before it appends; a second completion says when it did."""

    def on_entry(self, thread, request):
        answer = yield from super().on_entry(thread, request)
        self.scheme.applied(len(self.entries))
        return answer


def test_a_run_records_that_a_promise_was_kept(store):
    scenario = scenario_of(store("append", Server=Promising), **how("append", operations=SCHEDULES["append"][:2]))
    result = run_variant(scenario, scenario.variants()[0])
    assert all(one.applied_ps < one.return_ps for one in result.history.operations)
    lines = "\n".join(result.history.lines(result.initial))
    assert lines.count('"applied"') == 2
    report = check_history(parse_history(lines, "the run"), "append")
    assert set(report.verdicts) >= {"linearizable", "exactly_once"}


def test_a_batch_is_acknowledged_once(store):
    few = [operation(0, "append", batch=1), operation(0, "append", batch=1), operation(0, "read")]
    scenario = scenario_of(store("append"), clients=1, **how("append", operations=few))
    history = run_variant(scenario, scenario.variants()[0]).history
    first, second, read = history.operations
    assert (first.invoke_ps, first.return_ps, first.batch) == (second.invoke_ps, second.return_ps, second.batch)
    assert read.result == (1, 2)
    report = check_history(parse_history("\n".join(history.lines()), "the run"), "append", ["linearizable"])
    assert report.verdicts["linearizable"].verdict == "holds"
    lost = crash_report(store("append", flushes=False), clients=1, **how("append", operations=few[:2]))
    assert lost.verdicts["no_lost_ack"] == "violated"


def test_a_retry_is_the_same_operation_and_shows_a_second_execution(store):
    class Client(Store.Client):
        def perform(self, session, request):
            found = yield from super().perform(session, request)
            if request.step.f == "append" and not session.__dict__.setdefault("tried", False):
                session.tried = True
                raise OutcomeUnknown("the reply is thrown away")
            return found

    scheme = store("append", Client=Client)
    given = how("append", operations=[operation(0, "append"), operation(0, "read")])
    draft = scenario_of(scheme, clients=1, **given).resolved()
    draft["roles"]["client"]["retries"] = 1
    scenario = scenario_from_data(draft, "test")
    result = run_variant(scenario, scenario.variants()[0])
    append, read = result.history.operations
    assert append.outcome == "ok" and len(append.retries) == 1 and read.result == (1, 1)
    lines = "\n".join(result.history.lines(result.initial))
    assert '"retry_of": 1' in lines
    report = check_history(parse_history(lines, "the run"), "append", ["exactly_once", "linearizable"])
    assert {str(c): str(one.verdict) for c, one in report.verdicts.items()} == {
        "exactly_once": "violated", "linearizable": "violated",
    }  # fmt: skip


# models and conditions --------------------------------------------------------------------------------------------


def test_a_scheme_names_a_model_that_there_is_and_its_operations():
    with pytest.raises(TypeError, match="model 'queues'; expected one of register"):
        type("Bad", (Store,), {"model": "queues", "operations": ()}, name="bad")
    with pytest.raises(TypeError, match="'put' is no operation of the model queue; expected enqueue, dequeue"):
        type("Bad", (Store,), {"model": "queue", "operations": ("put",)}, name="bad")
    assert set(RUN) <= set(MODELS)


def test_insert_if_absent():
    step = MODELS["cas-register"].step
    assert step(None, Call("put_if_absent", 1, True)) == 1
    assert step(2, Call("put_if_absent", 1, False)) == 2
    assert step(2, Call("put_if_absent", 1, True)) is ILLEGAL
    assert step(None, Call("put_if_absent", 1, False)) is ILLEGAL
    assert step(2, Call("put_if_absent", 1, UNKNOWN)) == 2
