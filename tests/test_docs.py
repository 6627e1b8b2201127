"""Every code block in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def blocks(page: Path, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text()) if found == kind]


def commands(page: Path) -> list[tuple[str, str]]:
    """(command, its printed output) from the console blocks."""
    found = []
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


ALL_COMMANDS = [
    pytest.param(command, output, id=f"{page.stem}: {command}")
    for page in PAGES
    for command, output in commands(page)
]


def test_there_is_something_to_run() -> None:
    assert len(ALL_COMMANDS) >= 3
    assert any(blocks(page, "python") for page in PAGES)


@pytest.mark.parametrize(("command", "output"), ALL_COMMANDS)
def test_commands_print_what_the_page_says(command: str, output: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    assert words[0] == "covgame", "console blocks hold covgame commands; use sh for others"
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    said = [line.rstrip() for line in output.strip("\n").splitlines()]
    printed = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    if said and said[-1] == "...":
        said, printed = said[:-1], printed[: len(said) - 1]
    assert printed == said


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The blocks of a page run one after the other; ``# ->`` comments state what is printed."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), namespace)
        expected = re.findall(r"#\s*->\s*(.*)", block)
        assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_measured_tables_are_what_the_results_say() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tables", "--check"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_statement_page_names_what_exists() -> None:
    """Every test and every function in the tables of docs/paper.md is there."""
    rows = [
        line.split("|")[1:-1]
        for line in (ROOT / "docs" / "paper.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| statement")
    ]
    assert len(rows) >= 50
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for _, code, checks in rows:
        for name in re.findall(r"`(test_\w+)`", checks):
            assert f"def {name}(" in tests, name
        for name in re.findall(r"`([\w.]+)`", code):
            last = name.split(".")[-1]
            assert re.search(rf"(def|class) {last}\b", source), name


def test_the_statement_page_is_complete() -> None:
    """Every labelled statement of the paper has its row."""
    page = (ROOT / "docs" / "paper.md").read_text()
    for label in (
        *("asm:reachability", "def:cov-alg", "th:lb-coverage", "asm:no-regret-improved"),
        *("alg:cover", "th:cover-sample-comp-improved", "cor:cover-instance-improved"),
        *("alg:RF-algo-final", "thm:RFE-main-theorem", "thm:PRINCIPLE-complexity"),
        *("lem:flow-minmax", "lem:flow-linear", "prop:distr-min-cover-policy"),
        *("lem:bound-flow-simple", "lem:bound-flow-refined", "lem:cover-bound-m"),
        *("lem:cover-lb-counts-improved", "asm:rewards", "lem:bernstein-value", "lem:optimism"),
        *("lem:variance-concentration", "th:ucbvi-cr", "lem:truncated-sum"),
        *("lem:pigeon-hole-classic", "lem:law-tv-bound", "lem:diff-V-recursion"),
        *("lem:global-concentration-pV", "thm:new-concentration-RFE"),
        *("thm:new-concentration-BPI", "lem:simulation", "lem:qp-concentration"),
        *("lem:new-RFE-coverage", "lem:new-PCE-final-phase", "lem:new-RFPCRL-phase-length"),
        *("alg:PRINCIPLE", "alg:prune-episodes", "fact1", "lem:PRINCIPLE-optimal-never-elim"),
        *("lem:new-PRINCIPLE-final-phase", "lem:new-PRINCIPLE-elimination-phase"),
        *("lem:new-PRINCIPLE-phase-length", "lem:PRINCIPLEvsPEDEL", "alg:visitations"),
        "thm:estimate-visitations",
    ):
        assert label in page, label
