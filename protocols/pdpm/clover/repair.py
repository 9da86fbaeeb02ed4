"""Reading chains on data nodes, by a metadata server that has begun again: what is there, and what has to be mended.

Source: Tsai et al., ATC'20, section 5.4: all metadata but keys and heads are found by reading the chains. A version is
there if one of its copies has the GC version that the pointer to it has. How a half-made link is treated is a reading:
it is completed from any copy that has it, if the version behind it is there, and else taken back.
"""

from __future__ import annotations

from ..data import Code, Links
from .header import DELETED, UNCOMMITTED, WRITING, ChainCursor, Header, Pointer, Version, header, pack_shortcut
from .pool import Geometry


class ChainReader:
    """Reads and mends chains over a thread's links to the data nodes; one that is away is waited for."""

    def __init__(self, links: Links, geometry: Geometry) -> None:
        self._links = links
        self._geometry = geometry
        self._copies = geometry.pool.copies

    def own(self, pointer: Pointer) -> Code:
        """The GC version that is written in a buffer; None if its node is lost."""
        found = yield from self._links.repeated(lambda: self._headers((pointer,)))
        return found[0].own if found[0] is not None else None

    def read(self, head: Version, *, mend: bool) -> Code:
        """The versions of a chain from its head on, and whether the key ends with the last of them.

        ``mend``: nobody else is at work, so half-made links are completed or taken back.
        """
        return (yield from self._links.repeated(lambda: self._chain(head, mend=mend)))

    def _chain(self, head: Version, *, mend: bool) -> Code:
        versions: list[Version] = []
        following: Version | None = head
        while following is not None:
            headers = yield from self._there(following)
            if not headers:
                break
            versions.append(following)
            if any(one.flags & DELETED for one in headers):
                return versions, True
            following = yield from self._following(following, headers, mend=mend)
        return versions, False

    def mend(self, version: Version) -> Code:
        """Complete a link behind a version, or take it back."""
        yield from self._links.repeated(lambda: self._mend(version))

    def _mend(self, version: Version) -> Code:
        headers = yield from self._there(version)
        yield from self._following(version, headers, mend=True)

    def point(self, key: int, cursor: ChainCursor) -> Code:
        """Write a key's shortcut."""
        shortcut = self._geometry.shortcut(key), pack_shortcut(cursor, self._copies)
        yield from self._links.repeated(lambda: self._links.write_all([shortcut]))

    def _there(self, version: Version) -> Code:
        """The headers of those copies of a version that are there."""
        headers = yield from self._headers(version)
        return [
            one for one, pointer in zip(headers, version, strict=True) if one is not None and one.own == pointer.version
        ]

    def _following(self, version: Version, headers: list[Header], *, mend: bool) -> Code:
        """The version behind this one, as any of its copies says, if that one is there."""
        said = dict.fromkeys(one.next for one in headers)
        found = None
        for following in said:
            if following is not None and found is None and (yield from self._there(following)):
                found = following
        half = len(said) > 1 or any(one.flags & (UNCOMMITTED | WRITING) for one in headers)
        if mend and (half or found not in said):
            writes = [
                (self._geometry.buffer(pointer), header(version, copy, found)) for copy, pointer in enumerate(version)
            ]
            yield from self._links.write_all(writes)
        return found

    def _headers(self, version: Version) -> Code:
        """The headers of all copies; None of those whose nodes are lost."""
        posted = []
        for pointer in version:
            lost = self._links.is_lost(pointer.node)
            place, length = self._geometry.buffer(pointer), self._geometry.pool.header_bytes
            posted.append(None if lost else (yield from self._links.read(place, length)))
        found: list[Header | None] = []
        for one, pointer in zip(posted, version, strict=True):
            data = None if one is None else (yield from self._links.found(one, pointer.node))
            found.append(None if data is None else Header(data, self._copies))
        return found
