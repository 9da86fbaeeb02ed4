"""The seeded faults, as changes of a scheme's source: which there are, and where they apply.

- *drop*: a step of a protocol is left out (a flush, a READ behind a WRITE, a reply's precondition, a mark, a wait);
- *unfence*: a flush is begun, and nothing waits for it: its ``sfence`` is left out;
- *bypass*: what should be flushed is read instead, which would do if DMA and stores went past the caches;
- *swap*: two steps, one behind the other, change places (publish and persist);
- *trust*: a checksum or a comparison of checksums is taken to match;
- *stand still*: something that should advance does not (a log's tail, a version number, a bit of a bitmap);
- *lose*: a flag does not flip (``1 - tag``), or one part of a packed word is missing (``stage << 1 | working``);
- *believe*: an ``if`` is always taken;
- *retry*: a client that does not know the outcome of its operation does it again, on its new connection.

They are found in the text, so they exist for every scheme, also for one that is written tomorrow. ``kinds`` names them
by the mistake, as an engineer would.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from typing_extensions import override

from .kinds import FLUSHES, kind_of


@dataclass(frozen=True)
class Change:
    """One seeded fault: its operator, its place, and how to make the module's tree with it."""

    operator: str
    function: str
    line: int
    """The line of the statement that it changes, or that the expression is in."""
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
        """The mistake, as an engineer would name it: one of ``kinds.KINDS``."""
        return kind_of(self.operator, self.function, self.text)

    @property
    def noted(self) -> int:
        """What a run notes where the fault makes a difference: its line; of a condition that is believed the line with
        a minus, where it was false.
        """
        return -self.line if self.operator == "believe" else self.line

    @property
    def name(self) -> str:
        """The fault's name: it changes only with the text of the statement."""
        return f"{self.operator} {self.function}: {self.text}"


def changes(source: str) -> Iterator[Change]:
    """All seeded faults of a module's classes and of its functions that take part in a run."""
    tree = ast.parse(source)
    for where, function in _methods(tree.body):
        if not _is_before_the_run(function):
            yield from _of_function(tree, f"{where}.{function.name}", function)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_code(node):
            yield from _of_function(tree, node.name, node)


def _methods(body: list[ast.stmt], above: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every method of the classes in ``body`` and of the classes inside them: roles in a scheme."""
    for cls in (node for node in body if isinstance(node, ast.ClassDef)):
        name = f"{above}{cls.name}"
        yield from ((name, node) for node in cls.body if isinstance(node, ast.FunctionDef))
        yield from _methods(cls.body, f"{name}.")


def _is_before_the_run(function: ast.FunctionDef) -> bool:
    """Whether a function only loads or sizes things: that is not part of the protocol."""
    return function.name in _BEFORE or function.name.startswith(("loaded", "_load"))


def _is_code(function: ast.FunctionDef) -> bool:
    """Whether a function is code that a thread executes: a generator, and of events, not of values for its caller."""
    returns = "" if function.returns is None else ast.unparse(function.returns)
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    return yields and not returns.startswith(("Iterator", "Iterable"))


_BEFORE = ("__init__", "load", "bytes_of_log", "room")
_TELLING = ast.Yield | ast.YieldFrom | ast.AugAssign
"""Nodes of a function that has effects on the system, or counts them."""


def _of_function(tree: ast.Module, where: str, function: ast.FunctionDef) -> Iterator[Change]:
    waiting = _is_code(function)
    telling = any(isinstance(node, _TELLING) for node in ast.walk(function))
    for block in blocks(function):
        for index, statement in enumerate(block):
            text = ast.unparse(statement).splitlines()[0]

            def change(
                operator: str,
                by: ast.stmt,
                behind: ast.stmt | None = None,
                statement: ast.stmt = statement,
                text: str = text,
            ) -> Change:
                instead = [by] if behind is None else [copy.deepcopy(behind), by]
                return Change(operator, where, statement.lineno, text, partial(_with, tree, statement, instead, behind))

            if telling:
                yield from _of_steps(statement, block[index + 1 :], change)
            if waiting and _is_wait(statement):
                yield change("drop", ast.parse("yield from ()").body[0])
            for node in _expressions(statement):
                yield from _of_expression(tree, where, statement, node)


def _of_steps(statement: ast.stmt, rest: list[ast.stmt], change: Callable[..., Change]) -> Iterator[Change]:
    """The faults that a statement of a protocol can have; ``rest`` are the statements behind it in its block."""
    if _is_step(statement):
        nothing = ast.Pass() if _waited(statement) is None else ast.parse("yield from ()").body[0]
        yield change("drop", nothing)  # a generator stays one
    if _is_step(statement) and _is_flush_of_a_thread(_waited(statement)):
        for operator, instruction in (("unfence", "clwb"), ("bypass", "load")):
            yield change(operator, _calling(statement, instruction))
    if isinstance(statement, ast.Raise) and _called(statement.exc) == "OutcomeUnknown":
        yield change("retry", ast.Pass())
    if isinstance(statement, ast.AugAssign):
        yield change("stand still", ast.Pass())
    if isinstance(statement, ast.If):
        believed = copy.deepcopy(statement)
        believed.test = ast.Constant(True)
        yield change("believe", believed, text=f"if {ast.unparse(statement.test)}")
    if rest and _may_swap(statement, rest[0]):
        both = f"{ast.unparse(statement).splitlines()[0]} <-> {ast.unparse(rest[0]).splitlines()[0]}"
        yield change("swap", copy.deepcopy(statement), rest[0], text=both)


def _of_expression(tree: ast.Module, where: str, statement: ast.stmt, node: ast.expr) -> Iterator[Change]:
    """The faults that an expression can have."""

    def change(operator: str, text: str, by: ast.expr) -> Change:
        return Change(operator, where, statement.lineno, text, partial(_replaced, tree, node, by))

    if _is_checksum(node):
        computed = isinstance(node, ast.YieldFrom)  # by a thread: it still is, and a generator stays one
        trusted = ast.BoolOp(ast.Or(), [node, ast.Constant(True)]) if computed else ast.Constant(True)
        yield change("trust", ast.unparse(node), trusted)
    if isinstance(node, ast.BinOp) and _is_flip(node):
        yield change("lose", f"{ast.unparse(node)} in {ast.unparse(statement).splitlines()[0]}", node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        for lost, other in ((node.left, node.right), (node.right, node.left)):
            if not (isinstance(lost, ast.BinOp) and isinstance(lost.op, ast.BitOr)):  # of three, each once
                yield change("lose", f"{ast.unparse(lost)} of {ast.unparse(node)}", other)


def _is_checksum(node: ast.expr) -> bool:
    """Whether an expression checks a checksum, or compares two."""
    if isinstance(node, ast.YieldFrom):
        return _called(node.value) == "crc32_matches"
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)):
        return False
    return all("crc" in ast.unparse(side) for side in (node.left, node.comparators[0]))


def _is_flip(node: ast.BinOp) -> bool:
    """``1 - tag``: the other one of two."""
    one = isinstance(node.left, ast.Constant) and node.left.value == 1
    return one and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Name | ast.Attribute)


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, not of the statements inside it."""
    for field in ast.iter_child_nodes(statement):
        if isinstance(field, ast.expr) and field is not getattr(statement, "annotation", None):
            yield from (node for node in ast.walk(field) if isinstance(node, ast.expr))


def blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The statements of a function, block by block."""
    for node in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _is_step(statement: ast.stmt) -> bool:
    """Whether a statement is a step with an effect, whose return value is not used."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.YieldFrom):
        if _called(value.value) == "compute":
            return False  # only takes time
        return not (isinstance(value.value, ast.Tuple) and not value.value.elts)  # ``yield from ()`` does nothing
    return isinstance(value, ast.Call) and _called(value) not in _NO_STEPS


def _is_wait(statement: ast.stmt) -> bool:
    """Whether a statement waits for an event, where a function's yields are waits."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield) and bool(statement.value.value)


_NO_STEPS = ("append", "__init__", "begin", "start", "count")
"""Functions that make something, or count for a run's figures."""


def _waited(statement: ast.stmt) -> ast.AST | None:
    """The operand of ``yield from``, if the statement is nothing else; otherwise None."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.YieldFrom) else None


def _is_flush_of_a_thread(call: ast.AST | None) -> bool:
    """Whether a call is an instruction of a thread that flushes a range: it has other instructions for that range."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return False
    return call.func.attr in FLUSHES and bool(call.args) and _last_name(call.func.value) == "thread"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _calling(statement: ast.stmt, instruction: str) -> ast.stmt:
    """The same statement with another instruction of the same thread, on the same range."""
    other = copy.deepcopy(statement)
    call = _waited(other)
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    call.func.attr = instruction
    return other


def _may_swap(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether two steps may change places: both have effects, and the second uses nothing that the first makes."""
    if not (_acts(first) and _acts(second)):
        return False
    if any(isinstance(node, _LEAVING) for both in (first, second) for node in ast.walk(both)):
        return False
    made = {node.id for node in ast.walk(first) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.id for node in ast.walk(second) if isinstance(node, ast.Name)}
    return not made & used


_LEAVING = ast.Return | ast.Raise | ast.Continue | ast.Break
"""Statements that keep the steps behind them from being executed."""


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


_Span = tuple[int, int, int, int, type[ast.AST]]


def _span(node: ast.AST) -> _Span:
    """Where a node stands: ``a | b`` and ``a | b | c`` begin at one place."""
    ends = (getattr(node, name, 0) or 0 for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
    return (*ends, type(node))  # type: ignore[return-value]


class _Replace(ast.NodeTransformer):
    """Puts statements in the place of one (and of the one behind it), or an expression in that of another."""

    def __init__(self, place: ast.AST, by: Sequence[ast.AST], gone: ast.AST | None) -> None:
        self.place, self.by = _span(place), by
        self.gone = None if gone is None else _span(gone)

    @override
    def visit(self, node: ast.AST) -> ast.AST | Sequence[ast.AST] | None:
        at = _span(node)
        if at == self.place:
            return self.by if isinstance(node, ast.stmt) else ast.copy_location(self.by[0], node)
        if at == self.gone:
            return None
        found: ast.AST = self.generic_visit(node)
        return found


def _with(tree: ast.Module, statement: ast.stmt, by: list[ast.stmt], behind: ast.stmt | None = None) -> ast.Module:
    for new in by:
        ast.copy_location(new, statement)
    return _transformed(tree, _Replace(statement, by, behind))


def _replaced(tree: ast.Module, expression: ast.expr, by: ast.expr) -> ast.Module:
    return _transformed(tree, _Replace(expression, [copy.deepcopy(by)], None))


def _transformed(tree: ast.Module, replace: _Replace) -> ast.Module:
    found = replace.visit(copy.deepcopy(tree))
    assert isinstance(found, ast.Module)
    return ast.fix_missing_locations(found)
