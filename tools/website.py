"""The documentation site: docs/ and the generated pages, built by Sphinx, checked afterwards.

    python3 dev.py docs      build site/ (open site/index.html; no server is needed)

The navigation is the list of links on docs/index.md: its headings are the parts, its links the
pages. Sphinx lives in .venv-docs; everything else here needs covgame alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import notebook
from tools.reference import pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "site"

GENERATED = {
    "<!-- generated pages -->": "- [Every command and option](commands.md)\n"
    "- [Python reference](api/index.md)",
    "<!-- generated decisions -->": "- [Decisions](decisions/index.md)",
}
"""What stands on the index page of the site in the place of its markers."""

LINK = re.compile(r"^- \[[^\]]+\]\(([^)#]+\.md)\)", re.MULTILINE)
NAMESPACES = re.compile(r"http://(www\.w3\.org|purl\.org|creativecommons\.org)/[\w./#-]*")
NOTES = re.compile(
    r"(?m:^\s*//[^\n]*)|/\*.*?\*/|<!--.*?-->|<metadata>.*?</metadata>|<!DOCTYPE[^>]*>", re.DOTALL
)
"""What no browser acts upon."""
ADDRESS = re.compile(r"(?:https?:|url\(\s*['\"]?)//[\w.-]+|[\"'(=]//[\w-]+\.[\w.-]+")


def main(sphinx: str) -> int:
    """Write what is generated, build with the Python that has Sphinx, check what came out."""
    notebook.write()
    prepare(SOURCE)
    shutil.rmtree(SITE, ignore_errors=True)
    options = ["-b", "html", "-c", str(ROOT / "tools"), "-d", str(ROOT / "build" / "doctrees")]
    done = subprocess.run(
        [sphinx, "-m", "sphinx", "-q", "-W", "--keep-going", *options, str(SOURCE), str(SITE)],
        check=False,
    )
    if done.returncode:
        return done.returncode
    for path in SITE.rglob("*.map"):  # addresses of where a library was made; browsers need none
        path.unlink()
    complaints = [*network_references(SITE), *missing(SITE)]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if not complaints:
        print(f"{len(list(SITE.rglob('*.html')))} pages: open {SITE / 'index.html'}")
    return 1 if complaints else 0


def prepare(source: Path) -> None:
    """The sources of the site: docs/, the generated pages, and the navigation."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source)
    for name, text in pages().items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    index = (source / "index.md").read_text(encoding="utf-8")
    for marker, links in GENERATED.items():
        index = index.replace(marker, links)
    (source / "index.md").write_text(index + toctrees(index), encoding="utf-8")
    for name in ("decisions", "api"):
        door = source / name / "index.md"
        text = door.read_text(encoding="utf-8")
        door.write_text(text + toctree(children(text)), encoding="utf-8")


def navigation(index: str) -> list[tuple[str, list[str]]]:
    """The parts of the index page: (heading, pages that it links to in its list)."""
    found = []
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        linked = LINK.findall(body)
        if linked:
            found.append((title.strip(), linked))
    return found


def toctrees(index: str) -> str:
    """The navigation as Sphinx wants it."""
    return "".join(toctree(linked, title) for title, linked in navigation(index))


def toctree(linked: list[str], caption: str = "") -> str:
    """A part of it, which shows in the side bar and not on the page."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *linked, "```", ""])


def children(text: str) -> list[str]:
    """The pages of its own folder that a page lists, each once."""
    return list(dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)", text)))


def network_references(site: Path) -> list[str]:
    """Addresses in what a browser reads, outside comments and the names of namespaces."""
    found: list[str] = []
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css", ".js", ".svg"}:
            text = NAMESPACES.sub("", NOTES.sub("", path.read_text(encoding="utf-8")))
            named = sorted(set(ADDRESS.findall(text)))
            found += [f"{path.relative_to(site)} names an address: {one}" for one in named]
    return found


def missing(site: Path) -> list[str]:
    """What a site has to have: a page for each source, and an index for the search."""
    wanted = [path.relative_to(SOURCE).with_suffix(".html") for path in SOURCE.rglob("*.md")]
    lacking = [f"{name} was not built" for name in map(str, wanted) if not (site / name).exists()]
    index = site / "searchindex.js"
    if not index.exists() or "shadow" not in index.read_text(encoding="utf-8"):
        lacking.append("searchindex.js does not know the words of the pages")
    return lacking


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
