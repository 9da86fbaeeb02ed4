"""Stores over passive data nodes broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from rpsim.models.cpu import Deadline, Thread
from rpsim.models.cpu.smoothing import SmoothedTime
from rpsim.models.cpu.software import SoftwareThread
from rpsim.models.system import Node
from rpsim.protocols.parts.onesided import Posted
from rpsim.protocols.pdpm.clover.client import CloverClient, CloverSession
from rpsim.protocols.pdpm.clover.clover import Clover
from rpsim.protocols.pdpm.clover.header import WORD, ChainCursor, Version, header, pack_version
from rpsim.protocols.pdpm.clover.messages import PRESENT, Create, HeadRow, RegisterHeld, unpack_changes
from rpsim.protocols.pdpm.clover.metadata import MetadataServer
from rpsim.protocols.pdpm.clover.walk import LONGEST_TRIPS
from rpsim.protocols.pdpm.data import DataPlace, Links
from rpsim.protocols.pdpm.direct import Direct, packed

Code = Generator[Any, Any, Any]


class NoRedo(Direct, name="pdpm-direct-twin-no-redo"):
    """A committed copy that is not whole stays so."""

    title = "recovery leaves entries as they are"

    class Client(Direct.Client):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            yield from ()


class InPlaceAlone(Direct, name="pdpm-direct-twin-in-place-alone"):
    """The redo copy is not written."""

    title = "a put writes the committed space alone"

    class Client(Direct.Client):
        def write_entry(self, links: Links, copies: Iterable[DataPlace], value: bytes) -> Code:
            yield from links.write_all([(place.at(8), packed(value)) for place in copies])


class AllRecovered(Direct, name="pdpm-direct-twin-all-recovered"):
    """Entries are rewritten and unlocked on nodes that have not failed, where clients live."""

    title = "recovery takes every entry for one of the failed node"

    def unrecovered(self) -> set[int]:
        return set(range(len(self.roles["data"])))


class KeepsLock(Direct, name="pdpm-direct-twin-keeps-lock"):
    """A client whose put was cut short waits for the failed node with a lock of the other in its hands."""

    title = "a put that fails keeps its lock"

    class Client(Direct.Client):
        def put(self, links: Links, number: int, value: bytes) -> Code:
            lock = self.standing(links, number)[0]
            yield from self.take(links, lock)
            yield from self.write_entry(links, self.standing(links, number), value)
            yield from links.write_all([(lock, bytes(8))])


class RecoveryGivesUp(Direct, name="pdpm-direct-twin-recovery-gives-up"):
    """A node that fails while another one is recovered ends that recovery, and nobody begins another one."""

    title = "an error ends a recovery"

    class Client(Direct.Client):
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            links = self.recovery_links.setdefault(thread, self.links(thread, recovers=True))
            return (yield from self.recover_entry(links, unit))


class NobodyElse(Direct, name="pdpm-direct-twin-nobody-else"):
    """A client that loses power in a recovery leaves it as it is."""

    title = "the first client alone recovers"

    def recovery(self) -> Iterable[Any]:
        first = self.roles["client"][0]
        return [first] if self.unrecovered() and not first.node.off else []


class KeepsBuffers(Clover, name="clover-twin-keeps-buffers"):
    """A put goes on with buffers that the metadata server has given to others."""

    title = "a put under way keeps its buffers, for however long no server was heard of"

    class Client(CloverClient):
        def begin(self) -> None:
            super().begin()
            self.library.holds = lambda version: True  # type: ignore[method-assign]


class NotAwaited(Clover, name="clover-twin-not-awaited"):
    """The data may be on their way when the link is there."""

    title = "a put links its version without waiting for the data"

    class Client(CloverClient):
        def copies_of(self, new: Version, value: bytes) -> Any:
            self.late = list(super().copies_of(new, value))
            return iter(())

        def publish(self, session: CloverSession, key: int, new: ChainCursor) -> Code:
            for place, data in self.late:
                yield from session.links.hint(place.at(8), data[8:])
            yield from super().publish(session, key, new)

        def linking(self, session: CloverSession, key: int, tail: Any, new: Version, written: Sequence[Posted]) -> Code:
            place = self.scheme.geometry.buffer(new[0])
            yield from session.links.hint(place, header(new, 0))
            return (yield from super().linking(session, key, tail, new, written))


class LinkUnflushed(Clover, name="clover-twin-link-unflushed"):
    """The commit follows the data, and not the link."""

    title = "no commit behind a CAS"

    class Client(CloverClient):
        def connect(self, thread: Thread) -> CloverSession:
            session = super().connect(thread)
            links = session.links

            def cas(place: DataPlace, compare: int, swap: int) -> Code:
                qp, key = links.qps[place.node], links.nodes[place.node].key
                posted = yield from links.poster.compare_and_swap(qp, place.address, key, compare, swap)
                return (yield from links.poster.result(posted))

            links.compare_and_swap = cas  # type: ignore[method-assign]
            return session


class OneCopy(Clover, name="clover-twin-one-copy"):
    """The second copy of a version is not written."""

    title = "the data go to the first node alone"

    class Client(CloverClient):
        def copies_of(self, new: Version, value: bytes) -> Any:
            return iter(list(super().copies_of(new, value))[:1])


class ToldLater(Clover, name="clover-twin-told-later"):
    """Backups hear of a key after the client."""

    title = "a create is answered before the backups have it"

    class Metadata(MetadataServer):
        def begin(self) -> None:
            super().begin()
            self.listener._handlers[Create] = self.on_create_alone  # type: ignore[index]

        def on_create_alone(self, thread: Thread, request: Create) -> Code:
            tell, self.others.tell = self.others.tell, self.say_nothing  # type: ignore[method-assign]
            reply = yield from self.on_create(thread, request)
            self.others.tell = tell  # type: ignore[method-assign]
            return reply

        def say_nothing(self, *_: Any, **__: Any) -> Code:
            yield from ()
            return False


class Unmarked(Clover, name="clover-twin-unmarked"):
    """Nothing in the chain says that the key is gone."""

    title = "a delete is the metadata server's alone"

    class Client(CloverClient):
        def end(self, session: CloverSession, key: int, tail: ChainCursor) -> Code:
            yield from ()
            return True


class ForgetsHeld(Clover, name="clover-twin-forgets-held"):
    """The next metadata server does not learn which buffers are in clients' hands."""

    title = "buffers in clients' hands count as free after a fail-over"

    class Metadata(MetadataServer):
        def register(self, thread: Thread, request: RegisterHeld) -> Code:
            request.held = b""
            return (yield from super().register(thread, request))


class NeverForgets(Clover, name="clover-twin-never-forgets"):
    """What a machine has in its hands it uses, whatever it has not heard."""

    title = "free buffers are used however long the metadata server was silent"

    class Client(CloverClient):
        def begin(self) -> None:
            super().begin()
            self.library.in_contact = lambda: True  # type: ignore[method-assign]


class NeverIdle(Clover, name="clover-twin-never-idle"):
    """What a machine knew at time zero it uses for ever."""

    title = "a cursor of time zero is used however old it is"

    class Client(CloverClient):
        def start(self) -> None:
            super().start()
            self.library.cursors.first_until = None


class InPlaceRow(Clover, name="clover-twin-in-place-row"):
    """A row's line that counts is stored over."""

    title = "a head moves where it lies"

    class Metadata(MetadataServer):
        def put_row(self, thread: Thread, key: int, generation: int, head: Version | None) -> Code:
            _, line = yield from self.load_row(thread, key)
            line = 2 * self.row(key) + HeadRow.size - line
            yield from thread.store(line + WORD, pack_version(head, self.scheme.copies))
            yield from thread.clwb(line, WORD + self.head_bytes)


class CopyUnfenced(Clover, name="clover-twin-copy-unfenced"):
    """What a backup says that it has may still be in its store buffer."""

    title = "a backup answers before its copy is durable"

    class Metadata(MetadataServer):
        def keep(self, thread: Thread, rows: bytes) -> Code:
            for key, generation, (head,) in unpack_changes(rows, 1, self.scheme.copies):
                yield from self.put_row(thread, key, generation, head)
            return PRESENT


class AnyServes(Clover, name="clover-twin-any-serves"):
    """A metadata server serves whoever comes, whatever its rows are."""

    title = "a server that was away is brought nothing, and takes over like any other"

    class Metadata(MetadataServer):
        def attach(self, thread: Thread) -> Code:
            yield from ()
            return PRESENT

        def succeed(self, thread: Thread) -> Code:
            yield from self.become_serving(thread)
            return True


class Unwatched(Clover, name="clover-twin-unwatched"):
    """Who has sent a request waits for its reply, whatever has become of the server."""

    title = "nobody looks after a metadata server that does not reply"

    class Metadata(MetadataServer):
        def accept(self, thread: Thread, node: Node) -> Any:
            return self.listener.accept(thread, node, 64)


class QuickTrips(SmoothedTime):
    """How long READs take that are not aborted: those that are do not count, and no timer is doubled for them."""

    def end(self, thread: SoftwareThread, begun: Deadline) -> None:
        quick = self.deadline(thread, LONGEST_TRIPS)
        if quick is None or 2 * thread.clock.now_ps - begun.at_ps < quick.at_ps:
            super().end(thread, begun)
