"""The micro-benchmark of rNVM's cache: pages of the back-end's memory, read through the cache of a front-end.

Source: rNVM, section 5.2, which compares the miss ratios of replacement policies under accesses that it does not
describe. An object is a page; a GET looks for it in the cache, else it READs it, a PUT is a WRITE that is awaited, and
patches the cached copy. The cache is large enough for :data:`PAGES` pages.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..guarantees import Claims
from ..naming import Option
from ..parts.onesided import Door, Poster, VerbsError
from ..scheme import OutcomeUnknown, Request, Role, Scheme
from ..structures.source import RNVM
from ..structures.space import Range
from .cached import POLICY
from .caches import PageCache

Code = Generator[Any, Any, Any]
LINE = 64
PAGES = Option(
    2000, at_least=1, source="assumption: section 5.2 does not say how large the cache is",
    text="how many pages the cache has room for",
)  # fmt: skip


class PageSession:
    """A front-end's cache, and its way to the pages."""

    def __init__(self, thread: Thread, node: Node, scheme: CachedPages) -> None:
        server = scheme.roles["server"][0]
        self._poster = Poster(thread, node, server.page_bytes)
        self._qp = self._poster.connect(server.door)
        self._key = server.key
        self._cache = PageCache(
            thread, node, int(scheme.option("pages")), str(scheme.option("policy")), server.page_bytes
        )

    def get(self, address: int, length: int) -> Code:
        """The bytes of a page."""
        return (yield from self._cache.read(address, length, 0, self._fetch))

    def put(self, address: int, data: bytes) -> Code:
        """Write a page."""
        posted = yield from self._poster.write(self._qp, address, self._key, data)
        yield from self._poster.result(posted)
        yield from self._cache.patch([(address, data)])

    def _fetch(self, ranges: Sequence[Range]) -> Code:
        posted = []
        for address, length in ranges:
            posted.append((yield from self._poster.read(self._qp, address, self._key, length)))
        return (yield from self._poster.all(posted))


class CachedPages(Scheme, name="page-cache"):
    """Pages behind a cache."""

    title = "pages behind rNVM's cache: its micro-benchmark"
    paper = RNVM
    section = "section 5.2"
    claims: ClassVar[Claims] = {}
    model = "register"
    is_part = True
    operations = ("put", "get")
    updates = frozenset({"put"})
    options: ClassVar[dict[str, Option]] = {"policy": POLICY, "pages": PAGES}

    class Server(Role, memory=("dram", "pm"), passive=True):
        """The memory with the pages; it runs no code."""

        scheme: CachedPages

        def __init__(self, scheme: CachedPages, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.page_bytes = -(-self.sizes.value_bytes // LINE) * LINE
            self.device = node.memory["pm"]
            length = len(self.sizes.objects) * self.page_bytes
            self.pages = self.device.allocate(length, "pages", align=LINE)
            self.door = Door(node)
            self.key = self.door.register(self.pages, length).key

    class Client(Role, invokes=True):
        """A front-end."""

        scheme: CachedPages

        @override
        def connect(self, thread: Thread) -> PageSession:
            return PageSession(thread, self.node, self.scheme)

        @override
        def perform(self, session: PageSession, request: Request) -> Code:
            step = request.step
            address = self.scheme.place(step.object)
            try:
                if step.f == "get":
                    return (yield from session.get(address, self.sizes.value_bytes))
                assert step.value is not None
                yield from session.put(address, step.value)
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error
            return None

    def place(self, object: Hashable) -> int:
        """The address of a page."""
        server = self.roles["server"][0]
        page: int = server.pages + self.sizes.objects.index(object) * server.page_bytes
        return page

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        device = self.roles["server"][0].device
        for object, value in objects.items():
            device.space.poke(self.place(object) - device.base, value)

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)
