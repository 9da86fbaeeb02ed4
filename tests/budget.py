"""A pytest plugin: how much processor time each test takes, and the budget that `make quick` holds each test to.

Processor time, not wall-clock time: a machine that others load makes a test last longer, not work more. The budget is
in units of one fixed computation on this machine, timed when the session starts and again when a test is over it, so
that a slow machine has a larger one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

UNIT_LOOPS = 1_000_000
"""Turns of the empty loop that is the unit of the budget; some 20 ms of a processor of 2020."""


def unit_s() -> float:
    """Seconds of processor time that the unit takes here, the best of three."""

    def once() -> float:
        began = time.process_time()
        for _ in range(UNIT_LOOPS):
            pass
        return time.process_time() - began

    return min(once() for _ in range(3))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("budget")
    group.addoption("--budget", type=float, metavar="UNITS", help="processor time that fails a test")
    group.addoption("--processor-times", type=Path, metavar="FILE", help="append the seconds of each test here")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("budget") is not None or config.getoption("processor_times") is not None:
        config.pluginmanager.register(Budget(config), "processor-time-budget")


class Budget:
    """Measures each test's call (not its fixtures, which tests share)."""

    def __init__(self, config: pytest.Config) -> None:
        self._units: float | None = config.getoption("budget")
        self._file: Path | None = config.getoption("processor_times")
        self._limit_s = self._units * unit_s() if self._units is not None else 0.0

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        before = _processor_s()
        yield
        took_s = _processor_s() - before
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"test": item.nodeid, "seconds": round(took_s, 4)}) + "\n")
        if self._units is None or took_s <= self._limit_s:
            return
        self._limit_s = max(self._limit_s, self._units * unit_s())  # others may have slowed the processor down since
        if took_s > self._limit_s:
            pytest.fail(
                f"{took_s:.2f} s of processor time, more than the {self._limit_s:.2f} s that a test of `make quick` "
                "has: make it smaller, or mark it `long`",
                pytrace=False,
            )


def _processor_s() -> float:
    """Processor time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
