"""Small runs of remote file systems, and file systems broken on purpose, one step at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from rpsim.models.cpu import Thread
from rpsim.models.persist.service import Service
from rpsim.protocols.filesystems.machines import ToldService
from rpsim.protocols.filesystems.nvfs import AddBlock, Complete, Nvfs, NvfsSession, packed
from rpsim.protocols.filesystems.octopus import Octopus, OctopusSession, ServerLink
from rpsim.protocols.filesystems.orion.orion import Orion, OrionSession
from rpsim.protocols.registry import scheme
from rpsim.scenarios.history import Operation
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.results import RunResult
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.testing.checks import crash_report, scenario_of

Code = Generator[Any, Any, Any]

WORK = {"mix": "update-only", "operations": 4, "keys": 2}
ONE_WORD = {"value": "8 B"}
LARGE = {"value": "64 KiB", "keys": 1, "operations": 2}
"""A value whose flush takes longer than the commit that should wait for it."""


def violated(
    name: str,
    fault: str,
    work: Mapping[str, Any] | None = None,
    platform: str = "optane-adr",
    ddio: str = "on",
    *,
    whole: bool = True,
    **more: Any,
) -> set[str]:
    """What the fault breaks, whichever instant it strikes at; of the ``whole`` all states are seen, which decide."""
    report = crash_report(
        scheme(name), platform, fault=fault, workload={**WORK, **(work or {})}, ddio=ddio, examples=False, **more
    )
    assert not whole or (report.exhaustive and "undecided" not in report.verdicts.values())
    return {str(condition) for condition, verdict in report.verdicts.items() if verdict == "violated"}


def ran(name: str, work: Mapping[str, Any] | None = None, **more: Any) -> RunResult:
    """The run without a fault, metered."""
    made = scenario_of(scheme(name), workload={**WORK, **(work or {})}, **more)
    (variant,) = made.variants()
    return run_variant(made, variant, metered=True)


def messages(name: str, operations: int, mix: str = "update-only", **more: Any) -> dict[tuple[str, str, str], int]:
    """How many messages of each verb went from one machine to another in the run of one client."""
    result = ran(name, {"operations": operations, "mix": mix, "keys": 1, **more.pop("work", {})}, clients=1, **more)
    return {
        (one["from"], one["to"], verb): count
        for one in result.metered["traffic"]
        for verb, count in one["verbs"].items()
    }


def for_one_more(name: str, mix: str = "update-only", **more: Any) -> dict[tuple[str, str, str], int]:
    """The messages of a third operation, by machines and verb."""
    two, three = messages(name, 2, mix, **more), messages(name, 3, mix, **more)
    return {way: count - two.get(way, 0) for way, count in three.items() if count != two.get(way, 0)}


def all_finish(name: str, fault: str, work: Mapping[str, Any] | None = None, **more: Any) -> bool:
    """Whether the survivors of the fault come to their ends, whichever instant it strikes at."""
    return all(state.aftermath.finished for state in states(name, fault, work, **more))


def last_reads(name: str, fault: str, work: Mapping[str, Any] | None = None, **more: Any) -> list[Operation]:
    """What a fresh client finds after the fault, where it strikes last."""
    *_, last = states(name, fault, work, **more)
    newest = max(operation.process for operation in last.aftermath.history.operations)
    return [operation for operation in last.aftermath.history.operations if operation.process == newest]


def states(name: str, fault: str, work: Mapping[str, Any] | None = None, **more: Any) -> Iterator[Any]:
    """What the fault leaves behind, by its instants."""
    made = scenario_of(scheme(name), workload={**WORK, **(work or {})}, fault=fault, **more)
    (variant,) = made.variants()
    walk = Walk(made, variant)
    yield from walk.states(walk.instants)


class WithoutFlush(ToldService):
    """The responder's CPU leaves its flush out."""

    def _flush(self, *args: Any) -> Code:
        yield from ()


class AnswersFirst(ToldService):
    """The responder's CPU answers, and flushes then."""

    def _chain(self, thread: Thread, steps: Any, *rest: Any) -> Code:
        late = ("flush", "fence")
        in_order = sorted(steps, key=lambda step: step.do in late)
        yield from super()._chain(thread, tuple(in_order), *rest)


# Octopus --------------------------------------------------------------------------------------------------------------
class UnflushedLink(ServerLink):
    """The data are written, and the primitive's steps left out."""

    def write(self, address: int, data: bytes) -> Code:
        yield from self.requester.write([(address, data)])


class OctopusUnflushed(Octopus, name="octopus-twin-unflushed"):
    """Over a primitive whose steps are not executed."""

    title = "the flush behind an extent is left out"
    over = "ibta-flush-persistent"

    class Client(Octopus.Client):
        def connect(self, thread: Thread) -> OctopusSession:
            return OctopusSession([UnflushedLink(thread, self.node, server) for server in self.scheme.roles["server"]])


class OctopusUnlocked(Octopus, name="octopus-twin-unlocked"):
    """Everybody has the lock."""

    title = "extents are written and read without the file's lock"

    class Server(Octopus.Server):
        def lock(self, thread: Thread, client: int, ask: Any) -> Code:
            self.locks.pop(ask.number, None)
            return (yield from super().lock(thread, client, ask))

        def owns(self, client: int, number: int) -> bool:
            return True


# Orion ----------------------------------------------------------------------------------------------------------------
class OrionHasty(Orion, name="orion-twin-hasty"):
    """Strong, and the log does not wait for the data."""

    title = "the mds appends before the acknowledgements"

    class Mds(Orion.Mds, memory=("dram", "pm"), cores=2, counted_by="mds"):
        def acknowledged(self, thread: Thread, page: int) -> Code:
            yield from ()
            return True


class OrionUnflushed(Orion, name="orion-twin-unflushed"):
    """What is acknowledged is in the data store's caches."""

    title = "a data store acknowledges a page that it has not flushed"

    class Ds(Orion.Ds, memory=("dram", "pm"), counted_by="replicas"):
        def begin(self) -> None:
            super().begin()
            self.service.__class__ = WithoutFlush


class OrionTailFirst(Orion, name="orion-twin-tail-first"):
    """The tail may be there when the entry is not."""

    title = "the tail moves before the entry is written"

    class Mds(Orion.Mds, memory=("dram", "pm"), cores=2, counted_by="mds"):
        def append(self, thread: Thread, tail: int, entry: bytes) -> Code:
            number = int.from_bytes(entry[:4], "little")
            yield from self.persist(thread, lambda of: of.tail(number), tail.to_bytes(8, "little"))
            yield from self.persist(thread, lambda of: of.entry(tail), entry)


class OrionUnmirrored(Orion, name="orion-twin-unmirrored"):
    """The mirror has what was loaded."""

    title = "the mirror is not written to"

    class Mds(Orion.Mds, memory=("dram", "pm"), cores=2, counted_by="mds"):
        def mirror(self) -> None:
            return None


class OrionMirrorFromMemory(Orion, name="orion-twin-mirror-from-memory"):
    """The mirror goes on behind the tail that it knew when it began."""

    title = "a mirror that takes over does not look at the log"

    class Mds(Orion.Mds, memory=("dram", "pm"), cores=2, counted_by="mds"):
        def start(self) -> None:
            super().start()
            self.last = len(self.sizes.objects)


class WithoutFence(Service):
    """Who has connected once may write for ever."""

    def fence(self) -> Code:
        yield from ()


class OrionUnfenced(Orion, name="orion-twin-unfenced"):
    """What an mds has sent before it failed comes to the mirror at any time."""

    title = "the mirror lets the mds before go on writing"

    class Mds(Orion.Mds, memory=("dram", "pm"), cores=2, counted_by="mds"):
        def begin(self) -> None:
            super().begin()
            self.service.__class__ = WithoutFence


class OrionImpatient(Orion, name="orion-twin-impatient"):
    """Recovery asks machines that are switched off, and ends by the error."""

    title = "a data store that recovers waits for no other one"

    class Ds(Orion.Ds, memory=("dram", "pm"), counted_by="replicas"):
        def recover(self, thread: Thread) -> Code:
            (other,) = (ds for ds in self.scheme.stores() if ds is not self)
            reads = other.listener.accept(thread, self.node, self.read_bytes)
            yield from reads.read(other.notes, other.notes_key, self.notes_length)


class OrionOneStore(Orion, name="orion-twin-one-store"):
    """The other data stores have what was loaded."""

    title = "data go to the first data store alone"

    def stores(self) -> list[Orion.Ds]:
        return super().stores()[:1]

    class Client(Orion.Client):
        def post(self, session: OrionSession, page: int, value: bytes) -> Code:
            stores, session.stores = session.stores, session.stores[:1]
            under_way = yield from super().post(session, page, value)
            session.stores = stores
            return under_way


# NVFS -----------------------------------------------------------------------------------------------------------------
class NvfsAnswersFirst(Nvfs, name="nvfs-twin-answers-first"):
    """What is acknowledged is in the data nodes' caches for a while."""

    title = "a data node answers before its flush"

    class DataNode(Nvfs.DataNode, memory=("dram", "pm"), cores=2, many=True, at_least_by="replicas"):
        def begin(self) -> None:
            super().begin()
            self.service.__class__ = AnswersFirst


class NvfsUnflushed(Nvfs, name="nvfs-twin-unflushed"):
    """What is acknowledged is in the data nodes' caches."""

    title = "data nodes do not flush"

    class DataNode(Nvfs.DataNode, memory=("dram", "pm"), cores=2, many=True, at_least_by="replicas"):
        def begin(self) -> None:
            super().begin()
            self.service.__class__ = WithoutFlush


class NvfsJournalUnflushed(Nvfs, name="nvfs-twin-journal-unflushed"):
    """Which block a file has is in the name node's caches."""

    title = "the name node does not flush"

    class NameNode(Nvfs.NameNode, memory=("dram", "pm")):
        def journal(self, thread: Thread, address: int, data: bytes) -> Code:
            yield from thread.store(address, data)


class NvfsCompletesFirst(Nvfs, name="nvfs-twin-completes-first"):
    """The file may have a block that nobody has."""

    title = "a client completes the file, then sends the block"

    class Client(Nvfs.Client):
        def write(self, session: NvfsSession, number: int, value: bytes) -> Code:
            block = int.from_bytes((yield from session.names.call(AddBlock, file=number)), "little")
            yield from session.names.call(Complete, file=number, block=block)
            yield from self.send(session, block, packed(value))


class NvfsOneCopy(Nvfs, name="nvfs-twin-one-copy"):
    """The other data nodes of a pipeline have nothing."""

    title = "the first data node does not pass the block on"

    class DataNode(Nvfs.DataNode, memory=("dram", "pm"), cores=2, many=True, at_least_by="replicas"):
        def pass_on(self, thread: Thread, block: int) -> Code:
            yield from ()


class NvfsClosed(Nvfs, name="nvfs-twin-closed"):
    """Whoever passes a block on is refused, by a machine that stands."""

    title = "the adapters of all data nodes but the first refuse blocks"
    connections = 0

    class DataNode(Nvfs.DataNode, memory=("dram", "pm"), cores=2, many=True, at_least_by="replicas"):
        def begin(self) -> None:
            super().begin()
            if self.number:
                self.service.domain.dereg_mr(self.service.regions[0])
                accept, self.listener.accept = self.listener.accept, self.count  # type: ignore[method-assign]
                self.connect = accept

        def count(self, *args: Any) -> Any:
            """Accept a connection, of a few: who is refused is not to connect for ever."""
            NvfsClosed.connections += 1
            assert NvfsClosed.connections < 10
            return self.connect(*args)
