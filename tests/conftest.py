"""What all tests share: whose rpsim they test, and how hard hypothesis tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

pytest_plugins = ["tests.budget"]

# No deadlines and no verdict on slowness: the machines that run the tests are shared, and a test that fails by
# the clock tells nothing about the code. CI tries the same examples every time; a developer's runs try new ones.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_sessionstart() -> None:
    """Stop at once where `rpsim` is not this checkout: the tests would judge another program."""
    try:
        import rpsim
    except ImportError:
        pytest.exit("rpsim is not installed here: run the tests by `make unit`", returncode=4)
    found = Path(rpsim.__file__ or "a folder that is no package").resolve().parent
    if found != ROOT:
        pytest.exit(f"rpsim comes from {found}, not from {ROOT}: run the tests by `make unit`", returncode=4)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout, which is the package."""
    return ROOT
