"""What a 32-bit checksum can tell apart, and what not: a torn value that eFactory takes for whole.

CRC32 is linear. Which of a value's aligned 8-byte words are missing (the log was zero before) changes the checksum by
the exclusive or of one 32-bit number a word. More than 32 such numbers are linearly dependent: of any value of more
than 256 bytes, whatever its content, some words may be missing without the checksum noticing. A power failure may
leave any of the words (Du et al., ICPP'21, section 2.2: the failure-atomic unit is 8 bytes).
"""

from __future__ import annotations

import zlib

import pytest

from rpsim.models.durability.views import Cut, LineKey, Views
from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import Torn
from rpsim.scenarios.values import encode_value
from rpsim.sim.bytespace import lines
from rpsim.sim.trace import Stage
from rpsim.validation.crash.restart import Restart, lines_of
from rpsim.validation.oracle import check

from ...small import PLATFORMS, put, run

LINE, WORD = 64, 8


def unnoticed(value: bytes) -> bytes | None:
    """``value`` with some of its words zero and the same CRC32; None if no choice of words does it."""
    nothing = zlib.crc32(bytes(len(value)))
    basis: dict[int, tuple[int, int]] = {}  # by highest bit: a number, and the set of words whose sum it is
    for number in range(len(value) // WORD):
        at = number * WORD
        alone = bytes(at) + value[at : at + WORD] + bytes(len(value) - at - WORD)
        rest, words = zlib.crc32(alone) ^ nothing, 1 << number
        while rest and rest.bit_length() in basis:
            other, theirs = basis[rest.bit_length()]
            rest, words = rest ^ other, words ^ theirs
        if not rest:
            missing = [i for i in range(len(value) // WORD) if words >> i & 1]
            return b"".join(
                bytes(WORD) if i in missing else value[i * WORD : i * WORD + WORD] for i in range(len(value) // WORD)
            )
        basis[rest.bit_length()] = rest, words
    return None


def test_few_words_are_told_apart_32_often_not_and_more_never():
    short = [unnoticed(encode_value(stamp, 64)) for stamp in range(1, 200)]
    assert short == [None] * len(short)  # 8 numbers of 32 bits are hardly ever dependent
    full = [unnoticed(encode_value(stamp, 256)) for stamp in range(1, 200)]
    assert full.count(None) < len(full) / 2  # 32 random numbers of 32 bits are independent in 29 of 100 cases
    for stamp in range(1, 200):
        value = encode_value(stamp, 264)
        torn = unnoticed(value)
        assert torn is not None and torn != value
        assert zlib.crc32(torn) == zlib.crc32(value)


def allows(views: Views, image: list[tuple[LineKey, bytes]], at_ps: int, cut: Cut) -> bool:
    """Whether a power failure may leave all these lines like this."""
    if not image:
        return True
    (key, data), *rest = image
    return any(
        allows(views, rest, at_ps, content.cut) for content in views.contents(key, at_ps, cut) if content.data == data
    )


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
def test_recovery_takes_such_a_torn_value_for_whole(platform, ddio):
    """A counterexample to ``committed`` that no search through images would come across: one of 2 to the 32.

    The value came in one piece of 256 bytes: where what survives is a prefix of what a queue pair carried, only the
    last piece may be torn.
    """
    result = run("efactory", [put(0, "k0")] * 12, platform, ddio, value="256 B")
    writes = [chunk for chunk in result.system.trace.chunks if len(chunk.data) == 256]
    write, torn = next((write, torn) for write in writes if (torn := unnoticed(write.data)) is not None)
    restart = Restart(result)
    views = restart.views()
    at_ps = write.reached_ps[Stage.ACCEPTED]  # the adapter has all of it, and nothing has forced it on
    keys = [(write.device, line) for line in lines(write.address, 256)]
    image = [(key, torn[i * LINE : (i + 1) * LINE]) for i, key in enumerate(keys)]
    assert allows(views, image, at_ps, {})
    found = restart.read("k0", lines_of(image, lambda key: views.newest(key, at_ps)))
    assert isinstance(found, Torn)
    (finding,) = check(result.history, at_ps, {"k0": found}, [Condition.COMMITTED]).values()
    assert finding.verdict is Verdict.VIOLATED


def test_lines_that_are_taken_whole_are_told_apart_up_to_2_kib():
    """With whole lines as the failure-atomic unit a value of 256 B has four pieces instead of 32."""
    value = encode_value(1, 256)
    whole = set()
    for present in range(16):
        torn = b"".join(value[i * LINE : (i + 1) * LINE] if present >> i & 1 else bytes(LINE) for i in range(4))
        whole.add(zlib.crc32(torn))
    assert len(whole) == 16
