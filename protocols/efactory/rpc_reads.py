"""eFactory without hybrid read: every GET asks the server, which looks at the durability flag.

Source: Du et al., ICPP'21, sections 5.3.4 and 6.1: what the hybrid read is worth.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from typing_extensions import override

from ..parts.kv import Session
from .efactory import EFactory

Code = Generator[Any, Any, Any]


class EFactoryRpcReads(EFactory, name="efactory-wo-hr"):
    """eFactory's PUT and background; a GET is one call and one READ."""

    title = "eFactory without hybrid read: the server finds the version, the client reads it"
    section = "sections 5.3.4 and 6.1"

    class Client(EFactory.Client):
        @override
        def get(self, session: Session, key: bytes) -> Code:
            return (yield from self.ask_and_read(session, key))
