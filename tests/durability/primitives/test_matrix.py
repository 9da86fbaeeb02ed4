"""What the matrix finds, and that it finds it: nothing here is stored with a primitive or a platform."""

from itertools import product

import pytest

from rpsim.models.primitives.vocabulary import StepPlace
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.protocols.shapes import SHAPES, shape_name, shaped, tagged, untagged
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant
from rpsim.sim.errors import InputError
from rpsim.validation.matrix.configurations import Configuration, configurations, every, usual
from rpsim.validation.matrix.judging import CellFinding, judge
from rpsim.validation.matrix.rows import RowJob, row
from rpsim.validation.matrix.timing import measure

from ...persisting import HEADER

CONFIGURATIONS = {one.label: one for one in every()}


def durable(scheme, label):
    return judge(scheme, CONFIGURATIONS[label]).durable


@pytest.mark.long
@pytest.mark.parametrize(
    ("label", "holds"),
    [("adr, ddio off", True), ("adr, ddio on", False), ("eadr, ddio on", True), ("adr, ddio off, ro", False)],
)
def test_read_after_write_needs_ddio_off_or_eadr_and_strict_ordering(label, holds):
    assert durable("word over read-after-write", label) is holds


@pytest.mark.long
@pytest.mark.parametrize(
    ("label", "holds"), [("adr, ddio off", False), ("eadr, ddio on", False), ("wsp, ddio on", True)]
)
def test_a_write_alone_is_durable_only_with_a_battery(label, holds):
    assert durable("word over no-flush", label) is holds


@pytest.mark.parametrize(("domain", "holds"), [("adr", False), ("eadr", False), ("wsp", True)])
def test_what_has_landed_lasts_on_rnvms_testbed_as_its_paper_takes_it(domain, holds):
    """rNVM flushes nothing: its premise is the domain ``wsp``."""
    settings = (("domain", domain),)
    finding = judge("word over no-flush", Configuration("rnvm-testbed", settings, f"rnvm-testbed, {domain}"))
    assert finding.durable is holds


@pytest.mark.long
def test_a_flush_covers_nothing_of_another_queue_pair():
    assert durable("word over ibta-flush-persistent", "adr, ddio on")
    finding = judge("other-qp over ibta-flush-persistent", CONFIGURATIONS["adr, ddio on"])
    assert finding.verdicts["no_lost_ack"] == "violated" and "may still be in the NIC" in finding.why


@pytest.mark.long
@pytest.mark.parametrize(
    ("primitive", "label"),
    [("read-after-write", "eadr, ddio on"), ("read-after-write", "pmr, barrier by read"), ("rcommit", "adr, ddio on")],
)
def test_what_an_adapter_holds_up_is_not_covered_from_another_queue_pair(primitive, label):
    """A READ that is quick finds old bytes, and completes; on its own queue pair it waits."""
    assert durable(f"word over {primitive}", label)
    finding = judge(f"other-qp over {primitive}", CONFIGURATIONS[label])
    assert finding.verdicts["no_lost_ack"] == "violated" and "may still be in the NIC" in finding.why


@pytest.mark.long
def test_an_entry_and_its_commit_word_need_two_runs_of_the_steps_on_adr():
    assert durable("pair over read-after-write", "adr, ddio off")
    assert not durable("log over read-after-write", "adr, ddio off")


@pytest.mark.long
def test_a_send_is_durable_in_receive_buffers_of_persistent_memory_once_something_pushed_it():
    assert not durable("word over no-flush by SEND", "eadr, ddio on")
    assert not durable("word over no-flush by SEND into pm", "eadr, ddio on")  # nobody waits for the server's core
    assert durable("word over read-after-send into pm", "adr, ddio off")


@pytest.mark.long
def test_dropping_the_flush_of_the_cpu_is_caught(tmp_path):
    text = (
        "name: lazy\ntitle: a server that only says so\nsource: a test\nstatus: proposed\nsteps:\n"
        "- {id: ask, at: wire, do: send, verb: SEND}\n- {id: receive, at: responder cpu, do: receive}\n"
        "- {id: reply, at: responder cpu, do: reply}\ncomplete: reply\nclaims: {durable: adr}\n"
    )
    (tmp_path / "lazy.yaml").write_text(text)
    found = row(RowJob(str(tmp_path / "lazy.yaml"), CONFIGURATIONS["adr, ddio on"], ("word",), (64,), (1,)))
    assert found.claimed == {"durable": "holds"} and found.refuted == ["durable"]
    assert "no flush of the line had completed" in found.findings["word"].why
    assert found.costs.latency[64].cpu_ns > 0


def test_of_several_schedules_the_worst_verdict_counts_in_any_order():
    worse = [Verdict.HOLDS, Verdict.UNDECIDED, Verdict.VIOLATED]
    for first, second in product(worse, worse):
        found = CellFinding()
        for verdict in (first, second):
            found.add(Condition.DURABLE, verdict)
        assert found.verdicts == {"durable": max(first, second, key=worse.index)}


@pytest.mark.long
@pytest.mark.parametrize(
    "order", [("flush", "fence", "reply"), ("flush", "reply", "fence"), ("reply", "flush", "fence")]
)
def test_a_reply_that_goes_out_before_the_flush_is_caught(order, tmp_path):
    """It comes after the flush has ended, unless the core is away between the two."""
    steps = "".join(f"- {{id: {step}, at: responder cpu, do: {step}}}\n" for step in ("receive", *order))
    path = tmp_path / "hasty.yaml"
    path.write_text(f"{HEADER}steps:\n- {{at: wire, do: send, verb: SEND}}\n{steps}complete: reply\n")
    found = judge(shape_name("word", str(path)), CONFIGURATIONS["adr, ddio on"])
    assert found.durable is (order[-1] == "reply")
    assert found.exhaustive


@pytest.mark.long
def test_the_same_row_twice():
    job = RowJob("read-after-write", CONFIGURATIONS["adr, ddio on"], ("word",), (64,), (1,))
    assert row(job) == row(job)


# shapes ---------------------------------------------------------------------------------------------------------


def test_a_tagged_value_shows_when_it_is_torn():
    one, other = tagged(bytes(range(48)), 2), tagged(bytes(48), 3)
    assert untagged(one, 48) == (2, bytes(range(48)))
    assert untagged(one[:8] + other[8:], 48) is None


def test_a_name_says_shape_primitive_switches_way_and_memory():
    name = shape_name("line", "read-after-send", "SEND", "pm")
    kind = shaped(name)
    assert (kind.shape, kind.primitive.name) == ("line", "read-after-send")
    assert (kind.option("by"), kind.option("into")) == ("SEND", "pm")
    assert kind.stays_in_buffers() and kind.name == name
    assert any(step.place is StepPlace.WIRE for step in kind.primitive.steps)


@pytest.mark.parametrize(
    ("name", "close"), [("lin over no-flush", "line"), ("line over no-flus", "no-flush"), ("line over", None)]
)
def test_a_wrong_name_is_answered_with_the_nearest(name, close):
    with pytest.raises(InputError) as caught:
        shaped(name)
    assert caught.value.mistakes[0].nearest == close


def test_platforms_are_named_by_label_set_or_profile():
    assert {one.label for one in usual()} <= set(CONFIGURATIONS)
    assert [one.label for one in configurations(["eadr, ddio off"])] == ["eadr, ddio off"]
    part = [one.label for one in configurations(["ddio off"])]
    assert part == [label for label in CONFIGURATIONS if "ddio off" in label] and len(part) == 16
    assert [one.label for one in configurations(["optane-adr"])] == ["optane-adr, ddio on", "optane-adr, ddio off"]
    assert [one.vary()["ddio"] for one in configurations(["optane-adr, ddio off"])] == [["off"]]
    with pytest.raises(InputError, match="expected 'optane-adr' or 'optane-adr, ddio on' or 'optane-adr, ddio off'"):
        configurations(["optane-adr, ddio maybe"])
    with pytest.raises(InputError) as caught:
        configurations(["optane-adrr"])
    assert caught.value.mistakes[0].nearest == "optane-adr"
    assert set(SHAPES) == {"word", "line", "page", "log", "pair", "other-qp", "batch"}


def test_a_batch_costs_one_run_of_the_steps():
    """Figure 6 of the paper: one flush for each WRITE, or one for four."""
    configuration = configurations(["adr, ddio off"])[0]
    each, batched = (
        measure(name, configuration, sizes=(64,), queue_pairs=(1,)) for name in ("wflush", "wflush-batched")
    )
    assert each.latency[64].p50_ns < batched.latency[64].p50_ns < 2 * each.latency[64].p50_ns
    assert 2 < batched.throughput[1] / each.throughput[1] < 4
    # a WRITE and its acknowledgement, a WFlush and its answer
    assert (each.latency[64].packets, batched.latency[64].packets) == (4, pytest.approx(2.5, abs=0.1))


@pytest.mark.parametrize(("primitive", "sleeps"), [("rflush-write-emulated", False), ("rflush-send-emulated", True)])
def test_a_thread_that_looks_at_memory_never_sleeps(primitive, sleeps):
    """An arrival of bytes interrupts nobody: `waits: sleep` is about completions."""
    took = {}
    for waits in ("poll", "sleep"):
        roles = {"client": {"machines": 1, "processes": 1}, "server": {"waits": waits}}
        workload = {"kind": "ycsb", "mix": "update-only", "keys": 4, "value": "64 B", "operations": 8}
        schemes = [f"word over {primitive}"]
        given = {"platform": "rflush-testbed", "schemes": schemes, "roles": roles, "workload": workload}
        made = Draft.new("waits", scenario="waits", **given).build()
        result = run_variant(made, made.variants()[0])
        took[waits] = list(result.latency_ps["put"])
        assert (result.spent["server"]["asleep_ns"] > 0) is (sleeps and waits == "sleep")
    assert (took["sleep"] == took["poll"]) is not sleeps
