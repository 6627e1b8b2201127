"""The page of a run while it is played, served to this machine alone.

A consumer of the loop like any other: it looks at the run between blocks, as often as its own cost
allows, and hands what it saw to a thread that answers browsers. That thread never sees the run.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from covgame.errors import BadInput
from covgame.report.content import PageData
from covgame.report.curves import Trail, point_of
from covgame.report.html import page_html, policy
from covgame.report.run_page import page_of
from covgame.runs.run import Run

HOME = "127.0.0.1"
SECONDS_BETWEEN_VIEWS = 1.0
SHARE_OF_TIME = 0.03
"""What looking at a run may cost of the time in which it is played."""

SECONDS_OF_SILENCE = 15.0
"""A browser that has waited so long is told that nothing is new, and asks again."""

SECONDS_TO_PART = 1.0
"""How long browsers that are watching get to fetch the last state."""

SECONDS_BETWEEN_QUESTIONS = 3.0
"""Who was told something so recently is taken to be drawing it, and to ask again."""

MOST_WATCHERS = 16
SECONDS_FOR_REQUEST = 5.0

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Board:
    """What browsers see: the latest state, its number, and whether it is the last."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.number, self.last = 0, False
        self.page: PageData | None = None
        self.watchers = 0  # who waits for the next state, or is being told it
        self.told_last = False
        self.heard_of = -math.inf  # when somebody was last told something that was not the last

    def show(self, page: PageData, *, last: bool = False) -> None:
        """Put up a new state; it is written out by whoever is asked for it."""
        with self.changed:
            self.number += 1
            self.page, self.last = page, last
            self.changed.notify_all()

    def after(self, number: int) -> tuple[int, PageData | None, bool] | None:
        """The state that follows ``number``, waited for; None if nothing is new for a while."""
        with self.changed:
            fresh = self.changed.wait_for(
                lambda: self.number > number or self.last, SECONDS_OF_SILENCE
            )
            return (self.number, self.page, self.last) if fresh else None

    @contextmanager
    def watching(self) -> Iterator[bool]:
        """Counted among those who watch; False if there are too many already."""
        with self.changed:
            welcome = self.watchers < MOST_WATCHERS
            self.watchers += 1
        try:
            yield welcome
        finally:
            with self.changed:
                self.watchers -= 1
                self.changed.notify_all()

    def told(self, *, last: bool) -> None:
        """Somebody knows a state now; unless it is the last, they will ask again at once."""
        with self.changed:
            self.told_last |= last
            self.heard_of = self.heard_of if last else time.monotonic()
            self.changed.notify_all()

    def wait_for_watchers(self, seconds: float) -> None:
        """Until those who are watching were told the last state."""
        with self.changed:
            recent = time.monotonic() - self.heard_of < SECONDS_BETWEEN_QUESTIONS
            self.changed.wait_for(
                lambda: not self.watchers and (self.told_last or not recent), seconds
            )


class Server(ThreadingHTTPServer):
    """Answers on this machine's own address, behind a secret path."""

    daemon_threads = True
    block_on_close = False  # who hangs on to a connection does not keep the process alive
    allow_reuse_address = False

    def __init__(self, board: Board, port: int) -> None:
        self.board, self.token = board, secrets.token_urlsafe(24)
        super().__init__((HOME, port), Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in (HOME, "localhost")}

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://{HOME}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no news."""


class Handler(BaseHTTPRequestHandler):
    """Two things can be asked for: the page, and what is new. Nothing can be changed."""

    server: Server
    timeout = SECONDS_FOR_REQUEST
    protocol_version = "HTTP/1.0"

    def version_string(self) -> str:
        return "covgame"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Standard error is for the run."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Whatever else is asked: one plain line."""
        del message, explain
        if code == 501:  # a method that nobody has written
            code = 405
        self._send(code, b"no\n", "text/plain; charset=utf-8")

    def do_GET(self) -> None:
        place, _, query = self.path.partition("?")
        if self.headers.get("Host") not in self.server.hosts:
            self.send_error(403)  # a name that somebody else has pointed at this machine
        elif self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            self.send_error(403)
        elif secrets.compare_digest(place.encode(), f"/{self.server.token}/".encode()):
            self._send_page(self.server.board.page)
        elif secrets.compare_digest(place.encode(), f"/{self.server.token}/data".encode()):
            self._send_news(query)
        else:
            self.send_error(404)

    def _send_page(self, page: PageData | None) -> None:
        if page is None:
            self.send_error(503)
            return
        self._send(200, page_html(page, live=True).encode(), "text/html; charset=utf-8")
        self.server.board.told(last=False)

    def _send_news(self, query: str) -> None:
        number = query.removeprefix("after=")
        with self.server.board.watching() as welcome:
            if not welcome or not (number.isascii() and number.isdigit() and len(number) < 10):
                self.send_error(400 if welcome else 503)
                return
            news = self.server.board.after(int(number))
            number_now, page, last = news or (0, None, False)
            if page is None:
                self._send(204, b"", "application/json")
                return
            content = page.to_json().encode()
            more = {"X-Number": str(number_now), **({"X-Last": "1"} if last else {})}
            self._send(200, content, "application/json; charset=utf-8", more)
            self.server.board.told(last=last)

    def _send(
        self, code: int, content: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        with contextlib.suppress(OSError):
            self.send_response(code)
            frames = "frame-ancestors 'none'"
            headers = {"Content-Security-Policy": f"{policy(live=True)}; {frames}", **HEADERS}
            headers |= {"Content-Type": kind, "Content-Length": str(len(content)), **(more or {})}
            if code == 405:
                headers["Allow"] = "GET"
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)


class LivePage:
    """Looks at a run between its blocks, and puts up what it sees."""

    def __init__(self, run: Run, board: Board, clock: Callable[[], float] = time.monotonic) -> None:
        self.board, self.clock, self.trail = board, clock, Trail()
        self.due = clock()
        self._look(run, running=True)

    def after_block(self, run: Run) -> None:
        """One more block was played: note where the run is, and show it if it is time to."""
        began = self.clock()
        if began < self.due:
            return
        self._look(run, running=True)
        now = self.clock()
        self.due = now + max(SECONDS_BETWEEN_VIEWS, (now - began) / SHARE_OF_TIME)

    def end(self, run: Run) -> None:
        """Show the last state."""
        self._look(run, running=False, last=True)

    def break_off(self) -> None:
        """Say that it was interrupted, without another look: the run may be half done."""
        if self.board.page is not None:
            page = replace(self.board.page, status="interrupted", tone="open")
            self.board.show(page, last=True)

    def _look(self, run: Run, *, running: bool, last: bool = False) -> None:
        covering = run.FINISHED == "covered"
        if covering:
            self.trail.add(*point_of(run))  # type: ignore[arg-type]
        self.board.show(page_of(run, running=running, trail=self.trail), last=last)


@contextmanager
def served(
    run: Run, port: int = 0, say: Callable[[str], None] | None = None
) -> Iterator[Callable[[Run], None]]:
    """Serves the page of a run; to be called with the run after every block.

    Args:
        run: Before its first block.
        port: Of the address, any free one if it is 0.
        say: Told where the page is; a line on standard error if left out.
    """
    board = Board()
    live = LivePage(run, board)
    try:
        server = Server(board, port)
    except (OSError, OverflowError) as error:
        raise BadInput(f"no page can be served on port {port}: {error}; choose another") from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    (say or _say)(f"live page: {server.address}")
    try:
        try:
            yield live.after_block
        except BaseException:
            live.break_off()
            raise
        else:
            live.end(run)
        finally:
            board.wait_for_watchers(SECONDS_TO_PART)
    finally:
        server.shutdown()
        server.server_close()


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError, AttributeError):  # nobody may be listening
        sys.stderr.write(f"covgame: {sentence}\n")
        sys.stderr.flush()
