"""The page of a view: one HTML file with its style and script, which needs no network.

The view is embedded as JSON and put on the page as text by the script. A browser runs only the
script whose hash the page names. ``page_updates`` rewrites the page of a run while it is played: at
most every two seconds, and for a small share of the running time. The page reloads itself until the
run has ended.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from covgame.errors import BadInput, StorageFailed
from covgame.plain import as_html
from covgame.report.charts import Trail, point_of
from covgame.report.runs import page_of
from covgame.report.view import View, kind_of
from covgame.storage.files import write_whole

PLAIN_SIZE = 16_000
"""Longer data are compressed; every browser since 2023 can undo that."""

KINDS = {
    "cover": "Coverage",
    "explore": "Exploration",
    "identify": "Best policy",
    "audit": "Audit of data",
    "tests": "State machine tests",
}

SECONDS_BETWEEN_PAGES = 2.0
SHARE_OF_TIME = 0.03
"""Largest share of the running time that writing pages may take."""

NO_SCRIPT = "The pictures and tables of this page are drawn by a script, and it may not run here."


@cache
def asset(name: str) -> str:
    """A file that comes with the package."""
    return files("covgame.report").joinpath("assets", name).read_text(encoding="utf-8")


def page_html(page: View, *, reloads: bool = False) -> str:
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


def write_page(page: View, path: Path, *, reloads: bool = False) -> Path:
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
    """JSON for a page, without characters that HTML gives a meaning; compressed if it is long."""
    if len(text) > PLAIN_SIZE:
        packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
        return json.dumps({"deflate": packed})
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# ---------------------------------------------------------------------- while it is played


class PageUpdates:
    """Writes the page at the start of a run, and again between its blocks.

    Args:
        run: The run, before its first block.
        path: The page.
        clock: Seconds, for tests.

    Raises:
        BadInput: The page cannot be written.
    """

    def __init__(self, run: Any, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.clock, self.trail = path, clock, Trail()
        self.page = self._look(run)
        write_page(self.page, self.path, reloads=True)
        self.due = clock() + SECONDS_BETWEEN_PAGES

    def after_block(self, run: Any) -> None:
        """Rewrite the page if it is time to; the run goes on if that fails."""
        began = self.clock()
        if began < self.due:
            return
        self.page = self._look(run)
        with contextlib.suppress(BadInput):
            write_page(self.page, self.path, reloads=True)
        now = self.clock()
        self.due = now + max(SECONDS_BETWEEN_PAGES, (now - began) / SHARE_OF_TIME)

    def break_off(self) -> None:
        """Mark the last page as interrupted; the run itself may be in the middle of a step."""
        with contextlib.suppress(BadInput):
            write_page(replace(self.page, status="interrupted", tone="open"), self.path)

    def _look(self, run: Any) -> View:
        if kind_of(run) == "cover":
            self.trail.add(*point_of(run))
        return page_of(run, running=True, trail=self.trail)


@contextmanager
def page_updates(run: Any) -> Iterator[Callable[[Any], None]]:
    """Yields what to call with the run after every block; the caller writes the last page.

    Args:
        run: The run, before its first block.

    Raises:
        BadInput: The run has no folder, or the page cannot be written.
    """
    updates = PageUpdates(run, run.report_path)
    try:
        yield updates.after_block
    except BaseException:
        updates.break_off()
        raise
