"""Is every image that a checksum cannot tell from the right one found, and none that it can?

Against brute force: all images written out, each with its CRC32 computed. Collisions are made on purpose: a difference
that is a multiple of the CRC's polynomial does not change the checksum.
"""

from __future__ import annotations

import zlib
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpsim.models.durability.views import Content, TornLine
from rpsim.protocols.efactory.efactory import HEADER_BYTES, SET, EFactory
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.history import Torn as TornValue
from rpsim.validation.crash import checksums
from rpsim.validation.crash.brute_force import BruteForce
from rpsim.validation.crash.checksums import Check, Guarded, solutions
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.restart import lines_of
from rpsim.validation.oracle import CONDITIONS

from ..small import PLATFORMS, put, run

LINE, WORD = 64, 8
UNSEEN = (0x1DB710641).to_bytes(WORD, "little")
"""The polynomial of CRC32, its highest power first: to add it to a word changes nothing."""


def changed(data: bytes, words: dict[int, bytes]) -> bytes:
    """``data`` with some of its words changed by these differences."""
    found = bytearray(data)
    for word, difference in words.items():
        for at, byte in enumerate(difference):
            found[word * WORD + at] ^= byte
    return bytes(found)


differences = st.one_of(
    st.just(UNSEEN), st.just(bytes(WORD)), st.binary(min_size=WORD, max_size=WORD), st.just(b"\1" + bytes(7))
)


@st.composite
def a_line(draw):
    """What a line may hold: up to two contents and a torn piece of up to three words, in any combination."""
    base = draw(st.sampled_from([bytes(LINE), b"\xa5" * LINE]))
    words = draw(st.dictionaries(st.integers(0, 7), differences, min_size=2, max_size=3))
    there = changed(base, words)
    torn = TornLine(Content(base, {}, ()), tuple((w * WORD, w * WORD + WORD) for w in sorted(words)), there)
    other = Content(changed(base, draw(st.dictionaries(st.integers(0, 7), differences, max_size=1))), {}, ())
    parts = {"none": Content(base, {}, ()), "all": Content(there, {}, ()), "other": other, "torn": torn}
    return [parts[name] for name in draw(st.lists(st.sampled_from(sorted(parts)), min_size=1, max_size=4, unique=True))]


def written_out(items):
    return {content.data for item in items for content in ([item] if isinstance(item, Content) else item.written_out())}


def compare(lines, offset, length, expected):
    """The matching images of a check, which are those of brute force."""
    guarded = Guarded(0, offset, length, expected)
    keys = guarded.line_keys()
    found = list(Check(guarded, keys, lambda key: bytes(LINE)).images(lambda key, at, cut: iter(lines[key[1]]), 0, {}))
    images = list(product(*(written_out(lines[key[1]]) for key in keys)))
    right = {image for image in images if guarded.matches(zip(keys, image, strict=True))}
    matching = [tuple(content.data for content in each.contents) for each in found if each.matches]
    assert len(matching) == len(set(matching))
    assert set(matching) == right
    others = {tuple(content.data for content in each.contents) for each in found if not each.matches}
    assert bool(others) == (len(right) < len(images))
    assert others <= set(images) - right
    return right


some_lines = st.lists(a_line(), min_size=1, max_size=3)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(some_lines, st.integers(0, 20), st.integers(0, 20), st.randoms(use_true_random=False))
def test_the_images_that_match_are_those_that_brute_force_finds(lines, skipped, left_out, random):
    length = LINE * len(lines) - skipped - left_out
    image = b"".join(random.choice(sorted(written_out(items))) for items in lines)
    expected = random.choice([zlib.crc32(image[skipped : skipped + length])] * 3 + [random.getrandbits(32)])
    compare(lines, skipped, length, expected)


def several():
    """A line with four images, each of which has the checksum of the first."""
    base = bytes(LINE)
    there = changed(base, dict.fromkeys((0, 3), UNSEEN))
    torn = TornLine(Content(base, {}, ()), ((0, WORD), (3 * WORD, 4 * WORD)), there)
    return [[Content(base, {}, ()), Content(there, {}, ()), torn]], 0, LINE, zlib.crc32(base)


def test_all_of_several_images_with_one_checksum_are_found():
    assert len(compare(*several())) == 4


def test_a_search_that_stops_at_one_solution_is_caught(monkeypatch):
    monkeypatch.setattr(checksums, "solutions", lambda effects, target: list(solutions(effects, target))[:1])
    with pytest.raises(AssertionError):
        compare(*several())


@given(st.lists(st.integers(0, 15), max_size=8), st.integers(0, 15))
@example([], 0)
def test_sets_with_a_sum(effects, target):
    def total(chosen):
        found = 0
        for turn, effect in enumerate(effects):
            found ^= effect if chosen >> turn & 1 else 0
        return found

    expected = [chosen for chosen in range(1 << len(effects)) if total(chosen) == target]
    assert sorted(solutions(effects, target)) == expected


# in the exploration ----------------------------------------------------------------------------------------------


class LooksAnyway(EFactory, name="efactory-looks-anyway"):
    """Compares the checksum, and then looks at the bytes itself."""

    title = "eFactory that does not believe its processor"

    class Server(EFactory.Server):
        def make_durable(self, thread, offset, version):
            value_at = self.log + offset + HEADER_BYTES
            yield from thread.crc32_matches(value_at, version.vlen, version.crc)
            if zlib.crc32((yield from thread.load(value_at, version.vlen))) != version.crc:
                return False
            return (yield from super().make_durable(thread, offset, version))


class TrustsAnyway(EFactory, name="efactory-trusts-anyway"):
    """Compares the checksum, and takes the value whatever it says."""

    title = "eFactory that does not care"

    class Server(EFactory.Server):
        def make_durable(self, thread, offset, version):
            value_at = self.log + offset + HEADER_BYTES
            yield from thread.crc32_matches(value_at, version.vlen, version.crc)
            yield from thread.flush(value_at, version.vlen)
            yield from self.mark(thread, offset, "durable", SET)
            return True


class Scribbles(EFactory, name="efactory-scribbles"):
    """Compares the checksum, changes the value, and compares again."""

    title = "eFactory that overwrites what it has verified"

    class Server(EFactory.Server):
        def make_durable(self, thread, offset, version):
            value_at = self.log + offset + HEADER_BYTES
            if not (yield from thread.crc32_matches(value_at, version.vlen, version.crc)):
                return False
            yield from thread.store(value_at, bytes(WORD))
            return (yield from super().make_durable(thread, offset, version))


OURS = {kind.name: kind for kind in (LooksAnyway, TrustsAnyway, Scribbles)}
for _name in OURS:
    del Scheme.registry[_name]


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", ["efactory", *OURS])
def test_what_may_be_read_is_what_all_images_one_by_one_give(scheme, platform, ddio, monkeypatch):
    """Also where code looks at the bytes, or believes them, although the checksum says no."""
    for name, kind in OURS.items():
        monkeypatch.setitem(Scheme.registry, name, kind)
    away = {"core": "server[0] core 1", "at": "0 ns", "for": "1 ms"}  # what is not verified, recovery has to
    result = run(scheme, [put(0, "k0")], platform, ddio, value="24 B", outages=[away])
    explorer, brute = Explorer(result), BruteForce(result)
    views, restart, outcomes = explorer.views, explorer.restart, explorer.outcomes("k0")
    recovered = {}
    for at_ps in brute.instants():
        everything = set()
        for image in brute.images(views, sorted(views.pieces), at_ps):
            name = tuple(image.items())
            if name not in recovered:
                recovered[name] = restart.read("k0", lines_of(image.items(), restart.initial))
            everything.add(recovered[name])
        assert {outcome.value for outcome in outcomes.at(at_ps)} == everything
    torn = any(isinstance(value, TornValue) and "of v1" in value.note for value in recovered.values())
    assert torn == (scheme == TrustsAnyway.name)


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_a_value_of_32_words_is_explored_to_the_end(platform, ddio):
    """Of 2 to the 32 images the few that the checksum takes for whole are recovered, and one that it does not."""
    found = Explorer(run("efactory", [put(0, "k0")] * 3, platform, ddio, value="256 B"), conditions=CONDITIONS).walk()
    assert found.exhaustive
    assert found.recoveries_run < 200
