"""A metered run: round trips by depth, traffic, counts, gauges, mean parts; and it takes the same time as another."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rpsim.app.main import main
from rpsim.models.meter import Gauge, MeteredThread
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import RecvWR, Span
from rpsim.protocols.parts.onesided import Door, Poster
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.parts import MeanWay
from rpsim.scenarios.run.results import Hop
from rpsim.sim.clock import Clock

from ..answers import result_of

Code = Generator[Any, Any, Any]


def ran(scheme: str, metered: bool = True, **workload: Any) -> Any:
    usual = {} if "kind" in workload else {"kind": "ycsb", "mix": "a", "operations": 30}
    scenario = Draft.new(
        "metered", scenario="metered", vary={"platform": ["optane-adr"]}, schemes=[scheme],
        roles={"client": {"processes": 2}}, workload={"keys": 4, "value": "64 B", **usual, **workload},
    ).build()  # fmt: skip
    (variant,) = scenario.variants()
    return run_variant(scenario, variant, metered=metered)


class Depths:
    """A client and two data nodes; the client's own operation, on a metered system."""

    def __init__(self) -> None:
        specs = {"client": [NodeSpec()], "data": [NodeSpec(), NodeSpec()]}
        self.system = System(load_platform("optane-adr"), specs, 1, metered=True)
        (client,), self.nodes = self.system.nodes["client"], self.system.nodes["data"]
        self.thread = client.thread(0, "client")
        self.poster = Poster(self.thread, client, 64, 8)
        self.doors = [Door(node) for node in self.nodes]
        self.qps = [self.poster.connect(door) for door in self.doors]
        self.at = [node.memory["dram"].allocate(64, "region", align=64) for node in self.nodes]
        self.keys = [door.register(at, 64).key for door, at in zip(self.doors, self.at, strict=True)]

    def read(self, number: int) -> Code:
        return self.poster.read(self.qps[number], self.at[number], self.keys[number], 8)

    def depth(self, code: Code) -> int:
        meter, span = self.system.meter, Span("operation")
        assert meter is not None
        self.thread.span = span
        meter.begins(self.thread)
        self.system.clock.run_until(self.system.clock.start(code))
        return meter.ended(self.thread, span).depth


def test_what_is_under_way_together_counts_once():
    world = Depths()

    def together() -> Code:
        posted = [(yield from world.read(0)), (yield from world.read(1)), (yield from world.read(1))]
        yield from world.poster.all(posted)

    def one_by_one() -> Code:
        for number in (0, 1, 0):
            yield from world.poster.result((yield from world.read(number)))

    assert (world.depth(together()), world.depth(one_by_one())) == (2, 6)


def test_a_request_that_was_posted_before_an_answer_came_does_not_depend_on_it():
    """Two chains side by side, posts and answers in turns: the depth is that of one chain, not of their batches."""
    world = Depths()

    def chains() -> Code:
        first, second = (yield from world.read(0)), (yield from world.read(1))
        yield from world.poster.result(first)
        third = yield from world.read(0)  # behind the first
        yield from world.poster.result(second)
        fourth = yield from world.read(1)  # behind both
        yield from world.poster.all([third, fourth])

    assert world.depth(chains()) == 4


def test_what_nobody_waits_for_is_no_round_trip():
    world = Depths()

    def quietly() -> Code:
        posted = yield from world.poster.write(world.qps[0], world.at[0], world.keys[0], b"x", signaled=False)
        world.poster.drop([posted])
        yield from world.thread.compute()

    assert world.depth(quietly()) == 0


def test_a_message_one_way_is_half_a_round_trip():
    world = Depths()
    node = world.nodes[0]
    server = node.thread(0, "server")
    buffer, received = node.memory["dram"].allocate(64, "buffer"), node.create_cq()
    qp = world.poster.open()
    end = world.doors[0].admit(qp, recv_cq=received)
    end.post_recv(RecvWR(0, buffer, 64))

    def one_way() -> Code:
        yield from world.poster.send(qp, b"hello", signaled=False)
        yield from server.poll(received)

    world.depth(one_way())
    assert isinstance(server, MeteredThread) and server.depth == 1


@pytest.mark.parametrize(("scheme", "put", "get"), [("saw", 3, 2), ("client-active", 2, 2), ("imm", 2, 2)])
def test_stores_take_the_round_trips_of_their_papers(scheme, put, get):
    fields = ran(scheme).summary()
    assert fields["round_trips"]["put"]["p50"] == fields["round_trips"]["put"]["mean"] == put
    assert fields["round_trips"]["get"]["mean"] == get


@pytest.mark.parametrize(
    ("scheme", "trips", "messages"),
    [
        ("w-rflush-rpc", 1, 1),
        ("w-rflush-rpc over rflush-write-emulated[operator=behind data]", 1, 1),
        ("w-rflush-rpc over rflush-write-emulated", 2, 2),
        ("s-rflush-rpc", 1, 1),
        ("s-rflush-rpc over rflush-send-emulated[target=memory]", 2, 2),
        ("wflush-rpc over wflush-ddio", 2, 0),
    ],
)
def test_what_an_adapter_and_a_thread_that_it_wakes_send_are_messages(scheme, trips, messages):
    """An entry of the log is one update, or two, one behind the other; each is notified of."""
    fields = ran(scheme, mix="update-only", operations=8).summary()
    assert fields["round_trips"]["put"]["p50"] == fields["round_trips"]["put"]["mean"] == trips
    (back,) = [row for row in fields["traffic"] if row["from"] == "server[0]"]
    assert back["verbs"].get("SEND", 0) == 8 * messages


def test_a_read_that_another_thread_answers_than_has_found_it_is_one_round_trip():
    assert ran("wflush-rpc").summary()["round_trips"]["get"]["mean"] == 1


@pytest.mark.parametrize(("apart_us", "trips"), [(0, 1.5), (50, 1)])
def test_a_message_that_had_come_before_an_operation_began_is_no_part_of_it(apart_us, trips):
    """With one slot a put waits for the word that the one before is removed; with a pause that has come already."""
    puts = [{"process": 0, "f": "put", "object": "k0", "at": f"{turn * apart_us} us"} for turn in range(8)]
    fields = ran("wflush-rpc[slots=1]", kind="schedule", operations=puts).summary()
    assert fields["round_trips"]["put"]["p50"] == trips


@pytest.mark.parametrize("scheme", ["saw", "efactory", "w-rflush-rpc", "wflush-rpc over wflush-ddio"])
def test_a_meter_changes_no_instant(scheme):
    plain, metered = ran(scheme, metered=False), ran(scheme)
    assert [(o.invoke_ps, o.return_ps, o.result) for o in plain.history.operations] == [
        (o.invoke_ps, o.return_ps, o.result) for o in metered.history.operations
    ]
    assert "round_trips" not in plain.summary()


def test_parts_add_up_to_the_mean_latency_of_all_operations():
    fields = ran("efactory", warmup=7).summary()
    for f, parts in fields["parts_ns"].items():
        assert sum(parts.values()) == pytest.approx(fields["latency_ns"][f]["mean"], abs=0.1)
        assert not any(name[-1].isdigit() for name in parts)


def test_a_part_that_one_operation_lacks_counts_as_zero_for_it():
    mean = MeanWay()
    mean.add([Hop("wire", 10, 20), Hop("CPU of client 3", 20, 30)])
    mean.add([Hop("wire", 100, 120)])
    assert mean.parts_ps() == {"wire": 15.0, "CPU of client": 5.0}
    assert mean.hops() == [Hop("wire", 0, 15), Hop("CPU of client", 15, 20)]


def test_traffic_is_counted_by_pair_of_machines():
    result = ran("client-active", mix="update-only", operations=10)
    found = {(row["from"], row["to"]): row for row in result.summary()["traffic"]}
    there, back = found["client[0]", "server[0]"], found["server[0]", "client[0]"]
    assert there["verbs"] == {"SEND": 10, "WRITE": 10} and there["messages"] == 20
    assert back["verbs"] == {"SEND": 10} and back["messages"] == 10
    assert there["payload_bytes"] > 10 * 64 > back["payload_bytes"] > 0


def test_reads_bring_their_bytes_the_other_way():
    world = Depths()

    def code() -> Code:
        yield from world.poster.result((yield from world.read(0)))
        yield from world.poster.result(
            (yield from world.poster.compare_and_swap(world.qps[1], world.at[1], world.keys[1], 0, 1))
        )

    world.depth(code())
    assert world.system.meter is not None
    traffic = world.system.meter.traffic
    rows = {pair: (dict(one.verbs), one.messages, one.payload_bytes) for pair, one in traffic.items()}
    assert rows == {
        ("client[0]", "data[0]"): ({"READ": 1}, 1, 0),
        ("data[0]", "client[0]"): ({}, 1, 8),
        ("client[0]", "data[1]"): ({"CAS": 1}, 1, 16),
        ("data[1]", "client[0]"): ({}, 1, 8),
    }


def test_counts_belong_to_the_operation_under_way_or_to_the_machine():
    world = Depths()
    meter, span = world.system.meter, Span("operation")
    assert meter is not None
    server = world.nodes[0].thread(0, "server")
    world.thread.span = span
    meter.begins(world.thread)
    world.thread.count("hops", 2)
    server.span = span  # it serves the same operation
    server.count("hops")
    server.span = None
    server.count("misses")
    assert dict(meter.ended(world.thread, span).counts) == {"hops": 3}
    assert {machine: dict(own) for machine, own in meter.counts.items()} == {"data[0]": {"misses": 1}}
    assert not meter.ended(world.thread, span).counts, "counted once"


def test_a_gauge_is_weighted_by_time():
    clock = Clock()
    gauge = Gauge(clock, 4)
    clock.call_at(100, gauge.set, 10)
    clock.call_at(300, gauge.set, 1)
    clock.run_until(400)
    assert gauge.summary() == ((4 * 100 + 10 * 200 + 1 * 100) / 400, 1, 10, 1)


def test_energy_is_the_time_at_work_and_polling_times_the_power_of_a_core():
    fields = ran("saw").summary()
    for role in ("client", "server"):
        spent = fields["per_operation"][role]
        watts = load_platform("optane-adr").cpu.core_milliwatts / 1000
        assert spent["core_nanojoules"] == pytest.approx((spent["cpu_ns"] + spent["polling_ns"]) * watts, abs=0.1)


def test_a_core_of_another_type_draws_its_own_power():
    platform = load_platform("optane-adr")
    kind = platform.cpu.types["arm-a72"]
    assert platform.cpu.of_type(kind).core_milliwatts == kind.core_milliwatts < platform.cpu.core_milliwatts


@pytest.mark.long
def test_the_command_line_has_the_fields(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = [f"--set=workload.{field}" for field in ("operations=20", "keys=4", "warmup=0")]
    assert main(["run", "quickstart", "--json", "--no-report", "--jobs=1", *settings]) == 0
    scheme = result_of(capsys.readouterr().out)["schemes"][0]
    assert {"round_trips", "parts_ns", "counts", "machine_counts", "gauges", "traffic"} <= scheme.keys()
