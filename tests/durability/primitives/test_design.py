"""The search of the step language: what it writes down, leaves out and finds."""

from pathlib import Path

import pytest

from rpsim.app.commands import design
from rpsim.app.commands.design import explore
from rpsim.app.main import main
from rpsim.validation.matrix.configurations import configurations
from rpsim.validation.matrix.design import (
    Candidate,
    DesignSearch,
    candidates,
    canonical,
    possible,
    published,
    reached,
    wanted,
)
from rpsim.validation.matrix.methods import Question, answer


@pytest.mark.long
def test_published_primitives_are_among_the_candidates():
    shipped, written = published(), set()
    for one in candidates(6):
        read = possible(one, Path("x.yaml"))
        if read is not None:
            written |= set(shipped.get(canonical(read), ()))
    assert {
        "no-flush",
        "read-after-write",
        "write-imm-cpu-flush",
        "write-send-cpu-flush",
        "ibta-flush-global",
    } <= written
    assert {"ibta-flush-persistent", "wflush", "send-cpu-copy"} <= written


def test_no_candidate_is_longer_than_asked_for_and_each_comes_once():
    found = candidates(4)
    assert max(len(one.steps) for one in found) == 4 and len(set(found)) == len(found)


def test_a_durable_one_with_more_steps_is_left_out():
    short = Candidate("WRITE", ("at: wire, do: send, packet: NEW", "b", "ack"), "s1")
    longer = Candidate("WRITE", ("at: wire, do: send, packet: NEW", "a", "b", "ack"), "s1")
    other = Candidate("SEND", longer.steps, "s1")
    assert wanted([longer, other], [short]) == [other]
    assert wanted([short], [longer]) == [short]


@pytest.mark.long
def test_a_search_of_one_step_rediscovers_the_appliance_method(tmp_path):
    search = explore(configurations(["adr, ddio off"])[0], 1, 1, 1, tmp_path)
    assert any("read-after-write" in one.published for one in search.front)
    assert reached(search.durable)["no request beside the update"] is None


@pytest.mark.long
def test_a_search_says_when_nothing_is_durable(tmp_path):
    search = explore(configurations(["adr, ddio on"])[0], 1, 1, 1, tmp_path)
    assert search.front == [] and search.tried > 1


def test_a_search_without_a_find_says_what_to_try(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(design, "explore", lambda configuration, steps, *_: DesignSearch(configuration, steps))
    assert main(["design", "--platform", "adr, ddio on", "--steps", "2", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "No primitive of at most 2 steps is durable here. Try more steps, as with --steps 3." in printed
    assert "primitive files" not in printed


@pytest.mark.long
def test_the_cheapest_method_comes_with_the_reason_why_cheaper_ones_fail():
    one = configurations(["adr, ddio off"])[0]
    question = Question(one, "dram", "WRITE", "one object", ("no-flush", "read-after-write", "write-send-cpu-flush"))
    found = answer(question)
    assert found.cheapest.primitive == "read-after-write" == found.available.primitive
    assert [method.primitive for method in found.failed] == ["no-flush"]
    assert "may still be in the NIC" in found.failed[0].why
