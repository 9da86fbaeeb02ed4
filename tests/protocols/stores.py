"""A store on its machines, without a scenario: what the tests of its parts start from."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from rpsim.models.cpu import Thread
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import QueuePair, SendWR
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.parts.kv import KvScheme
from rpsim.protocols.scheme import Request, Sizes
from rpsim.scenarios.values import decode_value, encode_value

Code = Generator[Any, Any, Any]


def machines(
    clients: int = 1, cores: int = 2, platform: str = "optane-adr", server_cores: int = 1, **settings: str
) -> System:
    """A server and so many client machines."""
    specs = {"server": [NodeSpec(server_cores, ("dram", "pm"))], "client": [NodeSpec(cores) for _ in range(clients)]}
    return System(load_platform(platform, **settings), specs, seed=1)


def finish(system: System, code: Code) -> Any:
    """Run a program to its end; what it returned."""
    answer: list[Any] = []

    def program() -> Code:
        answer.append((yield from code))

    system.clock.run_until(system.clock.start(program()))
    return answer[0]


class Shop:
    """A loaded store at work, with clients to perform operations one after the other."""

    def __init__(
        self,
        kind: type[KvScheme] = Saw,
        *,
        value_bytes: int = 8,
        keys: int = 2,
        updates: int = 4,
        platform: str = "optane-adr",
        **settings: str,
    ) -> None:
        self.value_bytes = value_bytes
        self.system = machines(platform=platform, server_cores=kind.role_types["server"].cores, **settings)
        objects = tuple(f"k{number}" for number in range(keys))
        self.store = kind(self.system, Sizes(value_bytes, objects, updates, 2))
        self.store.load({name: encode_value(0, value_bytes) for name in objects})
        self.store.start()
        self.server, self.client = self.store.server, self.store.roles["client"][0]
        self.sessions = [self.client.connect(self.thread(core)) for core in range(2)]

    def thread(self, core: int) -> Thread:
        """A client's thread."""
        return self.client.node.thread(core, f"client {core}")

    def put(self, name: str, stamp: int, client: int = 0) -> None:
        self.perform("put", name, encode_value(stamp, self.value_bytes), client=client)

    def perform(self, f: str, name: str, value: bytes | None = None, *, client: int = 0) -> Any:
        """What an operation of a client returns."""
        return finish(self.system, self.client.perform(self.sessions[client], Request.of(f, name, value)))

    def get(self, name: str, client: int = 0) -> Any:
        """The stamp that a get finds; None for an object that is not there."""
        found = self.perform("get", name, client=client)
        return None if found is None else decode_value(found, self.value_bytes)


class Posts:
    """Every work request that is posted, as ``who verb``, in order of the posts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[str] = []
        post_send = Thread.post_send

        def spy(thread: Thread, qp: QueuePair, work: SendWR) -> Code:
            self._seen.append(f"{thread.name.split()[0]} {work.opcode}")
            return (yield from post_send(thread, qp, work))

        monkeypatch.setattr(Thread, "post_send", spy)

    def of(self, operation: Callable[..., Any], *args: Any) -> list[str]:
        """What one operation posts."""
        self._seen.clear()
        operation(*args)
        return list(self._seen)
