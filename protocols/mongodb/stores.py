"""MongoDB on Octopus and on Hotpot.

Source: Tsai et al., USENIX ATC'20, section 6.2 and figure 7: Octopus and Hotpot below MongoDB are more than ten times
slower than the stores for passive memory. Nothing states how MongoDB was set up there, and what it costs by itself
decides the figure: so the two are shown, and no claim is counted by them. A document is a file of Octopus, which its
thread of mongod writes and reads as any client does; of Hotpot it is a page, which a transaction of its own writes or
reads. Left out is all of MongoDB but a command's way: its storage engine, its journal, its replication.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar

from typing_extensions import override

from ..filesystems.octopus import Octopus
from ..guarantees import Claims
from ..hotpot.hotpot import Hotpot
from ..request import Request, RequestStep
from ..scheme import Role
from .mongod import MongoClient, Mongod, OnMongod


class OctopusMongodb(OnMongod, Octopus, name="octopus-mongodb"):
    """A document is a file: two calls, and a WRITE for each extent, behind mongod."""

    title = "MongoDB on Octopus: commands over TCP, documents as files in distributed persistent memory"
    faults: ClassVar = {
        "server": ("power", "process", "lost"), "mongod": ("process",), "client": ("power", "process"),
        "all": ("power",),
    }  # fmt: skip
    Client = MongoClient  # type: ignore[assignment]  # it takes the place of the store's own
    Server = Octopus.Server
    Mongod = Mongod

    @override
    @classmethod
    def store_client(cls) -> type[Role]:
        return Octopus.Client


class HotpotMongodb(OnMongod, Hotpot, name="hotpot-mongodb"):
    """A document is a page: a transaction that commits at its owner, behind mongod."""

    title = "MongoDB on Hotpot: commands over TCP, documents as pages of distributed shared persistent memory"
    model = "register"
    operations = ("put", "get")  # type: ignore[assignment]
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {}
    faults: ClassVar = {
        "node": ("power", "process", "lost"), "mongod": ("process",), "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    Client = MongoClient  # type: ignore[assignment]  # it takes the place of the store's own
    Node = Hotpot.Node
    Mongod = Mongod

    @override
    @classmethod
    def store_client(cls) -> type[Role]:
        return Hotpot.Client

    @override
    @classmethod
    def asked_of_store(cls, name: Hashable, document: bytes | None) -> Request:
        return Request.reading(name) if document is None else Request((RequestStep("w", name, document),))

    @override
    @classmethod
    def document_of(cls, found: Any) -> bytes:
        (document,) = found
        return document or b""
