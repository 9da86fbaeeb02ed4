"""What operations together get wrong about machines: who owns a queue pair, a variable, a work request in memory."""

from __future__ import annotations

from ....sim.cursor import Cursor
from .program import THIRD, LitmusOperation, Test

RECEIVED = ("SEND", "WIMM")


def consistent_machines(at: Cursor, test: Test) -> None:
    """Report mistakes about C's variables, and about what B has posted beforehand."""
    _leads_to_one(at, test)
    for i, operation in enumerate(test.b):
        if any(name.startswith(THIRD) for name in operation.names):
            at["B"][i].wrong("a variable of B", f"{operation.names[0]} of C")
    if not test.relay:
        return
    if test.parts:
        at["relay"].wrong("no primitive beside it", "requests of B")
    for i, operation in enumerate(test.relay):
        wrong = _wrong(test, operation)
        if wrong is not None:
            at["relay"][i].wrong(*wrong)
    for who, program in (("A", test.a), ("B", test.b)):
        for i, operation in enumerate(program):
            touched = test.elements.intersection(operation.names)
            if touched and (operation.verb != "W" or len(operation.names) > 1 or operation.source):
                at[who][i].wrong("a WRITE of one value", f"'{operation.text}' at the work request {min(touched)}")
            if operation.verb == "recv" and any(one.other == operation.qp for one in test.relay if one.verb == "wait"):
                at[who][i].wrong("one that no WAIT counts", f"the completions of '{operation.qp}'")


def _leads_to_one(at: Cursor, test: Test) -> None:
    there: dict[str, bool] = {}
    for who, program in (("A", test.a), ("relay", test.relay)):
        for i, operation in enumerate(program):
            for name in operation.names if operation.request else ():
                is_third = name.startswith(THIRD)
                if there.setdefault(operation.qp, is_third) != is_third:
                    at[who][i].wrong("one that leads to one machine", f"the queue pair '{operation.qp}'")


def _wrong(test: Test, operation: LitmusOperation) -> tuple[str, str] | None:
    """What is expected and what is found, if something is wrong with an operation of B's adapter."""
    of_a = {one.qp for one in test.a if one.request}
    mine = {one.qp for one in test.relay if one.request}
    if operation.qp in of_a:
        return "one of B's own", f"the queue pair '{operation.qp}' of A"
    if operation.verb == "wait":
        messages = sorted({one.qp for one in test.a if one.verb in RECEIVED})
        if operation.other not in messages:
            return f"one that A sends messages on ({', '.join(messages) or 'none'})", f"'{operation.other}'"
    elif operation.verb == "enable":
        if operation.other not in mine - {operation.qp}:
            others = ", ".join(sorted(mine - {operation.qp})) or "none"
            return f"another one of B's with requests ({others})", f"'{operation.other}'"
    elif operation.element and operation.qp not in test.managed:
        return "a queue pair that an ENABLE is for", f"'{operation.qp}' in '{operation.text}'"
    elif operation.element and test.grain == "4":
        return "words of 8 bytes", f"a work request in memory ('{operation.text}')"
    here = (operation.element, operation.source)
    if any(name.startswith(THIRD) for name in here):
        return "a variable of B", f"'{operation.text}'"
    named = [one.element for one in test.relay if one.element]
    if operation.element and (named.count(operation.element) > 1 or operation.element in _written_by(test)):
        return "a variable of its own for each request", f"'{operation.element}'"
    return None


def _written_by(test: Test) -> set[str]:
    """The variables that B's adapter writes or sends."""
    return {name for one in test.relay for name in (*one.names, one.source)}
