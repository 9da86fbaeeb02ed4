"""A machine of Mojim: the primary or the mirror, each of which may come to be the other; its memory and its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from ....models.cpu import Signal, Thread
from ....models.persist.requester import PrimitiveFailed, PrimitiveRequester
from ....models.persist.service import Service
from ....models.system import Node
from ....sim.bytespace import LINE_BYTES, round_up
from ...layout import WORD, Layout
from ...parts.onesided import VerbsError
from ...parts.rpc import PATIENCE, Connection, Listener
from ...scheme import Role
from .words import (
    Agreed,
    Apply,
    Join,
    Load,
    LogPosition,
    Msync,
    MsyncRange,
    Ranges,
    Stance,
    Standing,
    Update,
    unpack_ranges,
)  # fmt: skip

if TYPE_CHECKING:
    from .mojim import Mojim

Code = Generator[Any, Any, Any]


class MojimMachine(Role, memory=("dram", "pm"), cores=5):
    """The primary or the mirror; both are alike, since each may come to be the other."""

    scheme: Mojim
    stance_at_first: ClassVar[Stance]
    other_role: ClassVar[str]

    def __init__(self, scheme: Mojim, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.value_bytes = round_up(self.sizes.value_bytes)
        self.entry_bytes = Update.size + self.sizes.value_bytes
        self.slot_bytes = round_up(self.entry_bytes)
        self.slots = max(int(scheme.option("log")), 2 * self.sizes.batch)
        self.unasked = min(int(scheme.option("apply")), self.slots)
        """So many entries the log has before the mirror's CPU is asked to apply them."""
        parts = {
            "image": self.value_bytes * len(self.sizes.objects),
            "log": self.slot_bytes * self.slots,
            "marks": LINE_BYTES * self.slots,
            "standing": LINE_BYTES,
            "applied": LINE_BYTES,
        }
        self.start_of_memory = self.pm.allocate(sum(parts.values()), "mojim", align=4096)
        at, self.places = self.start_of_memory, dict[str, int]()
        for name, length in parts.items():
            self.places[name] = at
            at += length
        self.length = at - self.start_of_memory

    def load(self, values: Iterable[bytes]) -> None:
        """Before time zero: the machine's standing, and the objects' values."""
        self._load(self.places["standing"], Standing.pack(epoch=1, stance=self.stance_at_first))
        for number, value in enumerate(values):
            self._load(self.object_at(number), value)

    def _load(self, address: int, data: bytes) -> None:
        self.pm.space.poke(address - self.pm.base, data)

    @property
    def other(self) -> MojimMachine:
        """The machine that this one works with."""
        machine: MojimMachine = self.scheme.roles[self.other_role][0]
        return machine

    @property
    def is_left(self) -> bool:
        """Whether the other machine is lost for good."""
        return self.scheme.is_gone(self.other)

    def object_at(self, number: int) -> int:
        """Where an object lies."""
        return self.places["image"] + number * self.value_bytes

    def slot_at(self, position: int) -> int:
        """Where an entry of the log lies."""
        return self.places["log"] + position % self.slots * self.slot_bytes

    def mark_at(self, msync: int) -> int:
        """Where an msync's mark lies in the metadata log."""
        return self.places["marks"] + msync % self.slots * LINE_BYTES

    @override
    def begin(self) -> None:
        room = 64 + self.sizes.batch * (MsyncRange.size + self.sizes.value_bytes)
        handlers: Mapping[type[Layout], Any] = {
            Msync: self.on_msync,
            Load: self.on_load,
            Join: self.on_join,
            Agreed: self.on_agreed,
            Apply: self.on_apply,
        }
        self.listener = Listener(self.node, handlers, message_bytes=room)
        self.joining = Listener(self.node, handlers, message_bytes=room)
        """For the other machine: it is served whether clients are or not."""
        self.service = Service(self.scheme.primitive, self.node, slot_bytes=self.slot_bytes + 256)
        self.service.register(self.start_of_memory, self.length)
        self.key = self.listener.register(self.start_of_memory, self.length).key
        self.stance = self.stance_at_first
        self.recovered = False
        self.in_step = True
        """Whether the image is as new as the other machine's, or newer: who begins again does not know that at once."""
        self.epoch = 1
        self.msyncs = self.tail = 0
        """The last msync, and the log's position behind it."""
        self.room_until = self.slots
        """Up to this position the log has room, as far as is known."""
        self.link: PrimitiveRequester | None = None
        self.backups: dict[int, Connection] = {}
        """The ways to backups, by number, once something has been sent on."""
        self.late: deque[Ranges] = deque()
        """What the mode async has not sent yet."""
        self.copying = False
        """Whether the image is being copied to a machine that joins: no msync begins meanwhile."""
        self.storing = False
        """Whether an msync is under way that changes the image, and does not go to the other machine's log."""
        self.woken, self.asked, self.room, self.joins = (Signal(self.system.clock) for _ in range(4))
        self.stored, self.settled = Signal(self.system.clock), Signal(self.system.clock)
        """Raised when an msync that a copy waits for has ended; when a copy has, or this machine has become alone."""

    @override
    def start(self) -> None:
        name, process = self.node.name, self.node.process(self.node.name)
        thread = self.node.thread(0, name)
        process.start(self.listener.serve(thread))
        if self.scheme.mode_is("unreplicated"):
            if self.stance is Stance.PRIMARY:
                self.serve_clients(None)
            return
        process.start(self.joining.serve(self.node.thread(1, f"{name} joining")))
        if not self.recovered:
            self.serve_primitive()
        process.start(self.watch(self.node.thread(1, f"{name} heartbeat")))
        process.start(self.ask_for_room(self.node.thread(3, f"{name} asking")))
        if self.scheme.mode_is("async"):
            process.start(self.send_late(self.node.thread(4, f"{name} sending")))
        if not self.recovered:
            self.joining.listen()
            if self.stance is Stance.PRIMARY:
                self.serve_clients(thread)

    def serve_primitive(self) -> None:
        """Do the CPU's steps of the primitive, if it has any, from now on."""
        if self.service.needs_thread:
            name = self.node.name
            self.node.process(name).start(self.service.serve(self.node.thread(2, f"{name} primitive")))

    def serve_clients(self, thread: Thread | None) -> None:
        """Listen to clients; with a ``thread`` whose msyncs go to the other machine."""
        self.link = None if thread is None else self.other.service.connect(thread, self.node, patience=PATIENCE)
        self.listener.listen()

    # requests ---------------------------------------------------------------------------------------------------------
    def on_load(self, thread: Thread, request: Load) -> Code:
        """The object, as it is visible here."""
        return (yield from thread.load(self.object_at(request.number), self.sizes.value_bytes))

    def on_msync(self, thread: Thread, request: Msync) -> Code:
        """Store the ranges in place, and have them last as the mode says."""
        ranges = unpack_ranges(request.ranges, self.sizes.value_bytes)
        while self.copying:
            yield from thread.wait(self.settled)
        self.storing = True
        for number, value in ranges:
            yield from thread.store(self.object_at(number), value)
        if self.scheme.mode_is("sync", "syncflush"):
            self.storing = self.link is None  # else a copy finds all of it, and need not wait for a link that is dead
            yield from self.send(thread, ranges)
            while self.link is None and self.stance is not Stance.ALONE:  # the mirror's image would count
                yield from thread.wait(self.settled)
        if self.link is None or not self.scheme.mode_is("sync"):
            yield from self.flush(thread, ranges)
        if self.scheme.mode_is("async") and self.link is not None:
            self.late.append(ranges)
            yield from thread.notify(self.woken)
        yield from self.let_copy(thread)
        return b"durable"

    def let_copy(self, thread: Thread) -> Code:
        """An msync is over: a copy may begin that has waited for it."""
        self.storing = False
        if self.copying:
            yield from thread.notify(self.stored)

    def flush(self, thread: Thread, ranges: Ranges) -> Code:
        """Flush ranges here."""
        for number, value in ranges:
            yield from thread.clwb(self.object_at(number), len(value))
        yield from thread.sfence()

    def send(self, thread: Thread, ranges: Ranges) -> Code:
        """Have the mirror's log hold ranges and their mark; if it is gone, go on alone."""
        link = self.link
        if link is None:
            return
        try:
            yield from self.wait_for_room(thread, len(ranges))
            if self.link is not link:  # a mirror that has been back meanwhile has the image with this msync in it
                return
            entries, there = [], self.other
            for turn, (number, value) in enumerate(ranges):
                position = self.tail + turn
                entry = Update.pack(number=number, position=position, value=value)
                entries.append((there.slot_at(position), entry))
            self.msyncs, self.tail = self.msyncs + 1, self.tail + len(ranges)
            mark = there.mark_at(self.msyncs), LogPosition.pack(msync=self.msyncs, entries=len(ranges))
            for updates in self.scheme.messages(entries, mark):
                yield from link.persist(updates)
        except (PrimitiveFailed, VerbsError) as error:
            if not error.disconnected:
                raise
            if self.link is link:  # else this is known already, and a mirror may be back
                yield from self.go_on_alone(thread)

    def wait_for_room(self, thread: Thread, entries: int) -> Code:
        """Wait until the log has room for so many; before it is full the mirror's CPU is asked to apply what it has."""
        if self.tail + entries > self.room_until - self.slots + self.unasked:
            yield from thread.notify(self.asked)
        while self.tail + entries > self.room_until and self.link is not None:
            yield from thread.wait(self.room)

    def ask_for_room(self, thread: Thread) -> Code:
        """The primary: have the mirror's CPU apply what is committed, whenever that is wanted, for ever."""
        connection: Connection | None = None
        connected: PrimitiveRequester | None = None
        while True:
            yield from thread.wait(self.asked)
            link = self.link
            try:
                if link is not None:
                    if connection is None or connected is not link:  # that to a mirror before it failed is dead
                        connection = self.other.joining.accept(thread, self.node, LINE_BYTES, PATIENCE)
                        connected = link
                    applied = yield from connection.call(Apply, unused=0)
                    if self.link is link:
                        self.room_until = LogPosition.unpack(applied).entries + self.slots
            except VerbsError as error:
                if not error.disconnected:
                    raise
                connection = None
                if self.link is link:  # else this is known already, and a mirror may be back
                    yield from self.go_on_alone(thread)
            yield from thread.notify(self.room)

    def send_late(self, thread: Thread) -> Code:
        """The mode async: send what has returned, one msync after the other, for ever."""
        while True:
            while self.late:
                yield from self.send(thread, self.late.popleft())
            yield from thread.wait(self.woken)

    # the mirror's CPU -------------------------------------------------------------------------------------------------
    def on_apply(self, thread: Thread, request: Apply) -> Code:
        """Apply what is committed: the reply says up to where."""
        yield from self.apply(thread)
        return LogPosition.pack(msync=self.msyncs, entries=self.tail)

    def apply(self, thread: Thread) -> Code:
        """Apply to the image what has a mark, in order; the log is free up to there then."""
        done = LogPosition.unpack((yield from thread.load(self.places["applied"], WORD)))
        while True:
            mark = LogPosition.unpack((yield from thread.load(self.mark_at(done.msync + 1), WORD)))
            if mark.msync != done.msync + 1:
                break
            ranges = []
            for position in range(done.entries, done.entries + mark.entries):
                entry = Update.unpack((yield from thread.load(self.slot_at(position), self.entry_bytes)))
                if entry.number < len(self.sizes.objects):
                    ranges.append((entry.number, entry.value))
            for number, value in ranges:
                yield from thread.store(self.object_at(number), value)
            yield from self.flush(thread, ranges)
            done = LogPosition.unpack(LogPosition.pack(msync=mark.msync, entries=done.entries + mark.entries))
            yield from self.persist(thread, "applied", LogPosition.pack(msync=done.msync, entries=done.entries))
            yield from self.scheme.send_on(thread, self, ranges)
        self.msyncs, self.tail = done.msync, done.entries

    def drop_marks(self, thread: Thread) -> Code:
        """Marks that have outlasted one before them are those of no msync: later ones have their numbers."""
        marks = yield from thread.load(self.places["marks"], LINE_BYTES * self.slots)
        for slot in range(self.slots):
            mark = LogPosition.unpack(marks[LINE_BYTES * slot :][:WORD])
            if mark.msync > self.msyncs:
                yield from thread.store(self.mark_at(slot), bytes(WORD))
                yield from thread.clwb(self.mark_at(slot), WORD)
        yield from thread.sfence()

    def persist(self, thread: Thread, what: str, word: bytes) -> Code:
        """Store one of the words that say how things are, and flush it."""
        yield from thread.store(self.places[what], word)
        yield from thread.flush(self.places[what], len(word))

    # failures ---------------------------------------------------------------------------------------------------------
    def go_on_alone(self, thread: Thread) -> Code:
        """The mirror is gone: what is visible here and was durable there alone is flushed, all of it."""
        if self.link is None:
            return
        self.link = None
        self.late.clear()
        yield from thread.wbinvd()
        yield from self.is_alone(thread)
        yield from thread.notify(self.settled)

    def is_alone(self, thread: Thread) -> Code:
        """Say in persistent memory that this image counts, whatever the other machine has."""
        said = Standing.unpack((yield from thread.load(self.places["standing"], WORD)))
        self.epoch, self.in_step = max(said.epoch, self.epoch) + 1, True
        yield from self.persist(thread, "standing", Standing.pack(epoch=self.epoch, stance=Stance.ALONE))
        self.stance = Stance.ALONE

    @override
    def recover(self, thread: Thread) -> Code:
        self.recovered, self.in_step = True, False
        said = Standing.unpack((yield from thread.load(self.places["standing"], WORD)))
        self.epoch, self.stance = said.epoch, Stance(said.stance)
        if self.scheme.mode_is("unreplicated"):
            return  # its image is all there is
        self.serve_primitive()  # over that it gets the other machine's image
        if self.stance is Stance.MIRROR:
            yield from self.apply(thread)
            yield from self.drop_marks(thread)
        while True:
            try:
                yield from self.come_back(thread)
            except (PrimitiveFailed, VerbsError) as error:  # it has failed again
                if not error.disconnected:
                    raise
            else:
                break
        self.joining.listen()

    def come_back(self, thread: Thread) -> Code:
        """Join the other machine where that stands, or find out with it whose image counts; of two that fail together
        one waits for the other's call.
        """
        there, both = self.other, self.other in self.scheme.failed(self.other_role)
        calls = not both or self.scheme.decides(self)
        while calls and not self.is_left and not there.joining.listening:
            yield from there.joining.until_listening(thread)
        if self.is_left:
            yield from self.is_alone(thread)
            self.serve_clients(None)
        elif calls:
            joining = there.joining.accept(thread, self.node, LINE_BYTES, PATIENCE)
            if both or not (yield from joining.call(Join, unused=0)):
                yield from self.agree(thread)
            else:
                self.stance, self.in_step = Stance.MIRROR, True

    def watch(self, thread: Thread) -> Code:
        """When the heartbeats of the other machine stay away, a mirror takes over and a primary goes on alone."""
        while True:
            gone = Signal(self.system.clock)
            if not self.other.node.off:
                self.other.node.watched_by.append(gone)
                yield from thread.wait(gone)
            yield from thread.sleep_until(thread.deadline(str(self.scheme.option("heartbeat"))))
            if self.in_step and self.stance is not Stance.MIRROR:
                yield from self.go_on_alone(thread)
            elif self.in_step or self.is_left:
                yield from self.service.fence()
                yield from self.apply(thread)
                yield from self.is_alone(thread)
                self.serve_clients(None)
            if self.is_left:
                return
            yield from self.wait_for_other(thread)

    def wait_for_other(self, thread: Thread) -> Code:
        """Until the other machine, which is gone, has joined, or is lost before it has."""
        watched_by = self.other.node.watched_by
        watched_by.append(self.joins)
        yield from thread.wait(self.joins)
        if self.joins in watched_by:
            watched_by.remove(self.joins)
        if self.other.node.off and not self.is_left:  # it has failed once more
            yield from self.wait_for_other(thread)

    def agree(self, thread: Thread) -> Code:
        """Both were without power: find out whose image counts, have the other hold the same, and go on as primary."""
        there = self.other
        connection = there.joining.accept(thread, self.node, self.value_bytes, PATIENCE)
        said = Standing.unpack((yield from connection.read(there.places["standing"], there.key, WORD)))
        mine, other = (self.epoch, self.stance), (said.epoch, Stance(said.stance))
        counts = max(mine, other, key=lambda one: (one[0], one[1] is Stance.ALONE, one[1] is Stance.MIRROR))
        if counts == other and mine != other:
            yield from self.copy_from(thread, connection)
        self.epoch = max(mine[0], other[0])
        self.link = there.service.connect(thread, self.node, patience=PATIENCE)
        yield from self.make_mirror(thread, self.link)
        yield from there.joining.accept(thread, self.node, LINE_BYTES, PATIENCE).call(Agreed, epoch=self.epoch)
        self.in_step = True
        self.listener.listen()

    def copy_from(self, thread: Thread, connection: Connection) -> Code:
        """Have this image hold what the other one has, and keep up with its log."""
        there = self.other
        for number in range(len(self.sizes.objects)):
            value = yield from connection.read(there.object_at(number), there.key, self.sizes.value_bytes)
            yield from thread.store(self.object_at(number), value)
            yield from self.flush(thread, [(number, value)])
        applied = LogPosition.unpack((yield from connection.read(there.places["applied"], there.key, WORD)))
        self.msyncs, self.tail = applied.msync, applied.entries

    def make_mirror(self, thread: Thread, link: PrimitiveRequester) -> Code:
        """Have the other machine hold this image, and be the mirror; this one is the primary then."""
        there = self.other
        for number in range(len(self.sizes.objects)):
            value = yield from thread.load(self.object_at(number), self.sizes.value_bytes)
            yield from link.persist([(there.object_at(number), value)])
        position = LogPosition.pack(msync=self.msyncs, entries=self.tail)
        yield from link.persist([(there.places["applied"], position)])
        self.room_until = self.tail + self.slots
        yield from link.persist([(there.places["standing"], Standing.pack(epoch=self.epoch, stance=Stance.MIRROR))])
        self.stance = Stance.PRIMARY
        yield from self.persist(thread, "standing", Standing.pack(epoch=self.epoch, stance=self.stance))

    def on_join(self, thread: Thread, request: Join) -> Code:
        """Copy the image to the machine that asks, while no msync changes it; msyncs go there from now on."""
        yield from thread.notify(self.joins)
        if not self.in_step:
            return b""
        while self.stance is not Stance.ALONE:  # its heartbeats have not stayed away for long enough
            yield from thread.sleep_until(thread.deadline(str(self.scheme.option("heartbeat"))))
            if self.stance is Stance.PRIMARY:  # it was back before anybody missed one: the link is to what it was
                yield from self.go_on_alone(thread)
        link = self.other.service.connect(thread, self.node, patience=PATIENCE)
        self.copying, reply = True, b"mirror"
        while self.storing:
            yield from thread.wait(self.stored)
        try:
            yield from self.make_mirror(thread, link)
            self.link = link
        except PrimitiveFailed as error:
            if not error.disconnected:
                raise
            reply = b"gone"  # it has failed again, and asks again
        self.copying = False
        yield from thread.notify(self.settled)
        return reply

    def on_agreed(self, thread: Thread, request: Agreed) -> Code:
        """Follow the other machine, which has found out whose image counts."""
        self.epoch, self.stance, self.in_step = request.epoch, Stance.MIRROR, True
        yield from thread.notify(self.joins)
        return b"mirror"

    @property
    def role_name(self) -> str:
        """The name of its role."""
        return self.other.other_role
