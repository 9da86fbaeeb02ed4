"""Mojim: a mirror whose log has what the primary writes, before it is durable at the primary itself.

Source: Zhang, Yang, Memaripour, Swanson, ASPLOS'15, as the rNVM paper (section 2.2), the RDMA Flush paper (table 1) and
a detailed summary of it tell. The application stores in place. ``msync`` of a range, and ``gmsync`` of several, sends
the ranges from the primary's caches into the mirror's log, then a commit mark into the mirror's metadata log, and
returns; in the mode ``syncflush`` the primary has flushed them as well. The mirror's CPU applies what is committed to
its image now and then, and sends it on to backups. If the primary fails, the mirror applies what has a mark, drops the
rest and goes on; if the mirror fails, the primary flushes its whole cache and goes on alone.

What the sources leave open is read so. The mirror "persists without occupying any CPU cycle": so the log lasts as the
primitive has it, a plain WRITE by default. The mark is a message of its own behind the acknowledgement of the entries.
A heartbeat tells a machine that the other one is gone, after a period of our own. After a power failure of both the
mirror recovers from its log and the primary's image is rebuilt from the mirror's. A machine that goes on alone says so
in its persistent memory, with an epoch: so the two know later whose image counts; the other one gets a copy of it, and
is the mirror from then on; a mirror that has not got it yet takes over only where the other one is lost. While the copy
is made no msync begins. An msync that finds the mirror gone returns when the primary has said that it is alone, in
``sync`` as in ``syncflush``: in the window ``sync`` loses what had returned before. In ``async`` it returns after the
primary's own flush, as ever. ``unreplicated``, the mirror's machine does nothing, and the primary comes back with its
own image. Clients call the primary, whose CPU stores what they send.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ....models.cpu import Signal, Thread
from ....models.system import Node
from ....sim.bytespace import round_up
from ...guarantees import Claims, Condition
from ...naming import Option
from ...parts.onesided import VerbsError
from ...parts.rpc import PATIENCE, Connection, Listener
from ...scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme
from .machine import MojimMachine
from .words import Load, Msync, Ranges, Stance, pack_ranges

Code = Generator[Any, Any, Any]


class Mojim(Scheme, name="mojim"):
    """One call to the primary, and in it the entries and the mark, one behind the other, to the mirror."""

    title = "Mojim: a mirror's log is durable before the primary's memory is"
    paper = "Zhang et al., ASPLOS'15 (Mojim)"
    section = "as rNVM, section 2.2, and RDMA Flush, table 1, tell; the paper itself was not at hand"
    operations = ("put", "get")
    updates = frozenset({"put"})
    batches = True
    over = "no-flush"
    claims: ClassVar[Claims] = {
        Condition.NO_LOST_ACK: "primary power; primary lost; mirror power; mirror lost",
        Condition.COMMITTED: "primary power; primary lost",
    }
    faults: ClassVar = {
        "primary": ("power", "lost"), "mirror": ("power", "lost"), "backup": (), "client": ("power", "process"),
        "all": ("power",),
    }  # fmt: skip
    options: ClassVar[dict[str, Option]] = {
        "mode": Option(
            "sync", choices=("sync", "syncflush", "async", "unreplicated"), source="the paper's four modes",
            text="what has happened when an msync returns: the mirror has it; the primary has flushed it, too; the"
            " primary has flushed it, and the mirror gets it later; there is no mirror",
        ),
        "mark": Option(
            "separate", choices=("separate", "with the entries"),
            source="a summary: entries have to be transferred before the commit mark is written",
            text="whether the commit mark follows when the entries are acknowledged, or goes along with them",
        ),
        "backups": Option(
            0, at_least=0, at_most=8, source="the paper has any number", text="how many weakly consistent backups"
        ),
        "log": Option(64, at_least=8, small=8, source="assumption: no source says how long it is",
                      text="entries of the log"),
        "apply": Option(
            32, at_least=1, small=2, source="assumption: half the log; the source says now and then",
            text="behind how many entries the mirror's CPU is asked to apply them; at the latest when the log is full",
        ),
        "heartbeat": Option(
            "1 ms", quantity="time", source="assumption: no source says how long",
            text="after what time without a heartbeat a machine takes the other one for gone",
        ),
    }  # fmt: skip

    @override
    @classmethod
    def composed(cls) -> None:
        if cls.mode_is("async", "unreplicated"):
            cls.claims = {}

    @classmethod
    def mode_is(cls, *modes: str) -> bool:
        """Whether the mode is one of these."""
        return cls.option("mode") in modes

    @classmethod
    def messages(cls, entries: list[tuple[int, bytes]], mark: tuple[int, bytes]) -> Iterator[list[tuple[int, bytes]]]:
        """What is made durable at the mirror, one behind the other."""
        if cls.option("mark") == "separate":
            yield entries
            yield [mark]
        else:
            yield [*entries, mark]

    class Client(Role, invokes=True):
        """A machine whose processes call whoever serves."""

        scheme: Mojim

        @override
        def connect(self, thread: Thread) -> MojimSession:
            return MojimSession(thread, self.node, self.scheme)

        @override
        def perform(self, session: MojimSession, request: Request) -> Code:
            """An msync of all that is put, then what is read; of a put that was cut short nobody knows."""
            numbers = self.sizes.objects
            puts = [(numbers.index(step.object), step.value) for step in request.steps if step.value is not None]
            found = []
            try:
                if puts:
                    yield from session.connection.call(Msync, ranges=pack_ranges(puts))
            except VerbsError as error:
                yield from session.reconnect(error)
                raise OutcomeUnknown(str(error)) from error
            for step in request.steps:
                value = None if step.value is not None else (yield from self.get(session, numbers.index(step.object)))
                found.append(value)
            return tuple(found) if len(found) > 1 else found[0]

        def get(self, session: MojimSession, number: int) -> Code:
            """Read an object from whoever serves."""
            while True:
                try:
                    return (yield from session.connection.call(Load, number=number))
                except VerbsError as error:
                    yield from session.reconnect(error)

    class Primary(MojimMachine):
        """Where the application runs at first."""

        stance_at_first = Stance.PRIMARY
        other_role = "mirror"

    class Mirror(MojimMachine):
        """Where the log is at first."""

        stance_at_first = Stance.MIRROR
        other_role = "primary"

    class Backup(Role, memory=("dram", "pm"), cores=0, passive=True, counted_by="backups"):
        """A copy of the image that lags behind."""

        scheme: Mojim

        def __init__(self, scheme: Mojim, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.length = round_up(self.sizes.value_bytes) * len(self.sizes.objects)
            self.image = node.memory["pm"].allocate(self.length, "image")

        @override
        def begin(self) -> None:
            self.listener = Listener(self.node, {})
            self.key = self.listener.register(self.image, self.length).key

    def send_on(self, thread: Thread, mirror: MojimMachine, ranges: Ranges) -> Code:
        """The mirror's CPU writes what it has applied to the backups."""
        for backup in self.roles["backup"]:
            link = mirror.backups.get(backup.number)
            if link is None:
                link = mirror.backups[backup.number] = backup.listener.accept(thread, mirror.node, mirror.value_bytes)
            for number, value in ranges:
                yield from link.write(backup.image + number * mirror.value_bytes, backup.key, value)

    def machines_of_clients(self) -> list[MojimMachine]:
        """The machines that may serve clients, at first the first one: without a mirror that is the only one."""
        primary, mirror = self.roles["primary"][0], self.roles["mirror"][0]
        return [primary] if self.mode_is("unreplicated") else [primary, mirror]

    # after a failure ----------------------------------------------------------------------------------------------
    def decides(self, machine: MojimMachine) -> bool:
        """Whether this is the machine that finds out, of the two that have come back."""
        return machine is self.roles["primary"][0]

    @override
    def recovery(self) -> Iterator[Role]:
        """Those that come back; of two the mirror begins. Who stands has gone on by itself."""
        both: list[MojimMachine] = [self.roles["mirror"][0], self.roles["primary"][0]]
        failed = [one for one in both if one in self.failed(one.role_name)]
        yield from (one for one in failed if one not in self.lost(one.role_name))

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        for machine in (self.roles["primary"][0], self.roles["mirror"][0]):
            machine.load(objects.values())

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class MojimSession:
    """A client process's connection to the machine that serves."""

    def __init__(self, thread: Thread, node: Node, scheme: Mojim) -> None:
        self.thread = thread
        self.node = node
        self.machines = scheme.machines_of_clients()
        serving = next((one for one in self.machines if one.listener.listening), self.machines[0])
        self.connection: Connection = serving.listener.accept(thread, node, 64, PATIENCE)

    def reconnect(self, error: VerbsError) -> Code:
        """Connect to whoever serves now; wait for that."""
        if not error.disconnected:
            raise error
        while (serving := self.serving()) is None:
            listens = Signal(self.thread.clock)
            for one in self.machines:
                one.node.awaited_by.append(listens)
            yield from self.thread.wait(listens)
        self.connection = serving.listener.accept(self.thread, self.node, 64, PATIENCE)

    def serving(self) -> MojimMachine | None:
        """Who serves now. Raises :class:`OperationFailed` where nobody will any more."""
        if all(one.scheme.is_gone(one) for one in self.machines):
            raise OperationFailed("the machines that could serve are lost")
        return next((one for one in self.machines if one.listener.listening), None)
