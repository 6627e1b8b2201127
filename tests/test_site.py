"""The documentation site: nothing is missing from it, nothing in it points nowhere.

What needs Sphinx is a slow test; all else looks at the sources of the site.
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tools import notebook, reference, website

import covgame
from covgame.cli.main import NAMES, Commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "source"
    website.prepare(place)
    return place


def test_every_page_is_in_the_navigation(source: Path) -> None:
    """Once, and under a heading; what has a folder of its own hangs below that folder's door."""
    listed = [page for _, pages in website.navigation(index_of(source)) for page in pages]
    assert len(listed) == len(set(listed))
    for folder in ("api", "decisions"):
        door = source / folder / "index.md"
        listed += [f"{folder}/{name}" for name in website.children(door.read_text())]
    there = {str(path.relative_to(source).as_posix()) for path in source.rglob("*.md")}
    assert set(listed) == there - {"index.md"}


def index_of(source: Path) -> str:
    return (source / "index.md").read_text()


def test_the_navigation_leads_through_the_parts_in_order(source: Path) -> None:
    titles = [title for title, _ in website.navigation(index_of(source))]
    assert titles[:4] == ["Start", "How to", "Explanations", "Reference"]


def anchors(text: str) -> set[str]:
    """As Sphinx and code hosts make them from headings, and those that are set by hand."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("\\", "").lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return found


def test_links_between_pages_meet_a_heading(source: Path) -> None:
    """Files are checked by test_docs; here the places within them are, too."""
    broken = []
    for page in source.rglob("*.md"):
        for file, anchor in re.findall(r"\]\(([^):#]*)#([\w-]+)\)", page.read_text()):
            goal = page.parent / file if file else page
            if not goal.exists() or anchor not in anchors(goal.read_text()):
                broken.append(f"{page.relative_to(source)}: {file}#{anchor}")
    assert broken == []


def test_links_stay_within_the_pages(source: Path) -> None:
    """The site holds docs/ alone: a link to a source file would lead nowhere there."""
    outside = [
        f"{page.relative_to(source)}: {link}"
        for page in source.rglob("*.md")
        for link in re.findall(r"\]\(([^)#]+)", page.read_text())
        if "://" not in link and not (page.parent / link).resolve().is_relative_to(source)
    ]
    assert outside == []


@pytest.mark.parametrize("name", covgame.__all__)
def test_every_public_name_has_an_entry(name: str) -> None:
    pages = [
        page for page, text in reference.pages().items()
        if page.startswith("api/") and f"\n## `{name}`\n" in text
    ]  # fmt: skip
    assert len(pages) == 1


def test_an_entry_has_the_arguments_and_the_example_of_its_docstring() -> None:
    page = reference.pages()["api/verbs.md"]
    entry = page.split("\n## `cover`\n")[1].split("\n## ")[0]
    for one in inspect.signature(covgame.cover).parameters.values():
        name = f"\\*\\*{one.name}" if one.kind is one.VAR_KEYWORD else one.name
        assert f"- **{name}**: " in entry
    assert "```pycon\n>>> import covgame as cg\n" in entry
    assert "- **BadInput**: " in entry


def commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    below = command.commands.items() if isinstance(command, click.Group) else ()
    found = [(path, command)]
    for name, child in below:
        found += commands(child, f"{path} {name}")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_every_command_is_on_its_page(name: str) -> None:
    page = reference.pages()["commands.md"]
    for path, command in commands(Commands()[name], f"covgame {name}"):
        entry = re.split(rf"^#+ `{path}`$", page, flags=re.MULTILINE)[1]
        entry = re.split(r"^#+ `", entry, maxsplit=1, flags=re.MULTILINE)[0]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in entry, f"{path} {option.opts[0]}"
        assert "\b" not in entry


# ------------------------------------------------------------------------------ notebook


def test_the_notebook_is_the_tutorial() -> None:
    """`python -m tools.notebook` writes it."""
    assert notebook.NOTEBOOK.read_text() == notebook.made_from(notebook.PAGE.read_text())


def test_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    content = json.loads(notebook.NOTEBOOK.read_text())
    assert (content["nbformat"], len({one["id"] for one in content["cells"]})) == (
        4,
        len(content["cells"]),
    )
    namespace: dict[str, object] = {}
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), namespace)
    assert capsys.readouterr().out.endswith("best-policy True\n")


# ------------------------------------------------------------------------------ the site


def test_addresses_in_the_output_are_found(tmp_path: Path) -> None:
    """What would make a browser go out, and nothing else."""
    (tmp_path / "a.html").write_text('<script src="https://cdn.example/x.js"></script>')
    (tmp_path / "b.css").write_text(
        "@import url('//fonts.example/f.css'); /* http://fine.example */"
    )
    (tmp_path / "c.js").write_text("// see https://fine.example\nfetch('http://track.example/');")
    (tmp_path / "d.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
    (tmp_path / "e.html").write_text('<link href="//cdn.example/y.css"><a href="usage.html">x</a>')
    found = website.network_references(tmp_path)
    assert [line.split()[0] for line in found] == ["a.html", "b.css", "c.js", "e.html"]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_stays_at_home() -> None:
    done = subprocess.run(
        [sys.executable, "dev.py", "docs"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "site" / "search.html").exists()


@pytest.mark.slow
def test_a_release_builds_and_works_away_from_home() -> None:
    done = subprocess.run(
        [sys.executable, "dev.py", "build"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
