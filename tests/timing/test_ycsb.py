"""The load is what YCSB says, in the closed form, and the same every time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rpsim.scenarios.build import Draft
from rpsim.scenarios.run.draws import Planned
from rpsim.scenarios.run.workload import objects, plan, planned_updates, schedule_data
from rpsim.scenarios.schema.known import KnownNames, RoleFacts, SchemeFacts
from rpsim.scenarios.ycsb import MIXES, ZipfianKeys, ZipfianRanks, draw_kinds, zipf_probabilities
from rpsim.sim.streams import Streams

STORE = SchemeFacts(
    {"server": RoleFacts(), "client": RoleFacts(many=True, invokes=True)}, ("put", "get"), frozenset({"put"})
)
KNOWN = KnownNames({"saw": STORE}, {"optane-adr": {"ddio": ("on", "off")}})
PLAIN = Draft.new("x", scenario="x", schemes="saw", platform="optane-adr")


def workload(**changes):
    fields = {"kind": "ycsb", "mix": "a", "keys": 200, "value": "64 B", "operations": 2000} | changes
    roles = {"client": {"machines": 4, "processes": 4}}
    return PLAIN.with_(workload=fields, roles=roles).build(known=KNOWN).workload


def test_popularity_is_one_over_rank_to_the_exponent():
    p = zipf_probabilities(1000, 0.99)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert p[0] / p[9] == pytest.approx(10**0.99)
    harmonic = sum(rank**-0.99 for rank in range(1, 1001))
    assert p[0] == pytest.approx(1 / harmonic)
    assert zipf_probabilities(4, 0).tolist() == [0.25] * 4


@pytest.mark.parametrize(("keys", "exponent"), [(200, 0.99), (50, 0.0), (50, 2.0), (1, 0.99)])
def test_drawn_keys_have_the_closed_form(keys, exponent):
    draws = 200_000
    generator = ZipfianKeys(keys, exponent, np.random.Generator(np.random.PCG64(1)))
    drawn = generator.draw(np.random.Generator(np.random.PCG64(2)), draws)
    by_rank = np.bincount(drawn, minlength=keys)[[generator.key_of(rank) for rank in range(keys)]]
    expected = draws * zipf_probabilities(keys, exponent)
    chi_squared = float(((by_rank - expected) ** 2 / expected).sum())
    # keys - 1 degrees of freedom; five standard deviations above the mean of the distribution.
    assert chi_squared <= (keys - 1) + 5 * (2 * (keys - 1)) ** 0.5


def test_another_exponent_is_told_apart():
    generator = ZipfianKeys(200, 0.9, np.random.Generator(np.random.PCG64(1)))
    by_rank = np.bincount(generator.draw(np.random.Generator(np.random.PCG64(2)), 200_000), minlength=200)[
        [generator.key_of(rank) for rank in range(200)]
    ]
    expected = 200_000 * zipf_probabilities(200, 0.99)
    assert float(((by_rank - expected) ** 2 / expected).sum()) > 1000


def test_popular_keys_are_spread_over_the_key_space_without_collisions():
    key_of = ZipfianKeys(1000, 0.99, np.random.Generator(np.random.PCG64(1))).key_of
    order = [key_of(rank) for rank in range(1000)]
    assert sorted(order) == list(range(1000))
    assert order != list(range(1000))
    assert np.abs(np.diff(order[:20])).mean() > 100


@pytest.mark.parametrize(("mix", "share"), [("a", 0.5), ("b", 0.05), ("c", 0.0), ("update-only", 1.0)])
def test_mixes(mix, share):
    assert MIXES[mix].updates == share
    drawn = draw_kinds(MIXES[mix], np.random.Generator(np.random.PCG64(3)), 100_000)
    assert (drawn == 0).mean() == pytest.approx(share, abs=5 * (share * (1 - share) / 100_000) ** 0.5)


def test_operations_are_shared_out_evenly():
    planned = plan(workload(operations=2001), 16, Streams(1))
    assert [len(operations) for operations in planned] == [126] + [125] * 15
    assert {operation.process for operation in planned[3]} == {3}
    assert {operation.object for operations in planned for operation in operations} <= set(objects(workload()))
    assert all(operation.is_update == (operation.f == "put") for operations in planned for operation in operations)
    assert 900 < planned_updates(planned) < 1100
    assert [len(operations) for operations in plan(workload(operations=3), 4, Streams(1))] == [1, 1, 1, 0]


@pytest.mark.long
def test_one_seed_is_one_plan_and_another_seed_another():
    assert plan(workload(), 16, Streams(1)) == plan(workload(), 16, Streams(1))
    assert plan(workload(), 16, Streams(1)) != plan(workload(), 16, Streams(2))


def test_processes_draw_from_streams_of_their_own():
    few, many = plan(workload(operations=1600), 16, Streams(1)), plan(workload(operations=3200), 32, Streams(1))
    assert few == many[:16]
    assert [operation.object for operation in few[0]] != [operation.object for operation in few[1]]


def test_a_known_plan_stays():
    planned = plan(workload(keys=10, operations=8), 2, Streams(1))
    assert [[(o.f, o.object) for o in operations] for operations in planned] == [
        [("put", "k7"), ("get", "k8"), ("put", "k7"), ("get", "k8")],
        [("get", "k8"), ("get", "k9"), ("get", "k6"), ("get", "k9")],
    ]


def test_the_most_popular_key_is_the_same_for_all_processes():
    planned = plan(workload(operations=16_000), 16, Streams(5))
    popular = {Counter(operation.object for operation in operations).most_common(1)[0][0] for operations in planned}
    assert len(popular) == 1


def test_a_schedule_is_performed_as_it_is_written():
    operations = [
        {"process": 2, "f": "put", "object": "k1", "at": "1.5 ns", "stamp": 9},
        {"process": 0, "f": "get", "object": "k1"},
        {"process": 2, "f": "get", "object": "k0"},
    ]
    schedule = _schedule(operations)
    assert plan(schedule, 3, Streams(1)) == [
        [Planned(0, "get", "k1", False)],
        [],
        [Planned(2, "put", "k1", True, 1500, 9), Planned(2, "get", "k0", False)],
    ]


def test_a_plan_becomes_a_schedule_and_back():
    planned = plan(workload(operations=40), 16, Streams(1))
    data = schedule_data(workload(), [operation for operations in planned for operation in operations])
    assert plan(_schedule(**data), 16, Streams(2)) == planned


def _schedule(operations, keys=2, value="64 B", kind="schedule"):
    fields = {"kind": kind, "keys": keys, "value": value, "operations": operations}
    return PLAIN.with_(workload=fields, roles={"client": {"processes": 16}}).build(known=KNOWN).workload


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.99, 1.0, 1.3])
def test_ranks_drawn_without_a_table_have_the_closed_form(exponent):
    draws, keys = 200_000, 300
    drawn = ZipfianRanks(keys, exponent).draw(np.random.Generator(np.random.PCG64(5)), draws)
    expected = draws * zipf_probabilities(keys, exponent)
    found = np.bincount(drawn, minlength=keys)
    assert len(found) == keys
    assert float(((found - expected) ** 2 / expected).sum()) <= (keys - 1) + 5 * (2 * (keys - 1)) ** 0.5


@pytest.mark.long
def test_the_most_popular_of_a_hundred_million_keys_is_as_popular_as_it_should_be():
    keys, draws = 100_000_000, 100_000
    drawn = ZipfianKeys(keys, 0.99, np.random.Generator(np.random.PCG64(1))).draw(
        np.random.Generator(np.random.PCG64(2)), draws
    )
    assert all(0 <= key < keys for key in drawn)
    # The harmonic number by Euler and Maclaurin: sum of k**-s up to n.
    s = 0.99
    harmonic = sum(k**-s for k in range(1, 1000)) + (keys ** (1 - s) - 1000 ** (1 - s)) / (1 - s) + 1000**-s / 2
    most = max(drawn.count(key) for key in set(drawn[:2000]))
    assert most == pytest.approx(draws / harmonic, rel=0.1)
