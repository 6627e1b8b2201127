"""The page: one file, whose style and script are inside and whose text nobody executes.

All that a run has to say is data. The story is escaped here; the rest is read by the script as JSON
and put on the page as text. A browser runs only the script whose hash the page names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from covgame.errors import BadInput, StorageFailed
from covgame.plain import as_html
from covgame.report.content import PageData
from covgame.storage.files import write_whole

PLAIN_SIZE = 16_000
"""Longer data are compressed; every browser since 2023 can undo that."""

KINDS = {
    "cover": "Coverage",
    "explore": "Exploration",
    "identify": "Best policy",
    "audit": "Audit of data",
}

NO_SCRIPT = "The pictures and tables of this page are drawn by a script, and it may not run here."


@cache
def asset(name: str) -> str:
    """A file that comes with the package."""
    return files("covgame.report").joinpath("assets", name).read_text(encoding="utf-8")


def page_html(page: PageData, *, reloads: bool = False) -> str:
    """The whole file; with ``reloads`` it loads itself again every few seconds."""
    style, script = asset("page.css"), asset("page.js")
    title = f"{page.title}: {KINDS[page.kind].lower()}"
    story = "\n".join(f"<p>{as_html(sentence)}</p>" for sentence in page.sentences)
    return f"""<!doctype html>
<html lang="en"{f' data-written="{time.time():.0f}"' if reloads else ""}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{as_html(title)}</title>
<style>{style}</style>
</head>
<body>
<header id="top"><p class="kind">{KINDS[page.kind]}</p><h1>{as_html(page.title)}</h1></header>
<main id="page"><section id="story" class="story">{story}</section>
<noscript><p class="note">{NO_SCRIPT}</p></noscript></main>
<svg id="shapes" hidden></svg>
<script type="application/json" id="data">{embedded(page.to_json())}</script>
<script>{script}</script>
</body>
</html>
"""


def write_page(page: PageData, path: Path, *, reloads: bool = False) -> Path:
    """Write the file, as a whole or not at all."""
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.absolute().parent}")
    try:
        write_whole(path, page_html(page, reloads=reloads).encode())
    except StorageFailed as error:
        raise BadInput(f"the page cannot be written: {error}") from error
    return path


def policy() -> str:
    """What a browser may do with the page: run our script, apply our style, and nothing else."""
    parts = [
        "default-src 'none'",
        f"script-src {_hash(asset('page.js'))}",
        f"style-src {_hash(asset('page.css'))}",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def embedded(text: str) -> str:
    """JSON in a page: whatever strings are in it, none ends the element or is seen as a tag."""
    if len(text) > PLAIN_SIZE:
        packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        return json.dumps({"deflate": packed})
    return harmless(text)


def harmless(text: str) -> str:
    """JSON without characters that HTML gives a meaning."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
