"""Groups broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.protocols.groups.log import LoggedVersion
from rpsim.protocols.groups.replicas import Append, GroupReplica, ReplicaLink
from rpsim.protocols.groups.shapes import FanOut, GroupClient, GroupSession, Quorum, ReplicaChain

Code = Generator[Any, Any, Any]


class NotAwaited(FanOut, name="fan-out-twin-not-awaited"):
    """It returns when the updates are posted."""

    title = "a client waits for no replica"

    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        for link in session.links:
            yield from link.begin(version.place, data)


class OneCopy(FanOut, name="fan-out-twin-one-copy"):
    """Only the first replica has the entry when the update returns."""

    title = "a client writes to one replica"

    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        yield from session.links[0].persist(version.place, data)


class AnswersFirst(ReplicaChain, name="chain-twin-answers-first"):
    """The first replica answers before it passes the entry on; the last one has it later."""

    title = "the first replica answers"

    class Replica(GroupReplica):
        def pass_on(self, thread: Thread, links: Iterable[ReplicaLink], append: Append, message: bytes) -> Code:
            yield from self.answer(thread, append)
            yield from thread.compute()
            yield from super().pass_on(thread, links, append, message)


class Impatient(FanOut, name="fan-out-twin-impatient"):
    """Recovery asks machines that are switched off, and ends by the error."""

    title = "a replica that recovers waits for no other one"

    class Replica(GroupReplica):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            yield from self.agree(thread, unit, self.scheme.present())


class NoAnswers(Quorum, name="quorum-twin-no-answers"):
    """It returns when the updates are posted."""

    title = "a client waits for no answer"

    def replicate(self, client: GroupClient, session: GroupSession, version: LoggedVersion, data: bytes) -> Code:
        for link in session.links:
            yield from self.begin(client, session, link, version, data, session.append(self.layout, version))
