"""What failures have left in memory, of machines that come back in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...models.durability.views import LineKey, Views
from ...models.system import Node, System
from ...protocols.failures import Failing
from ...sim.bytespace import Snapshot


class MemoryLeft:
    """What failures have left in memory, each of them by device and line; what is no memory that lasts holds zeros."""

    def __init__(self, loaded: Mapping[int, Snapshot]) -> None:
        self._loaded = loaded
        self._views: dict[int, tuple[Views, int]] = {}
        """By the number of a device before a failure: how to look at it, and when it failed."""
        self._before: dict[int, int] = {}
        """The number that a device had before the failure before."""

    def behind(self, at_ps: int, parts: Iterable[Failing]) -> Callable[[System], Callable[[int, int], bytes]]:
        """What the memory of these machines holds behind a failure at ``at_ps``; called when their power is back."""

        def returned(system: System) -> Callable[[int, int], bytes]:
            for node in (system.nodes[part.role][part.index] for part in parts):
                self._note(system, node, at_ps)
            return lambda device, line: self._line((device, line))

        return returned

    def _note(self, system: System, node: Node, at_ps: int) -> None:
        lives = [*node.former, *node.devices]
        for old, new in zip(lives, lives[len(node.devices) :], strict=False):
            self._before[new.number] = old.number
        views = Views(
            system.trace,
            {device.number: device.domain for device in node.devices},
            self._at_first,
            whole_lines=system.platform.line_atomicity == "whole",
            iio_wc_survives=system.platform.iio_wc_survives,
        )
        for device in node.devices:
            self._views.setdefault(device.number, (views, at_ps))

    def _line(self, key: LineKey) -> bytes:
        """A line of a device whose machine has failed."""
        views, at_ps = self._views[key[0]]
        return views.timed(key, at_ps).data

    def _at_first(self, key: LineKey) -> bytes:
        """A line at the beginning of a device's life: as it was loaded, or as the failure before left it."""
        number, line = key
        old = self._before.get(number)
        return self._loaded[number].line(line) if old is None else self._line((old, line))
