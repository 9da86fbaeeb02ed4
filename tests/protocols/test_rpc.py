"""Do calls reach the server's code and come back, and does one-sided access stay within what was opened?"""

from __future__ import annotations

import pytest

from rpsim.models.verbs import Status
from rpsim.protocols.layout import U64, Bytes, Layout
from rpsim.protocols.parts.rpc import Listener, VerbsError

from .stores import finish, machines


class Add(Layout):
    left = U64()
    right = U64()


class Greet(Layout):
    name = Bytes(16)


class Desk:
    """A server that adds and greets, and a log of what it was asked in which order."""

    def __init__(self, clients: int = 1) -> None:
        self.system = machines(clients)
        self.node = self.system.nodes["server"][0]
        self.log: list[str] = []
        self.server = Listener(self.node, {Add: self.on_add, Greet: self.on_greet})
        self.system.clock.start(self.server.serve(self.node.thread(0, "server")))
        self.connections = []
        for node in self.system.nodes["client"]:
            self.connections.append(self.server.accept(node.thread(0, node.name), node, 256))

    def on_add(self, thread, request):
        yield from thread.compute()
        self.log.append(f"add {request.left} {request.right}")
        return (request.left + request.right).to_bytes(8, "little")

    def on_greet(self, thread, request):
        yield from thread.compute()
        self.log.append(f"greet {request.name.decode()}")
        return b"hello " + request.name

    def region(self, length: int):
        return self.server.register(self.node.memory["pm"].allocate(length, "region"), length)


def test_a_call_runs_the_code_for_its_kind_and_returns_the_reply():
    desk = Desk()
    (client,) = desk.connections
    assert finish(desk.system, client.call(Add, left=2, right=40)) == (42).to_bytes(8, "little")
    assert finish(desk.system, client.call(Greet, name=b"you")) == b"hello you"
    assert desk.log == ["add 2 40", "greet you"]


def test_one_thread_serves_clients_in_the_order_in_which_their_requests_came():
    desk = Desk(clients=3)
    clock = desk.system.clock

    def client(turn):
        yield clock.until(turn * 1_000)  # a nanosecond after the one before: all meet at the server
        return (yield from desk.connections[turn].call(Greet, name=b"%d" % turn))

    done = [clock.start(client(turn)) for turn in (2, 0, 1)]
    clock.run_until(clock.all_of(done))
    assert desk.log == ["greet 0", "greet 1", "greet 2"]
    assert [process.value for process in done] == [b"hello 2", b"hello 0", b"hello 1"]


def test_what_is_written_one_sided_is_read_back_without_the_server():
    desk = Desk()
    (client,) = desk.connections
    region = desk.region(128)
    finish(desk.system, client.write(region.address + 8, region.key, b"from afar"))
    assert finish(desk.system, client.read(region.address, region.key, 32)) == bytes(8) + b"from afar" + bytes(15)
    assert desk.log == []


@pytest.mark.parametrize("offset", [-1, 120, 128])
def test_access_beyond_the_region_is_an_error_that_the_caller_sees(offset):
    desk = Desk()
    (client,) = desk.connections
    region = desk.region(128)
    with pytest.raises(VerbsError, match="remote access error") as caught:
        finish(desk.system, client.read(region.address + offset, region.key, 16))
    assert caught.value.completion.status is Status.IBV_WC_REM_ACCESS_ERR


def test_a_connection_that_broke_flushes_whatever_is_posted_next():
    desk = Desk()
    (client,) = desk.connections
    region = desk.region(64)
    with pytest.raises(VerbsError, match="remote access error"):
        finish(desk.system, client.write(region.address, region.key + 1, b"wrong key"))
    with pytest.raises(VerbsError, match="flushed"):
        finish(desk.system, client.write(region.address, region.key, b"right key"))
    device, offset = desk.node.memory.locate(region.address)
    assert device.space.peek(offset, 64) == bytes(64)


def test_who_waits_for_a_process_that_dies_before_it_listens_has_its_successor():
    desk = Desk()
    (thread,) = (node.thread(0, "waiting") for node in desk.system.nodes["client"])
    waiting = desk.system.clock.start(desk.server.until_listening(thread))
    desk.system.clock.run_until(desk.system.clock.until(1_000_000))
    assert waiting.is_alive
    successor = Listener(desk.node, {})
    successor.listen()
    desk.system.clock.run_until(waiting)
    assert not desk.node.awaited_by
