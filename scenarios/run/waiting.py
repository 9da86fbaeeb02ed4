"""Waiting for those who are left of a run with faults, and giving them up when they wait for ever."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from ...models.verbs import CompletedWithError
from .experiment import AssembledVariant

PATIENCE_PS = 60 * 10**12
"""How long survivors, and after them the reader, may take behind the last machine's return: a hundred times what an
adapter needs to give up on a dead peer. What has not returned by then stays open."""
VERBS_IN_VAIN, EACH_IN_VAIN = 2_000, 100
"""A run waits in vain if all its adapters together are given more work requests than the first number, and the second
one for each object and client, while no operation returns: a choice. A recovery may go through all objects."""
LOOKED_AT_EVERY_PS = 100_000_000, 5_000_000_000
"""How often the work requests are counted: at first, and, after ever longer pauses, where nobody posts. The less often
they are, the longer it takes to run somebody who then posts without end."""


class SurvivorWait:
    """The patience of one run: it waits for an event until :data:`PATIENCE_PS` is over or all work is in vain."""

    def __init__(self, experiment: AssembledVariant) -> None:
        self.since_ps = 0
        """When the last machine was back: patience begins there."""
        self._experiment = experiment
        self._clock = experiment.system.clock
        self._nodes = [node for nodes in experiment.system.nodes.values() for node in nodes]

    def run_until(self, event: Any, look: Callable[[], None] | None = None) -> bool:
        """Run until ``event`` or the end of patience; returns whether the event came, and no error in its place.
        ``look`` is called now and then meanwhile.

        A thread of a server whose peer is gone, and that does not look for another, comes to its end.
        """
        given_up = self._clock.start(self._patience(look))
        either = self._clock.any_of([event, given_up])
        while not either.processed:
            with suppress(CompletedWithError):
                self._clock.run_until(either)
        if given_up.is_alive:
            self._clock.end(given_up)
        return bool(event.processed and event.ok)

    def _patience(self, look: Callable[[], None] | None) -> Generator[Any, Any, None]:
        """Returns when the run is given up: too late, too much work in vain, or nothing left that could happen."""
        clock, (shortest_ps, longest_ps) = self._clock, LOOKED_AT_EVERY_PS
        until_ps = max(clock.now_ps, self.since_ps) + PATIENCE_PS
        most = VERBS_IN_VAIN + EACH_IN_VAIN * (self._experiment.processes + len(self._experiment.initial))
        pause_ps, begun, returned = shortest_ps, self._posted(), self._returned()
        posted = begun
        while clock.now_ps < until_ps and posted - begun < most:
            at_ps = clock.now_ps + pause_ps
            silent_until_ps = at_ps if clock.is_idle else min(int(clock.peek()), until_ps)
            while at_ps < silent_until_ps:  # nobody can have posted anything by then
                pause_ps = min(2 * pause_ps, longest_ps)
                at_ps += pause_ps if pause_ps < longest_ps else -((at_ps - silent_until_ps) // longest_ps) * longest_ps
            yield clock.timeout(min(at_ps, until_ps) - clock.now_ps)
            if clock.is_idle:
                return
            if look is not None:
                look()
            before, posted = posted, self._posted()
            pause_ps = min(2 * pause_ps, longest_ps) if posted == before else shortest_ps
            if posted != before and (self._returned() != returned or posted < begun):
                begun, returned = posted, self._returned()

    def _posted(self) -> int:
        """The work requests that all adapters have been given since their power came on."""
        return sum(node.nic.doorbells + node.nic.listed for node in self._nodes)

    def _returned(self) -> int:
        return self._experiment.history.returned
