"""Scenarios that give roles fewer cores, sleeping threads, slower cores and other programs beside."""

from __future__ import annotations

import pytest

from rpsim.models.memory.bandwidth import without
from rpsim.models.profiles.platform import load_platform
from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.experiment import run_variant

US = 10**6

QUICK = """\
platform: quick
title: an operating system in a hurry
description: slices, ticks and disturbances a hundred times as often
extends: optane-adr
cpu:
  os:
    sched_latency: {value: 240 us, source: "assumption: for a short test"}
    min_granularity: {value: 30 us, source: "assumption: for a short test"}
    tick_every: {value: 40 us, source: "assumption: for a short test"}
    stray_every: {value: 200 us, source: "assumption: for a short test"}
"""


@pytest.fixture
def quick(tmp_path):
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK)
    return {"platform": str(path)}


def run(scheme="saw", operations=200, processes=4, server=None, client=None, **more):
    workload = {"kind": "ycsb", "mix": "a", "keys": 20, "value": "256 B", "operations": operations}
    fields = {"platform": "optane-adr", "workload": workload} | more
    scenario = Draft.new(
        "test.yaml",
        scenario="test",
        roles={"client": {"machines": 1, "processes": processes, **(client or {})}, "server": server or {}},
        schemes=[scheme],
        **fields,
    ).build()
    assert Draft.of(scenario).build() == scenario
    return run_variant(scenario, scenario.variants()[0])


def median_us(result, f="put"):
    values = sorted(result.latency_ps[f].tolist())
    return values[len(values) // 2] / US


# cores, and how threads wait ------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_server_that_sleeps_answers_later_and_spends_less():
    polling, sleeping = run(processes=1), run(processes=1, server={"waits": "sleep"})
    assert 3 < median_us(sleeping) - median_us(polling) < 15
    server = sleeping.spent["server"]
    assert server["polling_ns"] < 200
    assert server["asleep_ns"] > 1000
    assert server["kernel_ns"] > 1000
    assert polling.spent["server"]["polling_ns"] > 1000
    assert polling.spent["server"]["asleep_ns"] == 0


@pytest.mark.long
def test_a_busy_server_that_sleeps_seldom_does():
    """With many clients there is always something to do: no more interrupts than requests, and fewer sleeps."""
    idle, busy = (run(processes=n, server={"waits": "sleep"}) for n in (1, 8))
    assert busy.spent["server"]["asleep_ns"] < 0.2 * idle.spent["server"]["asleep_ns"]


@pytest.mark.long
def test_clients_that_share_a_core_wait_for_each_other(quick):
    own, shared = run(processes=4, **quick), run(processes=4, client={"cores": 1}, **quick)
    assert shared.throughput_ops_per_s < 0.5 * own.throughput_ops_per_s
    assert max(shared.latency_ps["put"]) > 60 * US  # somebody was away for a slice
    assert max(own.latency_ps["put"]) < 20 * US


@pytest.mark.long
def test_who_sleeps_gives_the_core_to_the_others_at_once(quick):
    """Sleeping clients pay several microseconds an operation, but none waits for the slice of one that polls."""
    polling = run(processes=4, client={"cores": 1}, **quick)
    sleeping = run(processes=4, client={"cores": 1, "waits": "sleep"}, **quick)
    assert max(sleeping.latency_ps["put"]) < 0.5 * max(polling.latency_ps["put"])
    assert median_us(sleeping) > median_us(polling)


def test_threads_that_are_not_pinned_need_no_core_of_their_own():
    result = run(processes=4, client={"cores": 8, "pinned": False})
    assert max(result.latency_ps["put"]) < 1000 * US


@pytest.mark.long
def test_a_server_of_slow_cores_takes_longer_for_a_request():
    usual, slow = run(), run(server={"core_type": "arm-a72"})
    kind = load_platform("optane-adr").cpu.types["arm-a72"]
    ratio = slow.spent["server"]["software_ns"] / usual.spent["server"]["software_ns"]
    assert ratio == pytest.approx(100 / kind.speed_percent, rel=0.01)
    assert slow.throughput_ops_per_s < usual.throughput_ops_per_s


# other programs beside ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_program_that_computes_on_the_servers_core_takes_half_of_it(quick):
    alone, beside = (
        run(operations=800, **quick),
        run(server={"background": [{"kind": "compute"}]}, operations=800, **quick),
    )
    assert max(beside.latency_ps["put"]) > 100 * US
    assert 0.3 < beside.throughput_ops_per_s / alone.throughput_ops_per_s < 0.7
    assert beside.spent["server"]["software_ns"] == pytest.approx(alone.spent["server"]["software_ns"], rel=0.1)


@pytest.mark.long
def test_one_on_the_clients_cores_does_the_same_at_the_sender(quick):
    beside = run(client={"background": [{"kind": "compute", "threads": 4}]}, operations=400, **quick)
    assert max(beside.latency_ps["put"]) > 100 * US


@pytest.mark.long
def test_memory_bandwidth_that_others_take_is_not_there():
    platform = load_platform("optane-adr")
    left = without(platform, [("dram", 480 * 10**9)])  # 60 GB/s over six DIMMs
    dram, less = platform.media["dram"], left.media["dram"]
    assert dram.write_bandwidth_bits_per_s - less.write_bandwidth_bits_per_s == 80 * 10**9
    assert left.media["optane"] == platform.media["optane"]
    big = {"kind": "ycsb", "mix": "update-only", "keys": 20, "value": "16 KiB", "operations": 100}
    load = {"background": [{"kind": "memory", "device": "pm", "bandwidth": "12 GB/s"}]}
    alone, beside = run(workload=big), run(workload=big, server=load)
    assert beside.throughput_ops_per_s < 0.9 * alone.throughput_ops_per_s


@pytest.mark.long
def test_what_others_write_to_dram_takes_the_channels_from_optane_too():
    """120 of the 128 GB/s of six channels: a line has its turn after 48 ns, and an Optane DIMM 1.3 of its 2.2 GB/s."""
    platform = load_platform("optane-adr")
    left = without(platform, [("dram", 480 * 10**9)])
    assert (platform.imc.wpq_accept_ps, left.imc.wpq_accept_ps) == (3_000, 48_000)
    assert without(platform, [("dram", 80 * 10**9)]).imc.wpq_accept_ps == 3_555
    big = {"kind": "ycsb", "mix": "update-only", "keys": 20, "value": "16 KiB", "operations": 100}
    load = {"background": [{"kind": "memory", "device": "dram", "bandwidth": "60 GB/s"}]}
    alone, beside = run(workload=big), run(workload=big, server=load)
    assert beside.throughput_ops_per_s < 0.9 * alone.throughput_ops_per_s


def test_no_more_can_be_taken_than_there_is():
    with pytest.raises(ValueError, match="its DIMMs have"):
        without(load_platform("optane-adr"), [("pm", 10**12)])
    with pytest.raises(ValueError, match="its channels carry 64 GB/s both ways"):
        without(load_platform("optane-adr"), [("dram", 520 * 10**9)])
    with pytest.raises(ValueError, match="has no DIMMs"):
        without(load_platform("pmr"), [("pmr", 1)])


@pytest.mark.long
def test_packets_of_others_fill_the_link_and_delay_everybody():
    flow = {"kind": "network", "to": "server[0]", "size": "64 KiB", "rate": 190_000}  # 99.6 Gb/s
    few = {"processes": 1, "operations": 40}
    alone, beside = run(**few), run(client={"background": [flow]}, **few)
    assert median_us(beside) > median_us(alone) + 0.5
    seldom = run(client={"background": [{**flow, "rate": 1000}]}, **few)
    assert median_us(seldom) == pytest.approx(median_us(alone), rel=0.02)


@pytest.mark.long
def test_they_have_their_own_core_and_send_queue():
    flow = {"kind": "network", "to": "server[0]", "size": "64 B", "rate": 1_000_000}
    result = run(client={"background": [flow]})
    node = result.system.nodes["client"][0]
    assert len(node.cores) == 5
    assert node.nic.queue_pairs[-1].posted <= 256  # its send queue does not grow
    assert result.spent["client"]["verbs"] == run().spent["client"]["verbs"]


# noise --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_noise_makes_a_tail_and_leaves_the_median(quick):
    quiet, noisy = run(operations=400, **quick), run(operations=400, vary={"noise": ["on"]}, **quick)
    assert median_us(noisy) == pytest.approx(median_us(quiet), rel=0.1)
    assert max(noisy.latency_ps["put"]) > max(quiet.latency_ps["put"])
    assert noisy.spent["server"]["kernel_ns"] > 0


def test_noise_is_off_and_costs_nothing_unless_it_is_asked_for():
    assert run().spent["server"]["kernel_ns"] == 0


@pytest.mark.long
def test_processes_that_think_wait_for_each_other_before_the_server_is_busy():
    def puts(processes, **more):
        fields = {"kind": "ycsb", "mix": "update-only", "keys": 20, "value": "256 B", "operations": 150, "zipf": 0.0}
        return run(processes=processes, workload=fields | more).latency_ps["put"].tolist()

    alone, thinking, again = puts(1), puts(3, think="20 us"), puts(3, think="20 us")
    assert thinking == again
    assert min(thinking) == pytest.approx(min(alone), rel=0.01)
    assert max(thinking) > 1.05 * max(alone)
    assert len(set(thinking)) > len(set(alone))  # each wait is another one


def test_packets_of_other_programs_are_sent_in_a_metered_run_and_are_none_of_its_work():
    built = Draft.new(
        "x", scenario="x", schemes="farm", platform="rflush-testbed",
        roles={"client": {"background": [{"kind": "network", "to": "server[0]", "size": "64 B", "rate": 2_000_000}]}},
        workload={"kind": "ycsb", "mix": "a", "keys": 4, "value": "64 B", "operations": 10},
    ).build()  # fmt: skip
    result = run_variant(built, built.variants()[0], recorded=False, metered=True)
    alone = run_variant(built.model_copy(update={"roles": {}}), built.variants()[0], recorded=False, metered=True)
    assert result.spent["client"]["verbs"] == alone.spent["client"]["verbs"]
    assert result.history.operations[-1].outcome == "ok"
