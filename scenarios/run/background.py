"""The programs beside a scheme: some compute on its cores, some send over its adapters and links."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...models.system import Node, System
from ...models.verbs import Opcode, SendFlags, SendWR
from ...sim.units import PS_PER_S
from ..schema.schema import Scenario

Code = Generator[Any, Any, None]

SIGNAL_EVERY = 16
"""One of so many of a flow's WRITEs is signalled."""
WINDOW = 128
"""How many of them are under way at most: a flow that wants more bandwidth than there is does not pile up."""


def start_background(system: System, scenario: Scenario) -> None:
    """Start all that a scenario wants to run beside its scheme."""
    for role, count in scenario.roles.items():
        for node in system.nodes.get(role, ()):
            threads = sum(load.threads for load in count.background if load.kind == "compute")
            for number in range(threads):
                thread = node.other_thread(number % node.spec.cores, f"{node.name} background {number}")
                node.process("background").start(thread.burn())
            flows = [load for load in count.background if load.kind == "network"]
            for number, flow in enumerate(flows):
                assert flow.to is not None
                assert flow.size_bytes is not None
                assert flow.rate is not None
                to, index = flow.to
                code = _flow(node, system.nodes[to][index], flow.size_bytes, flow.rate, node.spec.cores + number)
                node.process("background").start(code)


def _flow(sender: Node, receiver: Node, size_bytes: int, rate: int, core: int) -> Code:
    """WRITEs of one size at an even rate, over a queue pair of their own, from and to DRAM."""
    clock, thread = sender.system.clock, sender.other_thread(core, f"{sender.name} traffic")
    sent, received = sender.create_cq(), receiver.create_cq()
    qp = sender.process("background").alloc_pd().create_qp(sent, sender.create_cq())
    domain = receiver.process("background").alloc_pd()
    qp.connect(domain.create_qp(receiver.create_cq(), received))
    source = sender.memory["dram"].allocate(max(64, size_bytes), "background traffic")
    target = receiver.memory["dram"].allocate(max(64, size_bytes), "background traffic")
    key = domain.reg_mr(target, size_bytes).key
    number, outstanding, start_ps = 0, 0, clock.now_ps
    while True:
        due_ps = start_ps + number * PS_PER_S // rate
        if due_ps > clock.now_ps:
            yield clock.until(due_ps)
        number += 1
        last = number % SIGNAL_EVERY == 0
        flags = SendFlags.IBV_SEND_SIGNALED if last else SendFlags.NONE
        work = SendWR(number, Opcode.IBV_WR_RDMA_WRITE, source, size_bytes, target, key, flags)
        yield from thread.post_send(qp, work)
        outstanding += last
        if outstanding > WINDOW // SIGNAL_EVERY:
            yield from thread.poll(sent)
            outstanding -= 1
