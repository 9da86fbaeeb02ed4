"""Cores and the threads on them: instructions, flushes and fences, polling, scheduling, sleeping.

A program is a generator that a thread runs; what each instruction costs comes from the platform. Programs import
``Thread`` from here.
"""

from .instructions import CrcOf
from .thread import Code, Deadline, Signal, Thread

__all__ = ["Code", "CrcOf", "Deadline", "Signal", "Thread"]
