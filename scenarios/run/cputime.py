"""The cost of an operation, by role: CPU time by its kinds, and counts of requests and messages.

Averages over the whole run, its warm-up included: sums over the role's threads, divided by the operations of all
clients. Programs that run beside the scheme are left out, and so are waits of a thread that have not ended at the end.
"""

from __future__ import annotations

from ...models.cpu.accounting import SPENT, total
from ...models.system import System

COUNTS = {"verbs": "posts", "round_trips": "round_trips", "flushes": "flush_lines", "fences": "fences"}


def spent(system: System, operations: int) -> dict[str, dict[str, float]]:
    """By role: ``cpu_ns`` (useful work), its parts, the times that are no work (``polling_ns``, ``asleep_ns``), counts.

    ``round_trips`` are dependent ones, requests under way together count once; they mean something for clients.
    ``core_nanojoules``, where the platform knows the power of a core, are those of cores that work or poll; cores that
    sleep, memory and adapters are left out. ``retries`` are those of the role's queue pairs: how often one has gone
    back to repeat something.
    """
    found: dict[str, dict[str, float]] = {}
    for role, nodes in system.nodes.items():
        account = total(thread.account for node in nodes for thread in node.threads)
        kernel_ps = account.kernel_ps + sum(core.kernel_ps for node in nodes for core in node.cores)
        times = {name: getattr(account, f"{name}_ps") for name in SPENT} | {"kernel": kernel_ps}
        useful_ps = sum(times.values()) - account.polling_ps - account.asleep_ps + account.smt_ps
        counts = {name: getattr(account, kept) for name, kept in COUNTS.items()}
        counts["retries"] = sum(qp.end.attempt for node in nodes for qp in node.nic.queue_pairs)
        each = max(1, operations)
        milliwatts = nodes[0].cpu.core_milliwatts if nodes else 0
        energy = {"core_nanojoules": (useful_ps + account.polling_ps) * milliwatts / 1e6} if milliwatts else {}
        found[role] = {
            "cpu_ns": round(useful_ps / 1000 / each, 3),
            **{f"{name}_ns": round(ps / 1000 / each, 3) for name, ps in times.items()},
            **{name: round(number / each, 4) for name, number in counts.items()},
            **{name: round(number / each, 3) for name, number in energy.items()},
        }
    return found
