"""What must be true of the repository itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_BYTES = 1_000_000


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_large_files() -> None:
    assert [path for path in tracked() if path.stat().st_size > MOST_BYTES] == []


def test_locked_requirements_name_no_index() -> None:
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "://" not in text
        assert "--index" not in text
        assert "--find-links" not in text
        assert "--hash=sha256:" in text


def test_no_path_of_a_machine() -> None:
    pattern = re.compile(r"(?<![\w.])/(root|home|work|Users)/\w")
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".yml", ""}:
            assert not pattern.search(path.read_text()), path


def test_the_version_stands_in_the_changelog() -> None:
    import covgame

    assert f"## {covgame.__version__}" in (ROOT / "CHANGELOG.md").read_text()
