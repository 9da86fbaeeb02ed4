"""How heavy code is, as exact numbers: the Python calls and the bytecodes of a piece of work.

A *call* is a frame that is entered: of a function that is called, and of a generator that is started, goes on or is
closed (of a chain of ``yield from``, each link). Functions written in C count nothing. A *bytecode* is an instruction
that the interpreter executes, as the compiler wrote it: one that the interpreter has specialized counts as before.
Entering a frame is one (RESUME); instructions that make its cells or its generator before that are none. Both numbers
are the same in every run; another minor version of Python has others, since its compiler writes other instructions.
The garbage collector waits meanwhile: it runs other code at moments of its own (Hypothesis has it call a function).

Python 3.12 and later count by ``sys.monitoring`` (PEP 669), Python 3.11 by the trace function of each frame
(``sys.settrace`` with ``f_trace_opcodes``).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

NAME = "rpsim bench"


class Counts(NamedTuple):
    """The calls and bytecodes that a piece of work, or one of its operations, executes."""

    calls: float
    bytecodes: float

    def each(self, count: int) -> Counts:
        """The counts of one of ``count`` operations."""
        return Counts(self.calls / count, self.bytecodes / count)


def counts(work: Callable[[], object]) -> Counts:
    """The calls and bytecodes of ``work``.

    Any other tracing of this thread (a debugger, a coverage tool) stops meanwhile. Raises RuntimeError when a profiler
    has taken ``sys.monitoring``'s place for profilers.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _monitored(work) if sys.version_info >= (3, 12) else _traced(work)
    finally:
        if collecting:
            gc.enable()


def _traced(work: Callable[[], object]) -> Counts:
    calls = bytecodes = 0

    def executed(frame: FrameType, event: str, _: object) -> Any:
        nonlocal bytecodes
        if event == "opcode":
            bytecodes += 1
        return executed

    def entered(frame: FrameType, event: str, _: object) -> Any:
        nonlocal calls
        calls += 1
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return executed

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return Counts(calls, calls + bytecodes)


def _monitored(work: Callable[[], object]) -> Counts:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # checked as Python 3.11
    events, tool, here = monitoring.events, monitoring.PROFILER_ID, _monitored.__code__
    calls = bytecodes = 0

    def executed(code: CodeType, offset: int) -> None:
        nonlocal bytecodes
        bytecodes += code is not here

    def entered(code: CodeType, offset: int, _: object = None) -> None:
        nonlocal calls
        calls += 1

    if monitoring.get_tool(tool) is not None:
        raise RuntimeError(f"sys.monitoring is in use by {monitoring.get_tool(tool)!r}")
    before = sys.gettrace()
    sys.settrace(None)
    monitoring.use_tool_id(tool, NAME)
    try:
        monitoring.register_callback(tool, events.INSTRUCTION, executed)
        entering = (events.PY_START, events.PY_RESUME, events.PY_THROW)
        for event in entering:
            monitoring.register_callback(tool, event, entered)
        monitoring.set_events(tool, events.INSTRUCTION | sum(entering))
        work()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)
        sys.settrace(before)
    return Counts(calls, calls + bytecodes)
