"""Pages of runs, read back: the file as a parser sees it, and the data inside."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

from covgame.report.view import StateMap, View

TAGS = {"html", "head", "meta", "title", "style", "body", "header", "p", "h1", "main", "section"}
TAGS |= {"noscript", "svg", "script"}


class Parsed(HTMLParser):
    """The elements of a page, their attributes, and what scripts and styles hold."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "p": [], "h1": []}
        self.open: str | None = None
        self.data_block = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.open in self.inside:
            self.inside[self.open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = None


def data_in(page: str) -> dict[str, Any]:
    """What the page's script will draw."""
    found: dict[str, Any] = json.loads(Parsed(page).inside["script"][0])
    if "deflate" in found:
        found = json.loads(zlib.decompress(base64.b64decode(found["deflate"])))
    return found


def check_page(text: str) -> dict[str, Any]:
    """One file that needs no other, of our elements alone; its data."""
    page = Parsed(text)
    assert set(page.tags) <= TAGS, set(page.tags) - TAGS
    assert page.tags.count("script") == 2
    words = re.sub(r'"deflate": ?"[^"]*"', "", text).replace("http-equiv", "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import", words)
    assert not [one for one in page.attributes if one[1] in ("src", "href", "style")]
    assert not [one for one in page.attributes if one[1].startswith("on")]
    return data_in(text)


def shell(drawn: StateMap | None) -> View:
    """A page around a map."""
    return View("cover", "t", "w", "good", ["s."], [], [], [], None, drawn, "c", "m")
