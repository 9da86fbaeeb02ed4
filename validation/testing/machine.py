"""A state machine for Hypothesis: it lets clients of a scheme work, cuts the power, and goes on, again and again.

The content of each line after a power failure is Hypothesis' choice like everything else, so it shrinks that as well.
Needs the package ``hypothesis``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from typing_extensions import override

from ...protocols.guarantees import Verdict
from ...protocols.scheme import Scheme
from .checks import condition_named
from .world import World

LONGEST_NS = 8_000
"""The longest stretch of time between two steps: about as long as an operation."""


class CrashMachine(RuleBasedStateMachine):
    """Steps of one :class:`World`; ``conditions`` have to hold of its history when the steps are done.

    Made for a scheme by :func:`crash_machine`.
    """

    scheme: type[Scheme]
    platform: str
    conditions: tuple[str, ...]
    options: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.scheme, self.platform, **self.options)

    @precondition(lambda self: self.world.idle())
    @rule(data=st.data())
    def invoke(self, data: st.DataObject) -> None:
        """An idle client begins an operation."""
        client = data.draw(st.sampled_from(self.world.idle()), "client")
        f = data.draw(st.sampled_from(self.scheme.operations), "operation")
        self.world.invoke(client, f, data.draw(st.sampled_from(self.world.names), "object"))

    @rule(ns=st.integers(1, LONGEST_NS))
    def time_goes_on(self, ns: int) -> None:
        """All clients and servers go on for ``ns`` nanoseconds."""
        self.world.run(ns * 1000)

    @rule()
    def all_return(self) -> None:
        """All clients and servers go on until no operation is under way."""
        self.world.finish()

    @rule(data=st.data())
    def power_fails(self, data: st.DataObject) -> None:
        """Power fails; the content that each line is left with is drawn."""
        self.world.crash(lambda n: data.draw(st.integers(0, n - 1), "what a line is left with"))

    @override
    def teardown(self) -> None:
        """Everything is read once more, and the history judged."""
        self.world.read_all()
        report = self.world.judge(self.conditions)
        for condition, judgement in report.verdicts.items():
            if judgement.verdict is not Verdict.HOLDS:
                why = judgement.witness.explanation if judgement.witness else judgement.undecided
                history = "\n".join(self.world.history.lines(self.world.names))
                raise AssertionError(
                    f"{self.scheme.name} on {self.platform}: {condition} {judgement.verdict}: {why}\n{history}"
                )


def crash_machine(
    scheme: type[Scheme], platform: str = "optane-adr", *conditions: str, **options: Any
) -> type[CrashMachine]:
    """A state machine for ``scheme``; ``TestMine = crash_machine(Mine, "optane-adr", "durable").TestCase`` is a test.

    ``options`` are those of :class:`World` (``keys``, ``clients``, switches of the platform). Without ``conditions``
    all that apply have to hold. Raises InputError for an unknown condition, and as :class:`World` does.
    """
    names = tuple(str(condition_named(condition)) for condition in conditions)
    World(scheme, platform, **options)  # tells what is wrong now, and not in the middle of a test
    members = {"scheme": scheme, "platform": platform, "conditions": names, "options": options}
    made: type[CrashMachine] = type(f"{scheme.__name__}Crashes", (CrashMachine,), members)
    usual = made.TestCase.settings
    # Hypothesis' explanations name lines of rpsim, and take longer than the search and the shrinking together.
    made.TestCase.settings = settings(usual, phases=[phase for phase in usual.phases if phase is not Phase.explain])
    return made
