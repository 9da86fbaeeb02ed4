"""Readers of a structure that another front-end writes.

Source: rNVM, section 9. Where the order of writes protects readers (a skip list's pointers from the bottom up, a root
that is switched last) they just read. Else they look at the structure's sequence number SN before
and behind: it is odd while the back-end replays a transaction, and another one once it has; then they read again
(algorithm 3). Readers may starve, and the writer never waits.

What the listing leaves open is read so. It has "rdma_atomic_read": of the atomics of RDMA a FETCH_ADD of 0 writes the
number back, over what the back-end's CPU may have stored in between, and so takes a count away; a compare-and-swap that
matches no number writes nothing. A reader's pages are not cached: nobody would tell it that they are old. A walk that
cannot go on, since it met half a transaction, is one in vain as well: it fails only where SN has not changed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ..scheme import OperationFailed
from ..structures.structure import Algorithm, StructureOperation
from .records import WORD
from .spaces import RemoteSpace

if TYPE_CHECKING:
    from .mode import RnvmMode

Code = Generator[Any, Any, Any]

NEVER = (1 << 64) - 1
"""A number that SN does not reach."""


def read_shared(space: RemoteSpace, algorithm: Algorithm, operation: StructureOperation, mode: type[RnvmMode]) -> Code:
    """Perform an operation that only reads, beside a writer elsewhere."""
    if algorithm.shared_by == "order":
        return (yield from algorithm.perform(operation))
    how, thread = str(mode.option("sn_read")), space.link.thread
    while True:
        before = yield from sequence_number(space, how)
        if before % 2:
            thread.count("odd sequence numbers")
            continue
        found, failed = None, None
        try:
            found = yield from algorithm.perform(operation)
        except OperationFailed as error:
            failed = error
        if (yield from sequence_number(space, how)) != before:
            thread.count("retries")
        elif failed is not None:
            raise failed
        else:
            return found


def sequence_number(space: RemoteSpace, how: str) -> Code:
    """SN, read by a compare-and-swap that never matches, a FETCH_ADD of 0, or a READ."""
    link, address = space.link, space.area.sequence
    if how == "read":
        return int.from_bytes((yield from link.read(address, WORD)), "little")
    poster, key = link.poster, link.key
    if how == "fetch-add":
        posted = yield from poster.fetch_and_add(link.qp, address, key, 0)
    else:
        posted = yield from poster.compare_and_swap(link.qp, address, key, NEVER, NEVER)
    return (yield from poster.result(posted))
