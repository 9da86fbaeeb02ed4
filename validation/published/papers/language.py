"""The language of claims: arithmetic and comparisons over what runs measure.

``thr[efactory] / thr[imm]`` is a quotient of throughputs, ``lat[erda, get, clients=1]`` a mean latency in microseconds
under conditions of its own. A term is a measure and, in brackets, a scheme, perhaps an operation, and axes that are set
otherwise than the claim has them.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MEASURES = {
    "thr": "throughput, operations per second",
    "lat": "mean latency, us",
    "med": "median latency, us",
    "p99": "latency that 99 % of the operations stay below, us",
    "crc": "time of a CRC32 over a value, us",
}
"""The quantities of a term, with their units."""

_TERM = re.compile(r"\b([a-z][a-z0-9]*)\[([^\]]*)\]")
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


@dataclass(frozen=True)
class Term:
    """One measured quantity: of which scheme, of which of its operations (None: of all), and where."""

    measure: str
    scheme: str
    operation: str | None
    at: tuple[tuple[str, str], ...]
    """Axes that this term sets, in place of the claim's."""


class Expression:
    """A formula over terms. Raises ValueError for other text, in words for the author of the file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.terms: list[Term] = []
        try:
            self._tree = ast.parse(_TERM.sub(self._name, text), mode="eval").body
        except SyntaxError:
            raise ValueError(f"'{text}', which is no formula") from None
        self._check(self._tree)

    def __call__(self, value_of: Callable[[Term], float]) -> float | bool:
        """Its value, where terms have theirs. Raises ZeroDivisionError where something is divided by nothing."""
        result: float | bool = self._value(self._tree, [value_of(term) for term in self.terms])
        return result

    @property
    def compares(self) -> bool:
        """Whether it is the quotient of one measure of two systems, which is one where they are equal."""
        match self._tree:
            case ast.BinOp(left=ast.Name(), op=ast.Div(), right=ast.Name()):
                return self.terms[0].measure == self.terms[1].measure
        return False

    def _name(self, found: re.Match[str]) -> str:
        measure, words = found[1], [word.strip() for word in found[2].split(",") if word.strip()]
        if measure not in MEASURES:
            raise ValueError(f"the measure '{measure}'; there are {', '.join(MEASURES)}")
        at = [tuple(part.strip() for part in word.split("=", 1)) for word in words if "=" in word]
        plain = [word for word in words if "=" not in word]
        if len(plain) > 2 or (not plain and measure != "crc"):
            raise ValueError(f"'{found[0]}', expected {measure}[scheme, operation, axis=value]")
        scheme, operation = (*plain, None, None)[:2]
        self.terms.append(Term(measure, scheme or "", operation, tuple(sorted((a, b) for a, b in at))))
        return f"t{len(self.terms) - 1}"

    def _check(self, node: ast.AST) -> None:
        match node:
            case ast.Constant(value=int() | float()):
                return
            case ast.Name(id=name) if re.fullmatch(r"t\d+", name) and int(name[1:]) < len(self.terms):
                return
            case ast.BinOp() | ast.UnaryOp() if type(node.op) in _OPERATORS:
                pass
            case ast.Compare(ops=ops) if all(type(op) in _OPERATORS for op in ops):
                pass
            case ast.BoolOp():
                pass
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
                for argument in node.args:
                    self._check(argument)
                return
            case _:
                raise ValueError(f"'{self.text}', in which {ast.unparse(node)} means nothing here")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._check(child)

    def _value(self, node: ast.AST, values: list[float]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return values[int(name[1:])]
            case ast.BinOp():
                return _OPERATORS[type(node.op)](self._value(node.left, values), self._value(node.right, values))
            case ast.UnaryOp():
                return _OPERATORS[type(node.op)](self._value(node.operand, values))
            case ast.Call(func=ast.Name(id=name)):
                return _FUNCTIONS[name](*(self._value(argument, values) for argument in node.args))
            case ast.BoolOp():
                all_or_any = all if isinstance(node.op, ast.And) else any
                return all_or_any(self._value(part, values) for part in node.values)
            case ast.Compare():
                sides = [self._value(side, values) for side in (node.left, *node.comparators)]
                pairs = zip(sides, node.ops, sides[1:], strict=False)
                return all(_OPERATORS[type(op)](left, right) for left, op, right in pairs)
        raise AssertionError(node)


def where(term: Term, at: Mapping[str, str]) -> dict[str, str]:
    """Where a term is measured, in a claim that is made ``at`` these values of the axes."""
    return {**at, **dict(term.at)}
