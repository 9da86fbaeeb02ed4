"""Do calls whose messages are lost come to an end, and is each executed once, whatever is lost?"""

from __future__ import annotations

import pytest

from rpsim.models.fabric.disturbance import Disturbance
from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import QpType
from rpsim.protocols.layout import U64, Layout
from rpsim.protocols.parts.lossy import LossyListener, NoReply, Patience
from rpsim.protocols.parts.onesided import VerbsError

from .stores import finish

UC, UD, RC = QpType.IBV_QPT_UC, QpType.IBV_QPT_UD, QpType.IBV_QPT_RC


class Add(Layout):
    amount = U64()


class Till:
    """A server that adds up what it is told, and a client."""

    def __init__(self, qp_type, patience, loss=0.0, seed=1, slow_ps=0):
        specs = {"server": [NodeSpec(1, ("dram",))], "client": [NodeSpec(2)]}
        platform = load_platform("optane-adr")
        self.system = System(platform, specs, seed, disturbance=Disturbance(loss=loss) if loss else None)
        self.sum, self.executed, self.slow_ps = 0, 0, slow_ps
        node, client = self.system.nodes["server"][0], self.system.nodes["client"][0]
        listener = LossyListener(node, {Add: self.on_add}, qp_type)
        self.system.clock.start(listener.serve(node.thread(0, "server")))
        self.connection = listener.accept(client.thread(0, "client"), client, patience)

    def on_add(self, thread, request):
        yield from thread.work(self.slow_ps)
        self.executed += 1
        self.sum += request.amount
        return self.sum.to_bytes(8, "little")

    def calls(self, count):
        """The sums that so many calls return."""

        def code():
            found = []
            for number in range(1, count + 1):
                try:
                    reply = yield from self.connection.call(Add, amount=number)
                    found.append(int.from_bytes(reply, "little"))
                except NoReply:
                    found.append(None)
            return found

        return finish(self.system, code())


@pytest.mark.parametrize("qp_type", [UC, UD, RC])
def test_calls_return_their_own_replies(qp_type):
    till = Till(qp_type, Patience("50 us"))
    assert till.calls(4) == [1, 3, 6, 10] and till.executed == 4


@pytest.mark.parametrize("qp_type", [UC, UD])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_lost_is_sent_again_and_executed_once(qp_type, seed):
    """A third of the packets are lost: of twenty calls some lose the request, some the reply, some both."""
    till = Till(qp_type, Patience("20 us", repeats=40), loss=0.3, seed=seed)
    assert till.calls(20) == [number * (number + 1) // 2 for number in range(1, 21)]
    assert till.executed == 20
    assert till.system.fabric.weather.lost > 5


@pytest.mark.parametrize("qp_type", [UC, UD])
def test_without_repeats_a_lost_message_is_no_reply_and_its_call_may_have_been_executed(qp_type):
    till = Till(qp_type, Patience("20 us"), loss=0.3, seed=1)
    found = till.calls(40)
    assert None in found and till.executed > sum(each is not None for each in found)
    assert found[-1] is None or found[-1] == till.sum


def test_a_late_reply_is_not_taken_for_that_of_the_next_call():
    till = Till(UC, Patience("5 us", repeats=1), slow_ps=12_000_000)
    assert till.calls(1) == [None]
    till.slow_ps = 0
    till.connection.patience = Patience("50 us")
    assert till.calls(1) == [2] and till.executed == 2


def test_the_deadline_is_kept_to_the_round_of_polling():
    till = Till(UC, Patience("7 us", repeats=2))
    till.system.nodes["server"][0].power_off()
    assert till.calls(1) == [None]
    assert 21_000_000 < till.system.clock.now_ps < 23_000_000


def test_a_reliable_connection_tells_that_it_is_broken():
    till = Till(RC, Patience("10 s"))
    till.system.nodes["server"][0].power_off()
    with pytest.raises((NoReply, VerbsError)):
        finish(till.system, till.connection.call(Add, amount=1))
