"""Software of which only a price is known: what a platform names of it takes its time, what it does not takes none.

Source: rNVM's measured times less what its memory accesses take on this machine; the platform says which, and how each
was fitted (``cpu.software``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node

Code = Generator[Any, Any, Any]

LOCAL_VISIT = "local_visit"
"""A visit of a node in the front-end's own memory, cached nodes included: what its code does beside the accesses."""


def spend(thread: Thread, node: Node, name: str) -> Code:
    """Have a thread spend what its node's platform says of the software of that name, if it does."""
    if name in node.cpu.software:
        yield from thread.software(name)
