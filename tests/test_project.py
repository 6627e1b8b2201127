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


def test_public_ci_runs_what_the_package_promises() -> None:
    """Every Python and system that the metadata name, and on Linux the very script of CI."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    metadata = (ROOT / "pyproject.toml").read_text()
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    listed = re.search(r"python: \[(.*)\]", workflow)
    assert listed is not None
    assert re.findall(r'"([\d.]+)"', listed[1]) == promised == ["3.11", "3.12", "3.13", "3.14"]
    assert f'requires-python = ">={promised[0]}"' in metadata
    for system in ("ubuntu", "macos", "windows"):
        assert f"{system}-latest" in workflow
    assert "run: .ci/run" in workflow
    for command in re.findall(r"python dev\.py (\S+)", workflow):
        assert f'    "{command}": ' in (ROOT / "dev.py").read_text()


def test_tests_that_need_posix_exist() -> None:
    from tests.conftest import NEEDS_POSIX

    assert [name for name in NEEDS_POSIX if not (ROOT / "tests" / name).exists()] == []


def test_the_citation_is_of_this_version() -> None:
    import covgame

    assert f"\nversion: {covgame.__version__}\n" in (ROOT / "CITATION.cff").read_text()
