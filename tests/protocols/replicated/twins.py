"""Replicated memory broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.models.persist.requester import PrimitiveRequester
from rpsim.models.verbs import SendWR
from rpsim.protocols.replicated.hyperloop.hyperloop import FREE, ChainReplica, HyperLoop
from rpsim.protocols.replicated.hyperloop.offload import AdapterChain, nothing
from rpsim.protocols.replicated.mojim.mojim import Mojim
from rpsim.protocols.replicated.mojim.words import Ranges, Stance
from rpsim.protocols.replicated.tailwind.segments import Backup
from rpsim.protocols.replicated.tailwind.tailwind import BackupLink, Tailwind

Code = Generator[Any, Any, Any]


# mojim ----------------------------------------------------------------------------------------------------------------
class MarkFirst(Mojim, name="mojim-twin-mark-first"):
    """The mark is there before its entries."""

    title = "the commit mark goes ahead"

    @classmethod
    def messages(cls, entries: list[tuple[int, bytes]], mark: tuple[int, bytes]) -> Iterator[list[tuple[int, bytes]]]:
        yield [mark]
        yield entries


class NoWholeFlush(Mojim, name="mojim-twin-no-whole-flush"):
    """A primary without a mirror leaves in its cache what the mirror had."""

    title = "the primary goes on alone without flushing its cache"

    class Primary(Mojim.Primary):
        def go_on_alone(self, thread: Thread) -> Code:
            if self.link is not None:
                self.link = None
                yield from self.is_alone(thread)
                yield from thread.notify(self.settled)


class CopiesBesideMsyncs(Mojim, name="mojim-twin-copies-beside-msyncs"):
    """An msync may store in the image while that is copied to a machine that joins."""

    title = "no msync waits for a copy"

    class Primary(Mojim.Primary):
        def make_mirror(self, thread: Thread, link: PrimitiveRequester) -> Code:
            self.copying = False
            yield from super().make_mirror(thread, link)

    class Mirror(Mojim.Mirror):
        def make_mirror(self, thread: Thread, link: PrimitiveRequester) -> Code:
            self.copying = False
            yield from super().make_mirror(thread, link)


class WaitsForTheLost(Mojim, name="mojim-twin-waits-for-the-lost"):
    """Who is behind waits for a machine that never comes."""

    title = "nobody is told that a machine is lost while it is away"

    class Mirror(Mojim.Mirror):
        def wait_for_other(self, thread: Thread) -> Code:
            return thread.wait(self.joins)


class CopiesAtOnce(Mojim, name="mojim-twin-copies-at-once"):
    """A copy begins while an msync stores."""

    title = "a copy waits for no msync"

    class Primary(Mojim.Primary):
        storing = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]


class ReturnsBeforeItIsAlone(Mojim, name="mojim-twin-returns-before-it-is-alone"):
    """An msync that does not go to the mirror returns when it is flushed, and the mirror's image may count yet."""

    title = "an msync does not wait until the primary is alone"

    class Primary(Mojim.Primary):
        def send(self, thread: Thread, ranges: Ranges) -> Code:
            yield from super().send(thread, ranges)
            if self.link is None:
                self.stance = Stance.ALONE


class AppliesUnflushed(Mojim, name="mojim-twin-applies-unflushed"):
    """The mirror says that it has applied an msync whose image it has not flushed."""

    title = "the mirror does not flush what it applies"

    class Mirror(Mojim.Mirror):
        def flush(self, thread: Thread, ranges: Ranges) -> Code:
            yield from ()


class TrustsThePrimary(Mojim, name="mojim-twin-trusts-the-primary"):
    """After a power failure of both the primary's image counts."""

    title = "the mirror is rebuilt from the primary"

    class Primary(Mojim.Primary):
        def copy_from(self, thread: Thread, connection: Any) -> Code:
            yield from ()


class SentLate(Mojim, name="mojim-twin-sent-late"):
    """An msync goes to the mirror behind its response, and the primary flushes nothing."""

    title = "the mirror has an msync late"

    class Primary(Mojim.Primary):
        def on_msync(self, thread: Thread, request: Any) -> Code:
            self.held = getattr(self, "held", [])
            return (yield from super().on_msync(thread, request))

        def send(self, thread: Thread, ranges: Ranges) -> Code:
            self.held.append(ranges)
            if len(self.held) > 1:
                yield from super().send(thread, self.held.pop(0))


# tailwind -------------------------------------------------------------------------------------------------------------
class NoChecksum(Tailwind, name="tailwind-twin-no-checksum"):
    """A record counts if its head is there."""

    title = "the scan compares no checksum"

    class Backup(Backup):
        def is_whole(self, thread: Thread, place: int) -> Code:
            head = yield from thread.load(self.place(place), 16)
            return int.from_bytes(head[8:12], "little") == place + 1


class OneReplica(Tailwind, name="tailwind-twin-one-replica"):
    """A put returns when the first backup has it; the others never get it."""

    title = "records go to one backup"

    class Primary(Tailwind.Primary):
        def write_all(self, links: list[BackupLink], place: int, record: bytes) -> Code:
            return (yield from super().write_all(links[:1], place, record))


class Stubborn(Tailwind, name="tailwind-twin-stubborn"):
    """A backup that is gone is asked again and again, over the queue pair that is broken."""

    title = "the primary does not connect to a backup again"

    class Primary(Tailwind.Primary):
        def mend(self, thread: Thread, link: BackupLink, segment: int, turn: int) -> Code:
            yield from ()


class ClosesUnflushed(Tailwind, name="tailwind-twin-closes-unflushed"):
    """A closed segment is in the backup's cache."""

    title = "a backup notes that a segment is closed and flushes nothing of it"

    class Backup(Backup):
        def close(self, thread: Thread, segment: int, records: int) -> Code:
            yield from self.note(thread, segment, 2, records)


# hyperloop ------------------------------------------------------------------------------------------------------------
class WritesUnflushed(AdapterChain):
    """A chain whose replicas send ranges on and flush nothing."""

    def written(self, index: int, offset: int, length: int) -> list[SendWR]:
        work, *flushes = super().written(index, offset, length)
        return [work, *(replace(nothing(), send_flags=flush.send_flags) for flush in flushes)]


class NoGroupFlush(HyperLoop, name="hyperloop-twin-no-group-flush"):
    """gFLUSH reaches the first replica alone, and that loses its memory."""

    title = "only the head flushes, at the first replica"

    class Head(HyperLoop.Head):
        chain = WritesUnflushed

        def found(self, sequence: int) -> Code:
            reads, self.reads = self.reads, self.reads[-1:]
            found = yield from super().found(sequence)
            self.reads = reads
            return found


class HeadFirst(HyperLoop, name="hyperloop-twin-head-first"):
    """The log's head moves before the entries are applied."""

    title = "entries are given up and then applied"

    class Head(HyperLoop.Head):
        def apply(self) -> Code:
            yield from self.writes.write(self.scheme.layout.head, self.tail.to_bytes(8, "little"))
            yield from super().apply()


class NoFlush(AdapterChain):
    """A chain that makes nothing durable of what it copies."""

    def own(self, work_of: Any, touched: tuple[int, int] | None = None) -> Code:
        return super().own(work_of)


class CopiesUnflushed(HyperLoop, name="hyperloop-twin-copies-unflushed"):
    """gFLUSH behind gMEMCPY is left out."""

    title = "data that is copied is not flushed before the log's head moves"

    class Head(HyperLoop.Head):
        chain = NoFlush


class FencedFlush(HyperLoop, name="hyperloop-twin-fenced-flush"):
    """A message has a fence, whatever the primitive is."""

    title = "the message is enabled with the FLUSH, for whose completion no fence waits"

    class Replica(ChainReplica):
        def begin(self) -> None:
            super().begin()
            self.waits = False


class Unfenced(HyperLoop, name="hyperloop-twin-unfenced"):
    """The chains of before go on beside the new ones."""

    title = "the head closes the chain and lets the old queue pairs be"

    class Head(HyperLoop.Head):
        def fence(self, thread: Thread, replica: ChainReplica) -> Code:
            yield from replica.listener.until_listening(thread)


class ReleasesAllButOne(AdapterChain):
    """A chain whose last replica keeps a lock as if its release had not lasted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.taken: set[int] = set()
        """The replicas that have said of the lock that it was free."""
        self.copied: list[set[int]] = []
        """By copy: whose lock had been taken for it."""

    def compare_and_swap(self, offset: int, compare: int, swap: int, execute: Sequence[bool] | None = None) -> Code:
        if swap == FREE and execute is None:
            self.taken.clear()
            execute = [*(True for _ in self.hops[1:]), False]
        found = yield from super().compare_and_swap(offset, compare, swap, execute)
        if swap != FREE:
            self.taken |= {at for at, word in enumerate(found) if word == FREE and (execute is None or execute[at])}
        return found

    def copy(self, source: int, destination: int, length: int) -> Code:
        self.copied.append(set(self.taken))
        return super().copy(source, destination, length)


class ReleaseLost(HyperLoop, name="hyperloop-twin-release-lost"):
    """The release of a lock is gone at one replica, as a failure leaves it."""

    title = "the last replica keeps every lock"

    class Head(HyperLoop.Head):
        chain = ReleasesAllButOne
