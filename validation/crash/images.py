"""What memory holds that comes back while others live on: any image that the rules allow, chosen when somebody looks.

A line is chosen when it is first looked at, by an adapter or a core, so that images whose difference nobody looks at
are one. Of a range that is compared with a checksum, before anybody has looked at it, all lines are chosen at once: one
of the images that match, or none of them (:mod:`.checksums`). Which of the others it is, is chosen when somebody looks
at a line of it after all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ...models.durability.views import Content, Cut, LineKey, Views
from ...models.memory.devices import MemoryDevice
from ...models.system import Node, System
from ...protocols.failures import Failing
from ...sim.bytespace import Snapshot
from ...sim.clock import Clock
from .checksums import Check, Decided, Guarded

if TYPE_CHECKING:
    from .repeats import Looks

Loaded = Mapping[int, Snapshot]
"""By device: memory at time zero."""
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Choice:
    """What was chosen when somebody first looked: the ``turn``-th of the possible contents."""

    at_ps: int
    turn: int
    more: bool
    """Whether there are further ones."""


class Choices:
    """The choices of one run, in their order: first the ``prescribed`` ones, then the first content of each line."""

    def __init__(self, prescribed: Sequence[int]) -> None:
        self._prescribed = prescribed
        self.made: list[Choice] = []

    def take(self, at_ps: int, contents: Iterator[_Item]) -> _Item:
        """One of the possible contents; where there is but one nothing is chosen."""
        turn = len(self.made)
        wanted = self._prescribed[turn] if turn < len(self._prescribed) else 0
        found = list(islice(contents, wanted + 2))
        if len(found) > 1:
            self.made.append(Choice(at_ps, wanted, len(found) > wanted + 1))
            return found[wanted]
        return found[0]

    def again(self) -> Choices:
        """The same prescribed, and the same made so far."""
        choices = Choices(self._prescribed)
        choices.made = self.made[:]
        return choices

    def next(self, fixed: int) -> list[int] | None:
        """The choices of the next run, depth first, the first ``fixed`` of them as they were; None behind the last."""
        for turn in reversed(range(fixed, len(self.made))):
            if self.made[turn].more:
                return [made.turn for made in self.made[:turn]] + [self.made[turn].turn + 1]
        return None


@dataclass(frozen=True)
class _Refused:
    """A range that was compared with a checksum and has another."""

    check: Check
    before: Cut
    """What had been decided about other lines when it was compared."""
    decided: Decided
    """One image of the range that does not match, and what all such images decide about other lines."""


class Image:
    """What memory of machines holds whose power is back, decided line by line.

    It agrees with all that anybody observed until then: behind the failure too, by answers that were on their way.
    """

    def __init__(
        self,
        parts: Iterable[Failing],
        loaded: Loaded,
        before: Sequence[Image],
        choices: Choices,
        looks: Looks | None = None,
    ) -> None:
        """``before`` are the images of earlier failures, ``loaded`` is what was there at time zero. ``looks`` notes
        when lines are chosen.
        """
        self.chosen: dict[LineKey, Content] = {}
        """By line, in the order of being looked at."""
        if looks is not None:
            looks.chosen = self.chosen
        self._refused: dict[LineKey, _Refused] = {}
        """Lines of which no more is known than that the checksum of their range is another."""
        self._compared: dict[Guarded, bool] = {}
        self.views: Views
        """From the return on."""
        self.devices: set[int] = set()
        """The memory that lasts, by its numbers before the failure."""
        self.back_ps = 0
        self._parts = list(parts)
        self._loaded = loaded
        self._before = before
        self._choices = choices
        self._looks = looks
        self._cut: Cut = {}
        self._old: dict[int, int] = {}
        """The number that a device had before the failure before."""
        self._clock: Clock

    def __call__(self, system: System) -> Callable[[int, int], bytes]:
        """Power is back; how to look at a line."""
        nodes = [system.nodes[part.role][part.index] for part in self._parts]
        self._clock, self.back_ps = system.clock, system.clock.now_ps
        self.devices = {device.number for node in nodes for device in node.devices if device.traced}
        self._old = {new.number: old.number for node in nodes for old, new in _lives(node)}
        self.views = views_of(system, nodes, self._initial, over=False)
        return lambda device, line: self.line((device, line))

    def line(self, key: LineKey) -> bytes:
        """The content of a line that is looked at now."""
        if key in self._refused:
            self._look_at(self._refused[key])
        content = self.chosen.get(key)
        if content is None:
            self._choose_before([key])
            found = self.views.contents(key, self.back_ps, self._cut)
            content = self._choices.take(self._clock.now_ps, found)
            self.chosen[key], self._cut = content, content.cut
            if self._looks is not None:
                self._looks.touched(key, self._clock.now_ps)
        return content.data

    def compare(self, device: int, offset: int, length: int, checksum: int) -> bool | None:
        """Whether a range that nobody has looked at has a checksum; None: its bytes say, as where memory does not last.

        ``device`` is its number before the failure.
        """
        if device not in self.devices:
            return None
        if self._looks is not None:
            self._looks.complete = False
        guarded = Guarded(device, offset, length, checksum)
        if guarded not in self._compared:
            keys = guarded.line_keys()
            if any(key in self.chosen or key in self._refused for key in keys):
                return None
            self._choose_before(keys)
            check, before = Check(guarded, keys, self._none_is_fixed), self._cut
            images = _one_refused_for_each_cut(check.images(self.views.families, self.back_ps, before))
            decided = self._choices.take(self._clock.now_ps, images)
            self._cut, self._compared[guarded] = decided.cut, decided.matches
            if decided.matches:
                self.chosen.update(zip(keys, decided.contents, strict=True))
            else:
                self._refused.update(dict.fromkeys(keys, _Refused(check, before, decided)))
        return self._compared[guarded]

    @property
    def example(self) -> dict[LineKey, Content]:
        """One content of each line that was looked at or compared: the chosen one, or, where no more is known than that
        a range has another checksum, one of those that have.
        """
        refused = self._refused.values()
        return self.chosen | {
            key: content for one in refused for key, content in zip(one.check.keys, one.decided.contents, strict=True)
        }

    def _look_at(self, refused: _Refused) -> None:
        """Somebody looks at a range of which it was only known that it has another checksum."""
        check = refused.check
        images = check.others(self.views.families, self.back_ps, refused.before, refused.decided.cut)
        chosen = self._choices.take(self._clock.now_ps, images)
        for key, content in zip(check.keys, chosen, strict=True):
            del self._refused[key]
            self.chosen[key] = content

    def _none_is_fixed(self, key: LineKey) -> bytes:
        raise KeyError(key)  # every line of a comparison is one that may change

    def _choose_before(self, keys: Iterable[LineKey]) -> None:
        """What an earlier failure had left of lines is chosen first: what they may hold now follows from it."""
        for key in keys:
            if key[0] in self._old:
                self._initial(key)

    def _initial(self, key: LineKey) -> bytes:
        """A line of a device's first life is as it was loaded; of a later one, as the failure before left it."""
        number, line = key
        old = self._old.get(number)
        if old is None:
            return self._loaded[number].line(line)
        return next(image for image in reversed(self._before) if old in image.devices).line((old, line))


def views_of(system: System, nodes: Iterable[Node], initial: Callable[[LineKey], bytes], *, over: bool = True) -> Views:
    """What memory of machines may hold behind a failure, as far as their devices last."""
    domains = {device.number: device.domain for node in nodes for device in (*node.former, *node.devices)}
    whole_lines, iio_wc_survives = system.platform.line_atomicity == "whole", system.platform.iio_wc_survives
    return Views(system.trace, domains, initial, whole_lines=whole_lines, iio_wc_survives=iio_wc_survives, over=over)


def _lives(node: Node) -> Iterator[tuple[MemoryDevice, MemoryDevice]]:
    """A machine's memory before and after each time that its power came back, device by device."""
    devices = [*node.former, *node.devices]
    return zip(devices, devices[len(node.devices) :], strict=False)


def _one_refused_for_each_cut(images: Iterable[Decided]) -> Iterator[Decided]:
    """Every image that matches, and of those that do not one for each cut."""
    refused: set[Hashable] = set()
    for image in images:
        if not image.matches:
            cut = frozenset(image.cut.items())
            if cut in refused:
                continue
            refused.add(cut)
        yield image
