"""Readers beside a writer: they see whole transactions, by the sequence number or by the order of writes."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from rpsim.protocols.rnvm import frontend
from rpsim.protocols.rnvm.records import merged
from rpsim.protocols.scheme import OperationFailed

from ...small import run
from .chain import Chain
from .test_modes import find, insert, vary

CHAIN = Chain.name


def finds(process, count):
    return [{"process": process, "f": "find", "object": f"k{turn % 4}"} for turn in range(count)]


WORK = [insert(f"k{turn % 6}") for turn in range(12)] + finds(1, 12)


def beside(mode, structure=CHAIN, **more):
    return run(f"{structure} on {mode}", WORK, keys=6, processes=2, vary=vary(), **more)


def in_order(history):
    """Whether each key's finds by the reader never go back."""
    seen = {}
    for one in history.operations:
        if one.f == "find":
            if one.result is not None and one.result < seen.get(one.object, 0):
                return False
            seen[one.object] = one.result or 0
    return True


@pytest.mark.parametrize("mode", ["rnvm-r", "rnvm-r[sn_read=read]", "rnvm-rcb[batch=4]"])
@pytest.mark.parametrize("structure", [CHAIN, "bst", "mv-bst", "skip-list", "hash-table", "bpt"])
def test_readers_never_go_back(structure, mode):
    if structure == "hash-table" and "rcb" in mode:
        pytest.skip("the paper has no batches for it")
    result = beside(mode, structure)
    assert in_order(result.history) and all(one.outcome == "ok" for one in result.history.operations)


def number(result):
    server = result.scheme.roles["server"][0]
    at = server.areas[0].sequence - server.pm.base
    return int.from_bytes(server.pm.space.read(result.system.clock.now_ps, at, 8), "little")


def test_a_compare_and_swap_leaves_the_count_alone():
    """Twelve transactions count two each, and are replayed by the end."""
    assert number(beside("rnvm-r")) == 24


def test_a_fetch_add_of_nothing_takes_counts_away():
    """It writes back what it has read, over what the back-end's CPU has stored in between."""
    assert number(beside("rnvm-r[sn_read=fetch-add]")) < number(beside("rnvm-r[sn_read=read]")) == 24


def test_a_number_that_changes_has_readers_read_again(monkeypatch):
    turns = []
    real = frontend.read_shared.__globals__["sequence_number"]

    def counted(space, how):
        turns.append(how)
        return (yield from real(space, how))

    monkeypatch.setitem(frontend.read_shared.__globals__, "sequence_number", counted)
    beside("rnvm-r")
    assert len(turns) > 24, "no find met the writer"


@pytest.mark.parametrize(
    ("numbers", "walks", "counts"),
    [([2, 2], 1, {}), ([1, 1, 2, 2], 1, {"odd sequence numbers": 2}), ([2, 4, 4, 4], 2, {"retries": 1})],
)
def test_only_a_walk_in_vain_is_a_retry(monkeypatch, numbers, walks, counts):
    """An odd number is waited for: nothing has been read yet."""
    assert shared(monkeypatch, numbers, lambda walk: walk) == (walks, walks, counts)


@pytest.mark.parametrize(("numbers", "found"), [([2, 2], "fails"), ([2, 4, 4, 4], 2), ([2, 3, 4, 4], 2)])
def test_a_walk_that_cannot_go_on_is_in_vain_where_the_number_has_changed(monkeypatch, numbers, found):
    """It has met half a transaction; a walk that met none fails."""

    def walk(turn):
        if turn == 1:
            raise OperationFailed("no such child")
        return turn

    if found == "fails":
        with pytest.raises(OperationFailed, match="no such child"):
            shared(monkeypatch, numbers, walk)
    else:
        assert shared(monkeypatch, numbers, walk) == (found, 2, {"retries": 1})


def shared(monkeypatch, numbers, walk):
    """A find by a reader to whom SN has these numbers, and whose turns of the walk do that; what it finds, the turns,
    and what is counted.
    """
    left, walked, counted = iter(numbers), [], Counter()

    def number_read(space, how):
        yield from ()
        return next(left)

    def perform(operation):
        yield from ()
        walked.append(operation)
        return walk(len(walked))

    monkeypatch.setitem(frontend.read_shared.__globals__, "sequence_number", number_read)
    thread = SimpleNamespace(count=lambda name: counted.update([name]))
    space = SimpleNamespace(link=SimpleNamespace(thread=thread))
    algorithm = SimpleNamespace(shared_by="lock", perform=perform)
    code = frontend.read_shared(space, algorithm, "find", SimpleNamespace(option=lambda name: "read"))
    with pytest.raises(StopIteration) as ended:
        next(code)
    return ended.value.value, len(walked), counted


def without_numbers(space, algorithm, operation, mode):
    """In place of ``read_shared``: just reads."""
    return (yield from algorithm.perform(operation))


@pytest.mark.parametrize("looks", [True, False])
def test_a_reader_that_pauses_does_not_walk_into_a_block_that_is_used_again(looks, monkeypatch):
    """The core of the reader pauses between a hash table's bucket and its node, whose block another key gets."""
    if not looks:
        monkeypatch.setattr(frontend, "read_shared", without_numbers)
    work = [insert(f"k{(turn * turn + turn // 5) % 7}") for turn in range(250)]
    work += [find(f"k{turn % 7}", 1) | {"at": f"{60 + turn * 20} us"} for turn in range(30)]
    pauses_us = [62.5 + turn * 20 for turn in range(0, 30, 9)]
    outages = [{"core": "client[1] core 0", "at": f"{at_us} us", "for": "150 us"} for at_us in pauses_us]
    clients = {"client": {"machines": 2}}
    result = run("hash-table on rnvm-r", work, keys=7, vary=vary(), roles=clients, outages=outages)
    found = [one.result for one in result.history.operations if one.f == "find"]
    assert all(found) == looks


@pytest.mark.parametrize("looks", [True, False])
def test_a_value_of_several_words_is_read_whole(looks, monkeypatch):
    """A skip list's new value comes in its node, in place."""
    if not looks:
        monkeypatch.setattr(frontend, "read_shared", without_numbers)
    work = [insert("k0") for _ in range(60)] + [find("k0", 1) for _ in range(60)]
    more = {"keys": 1, "value": "16 KiB", "vary": vary(), "roles": {"client": {"machines": 2}}}
    history = run("skip-list on rnvm-r[log=256 KiB]", work, **more).history.operations
    found = [one.result for one in history if one.f == "find"]
    assert all(isinstance(value, int) for value in found) == looks


def test_what_is_published_stands_last():
    writes = [(64, b"r" * 8), (512, b"a" * 16), (64, b"s" * 8), (528, b"b" * 8), (72, b"t" * 8)]
    assert merged(writes, {64: 8}) == [(72, b"t" * 8), (512, b"a" * 16 + b"b" * 8), (64, b"s" * 8)]
