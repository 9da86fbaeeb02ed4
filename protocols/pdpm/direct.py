"""pDPM-Direct: clients read and write data nodes by themselves, and lock an entry for writing by CAS.

Source: Tsai et al., ATC'20, section 4.1, figure 2a. A key has two spaces for ever, for what is committed and for what
is being written. A get is one READ of value and checksum; where these do not match a write is under way, and it reads
again. A put takes the lock, writes the uncommitted space (the redo copy), then the committed one, and unlocks: four
round trips, as many with several copies, which are written at once.

What the paper leaves open is read so (it omits replication, recovery and creation). Placement is fixed: key n is on
data node n modulo their number, further copies on the nodes behind; the lock that counts is that of the first copy
whose node is not lost. The checksum stands before the value, in the line of the lock. Recovery comes after the power
failure of a data node, or of all machines: one client, on which the others agree, and another one if that loses power
meanwhile (all know it, as of a node that is lost), looks at each entry that has a copy on a node that failed, writes an
uncommitted copy that is whole over a committed one that is not, that differs, or whose lock is set, and unlocks; until
then no other client connects to the node. Recovery waits for a node that fails while another one is recovered, and
leaves out one that is lost. Where the lock is on a node that stands, with clients at work there, recovery takes it
first, as a put does; so a put that a failed node cuts short gives it back. An entry of which nothing is whole says so
from then on, and a get of it fails, where it would read again for ever. A client's lock on a node that stands is never
released for it: 0 and 1 name no owner. If it has died, puts of that entry wait for ever, and so does recovery of a node
that has another copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...sim.bytespace import LINE_BYTES, round_up
from ..guarantees import ALWAYS, Claims, Condition
from ..layout import U32, U64, Block, Layout, Rest
from ..naming import Option
from ..parts.locks import Locks
from ..parts.onesided import VerbsError
from ..parts.rpc import Listener
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role, Sizes
from .data import DURABLE, REPLICAS, WORD, Code, DataNode, DataPlace, DataRegion, Links, OverData


class EntrySpace(Layout):
    """One of the two spaces of an entry; only the committed one has a lock that means anything."""

    lock = U64()
    """0: free; 1: some client writes the entry."""
    crc = U32()
    lost = U32()
    """1: recovery has found nothing whole, and the value is none."""
    unused = Block(48)
    value = Rest()


HEAD = EntrySpace.size
LOCKED, FREE = 1, 0
RECOVERY = "recovery"
"""The name of the lock among recoveries."""


def packed(value: bytes, lost: int = 0) -> bytes:
    """A space from behind its lock on, as a put writes it."""
    return EntrySpace.pack(lock=FREE, crc=zlib.crc32(value), lost=lost, unused=bytes(48), value=value)[WORD:]


def crc_of(head: bytes) -> int:
    """The checksum that a space's first line says."""
    return int(EntrySpace.unpack(head).crc)


class Direct(OverData, name="pdpm-direct"):
    """A get is one round trip, a put four."""

    title = "pDPM-Direct: clients lock, write a redo copy, write in place; reads compare a checksum"
    section = "section 4.1, figure 2a"
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: ALWAYS,
        Condition.NO_LOST_ACK: "data power; all power; client power; client process",
    }
    faults: ClassVar = {"data": ("power", "lost"), "client": ("power", "process"), "all": ("power",)}
    recovers_data = True
    options: ClassVar[dict[str, Option]] = {
        "durable": DURABLE,
        "replicas": REPLICAS,
        "reads": Option(
            "checksum", choices=("checksum", "lock"),
            source="section 4.1: the strawman locks for reads as well",
            text="how a get sees no half-written value: by the checksum, or by taking the lock",
        ),
    }  # fmt: skip
    Data = DataNode

    @override
    @classmethod
    def data_regions(cls, sizes: Sizes, nodes: int) -> Sequence[DataRegion]:
        copies = int(cls.option("replicas"))
        return [DataRegion("entries", cls.bytes_of_entry(sizes), copies * -(-len(sizes.objects) // nodes))]

    @staticmethod
    def bytes_of_space(sizes: Sizes) -> int:
        """A space, in whole lines."""
        return HEAD + round_up(sizes.value_bytes)

    @classmethod
    def bytes_of_entry(cls, sizes: Sizes) -> int:
        """The committed space, and the uncommitted one behind it."""
        return 2 * cls.bytes_of_space(sizes)

    def copies(self, number: int) -> list[DataPlace]:
        """Where the copies of a key's entry are, by its number."""
        nodes = self.roles["data"]
        row, each = -(-len(self.sizes.objects) // len(nodes)), self.bytes_of_entry(self.sizes)
        return [
            DataPlace(node, nodes[node].base + (copy * row + number // len(nodes)) * each)
            for copy in range(int(self.option("replicas")))
            for node in [(number + copy) % len(nodes)]
        ]

    class Client(Role, invokes=True):
        """A machine whose processes know where every entry is."""

        scheme: Direct

        @override
        def begin(self) -> None:
            self.recovery_links: dict[Thread, Links] = {}
            """By thread: a node that fails while another one is recovered has a recovery of its own."""
            self.mending = Locks(self.system.clock, threads=2)
            """For an entry, and for opening nodes: of two recoveries one at a time."""

        @override
        def connect(self, thread: Thread) -> Links:
            return self.links(thread, recovers=False)

        def links(self, thread: Thread, *, recovers: bool) -> Links:
            """A thread's queue pairs, for a client's operations or for a recovery."""
            slots, most_bytes = 2 * (1 + int(self.scheme.option("replicas"))), self.scheme.bytes_of_space(self.sizes)
            return Links(thread, self.node, self.scheme, most_bytes, slots, recovers=recovers)

        @override
        def perform(self, session: Links, request: Request) -> Code:
            """A get is repeated when the data node is there again; of a put nobody knows then."""
            step = request.step
            number = self.sizes.objects.index(step.object)
            while True:
                try:
                    if step.value is None:
                        return (yield from self.get(session, number))
                    return (yield from self.put(session, number, step.value))
                except VerbsError as error:
                    if not error.disconnected:
                        raise
                    yield from session.restore()
                    if step.value is not None and not session.is_lost(self.standing(session, number)[0].node):
                        raise OutcomeUnknown(str(error)) from error

        def standing(self, links: Links, number: int) -> list[DataPlace]:
            """The copies of an entry whose nodes are not lost. Raises OutcomeUnknown where none is left."""
            left = [place for place in self.scheme.copies(number) if not links.is_lost(place.node)]
            if not left:
                raise OutcomeUnknown("the nodes of all its copies are lost")
            return left

        # operations -------------------------------------------------------------------------------------------------
        def get(self, links: Links, number: int) -> Code:
            """READ value and checksum until they match."""
            place = self.standing(links, number)[0]
            if self.scheme.option("reads") == "lock":
                yield from self.take(links, place)
                found = EntrySpace.unpack((yield from links.read_now(place, HEAD + self.sizes.value_bytes)))
                yield from links.write_all([(place, bytes(WORD))])
            else:
                while (found := (yield from self.read_space(links, place))) is None:
                    links.thread.count("retries")
            if found.lost:
                raise OperationFailed("nothing of the entry was whole after a power failure")
            return found.value

        def put(self, links: Links, number: int, value: bytes) -> Code:
            """Lock, write the redo copy, write in place, unlock."""
            yield from links.thread.crc32_of(value)
            while True:
                copies = self.standing(links, number)
                lock = copies[0]
                yield from self.take(links, lock)
                try:
                    yield from self.write_entry(links, copies, value)
                except VerbsError:  # recovery of the node that failed may need the lock; fails if it is that node's
                    yield from links.write_all([(lock, bytes(WORD))])
                    raise
                if not links.is_lost(lock.node):
                    break  # else another client may have found the lock of the next copy free
            yield from links.write_all([(lock, bytes(WORD))])

        def take(self, links: Links, lock: DataPlace) -> Code:
            """Take a lock: CAS until it was free."""
            while (yield from links.compare_and_swap(lock, FREE, LOCKED)) != FREE:
                links.thread.count("retries")

        def write_entry(self, links: Links, copies: Iterable[DataPlace], value: bytes) -> Code:
            """The redo copies, then the committed ones, which readers see."""
            data, behind = packed(value), self.scheme.bytes_of_space(self.sizes)
            yield from links.write_all([(place.at(behind + WORD), data) for place in copies])
            yield from links.write_all([(place.at(WORD), data) for place in copies])

        def read_space(self, links: Links, place: DataPlace) -> Code:
            """READ a space; returns it, or None if its value has another checksum."""
            length = HEAD + self.sizes.value_bytes
            data = yield from links.read_checked(place, length, HEAD, crc_of)
            return None if data is None else EntrySpace.unpack(data)

        # after a power failure: entry by entry ------------------------------------------------------------------------
        @override
        def recovery_units(self) -> Iterable[Hashable]:
            return filter(self.scheme.has_failed, range(len(self.sizes.objects)))

        @override
        def units_of(self, object: Hashable) -> Iterable[Hashable]:
            return filter(self.scheme.has_failed, (self.sizes.objects.index(object),))

        @override
        def recover_unit(self, thread: Thread, unit: Any) -> Code:
            """Recover an entry, once more where a node fails meanwhile; returns it, with the nodes it is recovered on,
            each as the memory behind its listener of now.
            """
            if thread not in self.recovery_links:
                self.recovery_links[thread] = self.links(thread, recovers=True)
            links = self.recovery_links[thread]
            recovering = partial(self.recover_entry, links, unit)
            return (yield from links.repeated(lambda: self.mending.under(thread, RECOVERY, recovering())))

        def recover_entry(self, links: Links, unit: int) -> Code:
            """Recover an entry, unless another recovery has opened its nodes; a lock that is taken is given back."""
            failed = self.scheme.unrecovered()
            copies = self.standing(links, unit)
            here = {place.node: self.scheme.roles["data"][place.node].listener for place in copies}
            if failed.isdisjoint(here):
                return unit, here
            lock = copies[0]
            if lock.node in failed:
                yield from self.mend(links, copies, failed)
            else:
                yield from self.take_from_others(links, lock)
                try:
                    yield from self.mend(links, copies, failed)
                except VerbsError:  # whoever recovers the node that failed needs it; fails if it is that node's
                    yield from links.write_all([(lock, bytes(WORD))])
                    raise
            return unit, here

        def mend(self, links: Links, copies: Sequence[DataPlace], failed: set[int]) -> Code:
            """Have all copies of an entry be whole and the same, and free its lock."""
            lock, behind = copies[0], self.scheme.bytes_of_space(self.sizes)
            committed, free = [], lock.node not in failed
            by_trust = sorted(copies, key=lambda place: place.node in failed)  # a node that stands has lost nothing
            for place in by_trust:
                committed.append((yield from self.read_space(links, place)))
                free |= place == lock and committed[-1] is not None and committed[-1].lock == FREE
            whole = [space for space in committed if space is not None]
            said = {(space.value, space.lost) for space in whole}
            if len(whole) < len(copies) or len(said) > 1 or not free:
                redo = None
                for place in by_trust:
                    redo = redo or (yield from self.read_space(links, place.at(behind)))
                found = redo if redo is not None else whole[0] if whole else None
                data = packed(bytes(self.sizes.value_bytes), 1) if found is None else packed(found.value, found.lost)
                yield from links.write_all([(place.at(WORD), data) for place in copies])
            elif lock.node in failed:
                return
            yield from links.write_all([(place, bytes(WORD)) for place in copies])

        def take_from_others(self, links: Links, lock: DataPlace) -> Code:
            """Take a lock that a put may hold until it knows that the node failed: look ever more seldom."""
            since = links.thread.deadline("0 ns")
            while (yield from links.compare_and_swap(lock, FREE, LOCKED)) != FREE:
                yield from links.thread.sleep_again(since)

        @override
        def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
            """Others may connect to the nodes of which all entries are recovered: not to one back since."""
            yield from self.mending.under(thread, RECOVERY, self.open(dict(results)))

        def open(self, recovered: Mapping[int, Mapping[int, Listener]]) -> Code:
            """Open the nodes that had failed, as far as these entries were recovered there."""
            yield from ()
            for number in self.scheme.unrecovered():
                listener = self.scheme.roles["data"][number].listener
                if all(recovered.get(unit, {}).get(number) is listener for unit in self.scheme.entries_on(number)):
                    listener.listen()

    def unrecovered(self) -> set[int]:
        """The numbers of the data nodes that have failed, come back, and accept no clients yet."""
        failed, lost = self.failed("data"), self.lost("data")
        here = [data for data in self.roles["data"] if data in failed or not data.listener.listening]
        return {data.number for data in here if data not in lost}

    def entries_on(self, node: int) -> Iterator[int]:
        """The numbers of the keys of which a node has a copy."""
        return (n for n in range(len(self.sizes.objects)) if any(place.node == node for place in self.copies(n)))

    def has_failed(self, number: int) -> bool:
        """Whether a copy of a key's entry, by the key's number, is on one of those."""
        failed = self.unrecovered()
        return any(place.node in failed for place in self.copies(number))

    @override
    def recovery(self) -> Iterator[Role]:
        """A client whose machine stands, or has come back, recovers for all."""
        if self.unrecovered():
            yield (self.standing("client") or self.roles["client"])[0]

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, nodes = self.sizes.objects, self.roles["data"]
        row, each = -(-len(names) // len(nodes)), self.bytes_of_entry(self.sizes)

        def line_of(data: DataNode, line: int) -> bytes:
            turn, offset = divmod(line * LINE_BYTES - (data.base - data.pm.base), each)
            copy, turn = divmod(turn, row)
            number = turn * len(nodes) + (data.number - copy) % len(nodes)
            if number >= len(objects):
                return bytes(LINE_BYTES)
            space = bytes(WORD) + packed(objects[names[number]])
            offset %= each // 2
            return space[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for data in nodes:
            data.pm.space.compute(data.base - data.pm.base, data.length, partial(line_of, data))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
