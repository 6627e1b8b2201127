#!/usr/bin/env python3
"""Set up and run: needs Python 3.11+ and nothing else.

    python3 dev.py demo        set up, then run covgame on an embedded example
    python3 dev.py test        set up, then run the tests (arguments go to pytest)
    python3 dev.py test-slow   the tests that take minutes
    python3 dev.py test-d3rlpy exports are read by d3rlpy, in an environment of its own (1 GB)
    python3 dev.py test-ray    workers on Ray, in an environment of its own (0.8 GB)
    python3 dev.py test-browser pages in a real Chromium, which is installed if it is not there
    python3 dev.py picture     docs/figures/report.png, the picture of a page
    python3 dev.py lint        lint, formatting and strict types
    python3 dev.py mutate      change the sources in small ways; a test has to notice (--quick)
    python3 dev.py torture     kills, faults, signals, fuzzed inputs: what survives (--short; Linux)
    python3 dev.py bench NAME  a benchmark from benchmarks/
    python3 dev.py docs        build the documentation into site/, for reading without a network
    python3 dev.py build       make the wheel and the source archive, check and try them out
    python3 dev.py lock        resolve the dependencies anew (installs uv into .venv)

Everything is installed into .venv beside this file; rerunning is safe and quick.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
PLAYWRIGHT = "playwright==1.65.0"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DEMO = ["cover", "riverswim:states=7", "--target", "uniform:10", "--min-reach", "0.01"]


def main(arguments: list[str]) -> int:
    """Run one of the commands above."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    if command in COMMANDS:
        return COMMANDS[command](rest)
    print(__doc__)
    return 0 if command in ("help", "-h", "--help") else 2


def demo(rest: list[str]) -> int:
    """The main job on an embedded example."""
    set_up("core")
    return run("-m", "covgame", *(rest or DEMO))


def test(rest: list[str]) -> int:
    """All tests but the slow ones, on two cores."""
    set_up("dev")
    return run("-m", "pytest", "-m", "not slow and not browser", "-n", "2", *rest)


def test_slow(rest: list[str]) -> int:
    """The tests that take minutes."""
    set_up("dev")
    return run("-m", "pytest", "-m", "slow", *rest)


def test_d3rlpy(rest: list[str]) -> int:
    """d3rlpy reads an export; it needs an older Gymnasium, so it has an environment of its own."""
    set_up("dev")
    own = ROOT / ".venv-d3rlpy"
    python = own / BIN.name / PYTHON.name
    if not (own / "installed").exists():
        venv.create(own, with_pip=True, clear=True)
        for wanted in ("torch==2.13.0", "d3rlpy==2.8.1", "minari[hdf5]==0.5.4", "pillow>=10.0"):
            install = [str(python), "-m", "pip", "install", "--quiet", wanted]
            subprocess.run(install, check=True)
        (own / "installed").write_text("")
    os.environ["COVGAME_D3RLPY"] = str(python)
    return run("-m", "pytest", "-m", "slow", "tests/test_export_d3rlpy.py", *rest)


def test_ray(rest: list[str]) -> int:
    """Workers on Ray, started and stopped on this machine; it is large, so it lives apart."""
    own = ROOT / ".venv-ray"
    python = own / BIN.name / PYTHON.name
    if not (own / "installed").exists():
        venv.create(own, with_pip=True, clear=True)
        locked = str(ROOT / "requirements" / "dev.txt")
        here = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
        for wanted in (["--require-hashes", "-r", locked], ["ray==2.60.0"], here):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        (own / "installed").write_text("")
    os.environ["COVGAME_RAY"] = "1"
    command = [str(python), "-m", "pytest", "-m", "slow", "tests/test_ray.py", *rest]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def test_browser(rest: list[str]) -> int:
    """Pages as people see them."""
    if not set_up_browser():
        return 2
    return run("-m", "pytest", "-m", "browser", "tests/test_browser.py", *rest)


def picture(rest: list[str]) -> int:
    """The picture of a page that the docs show."""
    return run("-m", "tests.picture", *rest) if set_up_browser() else 2


def set_up_browser() -> bool:
    """The driver, which lives apart, and the browser, which comes from the system."""
    set_up("dev")
    own = ROOT / ".venv-browser"
    if not (own / "installed").exists():
        pip("--target", str(own), "--upgrade", PLAYWRIGHT)
        (own / "installed").write_text(PLAYWRIGHT)
    paths = [str(own), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    if os.environ.get("COVGAME_CHROMIUM") or any(map(shutil.which, BROWSERS)):
        return True
    print("installing Chromium with apt-get; set COVGAME_CHROMIUM to use another browser")
    try:
        for command in (["update", "--quiet"], ["install", "--yes", "chromium"]):
            subprocess.run([shutil.which("apt-get") or "apt-get", *command], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Chromium cannot be installed ({error}); install it, or set COVGAME_CHROMIUM")
        return False
    return True


def lint(rest: list[str]) -> int:
    """Lint, formatting and strict types."""
    set_up("dev")
    checks = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"])
    return max(run("-m", *check, *rest) for check in checks)


def mutate(rest: list[str]) -> int:
    """Small changes of the sources that a test has to notice (docs/mutation.md)."""
    set_up("dev")
    return run("-m", "tests.mutation", *rest)


def torture(rest: list[str]) -> int:
    """Attacks, and what has survived them (docs/surviving.md)."""
    set_up("dev")
    return run("-m", "torture", *rest)


def bench(rest: list[str]) -> int:
    """One of the scripts in benchmarks/."""
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))
    if not rest or rest[0] not in names:
        print(f"say which benchmark: {', '.join(names)}")
        return 2
    set_up("dev")
    return run("-m", f"benchmarks.{rest[0]}", *rest[1:])


def docs(rest: list[str]) -> int:
    """The documentation site, in site/; Sphinx lives apart (docs/decisions/0027)."""
    set_up("core")
    return run("-m", "tools.website", str(set_up_apart("docs")), *rest)


def build(rest: list[str]) -> int:
    """Wheel and source archive in dist/, checked, installed elsewhere and tried out."""
    set_up("core")
    return run("-m", "tools.release", str(set_up_apart("release")), *rest)


def set_up(kind: str) -> None:
    """Make .venv and install the locked dependencies, unless that is already done."""
    if sys.version_info < (3, 11):  # noqa: UP036 (older ones get as far as this line)
        sys.exit(f"covgame needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    stamp = VENV / f"installed-{kind}"
    wanted = fingerprint(kind)
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        make_venv()
    pip("--require-hashes", "-r", str(ROOT / "requirements" / f"{kind}.txt"))
    pip("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(wanted)


def set_up_apart(kind: str) -> Path:
    """Tools that covgame does not need, in a virtual environment of their own: its Python."""
    own = ROOT / f".venv-{kind}"
    python = own / BIN.name / PYTHON.name
    stamp, wanted = own / "installed", fingerprint(kind)
    if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
        make_venv(own)
        pip("--require-hashes", "-r", str(ROOT / "requirements" / f"{kind}.txt"), python=python)
        stamp.write_text(wanted)
    return python


def make_venv(place: Path = VENV) -> None:
    """A fresh virtual environment, or a sentence that says what is missing."""
    try:
        venv.create(place, with_pip=True, clear=True)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(
            f"cannot make a virtual environment in {place} ({error}); "
            "on Debian and Ubuntu install the package python3-venv"
        )


def fingerprint(kind: str) -> str:
    """Changes when what is to be installed changes."""
    content = b"".join(
        path.read_bytes()
        for path in (ROOT / "requirements" / f"{kind}.txt", ROOT / "pyproject.toml")
    )
    return hashlib.sha256(content + str(ROOT).encode() + sys.version.encode()).hexdigest()


def pip(*arguments: str, python: Path = PYTHON) -> None:
    """``pip install`` inside .venv, or another."""
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        sys.exit("the installation failed; the lines above say why")


def lock(rest: list[str]) -> int:
    """Write requirements/*.txt from pyproject.toml, without addresses of any index."""
    set_up("core")
    pip("uv")
    compile_ = [
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--no-header",
        "--python-version",
        "3.11",
    ]
    wanted = {
        "core": ["pyproject.toml", "--extra", "build"],
        "dev": ["pyproject.toml", "--extra", "dev"],
        "docs": ["--group", "docs"],
        "release": ["--group", "release"],
    }
    for kind, what in wanted.items():
        code = run(*compile_, *what, *rest, "-o", f"requirements/{kind}.txt")
        if code:
            return code
    return 0


def run(*arguments: str) -> int:
    """Run .venv's Python and return its exit code. Ctrl-C is left to it: it may have to save."""
    signal.signal(signal.SIGINT, lambda *_: None)
    return subprocess.run([str(PYTHON), *arguments], cwd=ROOT, check=False).returncode


COMMANDS = {
    "demo": demo,
    "test": test,
    "test-slow": test_slow,
    "test-d3rlpy": test_d3rlpy,
    "test-ray": test_ray,
    "test-browser": test_browser,
    "picture": picture,
    "lint": lint,
    "mutate": mutate,
    "torture": torture,
    "bench": bench,
    "docs": docs,
    "build": build,
    "lock": lock,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
