"""Make golden runs with the covgame that is installed: ``python -m tests.golden``.

Writes ``tests/golden/run-N.zip`` for its format N, once; what a version has written stays as it is.
Each run is there as it ended; some are there stopped half-way as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.rundb import config_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORLD = "riverswim:states=3,horizon=4"
VENDING = "py:examples.vending_machine:VendingMachine"
RUNS: dict[str, list[str]] = {
    "cover": ["cover", WORLD, "--target", "uniform:3", "--max-episodes", "60"],
    "frozen": ["cover", "gym:FrozenLake-v1", "--horizon", "8", "--target", "uniform:2/pair"],
    "found": ["cover", VENDING, "--target", "uniform:3/pair"],
    "counted": ["cover", WORLD, "--target", "uniform:9", "--play", "counts"],
    "explore": ["explore", WORLD, "--epsilon", "2"],
    "identify": ["identify", WORLD, "--epsilon", "1.5"],
}
STOPPED = {"cover": "20", "frozen": "10", "found": "6"}
"""Half-way, by a budget."""

ANSWERED = (0, 3)


def main() -> None:
    """Make what this version writes, and keep it if its format is new."""
    with tempfile.TemporaryDirectory() as place:
        made = Path(place)
        expected = {name: _play(asked, made / name) for name, asked in RUNS.items()}
        for name, budget in STOPPED.items():
            _play([*RUNS[name], "--max-episodes", budget], made / f"{name}-stopped")
        kept = HERE / f"run-{config_of(made / 'cover')['format'].rpartition('/')[2]}.zip"
        if kept.exists():
            sys.exit(f"{kept} is there already, and golden runs do not change")
        (made / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(made.rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    archive.write(path, path.relative_to(made).as_posix())


def _play(asked: list[str], out: Path) -> dict[str, Any]:
    """The answer of a command, with its run in a folder."""
    begin = f"import sys; sys.path.append({str(ROOT)!r}); from covgame.cli.main import run; run()"
    command = [sys.executable, "-c", begin, *asked, "--out", out.name, "--json", "--quiet"]
    done = subprocess.run(command, cwd=out.parent, capture_output=True, text=True, check=False)
    if done.returncode not in ANSWERED:
        sys.exit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    main()
