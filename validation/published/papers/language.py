"""The language of claims: arithmetic and comparisons over what runs measure.

``thr[efactory] / thr[imm]`` is a quotient of throughputs, ``lat[erda, get, clients=1]`` a mean latency in microseconds
under conditions of its own. A term is a measure and, in brackets, a scheme, perhaps an operation, and axes that are set
otherwise than the claim has them (``measures.py`` says which words each takes). A scheme ``$x`` is each of those that
the claim is made ``over``; a scheme may also have a short name of the file's own.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from .measures import MEASURES

_MEASURE = re.compile(r"\b([a-z][a-z0-9]*)\[")
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.Not: lambda truth: 1 - truth,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
VARIABLE = "$"
"""With this begins a name that stands for one scheme after the other."""
_SETS = re.compile(r"[\w-]+\s*=")
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "min": min, "max": max}


@dataclass(frozen=True)
class Term:
    """One measured quantity: of which scheme, of what of it, and where."""

    measure: str
    scheme: str
    of: str | None
    """Its operation (None: all of them), role, machine, condition or axis, as the measure takes it."""
    at: tuple[tuple[str, str], ...]
    """Axes that this term sets, in place of the claim's."""
    second: str | None = None
    """The word behind that, where the measure takes two: a hop, a name, an operation, a machine."""

    @override
    def __str__(self) -> str:
        words = [word for word in (self.scheme, self.of, self.second) if word is not None]
        return f"{self.measure}[{', '.join([*words, *(f'{axis}={value}' for axis, value in self.at)])}]"


class Expression:
    """A formula over terms; ``systems`` are schemes by the names that the formula may have for them.

    Raises ValueError for other text, in words for the author of the file.
    """

    def __init__(self, text: str, systems: Mapping[str, str] = MappingProxyType({})) -> None:
        self.text = text
        self._systems = systems
        self.terms: list[Term] = []
        try:
            self._tree = ast.parse(self._named(text), mode="eval").body
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

    def _named(self, text: str) -> str:
        """The text with a name for each term."""
        named, done = "", 0
        while (found := _MEASURE.search(text, done)) is not None:
            words, end = _words(text, found.end())
            named += text[done : found.start()] + self._name(found[1], words, text[found.start() : end])
            done = end
        return named + text[done:]

    def _name(self, measure: str, words: list[str], text: str) -> str:
        if measure not in MEASURES:
            raise ValueError(f"the measure '{measure}'; there are {', '.join(MEASURES)}")
        kind = MEASURES[measure]
        at = [tuple(part.strip() for part in word.split("=", 1)) for word in words if _SETS.match(word)]
        plain = [word for word in words if not _SETS.match(word)]
        if (len(plain) < 1 + kind.least and measure != "crc") or len(plain) > 1 + len(kind.words):
            raise ValueError(f"'{text}', expected {kind.form(measure)}")
        scheme, of, second = (*plain, None, None, None)[:3]
        name = self._systems.get(scheme or "", scheme or "")
        self.terms.append(Term(measure, name, of, tuple(sorted((a, b) for a, b in at)), second))
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
            case ast.BoolOp():  # an undecided verdict is neither true nor false
                least_or_most = min if isinstance(node.op, ast.And) else max
                return least_or_most(self._value(part, values) for part in node.values)
            case ast.Compare():
                sides = [self._value(side, values) for side in (node.left, *node.comparators)]
                pairs = zip(sides, node.ops, sides[1:], strict=False)
                return all(_OPERATORS[type(op)](left, right) for left, op, right in pairs)
        raise AssertionError(node)


def _words(text: str, start: int) -> tuple[list[str], int]:
    """The words between a bracket that opens before ``start`` and the one that closes it, and where that ends.

    Brackets inside belong to a name: ``clover[replicas=2]``. Raises ValueError where none closes.
    """
    words, depth = [""], 0
    for at in range(start, len(text)):
        letter = text[at]
        if letter == "]" and not depth:
            return [word.strip() for word in words if word.strip()], at + 1
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    raise ValueError(f"'{text}', in which a bracket does not close")


def where(term: Term, at: Mapping[str, str]) -> dict[str, str]:
    """Where a term is measured, in a claim that is made ``at`` these values of the axes."""
    return {axis: value for axis, value in {**at, **dict(term.at)}.items() if not axis.startswith(VARIABLE)}


def scheme_of(term: Term, at: Mapping[str, str]) -> str:
    """The scheme that a term is about: the one that its variable stands for at this point."""
    return at.get(term.scheme, term.scheme)
