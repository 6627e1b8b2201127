"""The page in a real browser: what is drawn, the slider, the keyboard, dark mode, phones.

``python3 dev.py test-browser`` installs what is needed and runs these; elsewhere they are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.runs.coverage import Coverage
from tests.test_report import Breaks, Named

pytestmark = pytest.mark.browser

CHROMIUM = os.environ.get("COVGAME_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    driver = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: python3 dev.py test-browser"
    )
    if CHROMIUM is None:
        pytest.skip("needs Chromium: python3 dev.py test-browser, or set COVGAME_CHROMIUM")
    with driver.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


class Opened:
    """A page that is open, with what went wrong in it and whom it called."""

    def __init__(self, browser: Any, size: dict[str, int], scheme: str) -> None:
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def go(self, address: str) -> Any:
        self.page.goto(address)
        self.page.wait_for_selector(".chip")
        return self.page


@pytest.fixture
def opened(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Opened]:
    size, scheme = getattr(request, "param", (WIDE, "light"))
    view = Opened(chromium, size, scheme)
    yield view
    assert view.complaints == []
    view.context.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lake")
    cg.cover("gym:FrozenLake-v1", "uniform:3", horizon=6, max_episodes=120, out=out)
    return cg.load(out).report()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> dict[str, Path]:
    """One of every kind."""
    home = tmp_path_factory.mktemp("pages")
    garnet = "garnet:states=1000,actions=4,horizon=5"
    made = {
        "large": cg.cover(garnet, "uniform:1/pair", max_episodes=300, out=home / "large"),
        "explore": cg.explore("riverswim:states=3,horizon=4", epsilon=2, out=home / "explore"),
        "identify": cg.identify("gym:FrozenLake-v1", horizon=6, epsilon=0.9, out=home / "identify"),
        "named": cg.cover(Named, "uniform:2/pair", out=home / "named"),
        "avoided": cg.cover(Breaks, "uniform:2/pair", on_failure="avoid", out=home / "avoided"),
        "counts": cg.cover("grid", "uniform:9/pair", play="counts", out=home / "counts"),
    }
    found = {name: run.report() for name, run in made.items()}
    cg.audit(home / "explore", "uniform:5000/pair").save_html(home / "audit.html")
    return {"lake": lake, "audit": home / "audit.html", **found}


EVERY = ("lake", "audit", "large", "explore", "identify", "named", "avoided", "counts")


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "opened",
    [(size, scheme) for size in (WIDE, PHONE) for scheme in ("light", "dark")],
    indirect=True,
    ids=("wide-light", "wide-dark", "phone-light", "phone-dark"),
)
def test_pages_open_from_disk_fit_and_call_nobody(
    opened: Opened, pages: dict[str, Path], name: str
) -> None:
    page = opened.go(pages[name].as_uri())
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.requests == [pages[name].as_uri()]
    assert page.locator(".tile").count() > 0
    assert page.locator("#story p").count() == 3
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.body).{what}") for what in ("color", "background")
    )
    assert luminance(ink) != luminance(paper)
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (luminance(paper) < 128) is dark


def luminance(colour: str) -> float:
    parts = colour[colour.index("(") + 1 :].split(")", maxsplit=1)[0].replace(",", " ").split()
    return sum(float(part) for part in parts[:3]) / 3


def test_the_slider_goes_through_the_stages(opened: Opened, lake: Path) -> None:
    page = opened.go(lake.as_uri())
    slider, name = page.locator("#stage"), page.locator("#stage-name")
    assert name.inner_text() == "all stages"
    page.locator("[data-mode=visits]").click()
    run = cg.load(lake.parent)
    slider.focus()
    for stage in range(3):
        page.keyboard.press("ArrowRight")
        assert name.inner_text() == f"stage {stage}"
        assert slider.get_attribute("aria-valuetext") == f"stage {stage}"
        drawn = page.locator(".tile[data-i='0'] text").all_text_contents()
        assert drawn == [f"{int(run.counts.visits[stage, 0].sum()):,}"]
    page.locator("#stage-bars svg").click(position={"x": 12, "y": 20})
    assert name.inner_text() == "all stages"


def test_pointing_at_a_state_tells_of_it(opened: Opened, lake: Path) -> None:
    page = opened.go(lake.as_uri())
    page.locator(".tile[data-i='6']").hover()
    panel = page.locator("#panel")
    assert panel.locator("h3").inner_text() == "row 1, column 2"
    rows = panel.locator(".bars span").all_inner_texts()
    assert rows[::2] == ["left", "down", "right", "up"]
    run = cg.load(lake.parent)
    assert isinstance(run, Coverage)
    visits, wanted = run.counts.visits[:, 6], run.target.cell_counts()[:, 6]
    lacking = np.maximum(wanted - visits, 0).sum(axis=0)
    assert lacking.any()
    assert rows[1::2] == [
        f"{had:g}" if not lacks else f"{asked - lacks:g} of {asked:g}"
        for had, asked, lacks in zip(visits.sum(axis=0), wanted.sum(axis=0), lacking, strict=True)
    ]
    page.locator(".field").focus()
    page.keyboard.press("ArrowLeft")
    assert panel.locator("h3").inner_text() == "row 1, column 1"
    page.keyboard.press("ArrowDown")
    assert panel.locator("h3").inner_text() == "row 2, column 1"


def test_the_lake_can_be_recognised(opened: Opened, lake: Path) -> None:
    page = opened.go(lake.as_uri())
    holes = page.locator(".tile:has(circle.hole)")
    numbers = [int(holes.nth(i).get_attribute("data-i")) for i in range(holes.count())]
    assert numbers == [5, 7, 11, 12]
    assert page.locator(".tile:has(.flag)").get_attribute("data-i") == "15"
    assert page.locator(".tile:has(.begin)").get_attribute("data-i") == "0"


def test_pointing_at_the_curve_reads_it(opened: Opened, lake: Path) -> None:
    page = opened.go(lake.as_uri())
    before = page.locator("#chart-key").inner_text()
    page.locator("#chart svg").hover(position={"x": 200, "y": 100})
    after = page.locator("#chart-key").inner_text()
    assert "episodes" in after
    assert after != before


def test_the_policy_is_drawn(opened: Opened, pages: dict[str, Path]) -> None:
    page = opened.go(pages["identify"].as_uri())
    assert page.locator("[data-mode=policy]").get_attribute("aria-pressed") == "true"
    assert page.locator(".tile path.arrow").count() > 4
    page.locator("[data-mode=visits]").click()
    assert page.locator(".tile path.arrow").count() == 0


def test_long_tables_unfold(opened: Opened, lake: Path) -> None:
    page = opened.go(lake.as_uri())
    rows = page.locator("#list-missing tbody tr")
    shown = rows.evaluate_all("rows => rows.filter((row) => row.offsetHeight > 0).length")
    page.locator("#list-missing .more").click()
    more = rows.evaluate_all("rows => rows.filter((row) => row.offsetHeight > 0).length")
    assert shown < more == rows.count()


def test_names_do_not_act(opened: Opened, pages: dict[str, Path]) -> None:
    page = opened.go(pages["named"].as_uri())
    assert page.locator("img").count() == 0
    assert page.locator("#panel h3").inner_text().startswith("</script>")


def test_the_page_reloads_itself_until_the_run_has_ended(opened: Opened, tmp_path: Path) -> None:
    env = cg.make("gym:FrozenLake-v1", horizon=8)
    path = tmp_path / "run" / "report.html"
    asked = cg.uniform(3)
    shown: list[str] = []

    def look(run: Coverage) -> None:
        """While the run waits: the page, scrolled and switched, then the same after a reload."""
        if shown:
            return
        page = opened.go(path.as_uri())
        shown.append(page.locator(".chip").inner_text())
        page.locator("button[data-mode=visits]").click()
        page.evaluate("scrollTo(0, 150)")
        with page.expect_navigation(timeout=20_000):
            pass
        page.wait_for_selector(".chip")
        page.wait_for_function("scrollY === 150")
        assert page.locator("button[data-mode=visits]").get_attribute("aria-pressed") == "true"

    run = cg.cover(env, asked, out=tmp_path / "run", report=True, progress=look)
    assert shown == ["running"]
    page = opened.page
    page.wait_for_selector(".chip:not(.running)", timeout=20_000)
    assert page.locator(".chip").inner_text() == "covered"
    assert page.locator(".figure .value").first.inner_text() == f"{run.n_episodes:,}"
    page.evaluate("window.still = true")
    page.wait_for_timeout(3000)
    assert page.evaluate("window.still") is True
    assert not opened.complaints


@pytest.mark.parametrize("name", ["phi*", "lower bound on phi*"])
def test_the_label_of_the_bound_fits_on_a_phone(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run = cg.cover("chain:states=4,horizon=6", "uniform:20/pair", out=tmp_path / "run")
    monkeypatch.setattr(Coverage, "has_exact_bound", name == "phi*")
    page_file = run.report()
    for width in (320, 390, 600, 1280):
        phone = Opened(chromium, {"width": width, "height": 800}, "light")
        page = phone.go(page_file.as_uri())
        label, chart = page.locator(".rule-label"), page.locator("#chart svg").bounding_box()
        box = label.bounding_box()
        assert name in label.text_content()
        assert box["x"] >= chart["x"]
        assert box["x"] + box["width"] <= chart["x"] + chart["width"]
        phone.context.close()
