"""The rooms stay apart: who may import whom. The table is the architecture page's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "covgame"

BASE = {
    "types",
    "confidence",
    "errors",
    "memory",
    "arrays",
    "jsonfile",
    "rng",
    "episodes",
    "interruption",
    "waiting",
}
MAY_IMPORT = {
    "mdp": BASE,
    "targets": BASE | {"mdp"},
    "flow": BASE | {"mdp", "targets"},
    "game": BASE | {"mdp", "targets", "flow"},
    "kernels": BASE | {"game"},
    "pac": BASE | {"mdp", "targets", "flow", "game", "kernels"},
    "sources": BASE | {"mdp", "targets", "game", "kernels"},
    "baselines": BASE | {"mdp", "targets", "flow", "game", "kernels", "pac", "sources"},
    "players": BASE | {"mdp", "targets", "game", "kernels", "sources", "baselines"},
    "planning": BASE | {"mdp", "targets", "flow", "sources", "report"},
    "store": BASE | {"game", "targets"},
    "runs": BASE
    | {"mdp", "targets", "flow", "game", "pac", "sources", "players", "store", "planning"},
    "report": BASE | {"planning"},
    "bench": BASE
    | {
        "mdp",
        "targets",
        "flow",
        "game",
        "baselines",
        "sources",
        "players",
        "store",
        "runs",
        "report",
    },
    "cli": BASE
    | {"mdp", "targets", "flow", "sources", "planning", "report"}
    | {"game", "pac", "runs", "bench"},
}
NEEDS_ONLY_KERNELS = ("targets", "flow", "game", "pac")
HEAVY = {
    "highspy": {"flow/highs.py"},
    "numba": {"kernels/compiling.py"},
    "gymnasium": {"sources/gymnasium_envs.py"},
    "pyarrow": {"store/episodes.py", "bench/results.py"},
    "rich": {"cli/cover.py"},
    "matplotlib": {"report/figures.py"},
    "click": {"cli/main.py", "cli/common.py"},
    "pydantic": {"jsonfile.py", "mdp/files.py", "targets/files.py"}
    | {"store/manifest.py", "pac/files.py"},
}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_import_only_what_they_may(path: Path) -> None:
    name = room(path)
    if name in {"__init__", "__main__"}:
        return
    allowed = MAY_IMPORT.get(name, BASE) | {name}
    used = {part.split(".")[1] for part in imported(path) if part.startswith("covgame.")}
    assert used <= allowed, f"{path.name} imports {used - allowed}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_mathematics_never_sees_the_true_model(path: Path) -> None:
    """It works on any kernel, so that it can run on a learnt one; peers learn it, too."""
    is_peer = room(path) == "baselines"
    if room(path) in NEEDS_ONLY_KERNELS or is_peer:
        assert not any(name.startswith("covgame.mdp.model") for name in imported(path))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_have_one_door_each(path: Path) -> None:
    place = path.relative_to(SOURCE).as_posix()
    for library, doors in HEAVY.items():
        if any(name.split(".")[0] == library for name in imported(path)):
            assert place in doors, f"{place} imports {library}"


def test_importing_covgame_is_light() -> None:
    """What takes long to import is imported when it is needed."""
    import subprocess
    import sys

    script = "import covgame, sys; print([m for m in sys.argv[1:] if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script, *HEAVY, "scipy"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_map_of_rooms_is_true() -> None:
    page = (SOURCE.parent.parent / "docs" / "architecture.md").read_text()
    for path in modules():
        if path.name not in {"__init__.py", "__main__.py"}:
            assert path.name in page, f"docs/architecture.md does not mention {path.name}"
