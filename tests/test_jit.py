"""The cache of compiled code: where it is, when it is used, and what a damaged one does."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import covgame
from covgame.kernels import jit

PACKAGE = Path(covgame.__file__).parent


def run_python(code: str, *arguments: str, **environ: str) -> Any:
    """What Python code prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_everything_compiled_is_cached_in_the_folder() -> None:
    found = [
        value
        for path in (PACKAGE / "kernels").glob("[!_]*.py")
        for value in vars(import_module(f"covgame.kernels.{path.stem}")).values()
        if hasattr(value, "py_func")
    ]
    assert len(found) > 80
    assert jit.FOLDER is not None
    for one in found:
        assert jit.FOLDER in Path(one._cache.cache_path).parents


def test_all_files_that_kernels_import_are_hashed() -> None:
    imported = set()
    for path in (PACKAGE / "kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("covgame."):
                name = str(node.module).removeprefix("covgame.").replace(".", "/")
                if not (PACKAGE / name).is_dir():
                    imported.add(f"{name}.py")
    files = {f"kernels/{path.name}" for path in (PACKAGE / "kernels").glob("*.py")}
    assert imported | files == set(jit.SOURCES)


FOLDERS = """
import json
import numba
from covgame.kernels.tables import refresh
print(json.dumps([refresh._cache.cache_path, numba.config.CACHE_DIR]))
"""


def test_where_the_cache_is(tmp_path: Path) -> None:
    """In NUMBA_CACHE_DIR, or in the user's cache; numba's own setting does not change."""
    (tmp_path / "file").touch()
    mine, users = str(tmp_path / "mine"), str(tmp_path / "users")
    folder, setting = run_python(FOLDERS, NUMBA_CACHE_DIR=mine)
    assert (Path(folder).parents[1], setting) == (tmp_path / "mine" / "covgame", mine)
    if sys.platform == "linux":
        folder, setting = run_python(FOLDERS, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=users)
        assert (Path(folder).parents[1], setting) == (tmp_path / "users" / "covgame", "")
    nowhere = str(tmp_path / "file" / "below")
    assert run_python(FOLDERS, NUMBA_CACHE_DIR=nowhere) == [None, nowhere]


def test_old_folders_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used least recently, and nothing that covgame did not create."""
    monkeypatch.setattr(jit.config, "CACHE_DIR", str(tmp_path))
    base = tmp_path / "covgame"
    others = [base / f"{number:016x}" for number in range(jit.KEPT_VERSIONS + 2)]
    for number, folder in enumerate([*others, base / "of a user"]):
        (folder / "inner").mkdir(parents=True)
        os.utime(folder, (number, number))
    mine = jit._cache_folder()
    assert mine is not None
    left = {mine, base / "of a user", *others[-jit.KEPT_VERSIONS + 1 :]}
    assert set(base.iterdir()) == left
    assert jit._cache_folder() == mine
    assert set(base.iterdir()) == left


PLAY = """
import covgame as cg
from covgame.engine.compiled import CompiledGame
CompiledGame.waits = True
run = cg.cover("riverswim:states=5,horizon=8", cg.uniform(40), seed=0)
print(run.n_episodes)
"""


@pytest.mark.slow
def test_a_constant_of_another_file_is_noticed(tmp_path: Path) -> None:
    """With a warm cache, another learning rate plays other episodes."""
    package = tmp_path / "covgame"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    environ = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = run_python(PLAY, **environ)
    assert run_python(PLAY, **environ) == first
    adversary = package / "game" / "adversary.py"
    text = adversary.read_text()
    assert "RATE = math.sqrt(" in text
    adversary.write_text(text.replace("RATE = math.sqrt(", "RATE = 0.05 * math.sqrt("))
    assert run_python(PLAY, **environ) != first


REFRESH = """
import json
from covgame.game.counts import Counts
from covgame.kernels.jit import Compilation
from covgame.kernels.layout import count_arrays
from covgame.kernels.tables import refresh
from covgame.types import Shape
arguments = [count_arrays(Counts(Shape(2, 2, 2), pooled=True))]
(_, types), = Compilation([(refresh, arguments)]).wanted
was_cached = refresh._cache.has(types, refresh.targetctx)
refresh(*arguments)
print(json.dumps([was_cached, sum(refresh.stats.cache_hits.values())]))
"""


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_damaged_files_are_compiled_again(tmp_path: Path, suffix: str) -> None:
    """Garbage, empty and truncated files, as a power cut leaves them."""

    def refresh() -> list[object]:
        answer: list[object] = run_python(REFRESH, NUMBA_CACHE_DIR=str(tmp_path))
        return answer

    assert refresh() == [False, 0]
    files = sorted(tmp_path.rglob(f"*{suffix}"))
    assert files
    for damage in (
        lambda _: b"garbage",
        lambda _: b"",
        lambda content: bytes(len(content)),
        lambda content: content[: len(content) // 2],
    ):
        assert refresh() == [True, 1]
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        assert refresh() == [False, 0]
