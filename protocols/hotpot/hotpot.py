"""Hotpot: nodes share persistent memory page by page, and a transaction commits at the owners of its pages.

Source: Shan, Tsai, Zhang, SoCC'17, as a third party's summary tells it (the paper was not at hand), and the public code
WukLab/Hotpot at 20f8d315 for what both have. A transaction's pages are copied at the first store to them. To commit in
mode MRMW the node makes a record of its dirty pages. *Prepare*: it sends each owner the dirty areas, owner by owner in
the order of their numbers; the owner makes a redo record, flushes all of it but its id, then the id, locks the pages,
and flushes its state. *Commit*: the owner sends what is new to the holders of copies, who copy and flush; then it
copies the redo data to its pages, and flushes these. *End*: the owner frees record and pages. With at most one remote
owner all phases are one message. The redo data are in persistent memory "because RDMA puts them there": the receive
buffers are, and nobody flushes them.

What the paper leaves open is read so. An object has a page to itself. Page n belongs to node n modulo their number, and
the nodes behind that one have its copies, always the same ones. Processes call their node, which performs one
transaction at a time. It fetches a page of which it has no copy at the first store, and does not keep it. It locks
pages that are read too, or transactions would see half of others (``reads=copies``: it locks what is written alone, as
the code does). Who is refused reverts, and tries again after a pause. A node locks its own pages before the one message
to a single remote owner, and commits them after it. It flushes the dirty pages with its own record, which says before
phase 3 that all have committed, and an owner's record keeps the id that it was released with: else what is executed
again could overwrite what others have committed since.

After a failure, a record that was not released locks its pages. An owner that was in phase 2 commits from the redo
data. The node that commits executes its own record again; an owner that has a record of that transaction does not take
the data again, since its record counts as complete (``again=sent``: it takes them). A transaction of a node that is
lost is committed if some owner had begun to, else dropped; pages which that node had owned itself and not yet
committed are lost with it. Pages of a lost owner belong to the first holder of copies that is left. Where no holder is
left, a transaction that has begun is committed at the other owners, and one that has not begun does nothing: whoever
called does not learn which. A node does again what did not return. That a node is lost is known to all.
"""

from __future__ import annotations

from typing import ClassVar

from ..naming import Option
from .commit import HotpotNode
from .pages import SharedPages


class Hotpot(SharedPages, name="hotpot"):
    """Three rounds of messages to the owners of what is written, whose redo data stay where they were received."""

    title = "Hotpot: shared persistent memory, transactions commit in three phases at the owners of their pages"
    options: ClassVar[dict[str, Option]] = {
        "again": Option("known", choices=("known", "sent"),
                        source="assumption: to the paper a record is complete, so an owner that has one needs no data",
                        text="whether an owner that has a record takes the data again when all is executed again"),
    }  # fmt: skip
    redo_in = "pm"
    Node = HotpotNode
