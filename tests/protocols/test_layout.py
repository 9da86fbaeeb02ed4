"""Are records laid out field by field, little-endian and without gaps?"""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols import layout
from rpsim.protocols.layout import U32, U64, Block, Bytes, Layout, Rest
from rpsim.protocols.parts.index import Entry, Location
from rpsim.protocols.parts.kv import Object


class Record(Layout):
    name = Bytes(6)
    small = U32()
    large = U64()
    tail = Rest()


def test_fields_follow_each_other_in_the_order_in_which_they_are_listed():
    assert [field.name for field in Record.fields] == ["name", "small", "large", "tail"]
    assert [Record.offset_of(name) for name in ("name", "small", "large", "tail")] == [0, 6, 10, 18]
    assert Record.size == 18  # without the rest


def test_numbers_are_little_endian_and_names_padded_with_zeros():
    packed = Record.pack(name=b"k1", small=1, large=2, tail=b"xyz")
    assert packed == b"k1\0\0\0\0" + b"\x01\0\0\0" + b"\x02\0\0\0\0\0\0\0" + b"xyz"


@given(
    name=st.binary(max_size=6).filter(lambda name: not name.endswith(b"\0")),
    small=st.integers(0, 2**32 - 1),
    large=st.integers(0, 2**64 - 1),
    tail=st.binary(max_size=40),
)
def test_what_is_packed_is_what_is_unpacked(name, small, large, tail):
    record = Record.unpack(Record.pack(name=name, small=small, large=large, tail=tail))
    assert (record.name, record.small, record.large, record.tail) == (name, small, large, tail)


def test_a_record_without_a_rest_ignores_what_follows_it():
    entry = Entry.unpack(Entry.pack(key=b"k", location=7) + b"rubbish")
    assert (entry.key, entry.location) == (b"k", 7)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="name holds 6 bytes, not 7"):
        Record.pack(name=b"seven b", small=0, large=0, tail=b"")
    with pytest.raises(OverflowError):
        Record.pack(name=b"", small=2**32, large=0, tail=b"")
    with pytest.raises(KeyError, match="large"):
        Record.pack(name=b"", small=0, tail=b"")


def test_what_must_not_tear_is_aligned_to_eight_bytes():
    assert Entry.offset_of("location") % 8 == 0
    assert Object.offset_of("value") % 8 == 0


@given(offset=st.integers(1, 2**40 - 1), length=st.integers(0, 2**24 - 1))
def test_a_location_is_one_word(offset, length):
    word = Location(offset, length).pack()
    assert word < 2**64
    assert Location.unpack(word) == Location(offset, length)


def test_no_location_is_the_word_zero():
    assert Location.unpack(0) is None


def test_the_example_in_the_documentation_is_true():
    failed, tried = doctest.testmod(layout)
    assert tried and not failed


def test_a_block_keeps_the_zeros_at_its_end_and_a_name_does_not():
    class Both(Layout):
        name = Bytes(4)
        value = Block(4)

    found = Both.unpack(Both.pack(name=b"a\0", value=b"a\0"))
    assert (found.name, found.value) == (b"a", b"a\0\0\0")
