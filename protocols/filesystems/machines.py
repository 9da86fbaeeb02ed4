"""Remote file systems on persistent memory, in which an object is a file: Octopus, Orion, and NVFS (HDFS's pipeline).

Their data travel over a flush primitive. Where the responder's CPU ends that by a reply, as it does for
``send-cpu-copy``, Orion and NVFS have it tell somebody else first, or instead: :class:`ToldService`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.memory.devices import MemoryDevice
from ...models.persist.requester import PrimitiveFailed, PrimitiveRequester, Ticket
from ...models.persist.service import Service, ServiceEnd
from ...models.primitives.language import Primitive, Step
from ...models.primitives.messages import TRAILER_BYTES
from ...models.primitives.order import Range
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES, round_up
from ...sim.errors import InputError, Mistake
from ..layout import Layout
from ..parts.onesided import VerbsError
from ..parts.rpc import PATIENCE, Connection
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role, Scheme

Code = Generator[Any, Any, Any]

PAGE_BYTES = 4096
SLOTS = 16
"""Receive buffers of a queue pair for updates that come as messages."""


class MachineLost(Exception):
    """A machine that is needed is gone for good."""


FAILURES = (VerbsError, PrimitiveFailed)
"""What shows that a machine may be gone."""


def check_refusal(error: Exception) -> None:
    """Raise an error again by which an adapter has refused a request: that is no failure of a machine."""
    if isinstance(error, FAILURES) and not error.disconnected:
        raise error


class FileClient(Role, invokes=True):
    """A machine whose processes write and read files; a scheme says how, and what a session restores."""

    def write(self, session: Any, number: int, value: bytes) -> Code:
        """Write a file, by its number."""
        raise NotImplementedError

    def read(self, session: Any, number: int) -> Code:
        """Read a file; returns what is in it."""
        raise NotImplementedError

    @override
    def perform(self, session: Any, request: Request) -> Code:
        """A read is repeated when the machine that failed is there again; of a write nobody knows then."""
        step = request.step
        number = self.sizes.objects.index(step.object)
        while True:
            try:
                if step.value is None:
                    return (yield from self.read(session, number))
                return (yield from self.write(session, number, step.value))
            except MachineLost as error:
                raise (OperationFailed if step.value is None else OutcomeUnknown)(str(error)) from error
            except FAILURES as error:
                check_refusal(error)
                yield from session.restore()
                if step.value is not None:
                    raise OutcomeUnknown(str(error)) from error


class MachineLink:
    """A thread's way to one machine, which may break, and is made anew when the machine is there again.

    The machine has a ``listener``, says in ``read_bytes`` what is read of it at once at most, and for a
    :class:`DataLink` has a ``service``.
    """

    role: ClassVar[str]
    """The role that the machine plays."""

    def __init__(self, thread: Thread, node: Node, machine: Any) -> None:
        self.thread = thread
        self.node = node
        self.machine = machine
        self.failed = False
        """Whether something on it has failed."""
        self.connect()

    def connect(self) -> None:
        """New queue pairs; the ones before are dead."""
        self.connection: Connection = self.machine.listener.accept(
            self.thread, self.node, self.machine.read_bytes, PATIENCE
        )

    @property
    def lost(self) -> bool:
        """Whether the machine is gone for good."""
        return self.machine in self.machine.scheme.lost(self.role)

    @property
    def broken(self) -> bool:
        """Whether a queue pair is in the error state, as far as this thread knows."""
        return self.failed

    def trying(self, code: Code) -> Code:
        """Run code that uses the queue pairs. Raises :class:`MachineLost` instead of what fails on a lost machine."""
        if self.lost:
            raise MachineLost(f"{self.machine.node.name} is lost")
        try:
            return (yield from code)
        except FAILURES as error:
            self.failed = True
            if self.lost:
                raise MachineLost(f"{self.machine.node.name} is lost") from error
            raise

    def call(self, kind: type[Layout], **fields: Any) -> Code:
        """Call the machine; returns its reply."""
        return self.trying(self.connection.call(kind, **fields))

    def read(self, address: int, key: int, length: int) -> Code:
        """READ a range of its memory; returns the bytes."""
        return self.trying(self.connection.read(address, key, length))

    def restore(self) -> Code:
        """If it is broken, wait until the machine is there again, and connect; nothing for one that is lost, or is
        meanwhile.
        """
        if self.broken:
            while not self.lost and not self.machine.listener.listening:
                yield from self.machine.listener.until_listening(self.thread)
            if not self.lost:
                yield from self.replace()
                self.connect()
                self.failed = False

    def replace(self) -> Code:
        """What the machine does with the queue pairs before when it accepts others; the cost of this is left out."""
        yield from ()


class DataLink(MachineLink):
    """A link by which data go over the scheme's primitive, too."""

    @override
    def connect(self) -> None:
        super().connect()
        self.requester: PrimitiveRequester = self.machine.service.connect(self.thread, self.node, patience=PATIENCE)

    @property
    @override
    def broken(self) -> bool:
        return self.failed or self.requester.qp.error

    def write(self, address: int, data: bytes) -> Code:
        """Write data; returns at the primitive's end."""
        return self.trying(self.requester.persist([(address, data)]))

    def deliver(self, address: int, data: bytes) -> Code:
        """Write data, and again as long as the machine fails and comes back; nothing where it is lost."""
        with suppress(MachineLost):
            while True:
                try:
                    yield from self.restore()
                    yield from self.write(address, data)
                    return
                except FAILURES as error:
                    check_refusal(error)

    def wait(self, ticket: Ticket) -> Code:
        """Until the primitive has ended for what was posted."""
        return self.trying(self.requester.wait(ticket))


class ToldService(Service):
    """A primitive at a machine whose code is told of the updates that its CPU has been through the steps with."""

    def __init__(
        self, primitive: Primitive, node: Node, most_bytes: int, told: Callable[[Thread, ServiceEnd, Range], Code]
    ) -> None:
        """``told`` takes the place of the reply; ``most_bytes`` are those of the largest update."""
        super().__init__(primitive, node, slots=SLOTS, slot_bytes=slot_bytes(most_bytes))
        self._told = told
        self._update: Range = (0, 0)

    @override
    def _chain(
        self,
        thread: Thread,
        steps: tuple[Step, ...],
        end: ServiceEnd,
        targets: list[Range],
        flag: tuple[int, bytes] | None,
        payload: Range | None = None,
    ) -> Code:
        self._update = targets[0]
        yield from super()._chain(thread, steps, end, targets, flag, payload)

    @override
    def reply(self, thread: Thread, end: ServiceEnd, step: Step) -> Code:
        if step.id == self.primitive.complete:
            yield from self._told(thread, end, self._update)
        else:
            yield from super().reply(thread, end, step)

    def answer(self, thread: Thread, end: ServiceEnd) -> Code:
        """The reply after all."""
        yield from super().reply(thread, end, self.primitive.step(self.primitive.complete))


def fill(memory: MemoryDevice, address: int, item_bytes: int, count: int, item: Callable[[int], bytes]) -> None:
    """Before time zero, have so many items lie from an address on, each in whole lines, as ``item`` says by number."""
    start = address - memory.base

    def line_of(line: int) -> bytes:
        number, offset = divmod(line * LINE_BYTES - start, item_bytes)
        return item(number)[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

    memory.space.compute(start, item_bytes * count, line_of)


def replies(primitive: Primitive) -> bool:
    """Whether the responder's CPU does the primitive's steps and ends it by a reply."""
    return any(step.do == "reply" for step in primitive.steps)


def slot_bytes(update_bytes: int) -> int:
    """Room for an update, and what says where it belongs, in a receive buffer."""
    return round_up(update_bytes + TRAILER_BYTES)


def check_place(kind: type[Scheme]) -> None:
    """InputError for a scheme over a primitive that leaves an update in its receive buffer: a file has its place."""
    primitive = kind.primitive
    if primitive.follows[0] == "SEND" and not any(step.do == "copy" for step in primitive.steps):
        expected = "a primitive that copies what comes by SEND: a file's data have their place"
        raise InputError(Mistake(f"'{primitive.name}' in '{kind.name}'", expected, field="scheme"))
