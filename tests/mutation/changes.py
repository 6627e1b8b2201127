"""From the text of a module to small changes: constants, signs, stages, unions, statements."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
TWINS = [("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("floor", "ceil")]
TWINS += [("any", "all"), ("zeros", "ones"), ("sum", "max")]
OTHER_NAME = {**dict(TWINS), **{b: a for a, b in TWINS[:-1]}}
DROPPED = {"sqrt", "log", "exp", "expm1", "abs", "cumsum", "flip", "lgamma", "reversed"}
"""Functions that are left out: f(x) becomes x."""

STAGES = {"h", "stage"}
SKIPPED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Change:
    """One small change of a module, and its whole text with it."""

    line: int
    function: str  # or the name of a constant of the module
    old: str
    new: str
    text: str


def changes(source: str) -> list[Change]:
    """All of them, in the order of the text."""
    found: dict[str, Change] = {}
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node, function, decides in _walk(ast.parse(source), ""):
        for new in _alternatives(node, decides):
            text = _replaced(source.encode(), lines, node, new)
            old, other = ast.unparse(node), new or "(nothing)"
            found.setdefault(text, Change(node.lineno, function, old, other, text))
    return sorted(found.values(), key=lambda change: (change.line, change.old, change.new))


def _replaced(source: bytes, lines: list[int], node: ast.AST, new: str) -> str:
    assert isinstance(node, (ast.expr, ast.stmt))
    first = lines[node.lineno - 1] + node.col_offset
    last = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    text = (new or "pass") if isinstance(node, ast.stmt) else f"({new})"
    return (source[:first] + text.encode() + source[last:]).decode()


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.expr | ast.stmt, str, bool]]:
    """Everything that is computed: no annotations, decorators, messages or doc strings.

    With the function that it is in, and whether it decides which way to go.
    """
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or isinstance(child, SKIPPED):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, (ast.expr, ast.stmt)):
                yield child, function, name == "test"
            inner = child.name if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else ""
            if isinstance(node, ast.Module) and isinstance(child, ast.Assign):
                inner = ast.unparse(child.targets[0])  # a constant
            yield from _walk(child, ".".join(filter(None, (function, inner))))


def _alternatives(node: ast.expr | ast.stmt, decides: bool) -> Iterator[str]:  # noqa: C901, PLR0912
    """What could stand in the place of a node; an empty text for nothing."""
    if decides and isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
        yield f"not {ast.unparse(node)}"
    match node:
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(number)):
            yield from map(str, (number + 1, number - 1))
        case ast.Constant(value=float(number)):
            yield from map(repr, (2 * number, number / 2) if number else (1.0,))
        case ast.BinOp(left=left, op=op, right=right) if not _is_type(left):
            if type(op) in OPERATORS:
                yield _with(node, op=OPERATORS[type(op)]())
            yield ast.unparse(left)
            if isinstance(op, (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr)):
                yield ast.unparse(right)
        case ast.Compare(ops=ops):
            for i, compared in enumerate(ops):
                if type(compared) in COMPARISONS:
                    yield _with(node, ops=[*ops[:i], COMPARISONS[type(compared)](), *ops[i + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield ast.unparse(rest[0]) if len(rest) == 1 else _with(node, values=rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            if not isinstance(operand, ast.Constant):
                yield ast.unparse(operand)
        case ast.IfExp(body=body, orelse=orelse):
            yield ast.unparse(body)
            yield ast.unparse(orelse)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Subscript(slice=ast.Name(id=name)) if name in STAGES:
            before = ast.BinOp(ast.Name(name), ast.Sub(), ast.Constant(1))
            yield _with(node, slice=before)
        case ast.AugAssign(op=op):
            if type(op) in OPERATORS:
                yield _with(node, op=OPERATORS[type(op)]())
            yield ""
        case ast.Expr(value=ast.Call()):
            yield ""


def _other_calls(node: ast.Call) -> Iterator[str]:
    """Another function of the same arguments, or the argument instead of its function."""
    func, arguments = node.func, node.args
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    if name in OTHER_NAME:
        other = copy.deepcopy(func)
        setattr(other, "attr" if isinstance(func, ast.Attribute) else "id", OTHER_NAME[name])
        yield _with(node, func=other)
    if name in DROPPED and len(arguments) == 1:
        yield ast.unparse(arguments[0])
    if name == "range" and len(arguments) == 1:
        yield _with(node, args=[ast.BinOp(arguments[0], ast.Sub(), ast.Constant(1))])
    if name == "where" and len(arguments) == 3:
        yield _with(node, args=[arguments[0], arguments[2], arguments[1]])


def _with(node: ast.AST, **fields: object) -> str:
    """The text of a node with some fields changed."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return ast.unparse(changed)


def _is_type(node: ast.expr) -> bool:
    """``CoverTask | PolicyTask`` is a type, and so is ``dict[...] | None``."""
    inner = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(inner, ast.Name) and inner.id[:1].isupper() and len(inner.id) > 3
