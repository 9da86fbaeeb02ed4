"""The pytest plugin: the fixture ``rpsim``, and failures that tell the counterexample and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..protocols.guarantees import Condition
    from ..protocols.scheme import Scheme
    from .crash.findings import CrashReport


class Checker:
    """What the fixture is: ``rpsim.assert_holds(MyStore, "optane-adr", "no_lost_ack", ddio="on")``."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def assert_holds(
        self, scheme: type[Scheme], platform: str = "optane-adr", *conditions: str | Condition, **how: Any
    ) -> CrashReport:
        """As :func:`.testing.checks.assert_holds`, with the seed of ``--rpsim-seed``; fails without a traceback.

        Raises InputError with the traceback of the test alone.
        """
        from ..sim.errors import InputError  # noqa: PLC0415  # many runs never use it
        from .testing.checks import Refuted, assert_holds  # noqa: PLC0415

        __tracebackhide__ = True
        try:
            return assert_holds(scheme, platform, *conditions, **{"seed": self.seed, **how})
        except Refuted as refuted:
            message = str(refuted)
        except InputError as error:
            raise error.with_traceback(None) from None
        pytest.fail(message, pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--rpsim-seed``."""
    group = parser.getgroup("rpsim")
    group.addoption("--rpsim-seed", type=int, default=1, help="the seed of the runs that the fixture rpsim explores")


@pytest.fixture
def rpsim(request: pytest.FixtureRequest) -> Checker:
    """Explores every crash of a small run of a scheme: ``rpsim.assert_holds(MyStore, "optane-adr")``."""
    return Checker(request.config.getoption("--rpsim-seed"))
