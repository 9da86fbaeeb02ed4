"""The adversarial view against a literal enumeration of its definition, on small random traces.

The enumeration below shares nothing with ``models.views`` but the trace: it lists, channel by channel, which words of
which chunks survive, keeps what the rules allow, and collects the images.
"""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpsim.models.places import PLACES, Domain, Path, Place
from rpsim.models.views import Views
from rpsim.sim.trace import NEVER, Stage, Trace

from ..rig import images

LINE, WORD, DEVICE, STEP_PS = 64, 8, 3, 100
SURVIVES = {
    Domain.MEDIA: {Place.MEDIA},
    Domain.ADR: {Place.MEDIA, Place.WPQ},
    Domain.EADR: {Place.MEDIA, Place.WPQ, Place.LLC},
    Domain.WSP: {
        Place.MEDIA,
        Place.WPQ,
        Place.LLC,
        Place.IIO_WC,
        Place.NIC,
        Place.PCIE,
        Place.DEVICE_BUFFER,
        Place.PMR,
    },
    Domain.NONE: set(),
    Domain.PMR: {Place.PMR},
}


def initial(key):
    return bytes([key[1]]) * LINE


# a small world that writes, looks and flushes -----------------------------------------------------------------------


class World:
    """Time goes on by STEP_PS a step; what happens within a step is done before the next."""

    def __init__(self, paths, loose=(), release=None):
        """``loose`` lists channels without any order; the chunks of ``release`` are behind all others."""
        self.trace = Trace()
        self.paths = paths
        self.loose, self.release = loose, release
        self.channels = [
            self.trace.channel(path, ordered=path != Path.NTSTORE, loose=which in loose)
            for which, path in enumerate(paths)
        ]
        if Path.PEER in paths:
            self.trace.uncached.add(DEVICE)
        self.bystander = self.trace.channel("a core that only flushes and looks")
        self.last_visible = [0 for _ in paths]
        self.now = 0

    def write(self, which, start, count, late):
        channel, path = self.channels[which], self.paths[which]
        pieces = [(start, count)]
        if path in (Path.STORE, Path.NTSTORE, Path.MMIO):  # one chunk a line
            first = min(count, 8 - start % 8)
            pieces = [(start, first)] + ([(start + first, count - first)] if count > first else [])
        for turn, (word, words) in enumerate(pieces):
            now = self.now + turn
            mark = len(self.trace.chunks) + 100
            data = b"".join(bytes([mark, word + at] * 4) for at in range(words))
            reached = [now, now, now, NEVER, NEVER]
            if path == Path.NTSTORE:
                reached = [now, now, now + 4, now + 4, now + 6]
                self.trace.wrote_back(DEVICE, word // 8, now, now + 4, now + 6)  # a dirty line goes along
            elif path != Path.STORE:
                visible = now + 4 + late * STEP_PS
                if which not in self.loose:
                    visible = max(visible, self.last_visible[which] + 1)
                if which == self.release:
                    visible = max(visible, *self.last_visible) + 1
                self.last_visible[which] = max(visible, self.last_visible[which])
                reached = [now, now + 1, visible, NEVER, NEVER]
                if path in (Path.PEER, Path.MMIO):
                    reached = [now, now + 1, visible, visible + 3, visible + 3]
                if path == Path.DMA_NO_DDIO:
                    for line in range(word // 8, (word + words - 1) // 8 + 1):
                        self.trace.wrote_back(DEVICE, line, visible, visible + 2, visible + 4)
            behind = ()
            if which == self.release:
                others = [other for other in self.channels if other != channel]
                behind = tuple((other, self.trace.count(other)) for other in others)
            self.trace.write(DEVICE, channel, word * WORD, data, path, "w", reached, behind)

    def core(self, which):
        """The channel of the core that looks or flushes."""
        return self.channels[which] if self.paths[which] == Path.STORE else self.bystander

    def settled(self, which):
        """How many of a channel's chunks are visible by now, all before them included."""
        chunks = self.trace.channels[self.channels[which]].chunks
        waiting = (turn for turn, chunk in enumerate(chunks) if chunk.reached_ps[Stage.VISIBLE] > self.now)
        return next(waiting, len(chunks))

    def force(self, which):
        """A READ completion, or a fence."""
        path = self.paths[which]
        stage = Stage.QUEUED if path in (Path.NTSTORE, Path.DMA_NO_DDIO) else Stage.VISIBLE
        count = self.settled(which) if path != Path.NTSTORE else self.trace.count(self.channels[which])
        self.trace.force_channel(self.channels[which], count, stage, self.now + 10, "forced")
        if path in (Path.PEER, Path.MMIO):
            self.trace.barrier(DEVICE, self.now, self.now + 11, "barrier")

    def persist(self, which, turn):
        """A FLUSH of one chunk (of those that are visible)."""
        chunks = self.trace.channels[self.channels[which]].chunks[: self.settled(which)]
        if chunks:
            chunk = chunks[turn % len(chunks)]
            self.trace.force_chunk(chunk, Stage.QUEUED, self.now + 10, "flush")
            for line in range(chunk.address // LINE, (chunk.address + len(chunk.data) - 1) // LINE + 1):
                self.trace.wrote_back(DEVICE, line, self.now, self.now + 5, self.now + 9)

    def look(self, which, line):
        """Somebody loads a line."""
        seen = self.trace.observed(DEVICE, line * LINE, LINE, self.now)
        self.trace.force_observed(seen, self.now, "load", reader=self.core(which))

    def flush(self, which, line):
        flush = self.trace.flush(DEVICE, line, self.core(which), self.now)
        if not self.trace.uncached:
            self.trace.wrote_back(DEVICE, line, self.now, self.now + 10, self.now + 20)
        self.trace.retire([flush], self.now + 15)

    def run(self, steps):
        for turn, (what, *arguments) in enumerate(steps, 1):
            self.now = turn * STEP_PS
            getattr(self, what)(*arguments)
        self.now += 2 * STEP_PS
        return self


WHICH = st.integers(0, 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WHICH, st.integers(0, 20), st.integers(1, 3), st.integers(0, 1)),
        st.tuples(st.just("write"), WHICH, st.integers(5, 9), st.integers(1, 3), st.integers(0, 1)),
        st.tuples(st.just("force"), WHICH),
        st.tuples(st.just("look"), WHICH, st.integers(0, 2)),
        st.tuples(st.just("flush"), WHICH, st.integers(0, 2)),
    ),
    max_size=6,
)
KINDS = [
    (Path.DMA_DDIO, Path.DMA_DDIO),
    (Path.DMA_DDIO, Path.STORE),
    (Path.DMA_NO_DDIO, Path.STORE),
    (Path.STORE, Path.NTSTORE),
    (Path.STORE, Path.STORE),
    (Path.PEER, Path.PEER),
    (Path.PEER, Path.MMIO),
]


# the definition, word by word ---------------------------------------------------------------------------------------


def subsets(items):
    return chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))


class Definition:
    """Literally: a channel's survivors are a prefix with one torn chunk at most, the rest is filtered."""

    def __init__(self, trace, at_ps, domain, whole_lines, iio_wc_survives):
        self.trace, self.at_ps, self.domain = trace, at_ps, domain
        self.whole_lines, self.iio_wc_survives = whole_lines, iio_wc_survives

    def stage(self, chunk):
        """The first stage at which this chunk survives."""
        for stage, place in zip(Stage, PLACES[chunk.path], strict=True):
            kept = place in SURVIVES[self.domain]
            if place is Place.IIO_WC and self.domain is Domain.EADR:
                kept = self.iio_wc_survives
            if kept:
                return stage
        return None

    def certain(self, chunk, line):
        """Whether this line of the chunk survives in any timing."""
        stage = self.stage(chunk)
        if stage is Stage.ACCEPTED:
            return chunk.reached_ps[stage] <= self.at_ps
        flushed = stage <= Stage.QUEUED and chunk.flushed_ps.get(line, NEVER) <= self.at_ps
        return flushed or chunk.forced_ps[stage] <= self.at_ps

    @staticmethod
    def words(chunk):
        """Every word of a chunk: (line, word of the line)."""
        first = chunk.address // WORD
        return [divmod(first + at, 8) for at in range(len(chunk.data) // WORD)]

    def torn(self, words, path):
        """Which of one line's words of a chunk that is being written may be there."""
        if path in (Path.STORE, Path.MMIO):
            return [words[:count] for count in range(len(words) + 1)]
        return [(), tuple(words)] if self.whole_lines else list(subsets(words))

    def channel(self, number):
        """Every set of survivors of a channel, as {(chunk, line): words}."""
        chunks = [
            chunk
            for chunk in self.trace.channels[number].chunks
            if chunk.reached_ps[0] <= self.at_ps and self.stage(chunk) is not None
        ]
        if not chunks:
            return [{}]
        by_line = {}
        for chunk in chunks:
            for line, word in self.words(chunk):
                by_line.setdefault((chunk, line), []).append((line, word))
        if self.tied(chunks[0]):
            return self.prefixes(chunks, by_line)
        if self.trace.channels[number].loose:
            return self.any_of_them(by_line)
        lines = sorted({line for _, line in by_line})
        per_line = [
            self.prefixes(
                [c for c in chunks if (c, line) in by_line], {k: v for k, v in by_line.items() if k[1] == line}
            )
            for line in lines
        ]
        return [{key: words for part in parts for key, words in part.items()} for parts in product(*per_line)]

    def tied(self, chunk):
        return self.stage(chunk) <= Stage.VISIBLE and self.trace.channels[chunk.channel].ordered

    def any_of_them(self, by_line):
        """Each line of each chunk whole, torn or not at all, whatever the others do."""
        parts = [
            [tuple(words)] if self.certain(*key) else {*self.torn(words, key[0].path), tuple(words)}
            for key, words in by_line.items()
        ]
        return [dict(zip(by_line, chosen, strict=True)) for chosen in product(*parts)]

    def prefixes(self, chunks, by_line):
        """The first chunks whole, the next one torn (or not at all), the rest absent."""
        least = max(
            (turn + 1 for turn, c in enumerate(chunks) for k in by_line if k[0] is c and self.certain(*k)), default=0
        )
        found = []
        for count in range(least, len(chunks) + 1):
            whole = {key: tuple(words) for key, words in by_line.items() if key[0] in chunks[:count]}
            if count == len(chunks):
                found.append(whole)
                continue
            keys = [key for key in by_line if key[0] is chunks[count]]
            for parts in product(*(self.torn(by_line[key], key[0].path) for key in keys)):
                found.append({**whole, **{key: tuple(part) for key, part in zip(keys, parts, strict=True)}})
        return found

    def allowed(self, present, by_piece):
        for line in {line for _, line in by_piece}:
            pieces = [(chunk, present.get((chunk, line), ())) for chunk, at in by_piece if at == line]
            if sum(0 < len(words) < by_piece[chunk, line] for chunk, words in pieces) > 1:
                return False  # at most one is torn
            for chunk, words in pieces:
                if not words:
                    continue
                for other, there in pieces:
                    before = order(other) < order(chunk) and (self.is_loose(chunk) or other.channel != chunk.channel)
                    certain = other.forced_ps[Stage.VISIBLE] <= chunk.reached_ps[0]
                    if before and certain and len(there) < by_piece[other, line]:
                        return False  # it was certainly in the line, whole, before this one was written
        return all(
            len(present.get((other, at), ())) == whole
            for chunk, line in present
            if present[chunk, line]
            for channel, count in chunk.behind
            for (other, at), whole in by_piece.items()
            if other.channel == channel and other.position < count and (self.tied(chunk) or at == line)
        )

    def is_loose(self, chunk):
        return self.trace.channels[chunk.channel].loose

    def images(self, lines):
        by_piece = {}
        for chunk in self.trace.chunks:
            for line, _ in self.words(chunk):
                by_piece[chunk, line] = by_piece.get((chunk, line), 0) + 1
        by_piece = {key: count for key, count in by_piece.items() if key[0].reached_ps[0] <= self.at_ps}
        found = set()
        for parts in product(*(self.channel(number) for number in range(len(self.trace.channels)))):
            present = {key: words for part in parts for key, words in part.items()}
            if not self.allowed(present, by_piece):
                continue
            memory = {line: bytearray(initial((DEVICE, line))) for line in lines}
            for chunk, line in sorted(present, key=lambda key: order(key[0])):
                for _, word in present[chunk, line]:
                    at = (line * 8 + word) * WORD - chunk.address
                    memory[line][word * WORD : (word + 1) * WORD] = chunk.data[at : at + WORD]
            found.add(tuple(bytes(memory[line]) for line in lines))
        return found


def order(chunk):
    return chunk.reached_ps[Stage.VISIBLE], chunk.channel, chunk.number


# the comparison -----------------------------------------------------------------------------------------------------

CASE = st.tuples(
    st.sampled_from(KINDS),
    STEPS,
    st.sampled_from(list(Domain)),
    st.booleans(),
    st.booleans(),
    st.permutations([0, 1, 2]),
)


def instants(world):
    """A few instants of every step: after writes, before and after flushes and edges."""
    return [turn + after for turn in range(STEP_PS, world.now + 1, STEP_PS) for after in (0, 5, 12, 15)]


def views_of(world, domain, whole_lines, iio):
    return Views(world.trace, {DEVICE: domain}, initial, whole_lines=whole_lines, iio_wc_survives=iio)


# One chunk torn across its lines (whole in this one) beside another chunk torn in this one.
TWO_TORN = [("write", 0, 0, 1, 0), ("write", 0, 6, 3, 0), ("write", 1, 0, 2, 0)]
# A DMA write into a line that certainly held a store already.
OVER_A_STORE = [("write", 1, 0, 1, 0), ("force", 1), ("write", 0, 1, 2, 0)]
# A flush of one line proves an earlier store to another one.
PROVED_BY_A_FLUSH = [("write", 0, 14, 1, 0), ("write", 0, 0, 1, 0), ("flush", 0, 0)]


@settings(max_examples=200)
@given(CASE, st.integers(0, 100))
@example(((Path.DMA_DDIO, Path.DMA_DDIO), TWO_TORN, Domain.EADR, False, False, [0, 1, 2]), 8)
@example(((Path.DMA_DDIO, Path.STORE), OVER_A_STORE, Domain.ADR, False, False, [0, 1, 2]), 8)
@example(((Path.STORE, Path.STORE), PROVED_BY_A_FLUSH, Domain.EADR, False, False, [0, 1, 2]), 16)
def test_what_may_be_is_what_the_definition_says(case, instant):
    paths, steps, domain, whole_lines, iio, lines = case
    world = World(paths).run(steps)
    views = views_of(world, domain, whole_lines, iio)
    at_ps = instants(world)[instant % len(instants(world))]
    expected = Definition(world.trace, at_ps, domain, whole_lines, iio).images(lines)
    assert images(views, [(DEVICE, line) for line in lines], at_ps) == expected


PATHS3 = [(path,) * 3 for path in (Path.DMA_DDIO, Path.DMA_NO_DDIO, Path.PEER)]
ONE_OF_3 = st.integers(0, 2)
STEPS3 = st.lists(
    st.one_of(
        st.tuples(st.just("write"), ONE_OF_3, st.integers(5, 9), st.integers(1, 2), st.integers(0, 2)),
        st.tuples(st.just("write"), ONE_OF_3, st.integers(0, 20), st.integers(1, 1), st.integers(0, 2)),
        st.tuples(st.just("force"), ONE_OF_3),
        st.tuples(st.just("persist"), ONE_OF_3, st.integers(0, 3)),
        st.tuples(st.just("look"), ONE_OF_3, st.integers(0, 2)),
        st.tuples(st.just("flush"), ONE_OF_3, st.integers(0, 2)),
    ),
    max_size=6,
)
CASE3 = st.tuples(
    st.sampled_from(PATHS3),
    STEPS3,
    st.sampled_from([Domain.EADR, Domain.EADR, Domain.ADR, Domain.MEDIA, Domain.PMR, Domain.WSP]),
    st.booleans(),
    st.permutations([0, 1, 2]),
)
# An ATOMIC WRITE in the line of the WRITE before it; one in another line; a later WRITE that overtakes it.
RELEASED = [("write", 0, 0, 1, 0), ("write", 1, 16, 1, 0), ("write", 2, 1, 1, 0), ("write", 0, 8, 1, 0)]
# A torn release: whatever is there of it brings along all before it.
TORN_RELEASE = [("write", 1, 0, 2, 0), ("write", 2, 7, 2, 0)]
# A loose WRITE whose line stands still while a release behind it arrives.
LATER_RELEASE = [("write", 1, 8, 1, 0), ("write", 2, 0, 1, 0)]


def three(case):
    """A queue pair's channels: in order, in any order, and the one whose chunks are behind both."""
    paths, steps, domain, whole_lines, lines = case
    world = World(paths, loose=(1,), release=2).run(steps)
    return world, domain, whole_lines, lines


@settings(max_examples=300)
@given(CASE3, st.integers(0, 100), st.integers(0, 100))
@example((PATHS3[0], RELEASED, Domain.EADR, True, [0, 1, 2]), 12, 16)
@example((PATHS3[0], RELEASED, Domain.EADR, True, [2, 1, 0]), 8, 16)
@example((PATHS3[0], RELEASED, Domain.ADR, False, [0, 1, 2]), 8, 16)
@example((PATHS3[0], TORN_RELEASE, Domain.EADR, False, [1, 0, 2]), 4, 9)
@example((PATHS3[0], TORN_RELEASE, Domain.EADR, False, [0, 1, 2]), 4, 9)
@example((PATHS3[0], LATER_RELEASE, Domain.EADR, True, [1, 0, 2]), 1, 9)
def test_releases_and_loose_channels_are_what_the_definition_says(case, earlier, later):
    """At two instants of one view: what it remembers of the first must not show at the second."""
    world, domain, whole_lines, lines = three(case)
    views = views_of(world, domain, whole_lines, False)
    every = instants(world)
    for at_ps in sorted({every[turn % len(every)] for turn in (earlier, later)} if every else ()):
        expected = Definition(world.trace, at_ps, domain, whole_lines, False).images(lines)
        assert images(views, [(DEVICE, line) for line in lines], at_ps) == expected


@settings(max_examples=200)
@given(CASE3)
def test_what_a_timing_with_releases_left_may_be(case):
    world, domain, whole_lines, lines = three(case)
    views, keys = views_of(world, domain, whole_lines, False), [(DEVICE, line) for line in lines]
    for at_ps in instants(world):
        timed = tuple(views.timed(key, at_ps).data for key in keys)
        assert timed in images(views, keys, at_ps)


@settings(max_examples=200)
@given(CASE3)
def test_with_releases_too_each_content_comes_once_and_changes_only_when_it_is_said_to(case):
    world, domain, whole_lines, lines = three(case)
    stands_still(world, views_of(world, domain, whole_lines, False), lines)


@settings(max_examples=200)
@given(CASE)
def test_what_this_timing_left_may_be(case):
    paths, steps, domain, whole_lines, iio, lines = case
    world = World(paths).run(steps)
    views, keys = views_of(world, domain, whole_lines, iio), [(DEVICE, line) for line in lines]
    for at_ps in instants(world):
        timed = tuple(views.timed(key, at_ps).data for key in keys)
        assert timed in images(views, keys, at_ps)


@settings(max_examples=200)
@given(CASE)
@example(((Path.STORE, Path.STORE), PROVED_BY_A_FLUSH, Domain.EADR, False, False, [0, 1, 2]))
def test_each_content_comes_once_and_changes_only_when_it_is_said_to(case):
    paths, steps, domain, whole_lines, iio, lines = case
    world = World(paths).run(steps)
    stands_still(world, views_of(world, domain, whole_lines, iio), lines)


def stands_still(world, views, lines):
    changes = views.changes()
    for line in lines:
        key, before, last_ps = (DEVICE, line), None, 0
        for at_ps in instants(world):
            found = [(content.data, tuple(sorted(content.cut.items()))) for content in views.contents(key, at_ps, {})]
            assert len(found) == len(set(found))
            now = {image for image, _ in found}
            if before is not None and now != before:
                assert any(last_ps < ps <= at_ps for ps, changed in changes if changed == key)
            before, last_ps = now, at_ps


@pytest.mark.parametrize("paths", KINDS)
def test_where_nothing_is_pending_there_is_one_image(paths):
    steps = [("write", which, 3 * which + 7, 3, 0) for which in (0, 1)]
    steps += [("force", 0), ("force", 1), ("look", 0, 0), ("look", 1, 0), ("look", 0, 1), ("look", 1, 1)]
    steps += [("flush", which, line) for which in (0, 1) for line in (0, 1)]
    world = World(paths).run(steps)
    for domain in (Domain.ADR, Domain.EADR, Domain.WSP):
        views = views_of(world, domain, False, False)
        keys = [(DEVICE, line) for line in (0, 1, 2)]
        assert images(views, keys, world.now) == {tuple(views.timed(key, world.now).data for key in keys)}
