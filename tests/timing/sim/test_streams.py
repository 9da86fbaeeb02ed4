import subprocess
import sys

import numpy as np
import pytest

from rpsim.sim.streams import Streams


def draws(seed, name, n=5):
    return Streams(seed).stream(name).integers(0, 2**63, n).tolist()


def test_a_name_is_one_stream_that_goes_on():
    streams = Streams(1)
    first = streams.stream("arrivals").integers(0, 100, 4).tolist()
    second = streams.stream("arrivals").integers(0, 100, 4).tolist()
    assert streams.stream("arrivals") is streams.stream("arrivals")
    assert first + second == Streams(1).stream("arrivals").integers(0, 100, 8).tolist()


def test_another_stream_does_not_change_the_draws_of_the_first():
    alone = draws(7, "llc victims")
    streams = Streams(7)
    streams.stream("a new component").random(1000)
    assert streams.stream("llc victims").integers(0, 2**63, 5).tolist() == alone


def test_seed_and_name_both_matter():
    assert len({tuple(draws(seed, name)) for seed in (0, 1, 2**70) for name in ("a", "b", "ab", "")}) == 12


@pytest.mark.long
def test_the_draws_are_those_of_every_other_process():
    program = "from rpsim.sim.streams import Streams; print(Streams(42).stream('zipf').integers(0, 2**63, 5).tolist())"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(draws(42, "zipf"))


def test_the_draws_are_those_of_every_other_release():
    assert draws(42, "zipf", 2) == [3522922339807590349, 7890347663014892043]


def test_streams_of_one_seed_are_not_correlated():
    streams = Streams(3)
    left, right = (streams.stream(name).standard_normal(20_000) for name in ("client[0]", "client[1]"))
    assert abs(np.corrcoef(left, right)[0, 1]) < 0.03


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative"):
        Streams(-1)
