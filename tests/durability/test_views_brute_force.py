"""The adversarial view against a literal enumeration of its definition, on small random traces."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpsim.models.durability.places import Domain, Path
from rpsim.models.durability.views import TornLine, Views

from ..rig import images
from .small_worlds import DEVICE, STEP_PS, Definition, World, initial

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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@settings(max_examples=200)
@given(CASE3)
def test_what_a_timing_with_releases_left_may_be(case):
    world, domain, whole_lines, lines = three(case)
    views, keys = views_of(world, domain, whole_lines, False), [(DEVICE, line) for line in lines]
    for at_ps in instants(world):
        timed = tuple(views.timed(key, at_ps).data for key in keys)
        assert timed in images(views, keys, at_ps)


@pytest.mark.long
@settings(max_examples=200)
@given(CASE3)
def test_with_releases_too_each_content_comes_once_and_changes_only_when_it_is_said_to(case):
    world, domain, whole_lines, lines = three(case)
    stands_still(world, views_of(world, domain, whole_lines, False), lines)


@pytest.mark.long
@settings(max_examples=200)
@given(CASE)
def test_what_this_timing_left_may_be(case):
    paths, steps, domain, whole_lines, iio, lines = case
    world = World(paths).run(steps)
    views, keys = views_of(world, domain, whole_lines, iio), [(DEVICE, line) for line in lines]
    for at_ps in instants(world):
        timed = tuple(views.timed(key, at_ps).data for key in keys)
        assert timed in images(views, keys, at_ps)


@pytest.mark.long
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


@pytest.mark.long
@settings(max_examples=200)
@given(CASE, st.integers(0, 100), st.integers(0, 100))
@example(((Path.DMA_DDIO, Path.DMA_DDIO), TWO_TORN, Domain.EADR, False, False, [0, 1, 2]), 8, 12)
def test_families_written_out_are_the_contents(case, earlier, later):
    paths, steps, domain, whole_lines, iio, lines = case
    world = World(paths).run(steps)
    written_out_alike(world, views_of(world, domain, whole_lines, iio), lines, earlier, later)


@pytest.mark.long
@settings(max_examples=200)
@given(
    CASE3, st.sampled_from([((1,), 2), ((), 2), ((1,), None), ((0, 1), 2)]), st.integers(0, 100), st.integers(0, 100)
)
@example((PATHS3[0], RELEASED, Domain.EADR, False, [2, 1, 0]), ((1,), 2), 8, 16)
@example((PATHS3[0], RELEASED, Domain.ADR, False, [0, 1, 2]), ((1,), 2), 8, 16)
@example((PATHS3[0], TORN_RELEASE, Domain.EADR, False, [0, 1, 2]), ((1,), 2), 4, 9)
@example((PATHS3[0], LATER_RELEASE, Domain.EADR, False, [1, 0, 2]), ((1,), 2), 1, 9)
def test_with_releases_too_families_written_out_are_the_contents(case, channels, earlier, later):
    paths, steps, domain, whole_lines, lines = case
    world = World(paths, *channels).run(steps)
    written_out_alike(world, views_of(world, domain, whole_lines, False), lines, earlier, later)


def written_out_alike(world, views, lines, earlier, later):
    """Under every cut that the lines before it decide, and no cut leaves a line without anything to hold."""
    every = instants(world)

    def compare(at_ps, rest, cut):
        if not rest:
            return
        contents = {identity(content): content for content in views.contents((DEVICE, rest[0]), at_ps, cut)}
        items = list(views.families((DEVICE, rest[0]), at_ps, cut))
        assert {identity(content) for item in items for content in written_out(item)} == contents.keys() != set()
        for further in {frozenset(content.cut.items()): content.cut for content in contents.values()}.values():
            compare(at_ps, rest[1:], further)

    for at_ps in sorted({every[turn % len(every)] for turn in (earlier, later)} if every else ()):
        compare(at_ps, lines, {})


def written_out(item):
    return item.written_out() if isinstance(item, TornLine) else (item,)


def identity(content):
    return content.data, frozenset(content.cut.items())


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
