"""Second completions, batches, retries, scopes of syncs, sessions: what an acknowledgement stands for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import Crash, History, Operation
from rpsim.validation.crash.executed import judge
from rpsim.validation.histories.check import check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.histories.recorded import JudgedHistory, judged


class Tale:
    """A history told event by event; ``time`` goes on by itself."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def say(self, kind: str, process: int | None = 0, **fields: Any) -> Tale:
        who = {} if process is None else {"process": process}
        self.lines.append({**who, "type": kind, **fields, "time": 10 * len(self.lines)})
        return self

    def write(self, value: int, process: int = 0, key: str = "x", **fields: Any) -> Tale:
        self.say("invoke", process, f="write", key=key, value=value, **fields)
        return self.say("ok", process, f="write", key=key)

    def read(self, value: int | None, process: int = 9, key: str = "x") -> Tale:
        self.say("invoke", process, f="read", key=key)
        return self.say("ok", process, f="read", key=key, value=value)

    def sync(self, process: int = 0, **fields: Any) -> Tale:
        return self.say("invoke", process, f="sync", **fields).say("ok", process, f="sync")

    def crash(self, node: str = "system") -> Tale:
        return self.say("crash", None, node=node)

    def violated(self, loss_ps: int | None = None) -> set[str]:
        report = check_history(parse_history("\n".join(map(json.dumps, self.lines)), "h"), loss_ps=loss_ps)
        return {str(c) for c, one in report.verdicts.items() if one.verdict is Verdict.VIOLATED}


ORDER = {"linearizable", "durable", "persistent", "strict"}


# applied ----------------------------------------------------------------------------------------------------------


def promised() -> Tale:
    """A durable RPC that returned and is not executed yet; another that was applied."""
    return Tale().write(1).say("applied", f="write", key="x").write(2)


def test_what_was_promised_may_take_effect_until_it_is_applied() -> None:
    assert promised().read(1).say("applied", f="write").read(2).violated() == set()
    assert promised().read(2).violated() == set()
    assert "linearizable" in promised().say("applied", f="write").read(1).violated()
    assert "linearizable" in promised().read(2).read(1).violated()


def test_a_crash_asks_for_what_was_promised() -> None:
    assert promised().crash().read(2).violated() == set()
    assert promised().crash().read(1).violated() == {"no_lost_ack", *ORDER}


@pytest.mark.parametrize("promised", [True, False])
def test_what_was_loaded_is_in_effect_at_once_where_other_writes_are_promises(promised: bool) -> None:
    """Else the loaded value could take effect behind the put, and a crash that loses the put would go unseen."""
    history = History(frozenset({"put"}))
    put = history.invoke(0, "put", "x", 1, 1)
    history.complete(put, "ok", 2)
    put.applied_ps = 3 if promised else None
    history.crashes.append(Crash("server", 20))
    history.complete(history.invoke(1, "get", "x", None, 30), "ok", 40, 0)
    asked = {Condition.NO_LOST_ACK, Condition.DURABLE}
    assert judged(history, ["x"], asked).keys() == asked


@pytest.mark.parametrize(("promises", "wrong"), [({"put"}, set()), (set(), {Condition.DURABLE})])
def test_a_promise_is_one_before_any_of_its_kind_was_applied(promises: set[str], wrong: set[Condition]) -> None:
    """A read finds the old value, and the power fails before the first put was executed: recovery executes it."""
    history = History(frozenset({"put"}), promises=frozenset(promises))
    history.complete(history.invoke(0, "put", "x", 1, 1), "ok", 2)
    history.complete(history.invoke(1, "get", "x", None, 10), "ok", 12, 0)
    history.crashes.append(Crash("server", 20))
    history.complete(history.invoke(2, "get", "x", None, 30), "ok", 40, 1)
    asked = [Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE]
    assert judge(history, ["x"], asked).keys() == wrong
    followed = JudgedHistory(history, [Operation(0, -1, "get", "x", None, 0)], ["x"], asked)
    for one in history.operations[:2]:
        followed.invoke(one)
        followed.complete(one)
    assert followed.judge(1) == wrong and Condition.NO_LOST_ACK in followed.judge(0)


def test_the_applied_is_of_the_operation_that_it_names() -> None:
    tale = Tale().write(1, id="a").write(2, id="b", key="y").say("applied", id="b")
    entries = parse_history("\n".join(map(json.dumps, tale.lines)), "h").entries
    assert (entries[0].outcome, entries[1].outcome, entries[1].promised_ps) == (None, "ok", 30_000)
    assert (entries[0].promised_ps, entries[1].return_ps) == (10_000, 40_000)


# batches ----------------------------------------------------------------------------------------------------------


def batch(*acknowledged: int) -> Tale:
    tale = Tale().say("invoke", f="write", key="x", value=1, batch="b")
    return tale.say("invoke", f="write", key="y", value=2, batch="b").say("ok", batch="b")


def test_one_acknowledgement_for_many() -> None:
    assert batch().read(1).read(2, key="y").violated() == set()
    assert "linearizable" in batch().read(1).read(None, key="y").violated()
    assert "no_lost_ack" in batch().crash().read(1).read(None, key="y").violated()


def test_results_of_a_batch() -> None:
    tale = Tale().write(1).say("invoke", 5, f="read", key="x", batch=1).say("invoke", 5, f="read", key="y", batch=1)
    assert tale.say("ok", 5, batch=1, value=[1, None]).violated() == set()
    tale.lines[-1]["value"] = [None, None]
    assert "linearizable" in tale.violated()


LOST = "no_lost_ack"

# retries ----------------------------------------------------------------------------------------------------------


def test_a_retry_from_a_new_process_after_the_crash_is_the_same_operation() -> None:
    tale = Tale().say("invoke", f="append", value=1, id="a").crash()
    tale.say("invoke", 7, f="append", value=1, retry_of="a").say("ok", 7, f="append")
    read = [{"process": 9, "type": "invoke", "f": "read"}, {"process": 9, "type": "ok", "f": "read"}]
    for result, wrong in (([1], set()), ([1, 1], {"exactly_once", "buffered_cut", "buffered", *ORDER})):
        again = Tale()
        again.lines = [*tale.lines, read[0] | {"time": 100}, read[1] | {"time": 110, "value": result}]
        assert again.violated() == wrong


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([1, 2], set()), ([1, 2, 2], {"exactly_once"}), ([1, 2, 1], {"exactly_once"}), ([2, 2], {"exactly_once", LOST}),
        ([2, 1], {LOST}), ([1, 1], {"exactly_once", LOST}), ([2, 1, 2], {"exactly_once", LOST}), ([], {LOST}),
    ],
)  # fmt: skip
def test_what_was_appended_twice_is_there_and_not_lost(found: list[int], wrong: set[str]) -> None:
    """Two appends, one after the other, and a crash; a read behind it finds one of them twice, or too few, or the first
    executions in the wrong order.
    """
    tale = Tale()
    for value in (1, 2):
        tale.say("invoke", f="append", value=value).say("ok", f="append")
    tale.crash().say("invoke", 9, f="read").say("ok", 9, f="read", value=found)
    assert tale.violated() & {"exactly_once", LOST} == wrong


@pytest.mark.parametrize(
    ("found", "wrong"), [([7, 7], set()), ([7], {LOST}), ([7, 7, 7], {"exactly_once"}), ([7, 8, 7], set())]
)
def test_an_item_that_was_appended_twice_counts_twice(found: list[int], wrong: set[str]) -> None:
    """Of a third append, of 8, nobody knows the outcome."""
    tale = Tale().say("invoke", f="append", value=7).say("ok", f="append").say("invoke", 3, f="append", value=8)
    tale.say("invoke", f="append", value=7).say("ok", f="append")
    tale.crash().say("invoke", 9, f="read").say("ok", 9, f="read", value=found)
    assert tale.violated() & {"exactly_once", LOST} == wrong


def test_an_attempt_that_was_killed_may_have_taken_effect_whatever_became_of_its_retry() -> None:
    tale = Tale().say("invoke", f="write", key="x", value=1, id="a").crash()
    tale.say("invoke", 7, f="write", key="x", value=1, retry_of="a").say("fail", 7, f="write")
    assert tale.read(1).violated() == set()


# syncs ------------------------------------------------------------------------------------------------------------


def test_what_a_sync_covers_stays() -> None:
    for node in ("system", "server"):
        assert Tale().write(1).crash(node).read(None).violated() >= {"no_lost_ack", "linearizable"}
        assert not Tale().write(1).crash(node).read(None).violated() & {"buffered", "buffered_cut"}
        assert Tale().write(1).sync().crash(node).read(None).violated() >= {"buffered", "buffered_cut"}
        assert not Tale().write(1).sync().write(2).crash(node).read(1).violated() & {"buffered", "buffered_cut"}


@pytest.mark.parametrize(
    ("scope", "covers"),
    [
        ("x", True), (["x", "z"], True), ("y", False), (["y"], False),
        ({"from": "w", "to": "x"}, True), ({"from": "y", "to": "z"}, False),
        ({"session": 0}, True), ({"session": 3}, False), ({"session": "qp"}, False),
    ],
)  # fmt: skip
def test_a_sync_with_a_scope_covers_what_is_in_it(scope: object, covers: bool) -> None:
    violated = Tale().write(5, key="y", process=2).write(1).sync(scope=scope).crash().read(None).violated()
    assert ("buffered" in violated) == ("buffered_cut" in violated) == covers


def test_the_scope_of_a_connection() -> None:
    tale = Tale().write(1, session="qp").sync(scope={"session": "qp"}).crash().read(None)
    assert "buffered" in tale.violated()


def test_a_prefix_is_more_than_a_cut() -> None:
    """Two writes under way at the cut: the second was seen to be the later one, after the crash the earlier."""
    tale = Tale()
    for process, (key, value) in enumerate([("x", 1), ("x", 2), ("y", 3)]):
        tale.say("invoke", process, f="write", key=key, value=value)
    tale.read(1).read(2).read(None, key="y")
    for process in range(3):
        tale.say("ok", process, f="write")
    violated = tale.crash().read(3, key="y").read(1).violated()
    assert "buffered" in violated and "buffered_cut" not in violated


def test_what_a_later_write_proves_of_an_earlier_one() -> None:
    assert "buffered_cut" in Tale().write(1).write(2, key="y").crash().read(2, key="y").read(None).violated()
    assert "buffered_cut" not in Tale().write(1).write(2, key="y").crash().read(1).read(None, key="y").violated()


# sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_reads_its_own_writes_and_does_not_go_back() -> None:
    assert Tale().write(1).read(None, process=0).violated() >= {"session"}
    assert "session" not in Tale().write(1).read(None, process=1).violated()
    assert "session" in Tale().write(1).read(1).read(None).violated()
    assert "session" not in Tale().write(1).read(1).read(None, process=8).violated()


def test_a_session_sees_the_writes_of_another_in_their_order() -> None:
    assert "session" in Tale().write(1).write(2, key="y").read(2, key="y").read(None).violated()
    both = Tale().write(1).write(2, process=1, key="y").read(2, key="y").read(None)
    assert "session" not in both.violated() and "linearizable" in both.violated()


def test_sessions_are_asked_between_crashes_only() -> None:
    assert "session" not in Tale().write(1).crash("server").read(None, process=0).violated()
    again = Tale().write(1).say("crash", 0, node="client").read(None, process=0)  # the same id, another process
    assert "session" not in again.violated()


def test_two_connections_of_one_process() -> None:
    tale = Tale().write(1, session="a").say("invoke", 0, f="read", key="x", session="b")
    assert "session" not in tale.say("ok", 0, f="read", value=None).violated()


# loss -------------------------------------------------------------------------------------------------------------


def test_only_what_returned_shortly_before_the_crash_may_be_lost() -> None:
    """The write returned at 10 ns, the crash came at 20 ns."""
    tale = Tale().write(1).crash().read(None)
    assert "bounded_loss" in tale.violated(loss_ps=9_999)
    assert "bounded_loss" not in tale.violated(loss_ps=10_000)
    assert "bounded_loss" in Tale().write(1).write(2).crash().read(None).violated(loss_ps=10_000)
    assert "bounded_loss" not in Tale().write(1).write(2).crash().read(1).violated(loss_ps=10_000)


# executed twice ---------------------------------------------------------------------------------------------------


def queue(*results: object, crash_after: int | None = None) -> set[str]:
    tale = Tale().say("invoke", f="enqueue", value=7).say("ok", f="enqueue")
    for n, result in enumerate(results):
        if n == crash_after:
            tale.crash("server")
        tale.say("invoke", f="dequeue").say("ok", f="dequeue", value=result)
    return tale.violated()


def test_what_is_put_in_once_comes_out_once() -> None:
    assert queue(7, None) == set()
    assert "exactly_once" in queue(7, 7)
    assert "exactly_once" not in queue(7, 7, crash_after=1)  # the taking out was lost
    assert "exactly_once" not in queue(8)


def test_appended_twice_in_a_transaction() -> None:
    tale = Tale().say("invoke", f="txn", value=[["append", "x", 1]]).say("ok", f="txn")
    tale.say("invoke", f="txn", value=[["r", "x", None]]).say("ok", f="txn", value=[["r", "x", [1, 1]]])
    assert tale.violated() == {"exactly_once", "linearizable"}


def test_the_condition_asks_for_a_model_that_shows_it() -> None:
    report = check_history(parse_history(json.dumps(Tale().write(1).lines[0]), "h"))
    assert "needs a model that shows it" in report.not_judged[Condition.EXACTLY_ONCE]
