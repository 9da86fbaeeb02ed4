"""What is lost where trees are changed in place, without a log, and landed WRITEs last (the paper's premise)?"""

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.structures.bst import Bst
from rpsim.protocols.structures.mv_bst import MvBst
from rpsim.protocols.structures.trees import TreeStructure
from rpsim.validation.crash.explorer import Explorer

from ...small import run

JUDGED = {Condition.COMMITTED, Condition.NO_LOST_ACK}


class ValueLast(Bst):
    """A twin that publishes a node before its value is written."""

    def _hang(self, place: int, additions: Sequence[Any]) -> Generator[Any, Any, None]:
        (one,) = additions
        address = yield from self.space.allocate(self.node_bytes)
        yield from self._write(address, one.key, 0, 0, bytes(self.value_bytes))
        yield from self.space.publish(place, address.to_bytes(8, "little"))
        yield from self.space.write(address + self.VALUE, one.value)


class RootFirst(MvBst):
    """A twin that switches the root before the copies are written."""

    def _apply(self, gathered: Any) -> Generator[Any, Any, None]:
        writes, space = [], self.space

        class Late:
            def __getattr__(self, name: str) -> Any:
                return getattr(space, name)

            def write(self, address: int, data: bytes) -> Generator[Any, Any, None]:
                yield from ()
                writes.append((address, data))

        self.space = Late()  # type: ignore[assignment]
        yield from super()._apply(gathered)
        self.space = space
        for address, data in writes:
            yield from space.write(address, data)


class ValueLastStructure(TreeStructure, name="test-bst-value-last"):
    title = "a twin of the binary search tree"
    section = "none"
    algorithm = ValueLast


class RootFirstStructure(TreeStructure, name="test-mv-bst-root-first"):
    title = "a twin of the multi-version binary search tree"
    section = "none"
    algorithm = RootFirst


def refuted(structure: str) -> set[Condition]:
    """Insert two keys into a tree of five, and one of these again: what a power failure refutes at any instant."""
    inserts = [{"process": 0, "f": "insert", "object": f"k{number}"} for number in (5, 6, 0)]
    result = run(
        f"{structure} on naive",
        {"kind": "schedule", "operations": inserts, "loaded": 5},
        vary={"platform": ["any-server"], "ddio": ["on"], "domain": ["wsp"]},
        keys=7,
    )
    walked = Explorer(result, conditions=JUDGED).walk()
    assert walked.exhaustive
    return walked.first.keys() & JUDGED


@pytest.mark.long
@pytest.mark.parametrize(
    ("structure", "lost"),
    [
        ("bst", set()),
        ("mv-bst", set()),
        ("mv-bpt", set()),
        ("bpt", {Condition.COMMITTED, Condition.NO_LOST_ACK}),
        ("test-bst-value-last", {Condition.COMMITTED}),
        ("test-mv-bst-root-first", {Condition.COMMITTED, Condition.NO_LOST_ACK}),
    ],
)
def test_one_pointer_commits_and_a_shift_does_not(structure: str, lost: set[Condition]) -> None:
    assert refuted(structure) == lost
