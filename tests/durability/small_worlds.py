"""Small random traces by themselves, and a literal enumeration of what a power failure may leave of them.

The enumeration shares nothing with ``models.durability.views`` but the trace: it lists, channel by channel, which words
of which chunks survive, keeps what the rules allow, and collects the images.
"""

from __future__ import annotations

from itertools import chain, combinations, product

from rpsim.models.durability.places import PLACES, Domain, Path, Place
from rpsim.sim.trace import NEVER, Stage, Trace

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
    Domain.FLASH: {Place.FLASH},
    Domain.PLP: {Place.FLASH, Place.DRIVE_CACHE},
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
