"""Is every image that a checksum cannot tell from the right one found, and none that it can?

Against brute force: all images written out, each with its CRC32 computed. Collisions are made on purpose: a difference
that is a multiple of the CRC's polynomial does not change the checksum.
"""

from __future__ import annotations

import zlib
from itertools import product
from typing import ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rpsim.models.durability.views import Content, TornLine
from rpsim.models.verbs import FLUSHES, REMOTE
from rpsim.protocols.efactory.efactory import HEADER_BYTES, SET, EFactory
from rpsim.protocols.layout import U32, Layout
from rpsim.protocols.parts.onesided import Door, Poster, VerbsError
from rpsim.protocols.scheme import OutcomeUnknown, Request, Role, Scheme
from rpsim.scenarios.history import Torn as TornValue
from rpsim.validation.crash import checksums
from rpsim.validation.crash.brute_force import BruteForce
from rpsim.validation.crash.checksums import Check, Guarded, solutions
from rpsim.validation.crash.explorer import Explorer
from rpsim.validation.crash.restart import lines_of
from rpsim.validation.crash.strikes import Walk
from rpsim.validation.oracle import CONDITIONS
from rpsim.validation.testing.checks import crash_report, scenario_of

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
    views, restart = explorer.views, explorer.restart
    (outcomes,) = (explorer.outcomes(one) for one in explorer.subjects() if one.object == "k0")
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


# a record that a client fetches by READ ----------------------------------------------------------------------------


class Head(Layout):
    """A line in front of a value: the checksum of what follows."""

    crc = U32()
    there = U32()


class Fetched(Scheme):
    """Values in the memory of a machine without code, each behind a line with its checksum; two copies of each."""

    title, paper, section = "values that are read with their checksums", "a test", ""
    claims: ClassVar = {}
    operations = ("put", "get")
    updates = frozenset({"put"})
    faults: ClassVar = {"node": ("power",), "all": ("power",)}
    checked = True

    class Node(Role, memory=("pm",), passive=True):
        def begin(self):
            pm, size = self.node.memory["pm"], 2 * each(self)
            if not hasattr(self, "records"):
                self.records = pm.allocate(size * len(self.sizes.objects), "records", item_bytes=size)
            self.size, self.door = size, Door(self.node)
            self.key = self.door.register(self.records, size * len(self.sizes.objects), REMOTE | FLUSHES).key

    class Client(Role, invokes=True):
        def connect(self, thread):
            poster = Poster(thread, self.node, 64 + self.sizes.value_bytes, 2)
            return poster, poster.connect(self.scheme.roles["node"][0].door)

        def perform(self, session, request):
            (poster, qp), node, step = session, self.scheme.roles["node"][0], request.step
            length = 64 + self.sizes.value_bytes
            at = node.records + node.size * self.sizes.objects.index(step.object)
            for copy in (at, at + each(self)):
                if step.value is not None:
                    record = Head.pack(crc=zlib.crc32(step.value), there=1).ljust(64, b"\0") + step.value
                    written = yield from poster.write(qp, copy, node.key, record)
                    yield from poster.all([written, (yield from poster.flush(qp, copy, node.key, length))])
                    continue
                if self.scheme.checked:
                    record = yield from poster.read_checked(qp, copy, node.key, length, 64, crc_of)
                else:
                    record = yield from poster.result((yield from poster.read(qp, copy, node.key, length)))
                    matches = (yield from poster.thread.crc32_of(record[64:])) == crc_of(record[:64])
                    record = record if matches else None
                if record is not None:
                    return record[64:]

    def load(self, objects):
        node = self.roles["node"][0]
        for number, value in enumerate(objects.values()):
            record = (Head.pack(crc=zlib.crc32(value), there=1).ljust(64, b"\0") + value).ljust(node.size // 2, b"\0")
            node.node.memory["pm"].space.poke(
                node.records - node.node.memory["pm"].base + node.size * number, 2 * record
            )

    def probe(self, object):
        return Request.of("get", object)


def each(role):
    """The bytes of a copy: its value begins a line, and so does the next copy."""
    return 64 + -(-role.sizes.value_bytes // 64) * 64


def crc_of(head):
    found = Head.unpack(head)
    return found.crc if found.there else None


@pytest.fixture
def fetched():
    made = []

    def make(**body):
        made.append(f"fetched-{len(made)}")
        return type("Made", (Fetched,), body, name=made[-1])

    yield make
    for name in made:
        del Scheme.registry[name]


def fetching(kind, value):
    operations = [{"process": 0, "f": "put", "object": "k0"}, {"process": 0, "f": "get", "object": "k0"}]
    workload = {"kind": "schedule", "keys": 1, "value": value, "operations": operations}
    return crash_report(kind, workload=workload, clients=1, fault="all power", ddio="on")


@pytest.mark.long
def test_a_checksum_of_bytes_that_a_client_fetches_is_decided_exactly(fetched):
    report = fetching(fetched(), "256 B")
    assert report.exhaustive and set(report.verdicts.values()) == {"holds"}, report.verdicts
    assert report.states < 100
    looked_at = fetching(fetched(checked=False), "256 B")
    assert not looked_at.exhaustive and looked_at.states > 4096


def test_both_ways_to_compare_find_the_same(fetched):
    both = [fetching(fetched(checked=checked), "8 B") for checked in (True, False)]
    assert both[0].verdicts == both[1].verdicts and all(report.exhaustive for report in both)


def test_a_reader_that_takes_what_does_not_match_is_caught(fetched):
    class Client(Fetched.Client):
        def perform(self, session, request):
            if request.step.f == "put":
                return (yield from super().perform(session, request))
            (poster, qp), node = session, self.scheme.roles["node"][0]
            at, length = node.records + node.size * self.sizes.objects.index(request.step.object), 64 + 64
            yield from poster.read_checked(qp, at, node.key, length, 64, crc_of)
            return (yield from poster.result((yield from poster.read(qp, at, node.key, length))))[64:]

    assert fetching(fetched(Client=Client), "64 B").verdicts["committed"] == "violated"


# a machine that comes back to survivors ------------------------------------------------------------------------
class Beside(Role, memory=("dram",), passive=True):
    """A machine that stands, so that the fault of the other is executed."""


class Surviving(Fetched.Client):
    """Its put may find nobody."""

    def perform(self, session, request):
        try:
            return (yield from super().perform(session, request))
        except VerbsError as error:
            raise OutcomeUnknown(str(error)) from error


PUT = {"process": 0, "f": "put", "object": "k0"}


def returning(kind, value):
    workload = {"kind": "schedule", "keys": 1, "value": value, "operations": [PUT]}
    return crash_report(kind, "optane-adr", workload=workload, clients=1, fault="node[0] power", ddio="off")


def test_the_checksum_of_memory_that_comes_back_is_decided_as_one_comparison(fetched):
    """Byte by byte 2 to the 16 torn images of a value are a run each at every instant of its WRITE."""
    report = returning(fetched(Client=Surviving, Beside=Beside), "128 B")
    assert report.exhaustive and report.view == "executed"
    assert set(report.verdicts.values()) == {"holds"} and report.states < 150


@pytest.mark.long
def test_executed_comparisons_find_what_bytes_do(fetched):
    both = [returning(fetched(Client=Surviving, Beside=Beside, checked=one), "24 B") for one in (True, False)]
    assert both[0].verdicts == both[1].verdicts and all(one.exhaustive for one in both)
    assert both[0].states < both[1].states


@pytest.mark.long
def test_who_looks_at_a_range_that_did_not_match_sees_every_other_image(fetched):
    """The comparison is taken for nothing: then the torn values are there, all of them, and no more."""

    class Looking(Surviving):
        def perform(self, session, request):
            if request.step.f == "put":
                return (yield from super().perform(session, request))
            (poster, qp), node = session, self.scheme.roles["node"][0]
            length = 64 + self.sizes.value_bytes
            yield from poster.read_checked(qp, node.records, node.key, length, 64, crc_of)
            return (yield from poster.result((yield from poster.read(qp, node.records, node.key, length))))[64:]

    class Plain(Looking):
        def perform(self, session, request):
            if request.step.f == "put":
                return (yield from super().perform(session, request))
            (poster, qp), node = session, self.scheme.roles["node"][0]
            length = 64 + self.sizes.value_bytes
            return (yield from poster.result((yield from poster.read(qp, node.records, node.key, length))))[64:]

    def found(client):
        kind = fetched(Client=client, Beside=Beside)
        made = scenario_of(
            kind, "optane-adr", workload={"kind": "schedule", "keys": 1, "value": "24 B", "operations": [PUT]},
            clients=1, fault="node[0] power", ddio="off",
        )  # fmt: skip
        (variant,) = made.variants()
        walk = Walk(made, variant)
        return {state.aftermath.history.operations[-1].result for state in walk.states(walk.instants)}

    assert found(Looking) == found(Plain)
