"""The oracle: is a history of invocations, responses and a crash what a condition allows?

It sees histories only, never bytes or traces. ``check`` judges a whole history; ``RegisterHistory`` follows one object
event by event and answers, at any moment, what a crash now would violate. Local conditions (a history meets them if
each of its objects does) are functions from the knowledge of one register (``ObjectHistory``) and the value read after
recovery to a ``Flaw`` or None, one file each (``FINDERS``); of any other model they ask ``search``. The buffered forms
and ``session`` are not local: they judge a whole history, cut into ``eras``.

The rules about time, common to all conditions:

- Intervals are closed: ``a`` precedes ``b`` only if ``a`` returned strictly before ``b`` was invoked. Two operations
  of two processes that touch at one instant are concurrent, the choice that cannot accuse falsely. Those of one process
  come one after the other: the second counts as invoked a picosecond later, unless others returned at that instant.
- A crash comes after the responses and the invocations of its own instant: an operation that returned then had
returned, one that was invoked then is pending. Loaded values were written, durably, before time zero.
- A pending or ``info`` update may take effect at any later time, after recovery too, or never; a ``fail`` update never.
  Reads that did not return ``ok`` say nothing.
"""

from .check import CONDITIONS, FINDERS, Finding, assert_implications, check, verdict_on
from .followed import RemovableHistory, followed
from .incremental import RegisterHistory
from .known import NOT_READ, Flaw, Inconsistent, ObjectHistory

__all__ = [
    "CONDITIONS",
    "FINDERS",
    "NOT_READ",
    "Finding",
    "Flaw",
    "Inconsistent",
    "ObjectHistory",
    "RegisterHistory",
    "RemovableHistory",
    "assert_implications",
    "check",
    "followed",
    "verdict_on",
]
