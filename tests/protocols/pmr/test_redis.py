"""Redis: what it answers, how many syncs that takes, and what its file has after failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.pmr.redis import RedisEverysec, RedisStrong
from rpsim.protocols.pmr.resp import NOTHING, OK, BadFormat, bulk, command, parse, parse_reply
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.failing import performed
from rpsim.scenarios.schema.load import load_scenario
from rpsim.validation.crash.explorer import Explorer

from ...small import get, only_variant, put, run, scenario

COMMITTED, NO_LOST_ACK, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
WORK = [put(0, "k0"), put(1, "k0"), get(1, "k0"), put(0, "k1"), get(0, "k0")]


class SyncLeftOut(RedisStrong, name="redis-sync-left-out"):
    """``appendfsync always`` that does not sync."""

    class Server(RedisStrong.Server):
        def sync(self, thread: Any) -> Any:
            yield from ()


class RepliesFirst(RedisStrong, name="redis-replies-first"):
    """It replies, and then writes and syncs."""

    class Server(RedisStrong.Server):
        def _flush(self, thread: Any) -> Any:
            yield from self._reply(thread)
            yield from super()._flush(thread)


TWINS = {kind.name: Scheme.registry.pop(kind.name) for kind in (SyncLeftOut, RepliesFirst)}


@contextmanager
def registered() -> Iterator[None]:
    Scheme.registry.update(TWINS)
    try:
        yield
    finally:
        for name in TWINS:
            del Scheme.registry[name]


def served(name: str, work: Any, processes: int = 2) -> Any:
    with registered():
        return run(name, work, "pmr-testbed", keys=2, value="16 B", processes=processes)


def verdicts(name: str) -> dict[Condition, Verdict]:
    found = Explorer(served(name, WORK), conditions=(COMMITTED, DURABLE, NO_LOST_ACK)).walk()
    assert found.exhaustive or found.first
    return {condition: found.verdict(condition) for condition in (COMMITTED, DURABLE, NO_LOST_ACK)}


# the protocol -------------------------------------------------------------------------------------------------------
@given(st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=3), max_size=4), st.integers(0, 10))
def test_commands_are_read_as_they_were_written_and_a_cut_one_waits(listed: list[list[bytes]], cut: int) -> None:
    data, at, found = b"".join(command(*words) for words in listed), 0, []
    whole = data[: max(0, len(data) - cut)]
    while (one := parse(whole, at)) is not None:
        found.append(one[0])
        at = one[1]
    assert found == listed[: len(found)]
    assert cut or found == listed
    assert len(data) - len(whole) >= cut or not data


def test_what_is_no_command_is_refused_and_replies_are_told_apart() -> None:
    for wrong in (b"\0\0\0\0", b"*x\r\n", b"*1\r\n$1\r\nab\r\n"):
        with pytest.raises(BadFormat):
            parse(wrong)
    assert parse_reply(OK) == (b"OK",) and parse_reply(NOTHING) == (None,)
    assert parse_reply(bulk(b"a\r\n")) == (b"a\r\n",) and parse_reply(b"$5\r\nab") is None


# the loop -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["redis-strong", "redis-everysec"])
def test_a_get_returns_the_last_put(name: str) -> None:
    result = served(name, [put(0, "k0"), get(0, "k0"), put(0, "k0"), get(0, "k0"), get(0, "k1")], processes=1)
    puts = [o for o in result.history.operations if o.f == "put"]
    gets = [o.result for o in result.history.operations if o.f == "get"]
    assert gets == [puts[0].argument, puts[1].argument, 0]


def test_one_sync_serves_all_puts_of_a_round() -> None:
    result = served("redis-strong", [put(process, "k0") for _ in range(4) for process in range(8)], processes=8)
    assert 4 <= result.scheme.roles["server"][0].syncs < 16


def test_gets_wait_for_the_sync_of_their_round() -> None:
    """A GET that comes in one round with a PUT takes as long; one that comes alone does not."""
    result = served("redis-strong", [put(0, "k0"), get(1, "k1"), get(1, "k1", at_ns=10**6)])
    first, alone = (o.return_ps - o.invoke_ps for o in result.history.operations if o.f == "get")
    assert first > alone + 50 * 10**6


def test_every_second_a_sync_begins_and_no_write_waits_for_it() -> None:
    work = [put(0, "k0", at_ns=n * 300_000_000) for n in range(1, 8)]
    result = served("redis-everysec", work, processes=1)
    assert result.scheme.roles["server"][0].syncs == 2  # at 0.3 s, and a second after
    assert all(o.return_ps - o.invoke_ps < 60 * 10**6 for o in result.history.operations)


# failures -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["redis-strong", "redis-everysec"])
def test_a_client_of_a_server_that_lost_its_power_learns_so_and_connects_again(name: str) -> None:
    made = scenario(
        name, [put(0, "k0"), get(0, "k0", 10**9), put(0, "k0", 2 * 10**9)], "pmr-testbed", value="16 B",
        failures=[{"fault": "server[0] power", "at": "100 ms", "down": "1 ms"}],
    )  # fmt: skip
    result = performed(made, only_variant(made))
    assert [o.outcome for o in result.history.operations] == ["ok", "info", "ok"]


def test_a_client_whose_reply_never_comes_learns_so_by_its_probe() -> None:
    made = scenario(
        "redis-strong", [put(0, "k0"), get(0, "k0")], "pmr-testbed", value="16 B",
        failures=[{"fault": "server[0] power", "at": "60 us", "down": "1 ms"}],
    )  # fmt: skip
    first, second = performed(made, only_variant(made)).history.operations
    assert (first.outcome, second.outcome) == ("info", "ok")
    assert 15 * 10**12 <= first.return_ps < 15_001 * 10**9


def test_replies_behind_the_sync_lose_nothing_at_any_instant() -> None:
    assert set(verdicts("redis-strong").values()) == {Verdict.HOLDS}


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_that_replies_too_early_is_caught(twin: str) -> None:
    found = verdicts(twin)
    assert found[NO_LOST_ACK] is Verdict.VIOLATED and found[COMMITTED] is Verdict.HOLDS


def test_a_file_that_is_no_aof_keeps_the_server_down() -> None:
    result = served("redis-strong", [put(0, "k0")], processes=1)
    server, clock = result.scheme.roles["server"][0], result.system.clock
    server.node.process(server.node.name).end()
    server.begin()
    inode = server.file.inode
    inode.pages[0].data[40:44] = b"\0\0\0\0"
    clock.run_until(clock.start(server.recover(server.node.thread(0, "recovery"))))
    server.start()
    assert not server.listener.listening


def test_a_last_command_that_is_cut_short_is_cut_off() -> None:
    result = served("redis-strong", [put(0, "k0")], processes=1)
    server, clock = result.scheme.roles["server"][0], result.system.clock
    whole = server.size_bytes
    thread = server.node.thread(0, "recovery")

    def cut() -> Any:
        yield from server.file.ftruncate(thread, whole - 3)
        server.begin()
        yield from server.recover(thread)

    clock.run_until(clock.start(cut()))
    assert server.size_bytes == server.file.size_bytes < whole - 3
    assert server.values == {b"k0": result.initial["k0"], b"k1": result.initial["k1"]} or len(server.values) == 2


def test_the_scenarios_say_what_must_come_out() -> None:
    power, process = load_scenario("redis"), load_scenario("redis-process")
    assert power.schemes == process.schemes == (RedisStrong.name, RedisEverysec.name)
    assert power.workload == process.workload


@pytest.mark.parametrize("scheme", ["redis-strong", "redis-everysec"])
def test_a_run_that_nobody_explores_is_the_same_without_what_each_size_of_the_file_waits_for(scheme):
    """Each append makes the file longer, and the size is behind all of its blocks: a list that grows with the file."""
    made = scenario(scheme, [put(0, f"k{number % 2}") for number in range(8)], "pmr-testbed", keys=2, value="4 KiB")
    full, bare = (run_variant(made, only_variant(made), recorded=recorded) for recorded in (True, False))

    def told(result):
        return [(o.invoke_ps, o.return_ps, o.outcome) for o in result.history.operations]

    def waits(result):
        return [len(chunk.behind) for chunk in result.system.trace.chunks if chunk.behind]

    assert told(full) == told(bare)
    assert max(waits(full)) > 8 and waits(bare) == []
