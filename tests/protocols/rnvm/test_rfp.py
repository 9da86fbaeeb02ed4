"""Calls by remote fetching: an inbox whose client is gone serves the next one alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rpsim.protocols.rnvm.rfp import SLOTS, CallReply, CallRequest, Inbox, RfpServer


class Memory:
    """The server's memory and thread: what is stored is there at once."""

    def __init__(self):
        self.bytes, self.next = {}, 0

    def allocate(self, length, name, align):
        self.next += length
        return self.next - length

    def load(self, address, length):
        yield from ()
        return self.bytes.get(address, bytes(length))

    def store(self, address, data):
        yield from ()
        self.bytes[address] = data

    def compute(self):
        yield from ()

    def spin(self, ranges):
        yield
        return next(number for number, (at, seen) in enumerate(ranges) if self.number(at) != seen)

    def number(self, address):
        """The number in a request's slot, which is not where the request begins."""
        start = address - CallRequest.offset_of("number")
        return self.bytes.get(start, bytes(CallRequest.size))[CallRequest.offset_of("number") :]


def finish(code):
    with pytest.raises(StopIteration) as ended:
        next(code)
    return ended.value.value


@pytest.fixture
def served():
    """A server with one inbox that answers a call with what it asks for; its memory."""
    memory = Memory()

    def handler(thread, request):
        yield from ()
        return request.count

    node = SimpleNamespace(memory={"dram": memory}, name="server")
    door = SimpleNamespace(register=lambda address, length: SimpleNamespace(key=1))
    return RfpServer(node, door, handler, 0), memory


def client(server):
    """A client that connects, its end of the queue pair, and how it sends a request."""
    qp = SimpleNamespace(error=False, peer=object())
    caller = server.accept(SimpleNamespace(thread=None), qp)

    def send(memory, count):
        number = caller._made = caller._made + 1
        memory.bytes[caller._inbox.request(number)] = CallRequest.pack(f=1, count=count, address=0, number=number)
        return number

    return qp, caller._inbox, send


@pytest.mark.parametrize("released", [True, False])
def test_what_a_dead_client_asked_for_is_not_the_answer_to_the_next(served, released):
    server, memory = served
    qp, inbox, send = client(server)
    for _ in range(SLOTS):
        send(memory, 7)
    qp.error = True
    if released:
        server.release([qp.peer])
    _, again, send = client(server)
    assert again is inbox
    finish(server.serve_next(memory, inbox))
    number = send(memory, 9)
    finish(server.serve_next(memory, inbox))
    assert memory.bytes[inbox.reply(number)] == CallReply.pack(value=9, number=number)


def test_a_client_that_dies_while_it_is_served_leaves_the_numbers_of_the_next_alone(served):
    server, memory = served
    qp, inbox, send = client(server)
    send(memory, 7)

    def dies(thread, request):
        server.release([qp.peer])
        yield from ()
        return 0

    server._handler = dies
    finish(server.serve_next(memory, inbox))
    assert inbox.next == 1 + SLOTS


def test_an_inbox_of_a_living_client_is_nobody_elses(served):
    server, _ = served
    client(server)
    with pytest.raises(MemoryError, match="clients call server already"):
        client(server)


def test_a_client_that_calls_again_and_again_keeps_no_other_waiting(served):
    server, memory = served
    server._inboxes.append(Inbox(server.node))
    (_, first, send), (_, second, send_second) = client(server), client(server)
    for _ in range(SLOTS - 1):
        send(memory, 7)
    send_second(memory, 9)
    code = server.serve(memory)
    for _ in range(3):  # the second begins when the first two have been served
        next(code)
    assert (first.next, second.next) == (2, 2)
