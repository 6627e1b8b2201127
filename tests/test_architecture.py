"""The rooms stay apart: who may import whom. The table is the architecture page's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "covgame"

BASE = {
    "types",
    "confidence",
    "config",
    "errors",
    "memory",
    "arrays",
    "jsonfile",
    "rng",
    "episodes",
    "failures",
    "signals",
    "imports",
    "locks",
    "names",
    "notebook",
    "plain",
    "search_path",
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
    "engine": BASE | {"mdp", "targets", "game", "kernels", "sources"},
    "workers": BASE | {"targets", "game", "sources", "engine"},
    "planning": BASE | {"mdp", "targets", "flow", "sources", "report"},
    "storage": BASE | {"game", "targets"},
    "data": BASE
    | {
        "mdp",
        "targets",
        "flow",
        "game",
        "kernels",
        "pac",
        "sources",
        "storage",
        "planning",
        "report",
    },
    "runs": BASE
    | {"mdp", "targets", "flow", "game", "pac", "sources", "engine", "storage", "planning"}
    | {"report", "data", "workers"},
    "report": BASE
    | {"planning", "runs", "data", "mdp", "targets", "flow", "game", "storage", "sources"},
    "testing": BASE | {"mdp", "targets", "game", "sources", "planning", "runs", "report"},
    "cli": BASE
    | {"mdp", "targets", "flow", "sources", "planning", "report"}
    | {"game", "pac", "runs", "data", "storage"},
}
NEEDS_ONLY_KERNELS = ("targets", "flow", "game", "pac")
HEAVY = {
    "highspy": {"flow/highs.py"},
    "numba": {"kernels/jit.py"},
    "gymnasium": {
        "sources/gymnasium_envs.py",
        "sources/observations.py",
        "data/to_minari.py",
    },
    "pyarrow": {
        "storage/episodes.py",
        "storage/recorder.py",
        "storage/observations.py",
        "storage/reading.py",
        "data/tables.py",
        "data/to_csv.py",
    },
    "ray": {"sources/ray.py"},
    "hypothesis": {"testing/hypothesis_inside.py", "testing/hypothesis_machines.py"},
    "pytest": set(),
    "rich": {"report/progress.py"},
    "matplotlib": {"report/figures.py"},
    "click": {f"cli/{path.name}" for path in (SOURCE / "cli").glob("*.py")},
    "pydantic": {"config.py", "jsonfile.py", "mdp/files.py", "targets/files.py"}
    | {"storage/config.py", "pac/files.py", "testing/outcome.py"},
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
def test_the_package_imports_nothing_from_beside_it(path: Path) -> None:
    beside = {"benchmarks", "tests", "torture", "tools", "examples"}
    assert not beside & {name.split(".")[0] for name in imported(path)}


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


@pytest.mark.parametrize(
    ("script", "heavy"),
    [
        ("from covgame import *", [*(HEAVY.keys() - {"pydantic"}), "scipy"]),
        ("import covgame.cli.main", ["numpy", "covgame.runs", "covgame.game", "covgame.data"]),
    ],
)
def test_importing_covgame_is_light(script: str, heavy: list[str]) -> None:
    """What takes long to import is imported when it is needed."""
    import subprocess
    import sys

    look = f"{script}; import sys; print([m for m in sys.argv[1:] if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", look, *heavy], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def rooms_on_the_map() -> dict[str, set[str]]:
    """The files that the architecture page lists, by room; those beside the rooms under ``""``."""
    page = (SOURCE.parent.parent / "docs" / "architecture.md").read_text()
    listing = page.split("src/covgame/\n", 1)[1].split("\ntests/", 1)[0]
    found: dict[str, set[str]] = {"": set()}
    name = ""
    for line in listing.splitlines():
        entry = re.match(r"  (\w+)(/|\.py)", line)
        if entry:
            name = entry[1] if entry[2] == "/" else ""
        found.setdefault(name, set()).update(re.findall(r"\b\w+\.py\b", line))
    return found


def test_the_map_of_rooms_is_true() -> None:
    there: dict[str, set[str]] = {}
    for path in modules():
        if path.name not in {"__init__.py", "__main__.py"}:
            name = "" if path.parent == SOURCE else room(path)
            there.setdefault(name, set()).add(path.name)
    listed = rooms_on_the_map()
    assert listed.pop("") == there.pop("") | {"__init__.py"}
    assert listed == there
