"""The page while a run goes: for this machine alone, read-only, and gone with the run."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import covgame as cg
from covgame.errors import BadInput
from covgame.report import live
from covgame.report.live import Board, LivePage, served
from covgame.runs.cover import start
from covgame.runs.learn import start as start_learning
from covgame.runs.playing import play
from covgame.runs.run import Run
from covgame.runs.settings import CoverSettings, LearnSettings
from tests.pages import Parsed, data_in

CHAIN = "chain:states=4,horizon=6"


@pytest.fixture(autouse=True)
def no_goodbyes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for those who do not ask again."""
    monkeypatch.setattr(live, "SECONDS_TO_PART", 0.0)


def begun(**changes: Any) -> Run:
    return start(CHAIN, "uniform:20/pair", CoverSettings(**changes))


@contextmanager
def page_of(run: Run) -> Iterator[tuple[Callable[[Run], None], str]]:
    """(whom to tell of blocks, the address)."""
    said: list[str] = []
    with served(run, 0, said.append) as publish:
        assert len(said) == 1
        assert said[0].startswith("live page: http://127.0.0.1:")
        yield publish, said[0].removeprefix("live page: ")


def ask(
    address: str, more: str = "", method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, place.path + more, headers=named)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_the_page_and_its_news_are_those_of_the_run() -> None:
    run = begun()
    with page_of(run) as (publish, address):
        code, headers, content = ask(address)
        assert code == 200
        page = content.decode()
        assert data_in(page)["status"] == "running"
        assert ("html", "data-live", None) in Parsed(page).attributes
        assert "connect-src 'self'" in str(headers["Content-Security-Policy"])
        for _ in play(run):
            publish(run)
        code, headers, content = ask(address, "data?after=0")
        assert code == 200
        assert json.loads(content)["kind"] == "cover"
        assert headers["X-Last"] is None
        assert int(headers["X-Number"]) >= 1


def test_who_watches_is_told_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also who is between two questions when the run ends."""
    monkeypatch.setattr(live, "SECONDS_TO_PART", 60.0)
    monkeypatch.setattr(live, "SECONDS_BETWEEN_QUESTIONS", 60.0)
    run = begun()
    heard: list[tuple[int, Any, bytes]] = []
    with page_of(run) as (_, address):
        number = ask(address, "data?after=0")[1]["X-Number"]
        thread = threading.Thread(target=lambda: heard.append(ask(address, f"data?after={number}")))
        for _ in play(run):
            pass
        thread.start()
    thread.join()
    (code, headers, content), *_ = heard
    assert (code, headers["X-Last"]) == (200, "1")
    said = json.loads(content)
    assert said["status"] == "covered"
    assert said["chart"]["series"][0]["y"][-1] == 1.0
    assert said["figures"][0]["value"] == f"{run.n_episodes:,}"
    with pytest.raises(OSError, match="refused"):
        ask(address)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method: str) -> None:
    with page_of(begun()) as (_, address):
        code, headers, _ = ask(address, method=method)
        assert code == 405
        assert headers["Allow"] == "GET"
        assert headers["Access-Control-Allow-Origin"] is None


def test_strangers_see_nothing() -> None:
    with page_of(begun()) as (_, address):
        place = urlsplit(address)
        root = f"{place.scheme}://{place.netloc}"
        assert len(place.path) > 30  # what nobody guesses
        for path in ("/", "/data", f"{place.path[:-2]}/", f"{place.path}run.json", "//", "/%2e"):
            code, _, content = ask(root + path)
            assert (code, content) == (404, b"no\n")
        for host in ("evil.example", f"evil.example:{place.port}", "127.0.0.1", ""):
            assert ask(address, Host=host)[0] == 403
        for site in ("cross-site", "same-site"):
            assert ask(address, Sec_Fetch_Site=site)[0] == 403
        assert ask(address, Host=f"localhost:{place.port}")[0] == 200
        assert ask(address, Sec_Fetch_Site="same-origin", Origin=root)[0] == 200
        for query in ("data", "data?after=", "data?after=-1", "data?after=1e9", "data?after=9" * 9):
            assert ask(address, query)[0] in (400, 404)


def test_answers_are_kept_from_other_pages() -> None:
    with page_of(begun()) as (_, address):
        headers = ask(address, "data?after=0")[1]
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Access-Control-Allow-Origin"] is None
        assert "frame-ancestors 'none'" in str(headers["Content-Security-Policy"])
        assert headers["Server"] == "covgame"


def test_too_many_watchers_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_WATCHERS", 0)
    with page_of(begun()) as (_, address):
        assert ask(address, "data?after=0")[0] == 503
        assert ask(address)[0] == 200


def test_nothing_new_is_no_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SECONDS_OF_SILENCE", 0.01)
    with page_of(begun()) as (_, address):
        number = ask(address, "data?after=0")[1]["X-Number"]
        assert ask(address, f"data?after={number}")[0] == 204


class Clock:
    """Stands still unless somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_looking_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = Clock(), []

    def look(*_: Any, **__: Any) -> None:
        clock.now += 0.3  # what a look costs
        looks.append(clock.now)

    monkeypatch.setattr(live, "page_of", look)
    run = begun()
    page = LivePage(run, Board(), clock)
    looks.clear()
    began = clock.now
    while clock.now < began + 1000:
        clock.now += 0.1  # what a block takes
        page.after_block(run)
    spent = 0.3 * len(looks)
    assert 0.02 * 1000 < spent <= 0.03 * 1000 + 0.3


def test_learners_have_a_live_page_too() -> None:
    run = start_learning("chain:states=3,horizon=3", LearnSettings("identify", 2.0))
    board = Board()
    page = LivePage(run, board)
    assert board.page is not None
    assert board.page.tone == "running"
    for _ in play(run):
        page.after_block(run)
    page.end(run)
    assert board.last
    assert board.page.status == "certified"
    assert board.page.state_map is not None
    assert board.page.state_map.policy is not None


def test_who_does_not_wait_is_shown_as_such() -> None:
    run, board = begun(), Board()
    page = LivePage(run, board)
    page.break_off()
    assert board.last
    assert board.page is not None
    assert (board.page.status, board.page.tone) == ("interrupted", "open")


def test_the_server_goes_with_the_run_however_it_ends() -> None:
    before = threading.active_count()
    with suppress(KeyboardInterrupt), page_of(begun()) as (_, address):
        assert ask(address)[0] == 200
        raise KeyboardInterrupt
    with pytest.raises(OSError, match="refused"):
        ask(address)
    assert threading.active_count() <= before + 1  # the last answer may still be under way


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with page_of(begun()) as (_, address):
        port = urlsplit(address).port or 0
        with pytest.raises(BadInput, match=f"port {port}"), served(begun(), port, print):
            pass


def test_python_serves_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = cg.cover(CHAIN, "uniform:20/pair", out=tmp_path / "a")
    run = cg.cover(CHAIN, "uniform:20/pair", out=tmp_path / "b", live=True)
    assert capsys.readouterr().err.startswith("covgame: live page: http://127.0.0.1:")
    assert run.n_episodes == quiet.n_episodes
    assert (run.counts.visits == quiet.counts.visits).all()
