"""Outcomes: Boolean expressions over registers, ``mem.x``, ``pm.x`` and whole numbers, read by a parser of our own.

Python's grammar reads them, nothing evaluates them but :meth:`Outcome.holds`: comparisons, ``and``, ``or``, ``not``
and parentheses; the rest of Python is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
MAX_LENGTH = 1000


class NoOutcome(Exception):
    """The text is no outcome; the arguments are the text that was found and a phrase for the expected one."""


@dataclass(frozen=True)
class OutcomeExpression:
    """An expression; ``names`` are the registers and ``mem.x`` or ``pm.x`` that it speaks of."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it is met; never, while one of its names has no value yet."""
        return all(name in values for name in self.names) and _truth(self.tree, values)

    def of(self, space: str) -> list[str]:
        """The variables after ``mem.`` or ``pm.``."""
        return sorted(name.removeprefix(f"{space}.") for name in self.names if name.startswith(f"{space}."))

    @property
    def registers(self) -> list[str]:
        """The names that are neither."""
        return sorted(name for name in self.names if not name.startswith(("mem.", "pm.")))


def parse_outcome(text: str) -> OutcomeExpression:
    """Read an outcome; raises :class:`NoOutcome`."""
    try:
        if len(text) > MAX_LENGTH:
            raise NoOutcome(f"{len(text)} characters", f"at most {MAX_LENGTH}")
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" (column {error.offset})" if isinstance(error, SyntaxError) and error.offset else ""
        raise NoOutcome(f"'{text}', which cannot be read{where}", "an outcome, as in 'r1==1 and pm.x==0'") from None
    names: set[str] = set()
    _check(tree, names)
    return OutcomeExpression(text, tree, frozenset(names))


def _check(node: ast.expr, names: set[str]) -> None:
    """Refuse an expression that is no condition; collect the names."""
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                _check(value, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _check(operand, names)
        case ast.Compare(left=left, ops=operators, comparators=others):
            for comparison in operators:
                if type(comparison) not in COMPARISONS:
                    raise NoOutcome(f"'{ast.unparse(node)}'", "a comparison by ==, !=, <, <=, > or >=")
            for side in (left, *others):
                name = _name(side)
                if name is not None:
                    names.add(name)
                elif _number(side) is None:
                    expected = "a register, mem.x, pm.x or a whole number on each side of a comparison"
                    raise NoOutcome(f"'{ast.unparse(side)}'", expected)
        case _:
            raise NoOutcome(f"'{ast.unparse(node)}'", "comparisons, joined by and, or and not")


def _name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=("mem" | "pm") as space), attr=name):
            return f"{space}.{name}"
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id=("mem" | "pm") as space), attr=("dram" | "c") as where), attr=name
        ):
            return f"{space}.{where}.{name}"
    return None


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)) if not isinstance(number, bool):
            return -number
    return None


def _truth(node: ast.expr, values: Mapping[str, int]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_truth(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_truth(part, values) for part in parts)
        case ast.UnaryOp(operand=operand):
            return not _truth(operand, values)
        case ast.Compare(left=left, ops=operators, comparators=others):
            sides = [_value(side, values) for side in (left, *others)]
            pairs = zip(operators, sides, sides[1:], strict=False)
            return all(COMPARISONS[type(comparison)](first, second) for comparison, first, second in pairs)
    raise AssertionError("the parser lets nothing else through")


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    name, number = _name(node), _number(node)
    return values[name] if name is not None else number or 0
