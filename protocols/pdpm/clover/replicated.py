"""A put, or a delete, of versions with several copies.

Source: Tsai et al., ATC'20, section 5.4, figure 4. The data go to all nodes at once, and with them a CAS of a bit, B_w,
in the header of the newest version's first copy: whoever has set it may link. The link, a pointer to each new copy, is
written to all copies of the newest version; in a third round, which table 1 counts, it is marked as committed.

What the paper leaves open is read so. Where the node of the first copy is lost the bit of the next copy counts. Who
finds the bit set looks again; after the scheme's ``patience`` it asks the metadata server, which completes a link that
any copy has, or clears the bit: the put that had set it is taken for dead.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...parts.onesided import Posted, VerbsError
from ..data import Code
from .header import DELETED, UNCOMMITTED, WRITING, ChainCursor, HeaderWord, Version, header, pack_version
from .messages import Repair

SPINS = 16
"""So often the bit is looked at in a row; then after twice the time, each time: an assumption."""

if TYPE_CHECKING:
    from .client import CloverClient, CloverSession


def take_tail(
    client: CloverClient, session: CloverSession, key: int, at: ChainCursor, written: Sequence[Posted]
) -> Code:
    """Set B_w of a version, while its successor's data are ``written``; whether it was the newest one."""
    thread, links, geometry = session.thread, session.links, client.scheme.geometry
    patience, tail, since = None, at.version, thread.deadline("0 ns")
    for attempt in itertools.count():
        if attempt > SPINS:
            yield from thread.sleep_again(since)
        copy = next((copy for copy, pointer in enumerate(tail) if not links.is_lost(pointer.node)), 0)
        free = HeaderWord(None, tail[copy].version)
        place, marked = geometry.buffer(tail[copy]), free._replace(flags=WRITING)
        posted = yield from links.post_compare_and_swap(place, free.pack(), marked.pack())
        yield from links.settled(written)
        written = ()
        try:
            there = (yield from links.poster.all(posted))[0]
        except VerbsError:
            if not links.is_lost(tail[copy].node):
                raise
            continue
        if there == free.pack():
            return True
        word = HeaderWord.unpack(there)
        if word.own != free.own:
            client.library.cursors.drop(key)
            return False
        if word.flags & DELETED:
            yield from client.tell_deleted(session, key, at)
            return False
        if word.next is not None and not word.flags & UNCOMMITTED:
            return False
        thread.count("waits for another put")
        patience = patience or thread.deadline(str(client.scheme.option("patience")))
        if patience.passed:
            yield from session.servers.call(Repair, key=key, version=pack_version(tail, client.copies))
            return False  # a put may have no buffers any more, and looks at its own


def link_copies(client: CloverClient, session: CloverSession, tail: Version, new: Version) -> Code:
    """Write the link to all copies of the newest version, and mark it as committed."""
    if client.scheme.option("rounds") == 3:
        yield from write_headers(client, session, tail, new, UNCOMMITTED)
    yield from write_headers(client, session, tail, new, 0)


def end_copies(client: CloverClient, session: CloverSession, tail: Version) -> Code:
    """Write to all copies of the newest version that the key ends there."""
    yield from write_headers(client, session, tail, None, DELETED)


def write_headers(client: CloverClient, session: CloverSession, tail: Version, new: Version | None, flags: int) -> Code:
    """Write the header of each copy of a version, at once."""
    place = client.scheme.geometry.buffer
    writes = [
        (place(pointer), header(tail, copy, new, flags))
        for copy, pointer in enumerate(tail)
        if pointer not in tail[:copy]
    ]
    yield from session.links.write_all(writes)
