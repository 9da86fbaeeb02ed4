"""What the modes of rNVM share: their options, with the source of each, and which primitives their logs may go by."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from ...models.primitives.plan import plan
from ...sim.errors import InputError, Mistake
from ..guarantees import ALWAYS, Claims, Condition
from ..naming import Option
from ..structures.structure import Structure, StructureMode

PROMISED: Claims = {Condition.NO_LOST_ACK: ALWAYS, Condition.COMMITTED: ALWAYS, Condition.DURABLE: ALWAYS}
"""Abstract, 3.2, 3.3, 5.5: what has returned is never lost, and transactions are all or nothing."""

READS = Option(
    "field", choices=("field", "node"), source="section 10.2: each load is a READ; the grain is a reading of table 3",
    text="whether the fields of a large node are read one by one, or the node at once",
)  # fmt: skip
LOG = Option(
    "4 MiB", quantity="size", at_least=256, source="assumption: the paper gives no size",
    text="the size of each log's ring",
)  # fmt: skip
ALLOCATOR = Option(
    "two-tier", choices=("two-tier", "rpc", "pmem", "glibc"),
    source="sections 4.4 and 5.4; that every row of table 3 has two tiers is a reading: a naive enqueue is two WRITEs",
    text="who gives blocks: slabs in the front-end, calls alone, or other software, of which the price is known",
)  # fmt: skip
SLAB_BYTES = Option(
    1024, at_least=64, at_most=1 << 20, source="table 1: 128 and 1024 bytes; 1024 is the quicker",
    text="the bytes of a slab, of the allocator two-tier",
)  # fmt: skip
SN_READ = Option(
    "compare-and-swap", choices=("compare-and-swap", "fetch-add", "read"),
    source="algorithm 3 has an RDMA atomic; FETCH_ADD of 0 writes back what it has read, over what the back-end's CPU"
    " has stored meanwhile, and a compare-and-swap that never matches does not",
    text="how readers read the sequence number",
)  # fmt: skip
SURPLUS_SLABS = 8
"""So many of its slabs may be empty before a front-end hands one back: section 5.4 gives no number."""
BLOCK_BYTES = 64
"""The blocks of the allocator ``rpc``: section 4.4 gives no size."""


class RnvmMode(StructureMode):
    """What all modes share."""

    options: ClassVar[dict[str, Option]] = {"reads": READS, "allocator": ALLOCATOR, "slab": SLAB_BYTES}

    @override
    @classmethod
    def check(cls, structure: type[Structure]) -> None:
        if structure.over is None:
            return
        if "log" not in cls.options:
            expected = f"no 'over': {cls.name} has no logs that could go by a primitive"
            raise InputError(Mistake(f"'{structure.over}' in '{structure.name}'", expected, field="scheme"))
        steps = plan(structure.primitive)
        if steps.needs_thread:
            expected = "a primitive without SENDs and steps of the responder's CPU: the back-end is passive"
            raise InputError(Mistake(f"'{structure.over}' in '{structure.name}'", expected, field="scheme"))

    @classmethod
    def block_bytes(cls) -> int:
        """The bytes of a block of the back-end's allocator; 0 where it has none."""
        blocks = {"two-tier": -(-int(cls.option("slab")) // 64) * 64, "rpc": BLOCK_BYTES}
        return blocks.get(str(cls.option("allocator")), 0)

    @classmethod
    def copied_before(cls) -> bool:
        """Whether an awaited record has to be on the mirror before its operation returns."""
        return False

    @classmethod
    def log_bytes(cls) -> int:
        """The length of each log's ring."""
        return int(cls.option("log")) // 64 * 64


BATCH = Option(
    1024, at_least=1, source="section 10.2: table 3 has batches of 1024",
    text="how many operations are one transaction",
)  # fmt: skip
OPLOG = Option(
    "posted", choices=("posted", "awaited"), small="awaited",
    source="section 3.3 wants it in the NVM; table 3's queue takes less than a round trip, so it is not awaited",
    text="whether an operation returns when its record is posted, or when that has completed",
)  # fmt: skip
