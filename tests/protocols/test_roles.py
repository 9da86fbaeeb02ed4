"""What a role may ask of its machines, and who recovers: small schemes of its own, explored when all lose power."""

import re
import sys
from contextlib import contextmanager
from typing import ClassVar

import pytest

import rpsim.protocols
from rpsim.models.durability.places import Domain
from rpsim.models.profiles.platform import platform_names
from rpsim.protocols import registry
from rpsim.protocols.failures import Failing
from rpsim.protocols.guarantees import ALWAYS, NO_FAULT, ONE_WRITER, Condition
from rpsim.protocols.naming.options import Option
from rpsim.protocols.parts.rpc import Listener
from rpsim.protocols.registry import scheme, schemes
from rpsim.protocols.scheme import Request, Role, Scheme
from rpsim.scenarios.history import Unread
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.crash.restart import Restart
from rpsim.validation.matrix.guarantees import every
from rpsim.validation.testing.checks import crash_report, scenario_of
from rpsim.validation.testing.world import World

ONE = {"mix": "update-only", "operations": 2, "keys": 1, "value": "8 B"}


@contextmanager
def known(base, **body):
    """A scheme, with something in its class otherwise, as long as the context lasts."""
    kind = type(base.__name__, (base,), body, name=f"{base.__name__.lower()}-test")
    try:
        yield kind
    finally:
        del Scheme.registry[kind.name]


class Words(Scheme):
    """Each object is a word on every one of two passive machines; a client writes all of them, and reads one."""

    title, paper, section = "words on passive machines", "a test", "this file"
    claims: ClassVar = {Condition.NO_LOST_ACK: ALWAYS}
    operations = ("put", "get")
    updates = frozenset({"put"})
    reads_back = True
    options: ClassVar = {"nodes": Option(2, at_least=1, source="a choice")}

    class Client(Role, invokes=True, background=1):
        def begin(self):
            self.turns = 0

        def start(self):
            self.node.process("counting").start(self.count(self.background_thread(0, "counting")))

        def count(self, thread):
            while self.turns < 3:
                yield from thread.compute()
                self.turns += 1

        def connect(self, thread):
            return [data.listener.accept(thread, self.node, 64) for data in self.scheme.roles["data"]]

        def perform(self, session, request):
            name, value = request.step.object, request.step.value
            places = [(d.words + 8 * self.sizes.objects.index(name), d.key) for d in self.scheme.roles["data"]]
            if value is None:
                return (yield from session[0].read(*places[0], 8))
            for connection, (address, key) in zip(session, places, strict=True):
                yield from connection.write(address, key, value)
                if self.scheme.reads_back:
                    yield from connection.read(address, key, 8)

    class Data(Role, memory=("dram", "pm"), counted_by="nodes", passive=True):
        def __init__(self, scheme, node, number):
            super().__init__(scheme, node, number)
            self.words = node.memory["pm"].allocate(8 * len(self.sizes.objects), "words")

        def begin(self):
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.words, 8 * len(self.sizes.objects)).key

    def load(self, objects):
        for data in self.roles["data"]:
            pm = data.node.memory["pm"]
            pm.space.poke(data.words - pm.base, b"".join(objects.values()))

    def probe(self, object):
        return Request.of("get", object)


def ran(kind, **how):
    scenario = scenario_of(kind, workload=ONE, **how)
    (variant,) = scenario.variants()
    return run_variant(scenario, variant)


def test_there_are_as_many_machines_as_an_option_says():
    with known(Words) as kind:
        assert len(ran(kind).scheme.roles["data"]) == 2
        with pytest.raises(InputError, match=r"roles.data.machines: found 1, expected 2, as the options"):
            crash_report(kind, machines={"data": 1})
        three = scheme("words-test[nodes=3]")
        report = crash_report(three, ddio="off", workload=ONE, fault="data[2] power + data[0,1] power")
        assert report.exhaustive and report.view == "adversarial"


def test_clients_have_cores_for_threads_of_their_own():
    with known(Words) as kind:
        (client,) = ran(kind, clients=3).scheme.roles["client"]
        assert (client.node.spec.cores, client.turns) == (4, 3)
        restarted = Restart(ran(kind, clients=3))
        assert restarted.read("k0", restarted.initial) == 0


def test_memory_of_passive_machines_outlives_the_power_of_all():
    with known(Words) as kind:
        assert crash_report(kind, fault="all power", workload=ONE, ddio="off").verdicts["no_lost_ack"] == "holds"
    with known(Words, reads_back=False) as twin:
        report = crash_report(twin, fault="all power", workload=ONE, ddio="off")
    assert report.exhaustive and report.verdicts["no_lost_ack"] == "violated"


def test_a_key_is_the_same_after_a_restart():
    """What clients wrote down of a passive machine's memory is still true when its power has come back."""
    with known(Words) as kind:
        result = ran(kind)
        again = Restart(result)._build().scheme
        for before, after in zip(result.scheme.roles["data"], again.roles["data"], strict=True):
            assert (before.words, before.key) == (after.words, after.key)
            assert after.node.memory["pm"].domain is Domain.ADR and not after.node.memory["pm"].traced


def test_a_server_may_have_a_thread_and_a_core_for_each_client():
    class Data(Words.Data, passive=False, per_client=True):
        def start(self):
            self.threads = [self.client_thread(number, f"for {number}") for number in range(self.sizes.clients + 1)]

    with known(Words, Data=Data) as kind:
        (first, _) = ran(kind, clients=3).scheme.roles["data"]
    assert first.node.spec.cores == 4
    cores = [thread.core.name for thread in first.threads]
    assert len(set(cores)) == 3 and cores[3] == cores[0] and first.node.cores[0].name not in cores


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("pmr", "'pmr', expected a scheme for the memory of optane-adr: pm, dram; did you mean 'pm'?"),
        ("cxl", "'cxl', expected a scheme for the memory of optane-adr: pm, dram"),
    ],
)  # fmt: skip
def test_memory_that_a_platform_lacks_is_refused(device, told):
    class Data(Words.Data, memory=("dram", "pm", device)):
        pass

    with known(Words, Data=Data) as kind, pytest.raises(InputError) as caught:
        crash_report(kind, "optane-adr")
    assert str(caught.value).endswith(f"schemes[0]: found words-test, whose data needs the memory device {told}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("platform", "needed", "told"),
    [
        ("optane-adr", "libcuckoo", "optane-adr, which states no costs of software"),
        ("any-pmr", "libcuckou", "did you mean 'libcuckoo'?"),
    ],
)
def test_software_whose_cost_a_platform_does_not_state_is_refused(platform, needed, told):
    class Data(Words.Data, software=(needed,)):
        pass

    with known(Words, Data=Data) as kind, pytest.raises(InputError) as caught:
        crash_report(kind, platform)
    assert f"found words-test, whose data needs the cost of the software '{needed}'" in str(caught.value)
    assert str(caught.value).endswith(told)


# who failed, and who recovers ---------------------------------------------------------------------------------------


def test_a_scheme_knows_who_has_failed_who_is_lost_and_who_stands():
    with known(Words):
        at_work = ran(scheme("words-test[nodes=3]")).scheme
    first, second, third = at_work.roles["data"]
    assert at_work.standing("data") == [first, second, third] and at_work.failed("data") == []
    at_work.failures = (Failing("data", 0, "power"), Failing("data", 2, "lost"))
    assert (at_work.failed("data"), at_work.lost("data"), at_work.standing("data")) == (
        [first, third],
        [third],
        [second],
    )
    assert list(at_work.recovery()) == []  # they run no code


def test_machines_recover_one_after_the_other_and_serve_the_next():
    order = []

    class Data(Words.Data, passive=False):
        def start(self):
            order.append(f"start {self.number}")

        def recover(self, thread):
            order.append(f"recover {self.number}")
            yield from thread.compute()

    with known(Words, Data=Data) as kind:
        result = ran(kind, fault="all power")
        order.clear()
        restart = Restart(result)
        assert restart.opaque and restart.read("k0", restart.initial) == 0
        assert order == ["recover 0", "start 0", "recover 1", "start 1"]
        order.clear()
        world = World(kind, keys=1, clients=1, value_bytes=8)
        assert order == ["start 0", "start 1"]
        world.crash(lambda count: 0)
        assert order[2:] == ["recover 0", "start 0", "recover 1", "start 1"]
        world.read_all()
        assert world.judge(["durable"]).verdicts


class Locked(Words):
    """A put takes a lock that lies in the same memory: who dies with it leaves it behind."""

    options: ClassVar = {"nodes": Option(1, at_least=1, source="a choice")}

    class Client(Words.Client):
        def words(self, name):
            data = self.scheme.roles["data"][0]
            return (data.words + 8 * self.sizes.objects.index(name), data.key), (data.words + 64, data.key)

        def perform(self, session, request):
            name, value = request.step.object, request.step.value
            place, lock = self.words(name)
            if value is None:
                while any((yield from session[0].read(*lock, 8))):
                    pass
                return (yield from session[0].read(*place, 8))
            for where, data in ((lock, b"\1" * 8), (place, value), (lock, bytes(8))):
                yield from session[0].write(*where, data)
                yield from session[0].read(*where, 8)

    class Data(Words.Data):
        def __init__(self, scheme, node, number):
            Role.__init__(self, scheme, node, number)
            self.words = node.memory["pm"].allocate(128, "words")

        def begin(self):
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.words, 128).key


class Heir(Locked.Client):
    def take_over(self, session):
        """The lock was a dead client's."""
        _, lock = self.words("k0")
        yield from session[0].write(*lock, bytes(8))
        yield from session[0].read(*lock, 8)


@pytest.mark.long
def test_who_waits_for_a_dead_client_s_lock_waits_for_ever_and_that_is_a_loss():
    work = ONE | {"operations": 1}
    with known(Locked) as kind:
        report = crash_report(kind, fault="all power", workload=work, clients=1, ddio="off", conditions=["committed"])
    assert report.exhaustive
    assert [str(report.verdicts[c]) for c in ("committed", "no_lost_ack", "durable")] == [
        "holds",
        "violated",
        "violated",
    ]
    (case, *_) = [example for example in report.counterexamples if example.condition == "no_lost_ack"]
    assert re.search(r"waits for ever: [\d,]+ verbs posted, and nothing has returned", case.explanation)


@pytest.mark.parametrize("fault", ["all power", "all power in recovery"])
def test_a_new_client_may_finish_what_a_dead_one_left(fault):
    with known(Locked, Client=Heir) as kind:
        report = crash_report(kind, fault=fault, workload=ONE | {"operations": 1}, clients=1, ddio="off")
        assert report.exhaustive and set(map(str, report.verdicts.values())) == {"holds"}
        result = ran(kind, fault="all power", clients=1)
        assert Restart(result).opaque


def test_a_read_that_fails_is_a_loss_and_nothing_torn():
    class Client(Words.Client):
        def perform(self, session, request):
            session[0]._end.qp.fail()
            return super().perform(session, request)

    with known(Words) as kind:
        result = ran(kind)
        result.scheme.__class__ = type("Failing", (kind,), {"role_types": {**kind.role_types, "client": Client}})
        restart = Restart(result)
        found = restart.read("k0", restart.initial)
    assert isinstance(found, Unread) and "the read fails" in found.note


# packages ---------------------------------------------------------------------------------------------------------


def test_schemes_may_live_in_packages_of_packages(tmp_path, monkeypatch):
    inner = tmp_path / "atlas" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "atlas" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("")
    (inner / "deep.py").write_text("from ...efactory.saw import Saw\nclass Deep(Saw, name='deep-test'):\n    pass\n")
    monkeypatch.setattr(rpsim.protocols, "__path__", [*rpsim.protocols.__path__, str(tmp_path)])
    registry._find_schemes.cache_clear()  # another test may have looked before
    try:
        assert schemes()["deep-test"].__module__ == "rpsim.protocols.atlas.inner.deep"
    finally:
        Scheme.registry.pop("deep-test", None)
        registry._find_schemes.cache_clear()
        for name in [name for name in sys.modules if name.startswith("rpsim.protocols.atlas")]:
            del sys.modules[name]


@pytest.mark.parametrize("name", schemes())
def test_a_claim_speaks_of_what_there_is(name):
    """A word that nothing is called would make the claim one that is never judged."""
    kind = scheme(name)
    known = {"ddio on", "ddio off", NO_FAULT, ONE_WRITER, *platform_names()}
    known |= {f"{role} {how}" for role, hows in kind.faults.items() for how in hows}
    known |= {re.sub(r"\[\d+\]", "", fault) for fault in every(kind)}
    said = {part.strip() for text in kind.claims.values() if text != ALWAYS for part in re.split("[;,]", text)}
    assert said <= known
