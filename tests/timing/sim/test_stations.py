"""Stations against closed forms, and against naive SimPy models with a process per customer, to the picosecond."""

from fractions import Fraction
from functools import partial
from itertools import accumulate

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.stations import Bounded, Credits, Fifo, MultiServer, Pipe
from rpsim.sim.statistics import mean_and_half_width_ps
from rpsim.sim.streams import Streams

# Gaps of zero and equal times are drawn often: that is where a queue's rules differ.
GAPS = st.integers(0, 30)
CUSTOMERS = st.lists(st.tuples(GAPS, st.integers(0, 40)), max_size=60)


def arrivals(gaps):
    return list(accumulate(gaps))


# the naive models ---------------------------------------------------------------------------------------------


def naive_servers(customers, servers):
    """Departures of (arrival, service) from a Resource: request, then hold it for the service."""
    env = simpy.Environment()
    resource = simpy.Resource(env, servers)
    left = [0] * len(customers)

    def customer(number, arrive, service):
        yield env.timeout(arrive)
        with resource.request() as mine:
            yield mine
            yield env.timeout(service)
        left[number] = env.now

    for number, (arrive, service) in enumerate(customers):
        env.process(customer(number, arrive, service))
    env.run()
    return left


def naive_buffer(customers, capacity):
    """Admissions to a Store of ``capacity`` that one server empties, and its departures."""
    env = simpy.Environment()
    store = simpy.Store(env, capacity)
    admitted, left = [0] * len(customers), [0] * len(customers)

    def customer(number, arrive, service):
        yield env.timeout(arrive)
        yield store.put((number, service))
        admitted[number] = env.now

    def server():
        while True:
            number, service = yield store.get()
            yield env.timeout(service)
            left[number] = env.now

    for number, (arrive, service) in enumerate(customers):
        env.process(customer(number, arrive, service))
    env.process(server())
    env.run()
    return admitted, left


def naive_credits(requests, total):
    """When each (arrival, n, hold) gets its credits from a Container; they go back in the order of the grants."""
    env = simpy.Environment()
    pool = simpy.Container(env, total, total)
    granted = [0] * len(requests)
    returned = [env.event() for _ in range(len(requests) + 1)]
    returned[0].succeed()

    def request(number, arrive, n, hold):
        yield env.timeout(arrive)
        yield pool.get(n)
        granted[number] = env.now
        yield env.timeout(hold)
        yield returned[number]
        yield pool.put(n)
        returned[number + 1].succeed()

    for number, (arrive, n, hold) in enumerate(requests):
        env.process(request(number, arrive, n, hold))
    env.run()
    return granted


# Fifo and MultiServer -------------------------------------------------------------------------------------------


def test_d_d_1_below_capacity_never_waits_and_above_it_the_backlog_grows_by_the_difference():
    slow, fast = Fifo(), Fifo()
    assert [slow.serve(10 * i, 7) for i in range(5)] == [7, 17, 27, 37, 47]
    assert [fast.serve(10 * i, 13) for i in range(5)] == [13, 26, 39, 52, 65]
    assert (fast.busy_ps, fast.served, fast.free_ps) == (65, 5, 65)


def waits(service_ps, load, n=200_000):
    """Waiting times at a Fifo under Poisson arrivals, in units of the mean service time."""
    draw = Streams(2024).stream("arrivals")
    arrive = np.cumsum(draw.exponential(1_000_000 / load, n)).astype(np.int64).tolist()
    station = Fifo()
    waited = [station.serve(at, need) - need - at for at, need in zip(arrive, service_ps(n), strict=True)]
    mean, half_width = mean_and_half_width_ps(np.array(waited[n // 10 :], dtype=np.int64))
    return mean / 1_000_000, half_width / 1_000_000


@pytest.mark.parametrize("load", [0.3, 0.7, 0.85])
def test_m_m_1_waits_as_erlang_says(load):
    draw = Streams(2024).stream("service")
    mean, half_width = waits(lambda n: draw.exponential(1_000_000, n).astype(np.int64).tolist(), load)
    assert half_width < 0.1 * load / (1 - load)
    assert mean == pytest.approx(load / (1 - load), abs=1.5 * half_width)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.85])
def test_m_d_1_waits_half_of_that(load):
    mean, half_width = waits(lambda n: [1_000_000] * n, load)
    assert half_width < 0.1 * load / (2 * (1 - load))
    assert mean == pytest.approx(load / (2 * (1 - load)), abs=1.5 * half_width)


@pytest.mark.long
@given(CUSTOMERS)
def test_a_fifo_is_a_resource_of_one(drawn):
    customers = list(zip(arrivals(gap for gap, _ in drawn), (service for _, service in drawn), strict=True))
    station = Fifo()
    assert [station.serve(*customer) for customer in customers] == naive_servers(customers, 1)
    assert station.busy_ps == sum(service for _, service in customers)


@given(CUSTOMERS, st.integers(1, 5))
def test_a_multi_server_is_a_resource_of_several(drawn, servers):
    customers = list(zip(arrivals(gap for gap, _ in drawn), (service for _, service in drawn), strict=True))
    station = MultiServer(servers)
    assert [station.serve(*customer) for customer in customers] == naive_servers(customers, servers)


def test_departures_from_several_servers_may_overtake():
    station = MultiServer(2)
    assert [station.serve(0, 50), station.serve(1, 5), station.serve(2, 5)] == [50, 6, 11]


# Pipe -----------------------------------------------------------------------------------------------------------


def test_a_pipe_of_100_gigabit_takes_5_12_ns_for_64_bytes():
    pipe = Pipe(100 * 10**9)
    assert pipe.send(1_000, 64) == (1_000, 6_120)
    assert pipe.send(2_000, 64) == (6_120, 11_240)
    assert pipe.transfer_ps(4096) == 327_680


def test_a_busy_pipe_loses_no_picosecond_to_rounding():
    odd = Pipe(113_700_000_000)  # one byte takes 70.36 ps
    ends = [odd.send(0, 1)[1] for _ in range(1_137)]
    assert ends[0] == 71
    assert ends[-1] == odd.transfer_ps(1_137) == odd.busy_ps == 80_000


def test_who_arrives_in_the_fraction_at_which_a_pipe_gets_free_waits_for_its_end():
    thirds = Pipe(3 * 8 * 10**12)  # one byte takes a third of a picosecond
    assert thirds.send(0, 4) == (0, 2)
    assert thirds.send(1, 4) == (2, 3)  # from 4/3 to 8/3, rounded up
    assert thirds.send(1, 1) == (3, 3)
    assert thirds.send(7, 1) == (7, 8)
    assert thirds.busy_ps == 2 + 1 + 0 + 1


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 300)), max_size=40), st.integers(10**9, 10**12))
def test_a_pipe_is_exact_arithmetic_rounded_up(drawn, bits_per_s):
    pipe = Pipe(bits_per_s)
    free = Fraction(0)
    for arrive, n_bytes in zip(arrivals(gap for gap, _ in drawn), (n for _, n in drawn), strict=True):
        start = max(Fraction(arrive), free)
        free = start + Fraction(8 * 10**12 * n_bytes, bits_per_s)
        assert pipe.send(arrive, n_bytes) == (-(-start // 1), -(-free // 1))
        assert pipe.free_ps == -(-free // 1)


@given(st.lists(st.tuples(GAPS, st.integers(0, 40)), max_size=60))
def test_a_pipe_whose_bytes_take_whole_picoseconds_is_a_resource_of_one(drawn):
    arrive = arrivals(gap for gap, _ in drawn)
    pipe = Pipe(8 * 10**12 // 5)
    ends = [pipe.send(at, n)[1] for at, (_, n) in zip(arrive, drawn, strict=True)]
    assert ends == naive_servers([(at, 5 * n) for at, (_, n) in zip(arrive, drawn, strict=True)], 1)


# Bounded --------------------------------------------------------------------------------------------------------


def test_a_full_buffer_admits_when_the_one_capacity_before_leaves():
    buffer = Bounded(2)
    assert buffer.admit(0) == 0
    buffer.departs(100)
    assert buffer.admit(10) == 10
    buffer.departs(200)
    assert buffer.admit(20) == 100
    buffer.departs(300)
    assert (buffer.blocked_ps, buffer.busy_ps, buffer.served) == (80, 100 + 190 + 200, 3)


@given(CUSTOMERS, st.integers(1, 5))
def test_a_buffer_before_a_server_is_a_store_that_holds_back_its_producers(drawn, capacity):
    customers = list(zip(arrivals(gap for gap, _ in drawn), (service for _, service in drawn), strict=True))
    buffer, server = Bounded(capacity), Fifo()
    admitted, left = [], []
    for arrive, service in customers:
        admitted.append(buffer.admit(arrive))
        buffer.departs(max(admitted[-1], server.free_ps))  # a Store is left when the server begins
        left.append(server.serve(admitted[-1], service))
    assert (admitted, left) == naive_buffer(customers, capacity)


def test_a_buffer_does_not_guess_a_departure_that_it_was_not_told():
    buffer = Bounded(2)
    buffer.admit(0)
    buffer.admit(0)
    with pytest.raises(ValueError, match="not known yet"):
        buffer.admit(0)
    buffer.departs(5)
    assert buffer.admit(0) == 5


def test_a_buffer_is_left_in_order_and_not_before_it_is_entered():
    buffer = Bounded(3)
    with pytest.raises(ValueError, match="nobody"):
        buffer.departs(5)
    buffer.admit(10)
    with pytest.raises(ValueError, match="before its admission"):
        buffer.departs(9)
    buffer.admit(10)
    buffer.departs(50)
    with pytest.raises(ValueError, match="the departure before"):
        buffer.departs(49)


# Credits --------------------------------------------------------------------------------------------------------

REQUESTS = st.lists(st.tuples(GAPS, st.integers(1, 4), st.integers(0, 40)), max_size=60)


@given(REQUESTS, st.integers(4, 9))
def test_credits_are_a_container(drawn, total):
    requests = list(
        zip(arrivals(gap for gap, *_ in drawn), (n for _, n, _ in drawn), (hold for *_, hold in drawn), strict=True)
    )
    pool = Credits(total)
    granted, back = [], 0
    for arrive, n, hold in requests:
        at = pool.take(arrive, n)
        assert at is not None
        granted.append(at)
        back = max(back, at + hold)
        pool.give(back, n)
    assert granted == naive_credits(requests, total)
    assert pool.unclaimed == total
    assert pool.served == sum(n for _, n, _ in requests)


@given(st.lists(st.tuples(st.booleans(), GAPS, st.integers(0, 4)), max_size=80), st.integers(4, 9))
def test_credits_are_conserved_and_never_below_zero(steps, total):
    pool, held, now = Credits(total), 0, 0
    changes = [(0, total)]
    for takes, gap, n in steps:
        now += gap
        if takes:
            at = pool.take(now, n)
            assert (at is None) == (n > total - held)
            if at is not None:
                held += n
                changes.append((at, -n))
        elif n <= held:
            pool.give(now, n)
            held -= n
            changes.append((now, n))
        assert pool.unclaimed == total - held >= 0
    changes.sort(key=lambda change: (change[0], change[1] < 0))
    assert min(accumulate(n for _, n in changes)) >= 0


def test_a_request_waits_for_the_release_that_completes_it_however_early_it_is_known():
    pool = Credits(4)
    assert pool.take(0, 4) == 0
    pool.give(100, 1)
    pool.give(200, 3)
    assert pool.take(10, 1) == 100
    assert pool.take(10, 2) == 200
    assert pool.take(300, 1) == 300
    assert pool.blocked_ps == 90 + 190


def test_not_known_yet_takes_nothing_and_is_answered_after_the_next_release():
    pool = Credits(4)
    assert pool.take(0, 3) == 0
    assert pool.take(5, 2) is None
    assert pool.unclaimed == 1
    pool.give(50, 1)
    assert pool.take(5, 2) == 50


def test_credits_that_cannot_be_are_refused():
    pool = Credits(4)
    with pytest.raises(ValueError, match="never be there"):
        pool.take(0, 5)
    with pytest.raises(ValueError, match="only 0 are held"):
        pool.give(0, 1)
    pool.take(0, 2)
    pool.give(10, 1)
    with pytest.raises(ValueError, match="in order of time"):
        pool.give(9, 1)


# what holds for all ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Fifo().serve,
        lambda: MultiServer(2).serve,
        lambda: Pipe(10**9).send,
        lambda: Credits(9).take,
        lambda: partial(lambda buffer, at, _: buffer.admit(at), Bounded(9)),
    ],
    ids=["fifo", "multi-server", "pipe", "credits", "bounded"],
)
def test_a_station_refuses_to_be_asked_out_of_order(ask):
    station = ask()
    station(10, 1)
    station(10, 1)
    with pytest.raises(ValueError, match="9 ps after 10 ps"):
        station(9, 1)


@pytest.mark.parametrize("kind", [MultiServer, Pipe, Bounded, Credits])
def test_a_station_of_nothing_is_refused(kind):
    with pytest.raises(ValueError, match="at least one"):
        kind(0)
