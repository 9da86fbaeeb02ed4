"""The other metadata servers, as one of them sees them: who is in step, who serves, and who may where nobody does.

Source: Tsai et al., ATC'20, section 5.4, which has backups, and says nothing of one that comes back.

What the paper leaves open is read so. A server in step has all that has been acknowledged. One that begins again is
behind, whatever its rows are, until the server that serves has stored all rows there: it does so when the other one
says that it is back, and before it changes a row. In a word of DRAM, which others READ, each server says how it stands,
and the term of its rows. A term, which is in persistent memory too, begins when a server takes over, or drops one that
does not answer; nothing is acknowledged before all in step have it: so the rows of the latest term are the newest.
Nobody serves a client that comes from elsewhere while another server serves, or one of a lower number is in step. Where
all are behind, all are waited for that are not lost for good, and the one with the newest rows serves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ....models.cpu import Thread
from ....models.verbs import QueuePair
from ...layout import Layout
from ...parts.onesided import Poster, VerbsError
from ...parts.rpc import Connection
from ..data import Code
from .header import WORD
from .messages import PRESENT, Back, InStep

if TYPE_CHECKING:
    from .metadata import MetadataServer

_STEP_BITS = 16
"""A term has so many bits for how many servers have been dropped since one took over."""


class ServerStanding(IntEnum):
    """How a metadata server stands."""

    BEGUN = 0
    """It does not know its term yet."""
    BEHIND = 1
    IN_STEP = 2
    SERVING = 3


class OtherServers:
    """What a process of a metadata server knows of the others, and says to them."""

    def __init__(self, server: MetadataServer, standing: ServerStanding) -> None:
        """``standing``: how it stands when it begins."""
        self._server = server
        self.standing = standing
        self.term = 0
        """That of this server's rows, as far as it is not behind."""
        self.members: set[int] = set()
        """Of the one that serves: the numbers of those in step."""
        dram = server.node.memory["dram"]
        self.word = dram.allocate(WORD, "standing")
        self.key = server.listener.register(self.word, WORD).key
        dram.space.poke(self.word - dram.base, self._packed())
        self._links: dict[tuple[str, int], Connection] = {}
        """By thread and number, to servers that are or were in step."""
        self._eyes: dict[tuple[str, int], QueuePair] = {}
        """By thread and number: to words of others."""
        self._posters: dict[str, Poster] = {}

    def _packed(self) -> bytes:
        return (self.term << 2 | self.standing).to_bytes(WORD, "little")

    def those(self) -> Iterator[MetadataServer]:
        """The other servers that are not lost for good."""
        scheme = self._server.scheme
        lost = scheme.lost("metadata")
        return (one for one in scheme.roles["metadata"] if one is not self._server and one not in lost)

    def connect(self, thread: Thread) -> None:
        """Have a connection to each server in step."""
        for one in self.those():
            if one.number in self.members:
                self._links[thread.name, one.number] = one.accept(thread, self._server.node)

    def say(self, thread: Thread, standing: ServerStanding) -> Code:
        """Stand so from now on."""
        self.standing = standing
        yield from thread.store(self.word, self._packed())

    def look(self, thread: Thread, other: MetadataServer) -> Code:
        """How another server stands, and its term; None where nobody answers there."""
        where = thread.name, other.number
        if thread.name not in self._posters:
            self._posters[thread.name] = Poster(thread, self._server.node, WORD)
        poster = self._posters[thread.name]
        for _ in range(2):  # the queue pair may be one to a process of before
            if where not in self._eyes:
                if not other.listener.listening:
                    return None
                self._eyes[where] = poster.connect(other.listener.door)
            posted = yield from poster.read(self._eyes[where], other.others.word, other.others.key, WORD)
            try:
                word = int.from_bytes((yield from poster.result(posted)), "little")
            except VerbsError:
                del self._eyes[where]
                continue
            return ServerStanding(word % 4), word >> 2
        return None

    def report(self, thread: Thread, other: MetadataServer) -> Code:
        """Tell the server that serves that this one is back, if it is there; wait for its reply."""
        if other.listener.listening:
            link = other.accept(thread, self._server.node)
            with suppress(VerbsError):
                yield from link.call(Back)
            link.close()

    def ask(self, thread: Thread, other: MetadataServer, kind: type[Layout], **fields: Any) -> Code:
        """Send a request to another server; whether it has done that."""
        link = self._link(thread, other)
        if link is None:
            return False
        try:
            return (yield from link.call(kind, **fields)) == PRESENT
        except VerbsError:
            self._links.pop((thread.name, other.number))
            return False

    def _link(self, thread: Thread, other: MetadataServer) -> Connection | None:
        where = thread.name, other.number
        if where not in self._links:
            if not other.listener.listening:
                return None
            self._links[where] = other.accept(thread, self._server.node)
        return self._links[where]

    # of the one that serves -----------------------------------------------------------------------------------------
    def tell(self, thread: Thread, kind: type[Layout], **fields: Any) -> Code:
        """Send a request to all in step; whoever does not answer is dropped. Returns whether somebody was."""
        dropped = False
        for other in list(self.those()):
            if other.number in self.members and not (yield from self.ask(thread, other, kind, **fields)):
                self.members.discard(other.number)
                dropped = True
        dropped |= bool(self.members - {other.number for other in self.those()})
        self.members &= {other.number for other in self.those()}
        return dropped

    def drop(self, thread: Thread) -> Code:
        """Begin the term without those that were dropped: those in step have it first."""
        while True:
            self.term += 1
            yield from self.say(thread, self.standing)
            if not (yield from self.tell(thread, InStep, term=self.term)):
                break
        yield from self._server.put_term(thread, self.term)

    def after(self) -> int:
        """The first term after this one and all that may have begun while the same server served."""
        return ((self.term >> _STEP_BITS) + 1) << _STEP_BITS

    # of one that is behind --------------------------------------------------------------------------------------------
    def newest(self, thread: Thread) -> Code:
        """The server that this one, which is behind, waits for: the one that serves, or that will; itself, if nobody is
        in step and nobody's rows are newer; None while nobody can say.
        """
        best, place, whole = None, (ServerStanding.BEHIND, self.term, -self._server.number), True
        for other in list(self.those()):
            found = yield from self.look(thread, other)
            if found is None or found[0] is ServerStanding.BEGUN:
                whole = False
            elif (found[0], found[1], -other.number) > place:
                best, place = other, (found[0], found[1], -other.number)
        if best is not None:
            return best
        return self._server if whole else None
