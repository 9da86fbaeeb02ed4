"""Does recovery give back what the surviving bytes say, unit by unit as well as whole, and a store that can go on?"""

from __future__ import annotations

import random
from collections.abc import Generator
from itertools import islice
from typing import Any

import pytest

from rpsim.models.durability.views import LineKey, Views
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import Opcode, SendWR
from rpsim.protocols.scheme import Request
from rpsim.scenarios.history import Torn, Unread
from rpsim.scenarios.run.experiment import client_thread
from rpsim.scenarios.run.results import RunResult
from rpsim.scenarios.values import decode_value, encode_value
from rpsim.validation.crash.outcomes import Outcomes
from rpsim.validation.crash.restart import Restart, lines_of
from rpsim.validation.crash.timeless import AT_ONCE, TimelessThread

from ..small import PLATFORMS, put, run, ycsb

everywhere = pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
both = pytest.mark.parametrize("scheme", ["client-active", "saw"])

Image = dict[LineKey, bytes]


def some_image(views: Views, draw: random.Random, until_ps: int) -> Image:
    """One of the images that a power failure at some instant may leave, line after line in random order."""
    at_ps = draw.randint(0, until_ps)
    lines = sorted(views.pieces)
    draw.shuffle(lines)
    image: Image = {}
    cut: Any = {}
    for line in lines:
        content = draw.choice(list(views.contents(line, at_ps, cut)))
        image[line], cut = content.data, content.cut
    return image


class Revived:
    """The store after a power failure that left ``image``, whole recovery done, with a client at its door."""

    def __init__(self, result: RunResult, restart: Restart, image: Image) -> None:
        self.value_bytes = result.scheme.sizes.value_bytes
        specs = {"server": [NodeSpec(1, ("dram", "pm"))], "client": [NodeSpec()]}
        self.system = System(result.system.platform, specs, result.seed)
        self.store = type(result.scheme)(self.system, result.scheme.sizes)
        pm = self.system.nodes["server"][0].memory["pm"]
        pm.space.restore(lambda line: lines_of(image.items(), restart.initial)((pm.number, line)))
        self.finish(self.store.server.recover(self.system.nodes["server"][0].thread(0, "recovery")))
        self.store.start()
        self.client = self.store.roles["client"][0]
        self.session = self.client.connect(client_thread(self.system, 1, 0))

    def finish(self, code: Generator[Any, Any, Any]) -> Any:
        answer = []

        def program() -> Generator[Any, Any, None]:
            answer.append((yield from code))

        self.system.clock.run_until(self.system.clock.start(program()))
        return answer[0]

    def get(self, name: str) -> Any:
        found = self.finish(self.client.perform(self.session, Request.of("get", name)))
        return None if found is None else decode_value(found, self.value_bytes)

    def put(self, name: str, stamp: int) -> None:
        self.finish(self.client.perform(self.session, Request.of("put", name, encode_value(stamp, self.value_bytes))))


@pytest.mark.long
@both
@everywhere
def test_whole_recovery_and_recovery_unit_by_unit_agree_on_every_image(scheme, platform, ddio):
    """Thirty images of three objects for each store and platform, torn lines among them."""
    result = run(scheme, ycsb(10, "update-only"), platform, ddio, processes=3, keys=3, value="40 B")
    restart = Restart(result)
    views, draw = restart.views(), random.Random(3)
    until_ps = max(operation.return_ps for operation in result.history.operations)
    values = set()
    for _ in range(30):
        source = lines_of(some_image(views, draw, until_ps).items(), restart.initial)
        for name in result.initial:
            by_units = restart.read(name, source)
            assert by_units == restart.read(name, source, whole=True)
            values.add(type(by_units))
    assert values == ({int, Torn} if scheme == "client-active" else {int})  # the images were not all alike


@pytest.mark.long
@both
@everywhere
def test_after_recovery_the_log_goes_on_behind_everything_that_can_be_reached(scheme, platform, ddio):
    result = run(scheme, ycsb(10, "update-only"), platform, ddio, processes=2, keys=3)
    restart = Restart(result)
    views, draw = restart.views(), random.Random(4)
    until_ps = max(operation.invoke_ps for operation in result.history.operations) - 1  # the log has room for one more
    for _ in range(15):
        shop = Revived(result, restart, some_image(views, draw, until_ps))
        before = {name: shop.get(name) for name in result.initial}
        target = draw.choice(list(before))
        shop.put(target, 1000)
        assert {name: shop.get(name) for name in before} == before | {target: 1000}


@everywhere
def test_with_nothing_lost_recovery_returns_what_was_put_last(platform, ddio):
    result = run("saw", [put(0, "k0"), put(0, "k1"), put(0, "k0")], platform, ddio, keys=3)
    restart = Restart(result)
    views = restart.views()
    assert [restart.read(name, lambda key: views.newest(key, 1 << 60)) for name in ("k0", "k1", "k2")] == [3, 2, 0]


def test_with_everything_lost_recovery_returns_what_was_loaded():
    restart = Restart(run("client-active", [put(0, "k0"), put(0, "k1")], keys=2))
    assert [restart.read(name, restart.initial) for name in ("k0", "k1")] == [0, 0]


def test_a_restart_carries_nothing_volatile_over():
    """The run's own scheme and memory are as they were before, however often its system is restarted."""
    result = run("saw", [put(0, "k0")])
    restart = Restart(result)
    tail, now_ps = result.scheme.server.tail, result.system.clock.now_ps
    memory = {n: device.space.snapshot() for n, (_, device) in result.system.devices().items()}
    first = [restart.read("k0", restart.initial, whole=whole) for whole in (False, True)]
    assert first == [restart.read("k0", restart.initial, whole=whole) for whole in (False, True)] == [0, 0]
    assert (result.scheme.server.tail, result.system.clock.now_ps) == (tail, now_ps)
    assert memory == {n: device.space.snapshot() for n, (_, device) in result.system.devices().items()}
    assert restart.runs == 4


def test_an_entry_that_points_out_of_the_log_fails_the_read_and_not_the_checker():
    """No scheme here leaves such bytes behind, but one that is being designed may."""
    result = run("saw", [put(0, "k0")])
    restart = Restart(result)
    server = result.scheme.server
    index = server.index
    wild = b"k0".ljust(32, b"\0") + ((1 << 39) << 24 | 48).to_bytes(8, "little") + bytes(24)
    slots = [index.address_of(slot) - server.pm.base for slot in index.slots_of(b"k0")]
    image = {(server.pm.number, offset // 64): wild for offset in slots}
    assert restart.read("k0", lines_of(image.items(), restart.initial)) == Unread(
        "the read fails: READ: remote access error"
    )


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["client-active", "saw", "efactory"])
@everywhere
def test_a_restart_without_time_finds_what_one_with_all_its_times_finds(scheme, platform, ddio):
    """The same lines in the same order, the same values: of every object, at every instant, in every image."""
    result = run(scheme, ycsb(12), platform, ddio, keys=3, processes=2, whole_lines=True)
    quick, timed = Restart(result), Restart(result, timed=True)
    views = quick.views()
    instants = sorted({at_ps for at_ps, _ in views.changes()})
    for name in result.initial:
        trees = [Outcomes(name, restart, views.contents, views.pieces.__contains__) for restart in (quick, timed)]
        for at_ps in instants:
            one, other = (list(islice(tree.at(at_ps), 200)) for tree in trees)
            assert [(found.value, found.image) for found in one] == [(found.value, found.image) for found in other]
    assert quick.runs == timed.runs


def test_a_loop_that_waits_for_somebody_lets_time_pass():
    """A thread without time would otherwise look for ever at a word that nobody gets round to change."""
    system = System(load_platform("optane-adr"), {"server": [NodeSpec(2, ("dram",))]}, 1)
    (node,) = system.nodes["server"]
    word = node.memory["dram"].allocate(64, "word")

    def writes(thread: Any) -> Generator[Any, Any, None]:
        yield from thread.sleep(10_000)
        yield from thread.store(word, b"1")

    def waits(thread: Any) -> Generator[Any, Any, int]:
        loads = 0
        while (yield from thread.load(word, 1)) != b"1":
            loads += 1
        return loads

    system.clock.start(writes(node.thread(0, "writer")))
    loads = system.clock.run_until(system.clock.start(waits(node.thread(1, "waiter", TimelessThread))))
    assert loads > AT_ONCE  # without time, then with
    assert system.clock.now_ps > 10_000


def test_a_read_behind_a_write_takes_the_way_of_the_write():
    """The completion of a WRITE says nothing of memory: a READ behind it on the same connection shows it."""
    system = System(load_platform("optane-adr"), {"server": [NodeSpec()], "client": [NodeSpec()]}, 1)
    server, client = system.nodes["server"][0], system.nodes["client"][0]
    target = server.memory["dram"].allocate(64, "target")
    key = server.alloc_pd().reg_mr(target, 64).key
    source = client.memory["dram"].allocate(128, "source")
    qp = client.alloc_pd().create_qp(client.create_cq(), client.create_cq())
    qp.connect(server.alloc_pd().create_qp(server.create_cq(), server.create_cq()))
    thread = client.thread(0, "client", TimelessThread)

    def code() -> Generator[Any, Any, bytes]:
        yield from thread.store(source, b"new!")
        for opcode, at in ((Opcode.IBV_WR_RDMA_WRITE, source), (Opcode.IBV_WR_RDMA_READ, source + 64)):
            yield from thread.post_send(qp, SendWR(0, opcode, at, 4, target, key))
            yield from thread.poll(qp.send_cq)
        return (yield from thread.load(source + 64, 4))

    assert system.clock.run_until(system.clock.start(code())) == b"new!"


def test_what_a_line_may_hold_at_one_instant_is_told_while_others_ask_about_another():
    """As nested failures ask: in the middle of one instant's contents, the same line is asked for later and earlier."""
    result = run("saw", [put(0, "k0")] * 3, "optane-eadr", "on")
    views, again = Restart(result).views(), Restart(result).views()
    instants = sorted({at_ps for at_ps, _ in views.changes()})
    for key in views.pieces:
        for at_ps in instants:
            alone = [content.data for content in again.contents(key, at_ps, {})]
            going = views.contents(key, at_ps, {})
            found = []
            for other_ps in [*instants[::3], *reversed(instants)]:
                found += [content.data for content in islice(going, 1)]
                list(views.contents(key, other_ps, {}))
            assert [*found, *(content.data for content in going)] == alone
