"""The picture of a page for the docs: python3 dev.py picture."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import covgame as cg
from tests.test_browser import CHROMIUM, FLAGS

PLACE = Path(__file__).parent.parent / "docs" / "figures" / "report.png"
SIZE = {"width": 1120, "height": 1560}


def main() -> None:
    """Cover FrozenLake, write its page, and take a picture of it."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        cg.cover("gym:FrozenLake-v1", "uniform:20", horizon=12, out=folder)
        browser: Any = tools.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport=SIZE)
        page.goto(cg.load(folder).report().as_uri())
        page.wait_for_selector(".tile")
        page.locator("#stage").fill("5")
        page.locator(".tile[data-i='14']").hover()
        page.evaluate("document.activeElement.blur()")
        page.screenshot(path=PLACE, full_page=True, clip={"x": 0, "y": 0, **SIZE})
        browser.close()


if __name__ == "__main__":
    main()
