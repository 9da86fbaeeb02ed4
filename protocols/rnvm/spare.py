"""The spare machine: once the back-end is lost for good it rebuilds the structures from the mirror, and serves them.

Source: rNVM, sections 4.3 and 5.5: "the front-end will reconstruct the data structures to a new back-end by using the
data and logs in the mirror nodes". What is open there is read so: a front-end whose connection is broken, and which
learns that the back-end is lost, tells the new one; that reads the mirror's memory by READ, makes it durable in its
own, and then recovers as any back-end does after a reboot. It waits while the mirror has no power, and does not take a
copy of which it has been told that it is old (:mod:`.mirror`). Its own line of the naming area is written last: until
then it has no structure, and a failure has it begin again. It copies to no mirror.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from .area import Area
from .backend import BackEnd
from .mirror import GONE, PIECE, Mirror, copy_structure, old_mark
from .records import LINE, WORD

Code = Generator[Any, Any, Any]


class Spare(BackEnd):
    """A back-end that holds nothing until it is wanted."""

    @override
    def begin(self) -> None:
        super().begin()
        self.begun = False
        """Whether it rebuilds, or serves."""

    @override
    def mirror(self) -> Mirror | None:
        return None

    @override
    def start(self) -> None:
        if self.scheme.lost("server"):  # its power is back
            self.is_wanted()

    @override
    def is_wanted(self) -> None:
        if not self.begun:
            self.begun = True
            self.node.process(self.node.name).start(self.rebuild(self.node.thread(0, self.node.name)))

    def rebuild(self, thread: Thread) -> Code:
        """Bring every structure here that is not here yet, recover them, and serve."""
        for area in self.areas:
            if any((yield from thread.load(area.name, LINE))) or (yield from self.fetch(thread, area)):
                yield from self.recover_unit(thread, area.number)
            else:
                self.missing.add(area.number)
        super().start()

    def fetch(self, thread: Thread, area: Area) -> Code:
        """Read a structure from the mirror; whether there was one."""
        mirror: Mirror = self.scheme.roles["mirror"][0]
        put = partial(self.put, thread)
        if any((yield from thread.load(old_mark(area), WORD))):
            return False
        while not self.scheme.lost("mirror"):
            if not mirror.listener.listening:
                yield from mirror.listener.until_listening(thread)
                continue
            yield from mirror.fence(area)
            link = mirror.link(thread, self.node, area, max(2 * PIECE, (area.memory_log.lines + 1) * LINE))
            with suppress(*GONE):
                try:
                    name, _ = yield from copy_structure((yield from mirror.copy_by(link, area)), area, put)
                except LookupError:
                    return False
                yield from put(area.name, name)
                return True
        return False

    def put(self, thread: Thread, address: int, data: bytes) -> Code:
        """Store a range, durably."""
        yield from thread.store(address, data)
        yield from self.flush(thread, [(address, data)])

    # it has no recovery of its own but this -------------------------------------------------------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return ()
