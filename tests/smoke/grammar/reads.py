"""Which options a command's code reads when some are given: its branches followed in the source, nothing is run."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from types import FunctionType, ModuleType


def reads(function: FunctionType, given: Collection[str], subject: object = None) -> set[str]:
    """The attributes of ``options`` that ``function`` reads, and the functions that it hands its options to.

    A branch whose condition says whether an option was given, or which subject it is, is taken or left accordingly; of
    any other condition both branches are.
    """
    return _Reader(set(given), subject).of(function)


class _Reader:
    """One call with these attributes given."""

    def __init__(self, given: set[str], subject: object) -> None:
        self.given, self.subject = given, subject
        self.seen: set[FunctionType] = set()
        self.found: set[str] = set()

    def of(self, function: FunctionType) -> set[str]:
        if function not in self.seen:
            self.seen.add(function)
            self.statements(_tree(function).body, _Scope(function))
        return self.found

    def statements(self, body: Sequence[ast.stmt], scope: _Scope) -> bool:
        """Whether what follows the statements is reached."""
        return all(self.statement(one, scope) for one in body)

    def statement(self, one: ast.stmt, scope: _Scope) -> bool:
        if isinstance(one, ast.ImportFrom):
            scope.imported(one)
        elif isinstance(one, ast.If):
            truth = self.expression(one.test, scope)
            ends = [self.statements(one.body, scope)] if truth is not False else []
            ends += [self.statements(one.orelse, scope)] if truth is not True else []
            return any(ends)
        elif isinstance(one, ast.With | ast.For | ast.Try | ast.FunctionDef):
            heads = [
                child for child in ast.iter_child_nodes(one) if not isinstance(child, ast.stmt | ast.ExceptHandler)
            ]
            for head in heads:
                self.expression(head, scope)
            self.statements(one.body, scope)
        else:
            for child in ast.iter_child_nodes(one):
                self.expression(child, scope)
            return not isinstance(one, ast.Return | ast.Raise)
        return True

    def expression(self, node: ast.AST, scope: _Scope) -> bool | None:
        """Read it; its truth, where options decide that."""
        if isinstance(node, ast.BoolOp):
            decides = isinstance(node.op, ast.Or)
            truths = []
            for value in node.values:
                truths.append(self.expression(value, scope))
                if truths[-1] is decides:
                    return decides
            return None if None in truths else not decides
        if isinstance(node, ast.IfExp):
            truth = self.expression(node.test, scope)
            for value in [node.body] * (truth is not False) + [node.orelse] * (truth is not True):
                self.expression(value, scope)
            return None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.expression(node.operand, scope)
            return None if truth is None else not truth
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.comparison(node, scope)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "options":
            self.found.add(node.attr)
            return node.attr in self.given
        if isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == "options" for a in node.args):
            self.of(scope.function(node.func))
        for child in ast.iter_child_nodes(node):
            self.expression(child, scope)
        return None

    def comparison(self, node: ast.Compare, scope: _Scope) -> bool | None:
        given, (other,), (how,) = self.expression(node.left, scope), node.comparators, node.ops
        self.expression(other, scope)
        same: bool | None = None
        if isinstance(node.left, ast.Attribute) and node.left.attr == "subject" and self.subject is not None:
            value = other.value if isinstance(other, ast.Constant) else scope.value(other)
            same = value == self.subject if isinstance(value, str) else None
        elif given is not None and isinstance(other, ast.Constant) and other.value is None:
            same = not given
        return same if same is None or isinstance(how, ast.Is | ast.Eq) else not same


class _Scope:
    """What names mean inside a function."""

    def __init__(self, function: FunctionType) -> None:
        self.module = sys.modules[function.__module__]
        self.names: dict[str, object] = {}

    def imported(self, node: ast.ImportFrom) -> None:
        package = self.module.__package__ if node.level else None
        source = importlib.import_module("." * node.level + (node.module or ""), package)
        for alias in node.names:
            name = f"{source.__name__}.{alias.name}"
            known = getattr(source, alias.name, None)
            self.names[alias.asname or alias.name] = importlib.import_module(name) if known is None else known

    def value(self, node: ast.AST) -> object:
        if isinstance(node, ast.Attribute):
            return getattr(self.value(node.value), node.attr, None)
        return self.names.get(node.id, vars(self.module).get(node.id)) if isinstance(node, ast.Name) else None

    def function(self, node: ast.AST) -> FunctionType:
        found = self.value(node)
        assert isinstance(found, FunctionType), f"{ast.unparse(node)} gets the options and is no function"
        return found


@cache
def _tree(function: FunctionType) -> ast.FunctionDef:
    (found,) = [node for node in _functions(sys.modules[function.__module__]) if node.name == function.__name__]
    return found


def _functions(module: ModuleType) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef))
