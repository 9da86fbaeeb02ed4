"""The ways to check a student's file: each runs something of rpsim on it and compares what comes out.

A lab's file names a kind for each check and gives it its fields. A new kind is a function from a task to a finding, and
one line in the table below.
"""

from ..task import CheckKind, Kinds
from . import answers, bounds, code, crashes, fitting, histories, litmus, primitives

KINDS: Kinds = {
    "predictions": CheckKind(answers.predicted, ("of",)),
    "answers": CheckKind(answers.compared, ("of",)),
    "crash": CheckKind(crashes.crashed, ("wanted",), ("scenario", "judge", "schemes", "keep", "set", "faults")),
    "expectations": CheckKind(crashes.as_expected, ("scenario", "conditions"), ("keep",)),
    "litmus verdicts": CheckKind(litmus.agrees, ("file", "tests")),
    "litmus program": CheckKind(litmus.program, ("file", "test", "profile", "asks"), ("without", "begins")),
    "history": CheckKind(histories.judged, ("file", "wanted"), ("most",)),
    "durable primitive": CheckKind(primitives.durable, ("file", "on")),
    "cheaper primitive": CheckKind(primitives.cheaper, ("file", "on", "than", "size")),
    "collision": CheckKind(code.collision, ("file", "function", "bytes")),
    "tests": CheckKind(code.tests, ("file", "module", "twins")),
    "bounds": CheckKind(bounds.bounded, ("scenario", "bounds"), ("keep",)),
    "profile": CheckKind(fitting.profile, ("file", "base", "measurements", "better")),
}
"""Every kind by its name."""
