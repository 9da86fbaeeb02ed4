"""What client processes draw of a transaction benchmark: which transactions, on which customers.

Drawn from the streams ``workload.keys`` (which customer is how popular), ``workload.process[i]`` (which transaction,
and its first customer) and ``workload.steps[i]`` (its others, and what else its steps need).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...protocols.objects import LOOKS
from ...sim.streams import Streams
from ..schema.transactions import Transactions
from ..transactions import BENCHMARKS
from ..ycsb import ZipfianKeys
from .draws import Plan, Planned


def draw_transactions(workload: Transactions, processes: int, streams: Streams) -> Plan:
    """The transactions of each process."""
    share, rest = divmod(workload.operations, max(1, processes))
    everybody = processes if workload.own else 1
    # of customers of one's own each process has the least number that all of them have
    keys = ZipfianKeys(workload.customers // everybody, workload.zipf, streams.stream("workload.keys"))
    return [
        list(_process(workload, everybody, keys, process, share + (process < rest), streams))
        for process in range(processes)
    ]


def _process(
    workload: Transactions, everybody: int, keys: ZipfianKeys, process: int, count: int, streams: Streams
) -> Iterator[Planned]:
    random, more = streams.stream(f"workload.process[{process}]"), streams.stream(f"workload.steps[{process}]")
    shares, transactions = workload.drawn(), BENCHMARKS[workload.benchmark].transactions
    names = list(shares)
    drawn = np.searchsorted(np.cumsum(list(shares.values())), random.random(count), side="right")
    kinds = np.minimum(drawn, len(names) - 1).tolist()
    for turn, (kind, first) in enumerate(zip(kinds, keys.draw(random, count), strict=True)):
        one, customers = transactions[names[kind]], [first]
        while len(customers) < one.customers:
            customers += [other for other in keys.draw(more, 1) if other not in customers]
        own = [customer * everybody + process if workload.own else customer for customer in customers]
        steps = tuple(one.steps(own, more))
        writes = any(step[0] not in LOOKS for step in steps)
        yield Planned(process, "txn", "", writes, argument=steps, part_of=(names[kind], turn))
