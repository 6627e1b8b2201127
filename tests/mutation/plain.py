"""Modules with another text, and kernels as plain Python: to compile them anew takes minutes.

What the compiler does otherwise than Python: fields of a record are attributes, and dividing by 0
or a logarithm of it gives a number, not an error.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np


class Record(np.void):  # type: ignore[misc]  # numpy lets its own records do the same
    """A row of a structured array whose fields are attributes."""

    def __getattribute__(self, name: str) -> Any:
        fields = np.void.__getattribute__(self, "dtype").fields
        return self[name] if name in fields else np.void.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class CMath:
    """``math`` as the C library has it: no errors."""

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    @staticmethod
    def log(x: float) -> float:
        return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan

    @staticmethod
    def sqrt(x: float) -> float:
        return math.sqrt(x) if x >= 0 else math.nan

    @staticmethod
    def exp(x: float) -> float:
        return math.exp(x) if x < 709.0 else math.inf


def divided(a: float, b: float) -> float:
    """a / b, as the compiler has it."""
    return a / b if b != 0 else float(np.float64(a) / np.float64(b))


class _Divisions(ast.NodeTransformer):
    """Every division by ``divided``."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        call = ast.Call(ast.Name("divided", ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class _Text(SourceFileLoader):
    """Runs a text instead of what stands in the file."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.text)
        if _is_kernel(fullname):
            tree = _Divisions().visit(tree)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["divided"] = divided
        super().exec_module(module)
        if _is_kernel(module.__name__):
            vars(module)["math"] = CMath()
        if module.__name__ == "covgame.game.successors":
            for name in ("ROW", "ENTRY"):
                vars(module)[name] = np.dtype((Record, vars(module)[name]))


def _is_kernel(name: str) -> bool:
    return name.startswith("covgame.kernels.")


class Changed(MetaPathFinder):
    """Finds the package as it is, but for one module; kernels and counts suit plain Python."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("covgame."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return spec
        place = Path(spec.origin)
        changed = place == self.path
        if not changed and not _is_kernel(fullname) and fullname != "covgame.game.successors":
            return spec
        text = self.text if changed else place.read_text()
        return spec_from_file_location(
            fullname,
            place,
            loader=_Text(fullname, str(place), text),
            submodule_search_locations=spec.submodule_search_locations,
        )


def install(path: Path, text: str) -> None:
    """From now on, import the package with this text in the place of one of its files."""
    np.seterr(all="ignore")
    sys.meta_path.insert(0, Changed(path, text))
