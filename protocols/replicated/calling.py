"""Clients that call the one machine which answers for a system: a primary, or the head of a chain."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ..layout import U32, Layout, Rest
from ..parts.onesided import VerbsError
from ..parts.rpc import PATIENCE, Connection
from ..scheme import OperationFailed, OutcomeUnknown, Request, Role

Code = Generator[Any, Any, Any]


NO_ROOM = b"no room"
"""The reply to a put for which the log has no room."""


class ObjectPut(Layout):
    """Write an object; the reply is empty where no machine is left that could hold it, and may be :data:`NO_ROOM`."""

    number = U32()
    value = Rest()


class ObjectGet(Layout):
    """Read an object: the reply, which is empty where no machine is left that has it."""

    number = U32()


class CallingClient(Role, invokes=True):
    """A machine whose processes call the first machine of a role, and its successor when that has failed."""

    answering: ClassVar[str]
    """The role: its machines have a ``listener`` for both messages."""

    @override
    def connect(self, thread: Thread) -> list[Connection]:
        return [self.connection(thread)]

    def connection(self, thread: Thread) -> Connection:
        """A connection to the process that answers now."""
        connection: Connection = self.listener.accept(thread, self.node, 64, PATIENCE)
        return connection

    @property
    def listener(self) -> Any:
        """The listener of that process."""
        return self.scheme.roles[self.answering][0].listener

    @override
    def perform(self, session: list[Connection], request: Request) -> Code:
        """Of a put that was cut short nobody knows; a get is repeated with who begins again."""
        value, number = request.step.value, self.sizes.objects.index(request.step.object)
        while True:
            try:
                if value is None:
                    found = yield from session[0].call(ObjectGet, number=number)
                    if not found:
                        raise OperationFailed("no machine is left that has the object")
                    return found
                reply = yield from session[0].call(ObjectPut, number=number, value=value)
                if not reply:
                    raise OutcomeUnknown("no machine is left that could hold the object")
                if reply == NO_ROOM:
                    raise OperationFailed("the log has no room for it")
                return None
            except VerbsError as error:
                if not error.disconnected:
                    raise
                thread = session[0].thread
                yield from self.listener.until_listening(thread)
                session[0] = self.connection(thread)
                if value is not None:
                    raise OutcomeUnknown(str(error)) from error
