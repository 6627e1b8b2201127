"""What a release consists of: made, checked, installed where the repository is not, tried out.

python3 dev.py build     wheel and source archive in dist/
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
OURS = {"covgame", "pytest_covgame"}
"""Packages and modules of the wheel."""
IN_THE_WHEEL = ("covgame/__init__.py", "covgame/py.typed", "covgame/cli/main.py")
IN_THE_ARCHIVE = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "dev.py",
)
NEVER = ("__pycache__", "/.venv", ".egg-info", "/.git/", ".nbi", ".nbc", ".so")


def main(tools: str) -> int:
    """Everything in turn; the first step that fails ends it."""
    shutil.rmtree(DIST, ignore_errors=True)
    call(tools, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    call(tools, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    wheel, archive = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    complaints = check_contents(wheel, archive)
    if complaints:
        print(*complaints, sep="\n", file=sys.stderr)
        return 1
    try_out(wheel)
    print(f"ready: {wheel.relative_to(ROOT)}, {archive.relative_to(ROOT)}")
    return 0


def check_contents(wheel: Path, archive: Path) -> list[str]:
    """What the two lack, and what does not belong into them."""
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = opened.namelist()
    with tarfile.open(archive) as packed:
        in_archive = [name.partition("/")[2] for name in packed.getnames()]
    found = [f"{wheel.name} lacks {name}" for name in IN_THE_WHEEL if name not in in_wheel]
    found += [f"{archive.name} lacks {name}" for name in IN_THE_ARCHIVE if name not in in_archive]
    roots = {name: name.split("/")[0].split("-")[0].removesuffix(".py") for name in in_wheel}
    strange = [name for name, root in roots.items() if root not in OURS]
    strange += [name for name in (*in_wheel, *in_archive) for part in NEVER if part in f"/{name}"]
    return found + [f"{name} does not belong into a release" for name in strange]


def try_out(wheel: Path) -> None:
    """The wheel in a fresh environment, in a folder from which nothing here can be seen."""
    # A process that compiles may still write into it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        scripts = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        python = scripts / ("python.exe" if os.name == "nt" else "python")
        pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
        locked = ("--require-hashes", "-r", ROOT / "requirements" / "core.txt")
        call(*pip, "install", *locked, where=place)
        call(*pip, "install", "--no-deps", wheel, where=place)
        call(*pip, "check", where=place)
        version = wheel.name.split("-")[1]
        said = call(scripts / "covgame", "--version", where=place)
        expect(version in said, f"covgame --version says {said!r}, the wheel is {version}")
        answer = call(
            *(python, "-m", "covgame", "cover", "grid:rows=3,columns=3", "--target"),
            *("uniform:2/pair", "--out", "run", "--json", "--quiet"),
            where=place,
        )
        expect(json.loads(answer)["covered"], f"it did not cover: {answer}")
        claim = call(scripts / "covgame", "certify", "run", "--json", where=place)
        expect(json.loads(claim)["valid"], f"it does not certify its own run: {claim}")


def call(*words: str | Path, where: Path = ROOT) -> str:
    """Run a command; what it prints. One that fails ends the release."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, words)), cwd=where, env=clean, capture_output=True, text=True, check=False
    )
    expect(done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: bool, complaint: str) -> None:
    """Go on, or end with a sentence."""
    if not holds:
        sys.exit(f"the release is not ready: {complaint}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
