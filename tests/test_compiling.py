"""Compiled code that was kept on disk is not taken up after a change of anything it was made of."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import covgame
from covgame.kernels import compiling

PACKAGE = Path(covgame.__file__).parent


def dispatchers() -> list[object]:
    return [
        value
        for name in compiling.KERNELS
        for value in vars(import_module(f"covgame.kernels.{name}")).values()
        if hasattr(value, "py_func")
    ]


def test_everything_compiled_carries_the_stamp() -> None:
    found = dispatchers()
    assert len(found) > 80
    for one in found:
        assert one._cache._cache_file._source_stamp == compiling.STAMP  # type: ignore[attr-defined]


def test_all_that_flows_into_a_kernel_is_stamped() -> None:
    """The kernels import constants from these modules of ours and from no others."""
    imported = set()
    for path in (PACKAGE / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("covgame."):
                imported.add(str(node.module).removeprefix("covgame.").replace(".", "/") + ".py")
    files = {f"kernels/{path.name}" for path in (PACKAGE / "kernels").glob("[!_]*.py")}
    assert imported | files == set(compiling.SOURCES)


PLAY = """
import covgame as cg
from covgame.players.compiled import CompiledGame
CompiledGame.waits = True
run = cg.cover("riverswim:states=5,horizon=8", cg.uniform(40), seed=0)
print(run.n_episodes)
"""


@pytest.mark.slow
def test_a_constant_of_another_file_is_noticed(tmp_path: Path) -> None:
    """With a warm cache, another learning rate plays other episodes."""
    package = tmp_path / "covgame"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def episodes() -> str:
        done = subprocess.run(
            [sys.executable, "-c", PLAY], env=env, cwd=tmp_path, capture_output=True, check=True
        )
        return done.stdout.decode()

    first = episodes()
    assert episodes() == first
    adversary = package / "game" / "adversary.py"
    text = adversary.read_text()
    assert "RATE = math.sqrt(" in text
    adversary.write_text(text.replace("RATE = math.sqrt(", "RATE = 0.05 * math.sqrt("))
    assert episodes() != first


SMALL = """
import sys
from covgame.game.counts import Counts
from covgame.kernels.compiling import is_kept, types_of
from covgame.kernels.layout import count_arrays
from covgame.kernels.tables import refresh
from covgame.types import Shape
learnt = count_arrays(Counts(Shape(2, 2, 2), pooled=True))
if sys.argv[1:]:
    print(is_kept(refresh, types_of([learnt])))
else:
    refresh(learnt)
"""


def test_damaged_files_are_compiled_anew(tmp_path: Path) -> None:
    """Garbage, empty files, a flipped bit in the code: no complaint, and whole files again."""
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def ask(*arguments: str) -> str:
        command = [sys.executable, "-c", SMALL, *arguments]
        return subprocess.run(
            command, env=environ, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    ask()
    kept = sorted(path for path in tmp_path.rglob("*.nb[ic]"))
    assert {path.suffix for path in kept} == {".nbi", ".nbc"}
    for damage in (b"garbage", b"", None):
        for path in kept:
            content = path.read_bytes()
            middle = len(content) // 2
            flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            path.write_bytes(flipped if damage is None else damage)
        assert ask("is it kept?") == "False\n"
        ask()
        assert ask("is it kept?") == "True\n"
