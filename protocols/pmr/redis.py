"""Redis over TCP with an append-only file: the systems that the PMR paper compares with (section V-D).

One thread serves all clients. A round of its loop reads what has come on its sockets and executes it; before it sleeps
it writes the commands of the round to the file and then sends all replies, those of GETs too. With ``appendfsync
always`` (``redis-strong``) it syncs the file in between. With ``everysec`` another thread syncs it, a second after the
last sync began; as long as that thread is busy the loop puts off its writes, for two seconds at most, and still
replies (redis.io, "Redis persistence"; redis 7.2, src/aof.c, flushAppendOnlyFile; src/server.c, beforeSleep).

Clients keep their connections alive, as redis-cli does (``redisEnableKeepAlive``): one whose reply never comes since
the server has lost its power learns so once the server is back.

Left out: rewriting of the file, snapshots, replication, expiry. The loop's timer runs only while something waits for
it.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Deadline, Signal, Thread
from ...models.kernel.sockets import ConnectionReset, Epoll, Socket
from ...models.kernel.sockets import connect as connected
from ...models.system import Node
from ..guarantees import ALWAYS, Claims, Condition
from ..parts.listening import Listening
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from .resp import NOTHING, OK, BadFormat, bulk, command, parse, parse_reply
from .store import key_of

Code = Generator[Any, Any, Any]

READ_BYTES = 16 * 1024
"""At most so much is read from a socket in a round (PROTO_IOBUF_LEN)."""
KEEPALIVE = "15 s"
"""A client that has heard nothing for so long sends a probe (REDIS_KEEPALIVE_INTERVAL)."""
SYNC_EVERY = "1 s"
PUT_OFF_AT_MOST = "2 s"
TICK = "100 ms"
"""The loop's timer (``hz 10``)."""
FILE = "appendonly.aof"
SPARE_BYTES = 4096
"""Room of the file behind all that a run can append."""


class RedisSession:
    """A client process's connection."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.socket: Socket | None = None
        """None: it broke."""


class Redis(Scheme):
    """What both modes have in common; see the module."""

    paper = "Luo et al., TCAD 2024 (PMRDirect, PMRAccess)"
    section = "section V-D, figures 10 and 11"
    operations = ("put", "get")
    updates = frozenset({"put"})
    inserts = "put"
    every_second: ClassVar[bool]
    """Whether another thread syncs the file, each second, and replies do not wait."""

    class Client(Role, invokes=True):
        """A client of the C library (hiredis): a command, then its reply."""

        @override
        def connect(self, thread: Thread) -> RedisSession:
            session = RedisSession(thread)
            session.socket = self._open(thread)
            return session

        def _open(self, thread: Thread) -> Socket:
            server = self.scheme.roles["server"][0]
            core = self.node.cores.index(thread.core)
            ours, theirs = connected(self.node, server.node, core, keepalive=KEEPALIVE)
            server.accept(theirs)
            return self.node.process(thread.name).own(ours)

        @override
        def perform(self, session: RedisSession, request: Request) -> Code:
            step = request.step
            key = key_of(step.object)
            words = (b"SET", key, step.value or b"") if step.f == "put" else (b"GET", key)
            reply = yield from self._call(session, command(*words))
            return reply if step.f == "get" else None

        def _call(self, session: RedisSession, data: bytes) -> Code:
            thread = session.thread
            if session.socket is None:
                yield from self.scheme.roles["server"][0].listener.until_listening(thread)
                session.socket = self._open(thread)
            socket, came = session.socket, b""
            try:
                yield from socket.send(thread, data)
                while (reply := parse_reply(came)) is None:
                    came += yield from socket.recv(thread, READ_BYTES)
            except ConnectionReset as error:
                session.socket = None
                raise OutcomeUnknown("the connection was reset") from error
            return reply[0]

    class Server(Role, memory=("dram", "ssd"), software=("redis",), background=1):
        """The server: the loop on its core, the thread that syncs on another."""

        scheme: Redis

        def __init__(self, scheme: Scheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            room = len(self.sizes.objects) + self.sizes.updates
            longest = len(key_of(self.sizes.objects[-1]))  # k0, k1, ...: of these the last
            record = len(command(b"SET", bytes(longest), bytes(self.sizes.value_bytes)))
            self.file = node.kernel.file_system("ssd").create(FILE, room * record + SPARE_BYTES, grows=True)

        @override
        def begin(self) -> None:
            self.values: dict[bytes, bytes] = {}
            self.size_bytes = 0
            """The file's length, with all that this process has written: loading or recovery says it first."""
            self.syncs = 0
            self._epoll = Epoll(self.node.kernel.parameters)
            self._requests: dict[Socket, bytes] = {}
            """By socket, what has come of a command that is not all there."""
            self._replies: dict[Socket, list[bytes]] = {}
            self._unwritten: list[bytes] = []
            """The commands that are to be appended (``aof_buf``)."""
            self._syncing = False
            self._sync_covers = 0
            """The file's length when the last sync began."""
            self._next_sync: Deadline | None = None
            self._put_off_until: Deadline | None = None
            self._job = Signal(self.node.system.clock)
            self.listener = Listening(self.node)
            self._broken = False

        # connections ----------------------------------------------------------------------------------------
        def accept(self, socket: Socket) -> None:
            """The server's end of a new connection."""
            self.node.process(self.node.name).own(socket)
            self._epoll.add(socket)
            self._requests[socket] = b""

        @override
        def start(self) -> None:
            if self._broken:
                return  # it has told its log, and left
            process = self.node.process(self.node.name)
            process.start(self._serve(self.node.thread(0, "redis-server")))
            if self.scheme.every_second:
                process.start(self._sync_in_background(self.background_thread(0, "bio_aof")))
            self.listener.listen()

        # the loop ---------------------------------------------------------------------------------------------
        def _serve(self, thread: Thread) -> Code:
            while True:
                yield from self._flush(thread)
                yield from self._reply(thread)
                waits = self._put_off_until is not None or self._sync_covers != self.size_bytes
                ready = yield from self._epoll.wait(thread, thread.deadline(TICK) if waits else None)
                for socket in ready:
                    yield from self._read(thread, socket)

        def _read(self, thread: Thread, socket: Socket) -> Code:
            """Execute what has come on a socket."""
            try:
                data = self._requests[socket] + (yield from socket.recv(thread, READ_BYTES))
            except ConnectionReset:
                self._epoll.remove(socket)
                del self._requests[socket]
                return
            at = 0
            while (found := parse(data, at)) is not None:
                words, end = found
                yield from thread.software("redis")
                if words[0] == b"SET":
                    self.values[words[1]] = words[2]
                    self._unwritten.append(data[at:end])
                    answer = OK
                else:
                    value = self.values.get(words[1])
                    answer = NOTHING if value is None else bulk(value)
                self._replies.setdefault(socket, []).append(answer)
                at = end
            self._requests[socket] = data[at:]

        def _reply(self, thread: Thread) -> Code:
            """Send the replies of a round."""
            replies, self._replies = self._replies, {}
            for socket, answers in replies.items():
                try:
                    yield from socket.send(thread, b"".join(answers))
                except ConnectionReset:
                    continue  # the next round learns it by reading

        # the file ---------------------------------------------------------------------------------------------
        def _flush(self, thread: Thread) -> Code:
            """Before it sleeps: append the commands of the round, and have the file synced as the mode says."""
            every_second = self.scheme.every_second
            if self._unwritten and not (every_second and self._puts_off(thread)):
                data, self._unwritten = b"".join(self._unwritten), []
                yield from self.file.pwrite(thread, data, self.size_bytes)
                self.size_bytes += len(data)
                if not every_second:
                    yield from self.sync(thread)
            if every_second and not self._syncing and self._sync_covers != self.size_bytes and self._is_time(thread):
                self._syncing, self._sync_covers = True, self.size_bytes
                yield from thread.wake(self._job)

        def _puts_off(self, thread: Thread) -> bool:
            """Whether the write waits for the sync that is under way: not longer than two seconds."""
            if self._syncing and self._put_off_until is None:
                self._put_off_until = thread.deadline(PUT_OFF_AT_MOST)
            if self._syncing and self._put_off_until is not None and not self._put_off_until.passed:
                return True
            self._put_off_until = None
            return False

        def _is_time(self, thread: Thread) -> bool:
            """Whether the last sync began a second ago; if so, one begins now."""
            if self._next_sync is not None and not self._next_sync.passed:
                return False
            self._next_sync = thread.deadline(SYNC_EVERY)
            return True

        def _sync_in_background(self, thread: Thread) -> Code:
            while True:
                yield from thread.block(self._job)
                yield from self.sync(thread)
                self._syncing = False

        def sync(self, thread: Thread) -> Code:
            """Make what has been written durable."""
            yield from self.file.fdatasync(thread)
            self.syncs += 1
            self._sync_covers = max(self._sync_covers, 0 if self.scheme.every_second else self.size_bytes)

        # before the run, and after a failure ----------------------------------------------------------------
        def load(self, entries: Mapping[bytes, bytes]) -> None:
            """Hold entries, in memory and in the file, before time zero."""
            inode, device = self.file.inode, self.node.memory["ssd"]
            data = b"".join([command(b"SET", key, value) for key, value in entries.items()])
            device.space.poke(inode.base, data)
            assert inode.size_at is not None
            device.space.poke(inode.size_at, len(data).to_bytes(8, "little"))
            inode.size_bytes = None  # to be looked up
            self.values = dict(entries)
            self.size_bytes = self._sync_covers = self.file.size_bytes

        @override
        def recover(self, thread: Thread) -> Code:
            """Execute the file's commands; a last one that is cut short is cut off (``aof-load-truncated yes``).

            Where a command is no command the server says so and does not start.
            """
            data, at = (yield from self.file.pread(thread, 0, self.file.size_bytes)), 0
            try:
                while at < len(data) and (found := parse(data, at)) is not None:
                    (_, key, value), at = found
                    yield from thread.software("redis")
                    self.values[key] = value
            except (BadFormat, ValueError):
                self._broken = True
                return
            if at < len(data):
                yield from self.file.ftruncate(thread, at)
            self.size_bytes = self._sync_covers = at

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        self.roles["server"][0].load({key_of(name): value for name, value in objects.items()})

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class RedisStrong(Redis, name="redis-strong"):
    """``appendfsync always``: no reply before the file is synced."""

    title = "Redis that syncs its append-only file before it replies (appendfsync always)"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS}
    every_second = False


class RedisEverysec(Redis, name="redis-everysec"):
    """``appendfsync everysec``: replies do not wait for the sync."""

    title = "Redis that syncs its append-only file each second (appendfsync everysec)"
    claims: ClassVar[Claims] = {Condition.BOUNDED_LOSS: ALWAYS}
    loss_within = "1 s"
    every_second = True
