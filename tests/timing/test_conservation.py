"""Nothing is lost, nothing is there twice, no buffer holds more than it can: on random workloads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from rpsim.models.host.hostmemory import HostMemory
from rpsim.models.memory.imc import Dimm
from rpsim.models.profiles.platform import load_platform
from rpsim.sim.stations import Fifo, Pipe
from rpsim.sim.trace import Stage
from rpsim.validation.naive.arithmetic import ArithmeticSystem
from rpsim.validation.naive.workload import Connection, Request, Workload

from .workloads import changed, workloads

LINE = 64


def traced(workload: Workload) -> Workload:
    """The same with memory that all survives, so that every chunk is recorded."""
    memory = {name: replace(device, domain="adr") for name, device in workload.platform.memory.items()}
    return replace(workload, platform=replace(workload.platform, memory=memory))


class Watched:
    """A run of which everything is watched that must be conserved."""

    def __init__(self, workload: Workload, patch: pytest.MonkeyPatch) -> None:
        self.workload = traced(workload)
        self.stations: list[Fifo | Pipe] = []
        self.queued: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By write pending queue: when lines were taken in, and when they were out of it."""
        for kind in (Fifo, Pipe):
            self._note_stations(kind, patch)
        self._note_queued(patch)
        self.system = ArithmeticSystem(self.workload)
        self.most_reads = 0
        self.least_credits = 0
        clock, pairs = self.system.clock, [end for pair in self.system.pairs for end in (pair, pair.peer)]
        staging = [node.nic.responder.staging for node in self.system.nodes]
        while clock.peek() != float("inf"):
            clock.step()
            self.most_reads = max(self.most_reads, *(pair.end.reads_under_way for pair in pairs))
            self.least_credits = min(self.least_credits, *(credits.unclaimed for credits in staging))
        self.outcome = self.system.outcome()

    def _note_stations(self, kind: type, patch: pytest.MonkeyPatch) -> None:
        begin = kind.__init__

        def init(station: Fifo | Pipe, *arguments: int) -> None:
            begin(station, *arguments)
            self.stations.append(station)

        patch.setattr(kind, "__init__", init)

    def _note_queued(self, patch: pytest.MonkeyPatch) -> None:
        write = Dimm.write

        def noted(dimm: Dimm, line: int, *how: Any) -> tuple[int, int]:
            queued_ps, stored_ps = write(dimm, line, *how)
            self.queued[id(dimm)].append((queued_ps, dimm.left_ps(line)))
            return queued_ps, stored_ps

        patch.setattr(Dimm, "write", noted)

    def placed(self) -> dict[str, list[tuple[int, bytes]]]:
        """What inbound writes brought, by their description: (address within the device, bytes)."""
        found = defaultdict(list)
        for chunk in self.system.system.trace.chunks:
            found[chunk.writer].append((chunk.address, chunk.data))
        return found


def most_at_once(stays: list[tuple[int, int, int]]) -> int:
    """The most that was there at any instant of (from, until, how much); who leaves makes room at once."""
    changes = sorted([(begin, 1, n) for begin, _, n in stays] + [(end, 0, -n) for _, end, n in stays])
    now = most = 0
    for _, _, n in changes:
        now += n
        most = max(most, now)
    return most


def check_bytes(run: Watched) -> None:
    """Every byte of every WRITE and SEND lands once, where it belongs."""
    placed, workload = run.placed(), run.workload
    for number, connection in enumerate(workload.connections):
        pool = run.system.pools[connection.responder]
        for turn, request in enumerate(connection.requests):
            if request.verb == "READ":
                continue
            label = f"connection {number} request {turn}: {request}"
            chunks = sorted(placed.pop(f"{request.verb}, {label}", []))
            device, start = run.system.nodes[connection.responder].memory.locate(pool + request.offset)
            if request.verb == "SEND":
                device, start = run.system.receive_buffer(number, turn)
            sent = workload.content(number, turn).randbytes(request.length)
            assert b"".join(data for _, data in chunks) == sent, label
            at = start
            for address, data in chunks:
                assert address == at, f"{label}: {address:#x} after {at:#x} on {device.name}"
                at += len(data)


def staged(run: Watched) -> dict[str, list[tuple[int, int, int]]]:
    """What was in staging, by node: from its acceptance until it is at the root port."""
    platform, devices = run.workload.platform, run.system.system.devices()
    found = defaultdict(list)
    for chunk in run.system.system.trace.chunks:
        if chunk.writer.startswith(("WRITE, ", "SEND, ")):
            node, _ = devices[chunk.device]
            at_root_ps = chunk.reached_ps[Stage.VISIBLE] - platform.pcie.visible_ps
            found[node.name].append((chunk.reached_ps[Stage.ACCEPTED], at_root_ps, len(chunk.data)))
    return found


def check_buffers(run: Watched) -> None:
    """No buffer, queue or server ever holds more than it can."""
    platform = run.workload.platform
    for stays in staged(run).values():
        assert most_at_once(stays) <= platform.nic.staging_bytes, "more bytes than staging holds"
    for stays in run.queued.values():
        most = most_at_once([(*stay, 1) for stay in stays])
        assert most <= max(1, platform.imc.wpq_bytes // LINE), "more lines than a write pending queue holds"
    assert run.most_reads <= platform.nic.outstanding_reads, "too many READs under way"
    assert run.least_credits >= 0, "credits that do not exist"
    for station in run.stations:
        assert station.busy_ps <= station.free_ps, "busy for longer than there was time"


def check_order(run: Watched) -> None:
    """Completions, and receive completions, of one queue pair come in the order of its requests."""
    for number, connection in enumerate(run.workload.connections):
        labels = [f"connection {number} request {turn}: {work}" for turn, work in enumerate(connection.requests)]
        signalled = [label for label, work in zip(labels, connection.requests, strict=True) if work.signalled]
        works = zip(labels, connection.requests, strict=True)
        sends = [f"{label}, received" for label, work in works if work.verb == "SEND"]
        seen = [seen.who for seen in run.outcome.seen]
        assert [who for who in seen if who in set(signalled)] == signalled
        assert [who for who in seen if who in set(sends)] == sends


@pytest.mark.long
@given(workloads())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_everything_is_conserved_on_random_workloads(workload):
    with pytest.MonkeyPatch.context() as patch:
        run = Watched(workload, patch)
    check_bytes(run)
    check_buffers(run)
    check_order(run)


# what is broken is caught ---------------------------------------------------------------------------------------------


def busy() -> Workload:
    """Large messages into little room, on one connection after the other."""
    platform = changed(
        load_platform("optane-adr", ddio="off"),
        nic={"staging_bytes": 4096, "mtu_bytes": 1024, "outstanding_reads": 2},
        pcie={"tlp_bits_per_s": 9_999_999_999},
        imc={"wpq_bytes": 128},
        media={"write_bandwidth_bits_per_s": 400_000_000},
    )
    reads = (Request("READ", 64), Request("READ", 64), Request("READ", 8))
    works = (Request("WRITE", 16384, 13), Request("SEND", 300), *reads)
    connections = tuple(Connection(client, 0, 0, 0, 6, works) for client in (1, 2))
    return Workload(platform, 3, 1, "pm", connections)


def test_what_is_watched_is_reached(monkeypatch):
    """The bounds of the busy workload are reached, so that exceeding them would show."""
    run = Watched(busy(), monkeypatch)
    check_bytes(run)
    check_buffers(run)
    check_order(run)
    assert run.most_reads == 2
    assert max(most_at_once([(*stay, 1) for stay in stays]) for stays in run.queued.values()) == 2
    assert max(most_at_once(stays) for stays in staged(run).values()) > 4096 - 256


TOO_MUCH = [
    ({"nic": {"staging_bytes": 8192}}, "staging"),
    ({"nic": {"outstanding_reads": 3}}, "READs"),
    ({"imc": {"wpq_bytes": 192}}, "write pending queue"),
]


@pytest.mark.parametrize(("changes", "told"), TOO_MUCH, ids=[told for _, told in TOO_MUCH])
def test_a_model_that_holds_more_than_it_may_is_caught(monkeypatch, changes, told):
    """It runs with more room than the platform has that it is judged by."""
    generous = replace(busy(), platform=changed(busy().platform, **changes))
    run = Watched(generous, monkeypatch)
    run.workload = traced(busy())
    with pytest.raises(AssertionError, match=told):
        check_buffers(run)


@pytest.mark.parametrize("times", [0, 2])
def test_a_piece_of_a_write_that_is_lost_or_there_twice_is_caught(monkeypatch, times):
    place, seen = HostMemory.dma_write, []

    def careless(host, *arguments, **more):
        seen.append(arguments)
        placed_ps = [place(host, *arguments, **more) for _ in range(times if len(seen) == 7 else 1)]
        return placed_ps[-1] if placed_ps else 0

    monkeypatch.setattr(HostMemory, "dma_write", careless)
    run = Watched(busy(), monkeypatch)
    with pytest.raises(AssertionError, match="request"):
        check_bytes(run)


def test_completions_out_of_order_are_caught(monkeypatch):
    run = Watched(busy(), monkeypatch)
    run.outcome.seen.reverse()
    with pytest.raises(AssertionError):
        check_order(run)
