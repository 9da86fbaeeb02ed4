"""Runs of one fault that are the same whatever memory held: known before they are executed.

Memory that comes back is chosen line by line (:mod:`.images`), and much of what is chosen nobody ever looks at: the
value behind a header by which a reader knows that it is not meant. A run depends on the bytes alone that somebody looks
at: two runs with the same fault do the same until one of them looks at bytes that differ. So each run notes which lines
were chosen, which bytes of them were looked at, and in which order; another one, whose choices are prescribed, is gone
through in these notes. Where it finds the same bytes at every look, it is the same run: the same packets, instants,
answers. Else it is executed.

All bytes that leave memory count as looked at, whoever fetches them. Only of a READ whose bytes are given out slice by
slice (``sim.onlooker.Fetched``) do just these count: the others are in a buffer of the requester, from which no other
request gives anything out before its own bytes are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...models.durability.views import Content, Cut, LineKey
from ...sim.bytespace import LINE_BYTES, lines
from .images import Choices, Image

Spans = tuple[tuple[LineKey, int, int], ...]
"""Bytes of lines: which line, from which byte, up to which."""


class Touched(NamedTuple):
    """A line was chosen."""

    key: LineKey
    at_ps: int


class Look:
    """Bytes of memory that came back left it."""

    def __init__(self, spans: Spans, first: int) -> None:
        self._spans = spans
        self._first = first
        """The address of the first of them."""
        self._given: list[tuple[int, int]] | None = None
        """What was looked at, from where and up to where from the first byte on; None: all."""

    def give_out(self, start: int, end: int) -> None:
        """Of these bytes somebody looks at those from ``start`` up to ``end``, and at no others unless that is said."""
        self._given = [*(self._given or ()), (start, end)]

    @property
    def spans(self) -> Spans:
        """The bytes that were looked at."""
        if self._given is None:
            return self._spans
        found = []
        for key, start, end in self._spans:
            shift = self._first - key[1] * LINE_BYTES
            parts = ((max(start, first + shift), min(end, last + shift)) for first, last in self._given)
            found += [(key, first, last) for first, last in parts if first < last]
        return tuple(found)


class Looks:
    """What one run has looked at of memory that came back, in order."""

    def __init__(self) -> None:
        self.events: list[Touched | Look] = []
        self.complete = True
        """Whether that is all that it depends on."""
        self.chosen: Mapping[LineKey, Content] = {}
        """By line what was chosen, as far as it has been: that of the image."""

    def touched(self, key: LineKey, at_ps: int) -> None:
        """A line is chosen now."""
        self.events.append(Touched(key, at_ps))

    def of(self, device: int) -> LooksOfDevice:
        """Who notes the looks at a device, by its number before the failure."""
        return LooksOfDevice(self, device)


@dataclass
class LooksOfDevice:
    """Notes who looks at a device's memory, as :class:`sim.onlooker.Onlooker`."""

    looks: Looks
    device: int
    _unclaimed: dict[tuple[int, int], list[Look]] = field(default_factory=dict)
    """By address and length, what nobody has said of how much of it is looked at."""

    def looked(self, address: int, length: int) -> None:
        """These bytes leave memory."""
        chosen, spans = self.looks.chosen, []
        for number in lines(address, length):
            if (self.device, number) in chosen:  # else it was written whole before anybody looked
                start = number * LINE_BYTES
                end = min(address + length - start, LINE_BYTES)
                spans.append(((self.device, number), max(address - start, 0), end))
        look = Look(tuple(spans), address)
        self.looks.events.append(look)
        self._unclaimed.setdefault((address, length), []).append(look)

    def claim(self, address: int, length: int) -> Callable[[int, int], None] | None:
        """Whoever has fetched these bytes looks at no more of them than it tells the returned call, from which one up
        to which. None where they have not left memory at once: then all are looked at.

        Of several that have fetched the same it does not matter which has which look: each depends on the same bytes.
        """
        looks = self._unclaimed.get((address, length))
        if not looks:
            return None
        look = looks.pop()
        look.give_out(0, 0)
        return look.give_out

    def copied(self) -> None:
        """Lines stand for others: which one is looked at cannot be said."""
        self.looks.complete = False


@dataclass
class _Place:
    """Where runs are that have done the same so far."""

    touched: dict[Touched, _Place] = field(default_factory=dict)
    looked: dict[Spans, dict[tuple[bytes, ...], _Place]] = field(default_factory=dict)
    """By which bytes are looked at, and what they were."""
    run: int | None = None
    """The run that ends here."""


class _Way(NamedTuple):
    """A way to a place, and what was chosen on it."""

    place: _Place
    chosen: dict[LineKey, Content]
    cut: Cut
    choices: Choices


class KnownRuns:
    """The runs of one fault that have been executed; by what they have looked at."""

    def __init__(self) -> None:
        self._first = _Place()
        self._image: Image | None = None
        """That of some run: what memory may hold at its return is the same in all of them."""

    def add(self, image: Image, looks: Looks, number: int) -> None:
        """A run has been executed, with this in memory that came back."""
        if not looks.complete:
            return
        self._image = self._image or image
        chosen, place = looks.chosen, self._first
        for event in looks.events:
            if isinstance(event, Touched):
                place = place.touched.setdefault(event, _Place())
            elif spans := event.spans:
                found = tuple(chosen[key].data[start:end] for key, start, end in spans)
                place = place.looked.setdefault(spans, {}).setdefault(found, _Place())
        place.run = number

    def same(self, prescribed: Sequence[int]) -> tuple[int, Choices] | None:
        """The run that one with these choices would repeat, and the choices that it would make; None: it is another."""
        ways = [_Way(self._first, {}, {}, Choices(prescribed))]
        while ways:
            way = ways.pop()
            if way.place.run is not None:
                return way.place.run, way.choices
            ways += self._further(way)
        return None

    def _further(self, way: _Way) -> Iterator[_Way]:
        place, chosen, cut, choices = way
        for spans, by_bytes in place.looked.items():
            next_place = by_bytes.get(tuple(chosen[key].data[start:end] for key, start, end in spans))
            if next_place is not None:
                yield _Way(next_place, chosen, cut, choices)
        for (key, at_ps), next_place in place.touched.items():
            assert self._image is not None
            again = choices.again()
            content = again.take(at_ps, self._image.views.contents(key, self._image.back_ps, cut))
            yield _Way(next_place, {**chosen, key: content}, content.cut, again)
