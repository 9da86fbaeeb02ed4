"""The pages that nodes share, who has which of them, and the processes that call nodes for transactions on them."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import System
from ...sim.bytespace import LINE_BYTES
from ..failures import LOST, Failing
from ..guarantees import ALWAYS, Claims, Condition
from ..naming import Option
from ..parts.lossy import LossyConnection
from ..parts.onesided import VerbsError
from ..scheme import Limits, OperationFailed, OutcomeUnknown, Request, Role, Scheme, Sizes
from .messages import REPEATED
from .records import MOST_AREAS, Outcome, PageLost, Room, TransactionCall, packed_areas

Code = Generator[Any, Any, Any]


class HotpotSession:
    """A process's way to the node that it runs on."""

    def __init__(self, thread: Thread, number: int) -> None:
        self.thread = thread
        self.node = number
        self.connection: LossyConnection | None = None


class SharedPages(Scheme):
    """What Hotpot and its published code have in common: the pages, and clients; subclasses have the nodes."""

    paper = "Shan, Tsai, Zhang, SoCC'17 (Hotpot)"
    section = "a third party's summary; public code WukLab/Hotpot, hotpot/xact.c"
    model = "txn"
    operations = ("txn",)
    updates = frozenset({"txn"})
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: ALWAYS, Condition.NO_LOST_ACK: ALWAYS, Condition.LINEARIZABLE: ALWAYS,
    }  # fmt: skip
    faults: ClassVar = {
        "node": ("power", "process", "lost"), "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    options: ClassVar[dict[str, Option]] = {
        "nodes": Option(3, at_least=1, at_most=8, source="assumption: the fewest of which one has two remote owners",
                        text="how many nodes there are"),
        "copies": Option(1, at_least=0, at_most=7, source="assumption: the fewest of which an owner may be lost",
                         text="how many copies there are of a page beside its owner's"),
        "page": Option("4 KiB", quantity="size", at_least=64, small="128 B",
                       source="public code: the pages are those of the kernel", text="the size of a page"),
        "reads": Option("locked", choices=("locked", "copies"),
                        source="assumption: the claim of serialized transactions; copies: public code, on.c:454",
                        text="whether pages that are read are locked as well"),
    }  # fmt: skip
    limits = Limits(value_bytes=4096, source="assumption: an object is in one page")
    redo_in: ClassVar[str]
    """The memory of the receive buffers, which hold the redo data."""

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.room = Room(sizes, max(int(self.option("page")), sizes.value_bytes))
        self.nodes = int(self.option("nodes"))
        self.rows = -(-len(sizes.objects) // self.nodes)
        self.numbers = {name: number for number, name in enumerate(sizes.objects)}
        self.connected = 0
        super().__init__(system, sizes)

    # who has a page ---------------------------------------------------------------------------------------------------
    def holders(self, home: int) -> list[int]:
        """The owner of a home's pages and the holders of their copies, lost ones included."""
        return [(home + turn) % self.nodes for turn in range(min(self.nodes, 1 + int(self.option("copies"))))]

    def is_lost(self, node: int) -> bool:
        """Whether a node is gone for good."""
        return Failing("node", node, LOST) in self.failures

    def chain(self, home: int) -> list[int]:
        """Those of them that are left."""
        return [node for node in self.holders(home) if not self.is_lost(node)]

    def owner(self, home: int) -> int:
        """Who owns a home's pages now. Raises PageLost."""
        left = self.chain(home)
        if not left:
            raise PageLost(f"all copies of the pages of node[{home}] are lost")
        return left[0]

    class Client(Role, invokes=True):
        """Applications' processes; each runs on a node, in turn, and calls it."""

        scheme: SharedPages

        @override
        def connect(self, thread: Thread) -> HotpotSession:
            session = HotpotSession(thread, self.scheme.connected % self.scheme.nodes)
            self.scheme.connected += 1
            return session

        @override
        def perform(self, session: HotpotSession, request: Request) -> Code:
            """A transaction that only reads is repeated on a node that is left; of another nobody knows then."""
            written = {step.object: step.value for step in request.steps if step.f == "w"}
            read = list(dict.fromkeys(step.object for step in request.steps if step.f == "r"))
            if (
                len(written) + len(read) > MOST_AREAS
                or None in written.values()
                or any(step.f not in ("r", "w") for step in request.steps)
            ):
                raise OperationFailed(f"only reads and writes of at most {MOST_AREAS} objects")
            numbers = [self.scheme.numbers[name] for name in (*written, *read)]
            values = [value.ljust(self.sizes.value_bytes, b"\0") for value in written.values() if value is not None]
            rest = packed_areas(numbers) + b"".join(values)
            while True:
                try:
                    connection = yield from self.connection(session)
                    reply = yield from connection.call(TransactionCall, written=len(written), read=len(read), rest=rest)
                    break
                except VerbsError as error:
                    if not error.disconnected:
                        raise
                    session.connection = None
                    if written:
                        raise OutcomeUnknown(str(error)) from error
            outcome = Outcome.unpack(reply)
            if not outcome.known:
                raise (OutcomeUnknown if written else OperationFailed)("a page has no owner any more")
            size = self.sizes.value_bytes
            found = {name: outcome.rest[turn * size : (turn + 1) * size] for turn, name in enumerate(read)}
            return tuple(found[step.object] if step.f == "r" else None for step in request.steps)

        def connection(self, session: HotpotSession) -> Code:
            """The way to this process's node; once that is lost, to the next one. Raises OperationFailed."""
            scheme = self.scheme
            if all(map(scheme.is_lost, range(scheme.nodes))):
                raise OperationFailed("every node is lost")
            while scheme.is_lost(session.node):
                session.node, session.connection = (session.node + 1) % scheme.nodes, None
            if session.connection is None:
                node = scheme.roles["node"][session.node]
                yield from node.listener.until_listening(session.thread)
                session.connection = node.applications.accept(session.thread, self.node, REPEATED)
            return session.connection

    # before time zero -------------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, each = self.sizes.objects, self.room.page_bytes

        def line_of(home: int, start: int, owned: bool, line: int) -> bytes:
            row, offset = divmod(line * LINE_BYTES - start, each)
            number = row * self.nodes + home
            if number >= len(names):
                return bytes(LINE_BYTES)
            value = self.loaded(objects[names[number]], owned)
            return value[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for node in self.roles["node"]:
            for home, address in node.regions.items():
                start = address - node.pm.base
                length = self.rows * each
                node.pm.space.compute(start, length, partial(line_of, home, start, home == node.number))

    def loaded(self, value: bytes, owned: bool) -> bytes:
        """What a page holds before time zero at its owner, and in copies."""
        return value

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.reading(object)
