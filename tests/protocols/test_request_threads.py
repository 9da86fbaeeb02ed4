"""Do several threads serve requests side by side, and does what they change together stay whole?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.efactory.efactory import EFactory
from rpsim.protocols.efactory.erda import Erda
from rpsim.protocols.parts.kv import key_bytes
from rpsim.protocols.parts.locks import Locks
from rpsim.sim.clock import Clock
from rpsim.sim.errors import InputError

from ..small import put, run, scenario, ycsb
from .stores import finish

STORES = ("rpc", "client-active", "saw", "imm", "erda", "forca", "efactory", "efactory-cleaning")


def threads(number, processes):
    return {"roles": {"client": {"processes": processes}, "server": {"threads": number}}}


def chain(result, key="k0"):
    """The stamps of a key's versions in eFactory's list, newest first, without what was loaded."""
    store, thread, found = result.scheme.server, result.system.nodes["server"][0].threads[0], []
    _, head = finish(result.system, store.index.look_up(thread, key_bytes(key)))
    offset = head.offset
    while offset:
        found.append(offset)
        offset = finish(result.system, store.load_header(thread, offset)).previous
    return found[:-1]


def test_each_thread_serves_its_own_connections():
    one = run("forca", ycsb(40, "c"), value="1 KiB", keys=8)
    four = run("forca", ycsb(40, "c"), value="1 KiB", keys=8, **threads(4, 4))
    shared = run("forca", ycsb(40, "c"), value="1 KiB", keys=8, **threads(1, 4))
    assert four.throughput_ops_per_s == pytest.approx(4 * one.throughput_ops_per_s, rel=0.1)
    assert shared.throughput_ops_per_s < 0.75 * four.throughput_ops_per_s


@pytest.mark.parametrize("store", STORES)
def test_every_store_answers_everybody(store):
    result = run(store, ycsb(40), keys=2, **threads(3, 4))
    assert [operation.outcome for operation in result.history.operations] == ["ok"] * 40


def test_request_threads_that_wait_for_room_in_a_log_that_is_cleaned_all_get_some():
    result = run("efactory-cleaning", ycsb(60, "update-only"), keys=2, value="64 B", **threads(3, 6))
    assert [operation.outcome for operation in result.history.operations] == ["ok"] * 60


@settings(max_examples=10)
@given(st.lists(st.integers(0, 400), min_size=4, max_size=4), st.integers(2, 4))
def test_versions_that_are_put_at_once_are_all_in_the_list(instants, number):
    result = run("efactory", [put(p, "k0", at) for p, at in enumerate(instants)], **threads(number, 4))
    assert len(chain(result)) == 4


def test_without_locks_versions_are_lost(monkeypatch):
    def unlocked(self, thread, name, code):
        return (yield from code)

    monkeypatch.setattr(Locks, "under", unlocked)
    result = run("efactory", [put(p, "k0") for p in range(4)], **threads(4, 4))
    assert len(chain(result)) < 4


def test_erda_remembers_the_two_newest_of_those_that_are_put_at_once():
    result = run("erda", [put(p, "k0") for p in range(4)], **threads(4, 4))
    assert isinstance(result.scheme, Erda)
    store, thread = result.scheme.server, result.system.nodes["server"][0].threads[0]
    _, versions = finish(result.system, store.index.look_up(thread, key_bytes("k0")))
    ends = sorted((versions.newest, versions.older))
    assert ends[1] - ends[0] == store.object_bytes


def test_a_lock_goes_to_who_asked_first_and_nobody_shares_it():
    result = run("saw", [put(0, "k0")], **threads(2, 2))
    first, second = result.system.nodes["server"][0].threads[:2]
    clock: Clock = result.system.clock
    locks, inside, seen = Locks(clock, 2), [], []

    def work(thread, name):
        inside.append(name)
        assert len(inside) == 1
        yield from thread.compute()
        inside.remove(name)
        seen.append(name)

    clock.run_until(
        clock.all_of([clock.start(locks.under(t, "k", work(t, n))) for n, t in enumerate((first, second, first))])
    )
    assert seen == [0, 1, 2]


@pytest.mark.long
def test_one_thread_pays_for_no_lock():
    alone = run("efactory", ycsb(20, "update-only"))
    assert isinstance(alone.scheme, EFactory) and not alone.scheme.server.locks._held
    assert alone.elapsed_ps == run("efactory", ycsb(20, "update-only"), **threads(1, 1)).elapsed_ps


def test_a_scheme_without_such_threads_says_so():
    with pytest.raises(InputError, match="threads: found 2, expected 1, since line over"):
        scenario("line over read-after-write", [put(0, "k0")], **threads(2, 1))
