"""Load before saturation: requests that come at random instants queue as in M/D/1; closed loops of constants do not."""

from __future__ import annotations

import numpy as np
import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import REMOTE, Opcode, SendWR
from rpsim.sim.streams import Streams

PLATFORM = load_platform("connectx3-perftest")
SIZE = 4096


def latencies(clients, think_ps, reads=60, **settings):
    """Of READs of 4 KiB by so many clients, each one at a time, with exponential pauses in between (0: none)."""
    platform = load_platform("connectx3-perftest", **settings)
    specs = {"server": [NodeSpec()], "client": [NodeSpec() for _ in range(clients)]}
    system = System(platform, specs, seed=1)
    server, draw = system.nodes["server"][0], Streams(1).stream("think")
    target = server.memory["dram"].allocate(SIZE, "target", align=4096)
    domain = server.alloc_pd()
    key = domain.reg_mr(target, SIZE, REMOTE).key
    took = []

    def code(node):
        done = node.create_cq()
        qp = node.alloc_pd().create_qp(done, node.create_cq())
        qp.connect(domain.create_qp(server.create_cq(), server.create_cq()))
        thread, here = node.thread(0, "client"), node.memory["dram"].allocate(SIZE, "here", align=64)
        for number in range(reads):
            if think_ps:
                yield from thread.work(1 + int(draw.exponential(think_ps)))
            start_ps = thread.now_ps
            yield from thread.post_send(qp, SendWR(number, Opcode.IBV_WR_RDMA_READ, here, SIZE, target, key))
            yield from thread.poll(done)
            if number > 5:
                took.append(thread.now_ps - start_ps)

    for running in [system.clock.start(code(node)) for node in system.nodes["client"]]:
        system.clock.run_until(running)
    return took


def served_ps():
    """How far apart READs of a saturated responder are."""
    clients = 12
    return np.mean(latencies(clients, 0)) / clients


@pytest.mark.long
def test_reads_at_random_instants_wait_for_each_other_before_the_responder_is_saturated():
    alone_ps = latencies(1, 0)[-1]
    each_ps, clients = served_ps(), 16
    for share in (0.3, 0.6):
        took = latencies(clients, int(clients * each_ps / share - alone_ps), reads=80)
        waited_ps, expected_ps = np.mean(took) - alone_ps, share / (2 * (1 - share)) * each_ps
        assert 0.6 * expected_ps < waited_ps < 1.15 * expected_ps  # sixteen are fewer than the infinitely many of M/D/1
        assert np.quantile(took, 0.99) > np.median(took) + each_ps / 2


@pytest.mark.parametrize("clients", [2, 3])
def test_closed_loops_of_constant_times_fall_into_step_until_something_spreads_them(clients):
    alone_ps = latencies(1, 0)[-1]
    assert set(latencies(clients, 0)[-10:]) == {alone_ps}
    assert np.mean(latencies(clients, 0, arbitration="on")) > alone_ps
