"""The seeded faults, as changes of a scheme's source: which there are, and where they apply.

- *drop*: a step of a protocol is left out (a flush, a READ behind a WRITE, a reply's precondition, a mark);
- *unfence*: a flush is begun, and nobody waits for it: its ``sfence`` is left out;
- *bypass*: what should be flushed is read instead, which would do if DMA and stores went past the caches;
- *swap*: two steps, one behind the other, change places (publish and persist);
- *trust*: a checksum or a comparison of checksums is taken to match;
- *stand still*: something that should advance does not (a log's tail, a version number, a bit of a bitmap);
- *believe*: an ``if`` is taken whatever it asks;
- *retry*: a client that does not know what became of its operation does it again, on its new connection.

They are found in the text, so they exist for every scheme, also for one that is written tomorrow. ``kinds`` names them
by what an engineer would call the mistake.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from .kinds import FLUSHES, kind_of


@dataclass(frozen=True)
class Change:
    """One seeded fault: what it does, where, and how to make the module's tree with it."""

    operator: str
    function: str
    line: int
    text: str
    """The statement or expression that it changes."""
    build: Callable[[], ast.Module]
    """Makes :attr:`tree`: most faults are only counted, or tried elsewhere."""

    @property
    def tree(self) -> ast.Module:
        """The module's tree with the fault in it."""
        return self.build()

    @property
    def kind(self) -> str:
        """What an engineer would call the mistake: one of ``kinds.KINDS``."""
        return kind_of(self.operator, self.function, self.text)

    @property
    def name(self) -> str:
        """What to call it: stable as long as the text of the statement is."""
        return f"{self.operator} {self.function}: {self.text}"


def changes(source: str) -> Iterator[Change]:
    """All seeded faults of a module's classes, in the order of their lines."""
    tree = ast.parse(source)
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for function in (node for node in cls.body if isinstance(node, ast.FunctionDef)):
            before = function.name == "load" or function.name.startswith("_load")  # before the run: no protocol
            if not before and any(isinstance(node, _TELLING) for node in ast.walk(function)):
                yield from _of_function(tree, cls.name, function)


_TELLING = ast.Yield | ast.YieldFrom | ast.AugAssign
"""What a function has that does something to the world, or counts what was done."""


def _of_function(tree: ast.Module, cls: str, function: ast.FunctionDef) -> Iterator[Change]:
    for block in _blocks(function):
        for index, statement in enumerate(block):
            where = f"{cls}.{function.name}"
            text = ast.unparse(statement).splitlines()[0]
            if _is_step(statement):
                yield Change("drop", where, statement.lineno, text, partial(_with, tree, statement, [ast.Pass()]))
            if _is_step(statement) and _called(_waited(statement)) in FLUSHES:
                for operator, instruction in (("unfence", "clwb"), ("bypass", "load")):
                    instead = _calling(statement, instruction)
                    yield Change(operator, where, statement.lineno, text, partial(_with, tree, statement, [instead]))
            if isinstance(statement, ast.Raise) and _called(statement.exc) == "OutcomeUnknown":
                yield Change("retry", where, statement.lineno, text, partial(_with, tree, statement, [ast.Pass()]))
            if isinstance(statement, ast.AugAssign):
                yield Change(
                    "stand still", where, statement.lineno, text, partial(_with, tree, statement, [ast.Pass()])
                )
            if isinstance(statement, ast.If):
                test = ast.unparse(statement.test)
                believed = copy.deepcopy(statement)
                believed.test = ast.Constant(True)
                yield Change(
                    "believe", where, statement.lineno, f"if {test}", partial(_with, tree, statement, [believed])
                )
            if index + 1 < len(block) and _may_swap(statement, block[index + 1]):
                behind = block[index + 1]
                both = f"{text} <-> {ast.unparse(behind).splitlines()[0]}"
                swapped = partial(_with, tree, statement, [copy.deepcopy(behind), copy.deepcopy(statement)], behind)
                yield Change("swap", where, statement.lineno, both, swapped)
    for node in ast.walk(function):
        if isinstance(node, ast.YieldFrom) and _called(node.value) == "crc32_matches":
            text = ast.unparse(node)
            yield Change("trust", f"{cls}.{function.name}", node.lineno, text, partial(_replaced, tree, node))


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _is_step(statement: ast.stmt) -> bool:
    """A step that is taken for what it does: whatever it returns is not used."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.YieldFrom):
        if _called(value.value) == "compute":
            return False  # only takes time
        return not (isinstance(value.value, ast.Tuple) and not value.value.elts)  # ``yield from ()`` does nothing
    return isinstance(value, ast.Call) and _called(value) not in ("append", "__init__", "begin", "start")


def _waited(statement: ast.stmt) -> ast.AST | None:
    """What ``yield from`` waits for, where that is all that a statement does."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.YieldFrom) else None


def _calling(statement: ast.stmt, instruction: str) -> ast.stmt:
    """The same statement with another instruction of the same thread, on the same range."""
    other = copy.deepcopy(statement)
    call = _waited(other)
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    call.func.attr = instruction
    return other


def _may_swap(first: ast.stmt, second: ast.stmt) -> bool:
    """Both do something to the world, and the second one uses nothing that the first one makes."""
    if not (_acts(first) and _acts(second)):
        return False
    if any(isinstance(node, _LEAVING) for both in (first, second) for node in ast.walk(both)):
        return False
    made = {node.id for node in ast.walk(first) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.id for node in ast.walk(second) if isinstance(node, ast.Name)}
    return not made & used


_LEAVING = ast.Return | ast.Raise | ast.Continue | ast.Break
"""What keeps the steps behind it from being taken."""


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr | ast.Assign | ast.If | ast.For):
        return any(isinstance(node, ast.YieldFrom) for node in ast.walk(statement)) and not (
            isinstance(statement, ast.Expr) and not _is_step(statement)
        )
    return False


def _called(node: ast.AST | None) -> str:
    if isinstance(node, ast.Call):
        function = node.func
        return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return ""


class _Replace(ast.NodeTransformer):
    """Puts statements in the place of one (and of the one behind it), or True in that of an expression."""

    def __init__(self, place: tuple[int, int, type[ast.AST]], by: list[ast.stmt], gone: tuple[int, int] | None) -> None:
        self.place, self.by, self.gone = place, by, gone

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt] | None:
        at = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        if (*at, type(node)) == self.place:
            return self.by if isinstance(node, ast.stmt) else ast.copy_location(ast.Constant(True), node)
        if isinstance(node, ast.stmt) and at == self.gone:
            return None
        found: ast.AST = self.generic_visit(node)
        return found


def _with(tree: ast.Module, statement: ast.stmt, by: list[ast.stmt], behind: ast.stmt | None = None) -> ast.Module:
    gone = None if behind is None else (behind.lineno, behind.col_offset)
    for new in by:
        ast.copy_location(new, statement)
    return _transformed(tree, _Replace((statement.lineno, statement.col_offset, type(statement)), by, gone))


def _replaced(tree: ast.Module, expression: ast.expr) -> ast.Module:
    return _transformed(tree, _Replace((expression.lineno, expression.col_offset, type(expression)), [], None))


def _transformed(tree: ast.Module, replace: _Replace) -> ast.Module:
    found = replace.visit(copy.deepcopy(tree))
    assert isinstance(found, ast.Module)
    return ast.fix_missing_locations(found)
