"""Bytes appear when their time has come, in an order that no caller's timing decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.bytespace import LINE_BYTES, PAGE_BYTES, ByteSpace, ReadRun, lines, round_up

SIZE = 1 << 20


def test_a_write_is_there_from_its_instant_on():
    space = ByteSpace(SIZE)
    space.write_at(100, 0, 0, 10, b"new")
    assert space.read(99, 10, 3) == bytes(3)
    assert space.read(100, 10, 3) == b"new"


def test_the_inbox_is_caught_up_by_whoever_reads():
    space, seen = ByteSpace(SIZE), []
    space.write_at(100, 0, 0, 0, b"a", lambda: seen.append("first"))
    space.write_at(200, 0, 1, 1, b"b", lambda: seen.append("second"))
    assert space.peek(0, 2) == bytes(2) and not seen
    assert space.read(150, 500, 1) == bytes(1)
    assert (space.peek(0, 2), seen) == (b"a\0", ["first"])
    space.catch_up(200)
    assert (space.peek(0, 2), seen) == (b"ab", ["first", "second"])


def test_a_run_of_one_piece_that_a_write_meets_is_read_once():
    space, found = ByteSpace(SIZE), []
    run = ReadRun(50, 100, 7, 0, 4, lambda: [(100, 0, 4)], lambda at_ps, offset, data: found.append((at_ps, data)))
    space.read_run(run)
    space.write_at(100, 0, 0, 0, b"new!", None, 60)
    space.catch_up(200)
    assert found == [(100, b"new!")]


def test_a_read_that_is_asked_for_ahead_gets_what_its_own_instant_shows():
    space, found = ByteSpace(SIZE), []
    space.read_at(100, 1, 0, 1, found.append)
    space.read_at(100, 0, 0, 1, found.append)
    space.read_at(99, 2, 0, 1, found.append)
    space.write_at(100, 5, 0, 0, b"a")
    space.write_at(101, 5, 1, 0, b"b")
    space.catch_up(98)
    assert found == []
    assert space.read(200, 0, 1) == b"b"
    assert found == [b"\0", b"a", b"a"]


def test_nothing_is_applied_before_its_time_however_much_waits():
    space = ByteSpace(SIZE)
    for number in range(5000):
        space.write_at(10**9 + number, 0, number, 0, b"x", None, number)
    assert space.read(10**9 - 1, 0, 1) == b"\0"
    assert space.read(10**9, 0, 1) == b"x"


WRITES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 6), st.binary(min_size=1, max_size=5)),
    max_size=12,
)


@pytest.mark.long
@given(WRITES, st.randoms())
def test_the_order_of_calls_is_no_rule(writes, random):
    """Equal instants are decided by channel and number; nothing depends on who called first."""
    numbered = [(at, channel, number, address, data) for number, (at, channel, address, data) in enumerate(writes)]
    expected = bytearray(16)
    for _, _, _, address, data in sorted(numbered):
        expected[address : address + len(data)] = data
    random.shuffle(numbered)
    space = ByteSpace(SIZE)
    for write in numbered:
        space.write_at(*write)
    assert space.read(3, 0, 16) == bytes(expected)


@given(st.lists(st.tuples(st.integers(0, 3 * PAGE_BYTES), st.binary(max_size=2 * PAGE_BYTES)), max_size=5))
def test_pages_are_invisible(writes):
    space, plain = ByteSpace(6 * PAGE_BYTES), bytearray(6 * PAGE_BYTES)
    for address, data in writes:
        space.poke(address, data)
        plain[address : address + len(data)] = data
    assert space.peek(0, 6 * PAGE_BYTES) == bytes(plain)
    for number, page in space.snapshot().items():
        assert page == bytes(plain[number * PAGE_BYTES :][:PAGE_BYTES])


def test_only_touched_pages_are_kept():
    space = ByteSpace(1 << 40)
    space.poke((1 << 40) - 1, b"x")
    assert list(space.snapshot()) == [((1 << 40) - 1) // PAGE_BYTES]


@pytest.mark.parametrize(("address", "length"), [(-1, 1), (SIZE, 1), (SIZE - 1, 2)])
def test_out_of_bounds(address, length):
    space = ByteSpace(SIZE)
    with pytest.raises(IndexError):
        space.write_at(0, 0, 0, address, bytes(length))
    with pytest.raises(IndexError):
        space.read(0, address, length)
    with pytest.raises(IndexError):
        space.poke(address, bytes(length))


def test_a_restored_space_asks_once_for_each_line_it_touches():
    space, asked = ByteSpace(SIZE), []

    def source(number):
        asked.append(number)
        return bytes([number]) * LINE_BYTES

    space.poke(0, b"forgotten")
    space.write_at(1, 0, 0, 0, b"forgotten")
    space.restore(source)
    assert not asked
    assert space.read(5, 60, 8) == b"\0" * 4 + b"\1" * 4
    space.poke(64 * 3 + 1, b"xy")  # the rest of the line stays as it was
    assert space.peek(64 * 3, 4) == b"\3xy\3"
    assert space.read(6, 0, 256) == b"\0" * 64 + b"\1" * 64 + b"\2" * 64 + b"\3xy" + b"\3" * 61
    assert asked == [0, 1, 3, 2]
    space.write_at(7, 0, 1, 64 * 9, b"z")
    assert asked == [0, 1, 3, 2]
    assert space.read(7, 64 * 9, 2) == b"z\x09"


def test_a_restored_space_across_a_page_boundary():
    space, asked = ByteSpace(SIZE), []
    space.restore(lambda number: asked.append(number) or bytes([number % 256]) * LINE_BYTES)
    assert space.peek(PAGE_BYTES - 1, 2) == bytes([63, 64])
    assert asked == [63, 64]


@pytest.mark.parametrize(
    ("address", "length", "expected"), [(0, 0, []), (0, 64, [0]), (63, 2, [0, 1]), (64, 1, [1]), (1, 128, [0, 1, 2])]
)
def test_the_lines_of_a_range(address, length, expected):
    assert list(lines(address, length)) == expected


def test_a_length_in_whole_units_is_the_least_that_is_no_shorter():
    assert [round_up(length) for length in (0, 1, 64, 65)] == [0, 64, 64, 128]
    assert [round_up(length, 8) for length in (8, 9)] == [8, 16]


# copies --------------------------------------------------------------------------------------------------------------
def of_line(number: int) -> bytes:
    return bytes((number * 37 + at) % 251 for at in range(LINE_BYTES))


RANGES = st.tuples(st.sampled_from([0, 8, 64, 72, 128, 192, 256, 320]), st.sampled_from([0, 1, 8, 64, 72, 128, 200]))
COPIES = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), RANGES, st.sampled_from([512, 576, 584, 64, 320, 1024])),
        st.tuples(st.just("poke"), RANGES, st.just(0)),
        st.tuples(st.just("peek"), RANGES, st.just(0)),
    ),
    max_size=8,
)


@given(COPIES)
def test_a_copy_is_what_was_there_when_it_was_made(steps):
    space, plain = ByteSpace(SIZE), bytearray(b"".join(of_line(number) for number in range(64)))
    space.restore(of_line)
    for turn, (what, (start, length), source) in enumerate(steps):
        if what == "copy":
            space.copy(0, start, source, length)
            plain[start : start + length] = plain[source : source + length]
        elif what == "poke":
            space.poke(start, bytes([turn + 1]) * length)
            plain[start : start + length] = bytes([turn + 1]) * length
        assert what != "peek" or space.peek(start, length) == plain[start : start + length]
    assert space.peek(0, len(plain)) == plain


def test_a_whole_line_is_copied_without_asking_what_it_holds():
    space, asked = ByteSpace(SIZE), []
    space.restore(lambda number: asked.append(number) or of_line(number))
    space.copy(0, 64, 640, 136)  # two lines, and 8 bytes of a third
    assert asked == [12, 3] and space.is_touched(64, 1)
    space.poke(640, bytes(64))  # what comes after is not copied
    assert space.peek(64, 64) == of_line(10) and asked == [12, 3, 10]
    space.copy(0, 0, 64, 64)
    space.copy(0, 256, 128, 64)  # a copy of a copy
    space.poke(128, bytes(64))
    assert asked == [12, 3, 10] and space.peek(0, 64) == of_line(10)
    assert space.peek(256, 64) == of_line(11) and asked == [12, 3, 10, 11]


def test_what_a_failure_has_left_is_not_set_without_time():
    space = ByteSpace(SIZE)
    space.kept = True
    with pytest.raises(RuntimeError, match="as a failure has left it"):
        space.poke(64, b"first contents")
    assert space.peek(64, 14) == bytes(14)
