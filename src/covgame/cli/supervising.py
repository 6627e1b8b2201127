"""A process above the one that does the work, so that whatever happens to it is heard and said.

The work may sit in a solver, a compiler, an import or somebody's simulator, where Python notices no
signal, and it may end without a word. The process above it only waits. It passes signals on, gives
the work a moment to stop in good order, ends it if it does not, and says what there is to say.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from covgame.cli.messages import (
    INTERRUPTED,
    answer_interrupted,
    print_json,
    say,
    say_unless,
)
from covgame.interruption import SIGNALS, end_with, heeded

TURNED_OFF = "COVGAME_UNSUPERVISED"
"""Set to anything: there is one process only, as on Windows."""

SECONDS_TO_STOP = 1.5
"""Between a signal and the end of whoever has not stopped by itself; the promise is two in all."""

SECONDS_TO_END = 5.0
"""Between the last word of the work and its end: threads and exit handlers of environments."""

SECONDS_TO_HEAR = 0.05
"""Ctrl-C reaches both processes, ``kill`` only one: what the work has not heard is passed on."""

SECONDS_TO_TELL = {INTERRUPTED: 5.0, 4: 60.0}
"""How long a run may take to be opened for its answer, which somebody asked for."""


class _Reports:
    """What the process that works says to the one above, if there is one."""

    pipe: int | None = None
    process = 0

    def say(self, word: dict[str, Any]) -> None:
        if self.pipe is not None and os.getpid() == self.process:  # not whoever it has forked
            with contextlib.suppress(OSError):
                os.write(self.pipe, (json.dumps(word) + "\n").encode())


_reports = _Reports()


def begin() -> None:
    """Let signals come, now that somebody handles them."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def works_on(folder: Path | None) -> None:
    """Have it known above which run this is about."""
    if folder is not None:
        _reports.say({"folder": str(folder)})


def goodbye(code: int) -> None:
    """Have it known that all is done and said; what follows is nobody's business."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    _reports.say({"code": code})


def supervise() -> None:
    """Return in a new process, which does the work; this one waits for it and never returns."""
    if os.name != "posix" or os.environ.get(TURNED_OFF):
        return
    words, heard = os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until somebody handles them
    above = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads survive this
        child = os.fork()
    if child == 0:
        _work_below(above, words, heard)
        return
    for _, end in (words, heard):
        os.close(end)
    _Watch(child, words[0], heard[0]).until_the_end()


# ------------------------------------------------------------------------ in the process below


def _work_below(above: int, words: tuple[int, int], heard: tuple[int, int]) -> None:
    """Report to the process above, and end with it."""
    end_with(above)
    os.close(words[0])
    os.close(heard[0])
    os.set_blocking(heard[1], False)
    signal.set_wakeup_fd(heard[1], warn_on_full_buffer=False)
    _reports.pipe, _reports.process = words[1], os.getpid()


# ------------------------------------------------------------------------ in the process above


@dataclass(frozen=True)
class Ended:
    """How the work ended that did not end by itself."""

    code: int
    sentence: str
    sure: bool = True  # that its own doing ended it; ``SIGKILL`` may be anybody's


class _Watch:
    """Waits for the process below."""

    def __init__(self, child: int, words: int, heard: int) -> None:
        self.child, self.words, self.heard = child, words, heard
        self.open_ends = {words, heard}
        self.folder: Path | None = None
        self.code: int | None = None  # what it said it would exit with
        self.deadline: float | None = None
        self.asked_to_stop = False
        self.passed: Counter[int] = Counter()  # signals that came here, and those it has heard
        self.known: Counter[int] = Counter()
        self.pass_on: list[tuple[float, int]] = []  # when to look whether it has heard a signal
        self.rest = b""

    def until_the_end(self) -> NoReturn:
        """Wait, and exit as it does, or as it should have."""
        woken = os.pipe()
        for end in (*woken, self.words, self.heard):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(woken[1], warn_on_full_buffer=False)
        for name in (*heeded(), signal.SIGCHLD):
            signal.signal(name, lambda *_: None)
        begin()
        while (status := self._ended()) is None:
            select.select([woken[0], *self.open_ends], [], [], self._patience())
            self._hear(_read(woken[0]) or b"")
            self._take_up()
            self._look()
        self._take_up()
        self._leave(status)

    def _ended(self) -> int | None:
        """How it ended, if it has; whoever takes too long is killed."""
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid == 0 and self.deadline is not None and time.monotonic() > self.deadline:
            os.kill(self.child, signal.SIGKILL)
            _, status = os.waitpid(self.child, 0)
            return status
        return status if pid else None

    def _patience(self) -> float | None:
        """Seconds until there is something to do in any case."""
        moments = [moment for moment, _ in self.pass_on]
        moments += [] if self.deadline is None else [self.deadline]
        return max(0.0, min(moments) - time.monotonic()) + 0.001 if moments else None

    def _hear(self, signals: bytes) -> None:
        """Signals that came here."""
        for number in signals:
            if number in SIGNALS:
                self.passed[number] += 1
                self.pass_on.append((time.monotonic() + SECONDS_TO_HEAR, number))
                self._must_stop()

    def _take_up(self) -> None:
        """What the process below says and hears."""
        for number in self._from(self.heard):
            if number in SIGNALS:
                self.known[number] += 1
                self._must_stop()
        *lines, self.rest = (self.rest + self._from(self.words)).split(b"\n")
        for line in lines:
            word = json.loads(line)
            self.folder = Path(word["folder"]) if "folder" in word else self.folder
            if "code" in word:
                self.code = word["code"]
                self.deadline = self.deadline or time.monotonic() + SECONDS_TO_END

    def _from(self, pipe: int) -> bytes:
        """What came from below; what was closed there is not looked at again."""
        content = _read(pipe) if pipe in self.open_ends else None
        if content == b"":
            self.open_ends.discard(pipe)
        return content or b""

    def _must_stop(self) -> None:
        if not self.asked_to_stop:
            self.asked_to_stop, self.deadline = True, time.monotonic() + SECONDS_TO_STOP

    def _look(self) -> None:
        """Pass on signals that came here and not below."""
        now = time.monotonic()
        due = [number for moment, number in self.pass_on if moment <= now]
        self.pass_on = [(moment, number) for moment, number in self.pass_on if moment > now]
        for number in due:
            if self.known[number] < self.passed[number]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.child, number)

    def _leave(self, status: int) -> NoReturn:
        if self.code is not None:
            _exit(self.code)
        if self.asked_to_stop:
            aftermath(self.folder, Ended(INTERRUPTED, "interrupted"))
        how = f"the process was ended from within ({_in_words(status)})"
        if self.folder is not None:
            how = f"the environment ended the process ({_in_words(status)})"
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if killed:
            how = "the process was killed (by somebody, or because memory ran out)"
        aftermath(self.folder, Ended(1 if self.folder is None else 4, how, sure=not killed))


def aftermath(folder: Path | None, what_happened: Ended) -> NoReturn:
    """Say what became of work that can no longer say it, print its answer, and exit."""
    code, sentence = what_happened.code, what_happened.sentence
    as_json, quiet = "--json" in sys.argv, "--quiet" in sys.argv
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")  # a bar has hidden the cursor
    if folder is None:
        say(sentence)
        if code == INTERRUPTED:
            answer_interrupted()
        _exit(code)
    answer = _answer(folder, what_happened) if as_json or code != INTERRUPTED else None
    saved = "nothing is lost"  # what a simulated run had not saved yet, it plays again
    if answer is not None and code != INTERRUPTED:
        saved = f"{answer['episodes']:,} episodes are saved"
        sentence = answer.get("failure") or sentence
    say_unless(
        quiet and code == INTERRUPTED,
        f"{sentence}; {saved}, go on with: {_how_to_go_on(folder, what_happened)}",
    )
    if as_json and answer is not None:
        print_json(answer)
    _exit(code)


def _how_to_go_on(folder: Path, what_happened: Ended) -> str:
    """What to type next; past a step that ends processes, only with another rule."""
    from covgame.runs.aftermath import how_to_go_on

    return how_to_go_on(folder, failed=what_happened.code != INTERRUPTED and what_happened.sure)


def _answer(folder: Path, what_happened: Ended) -> dict[str, Any] | None:
    """What the run has to say; None if that takes too long.

    It is asked for in a process of its own, which can be ended.
    """
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            from covgame.runs.aftermath import answer_from_files

            stopped: Literal["interrupted", "failed"] = "failed"
            if what_happened.code == INTERRUPTED:
                stopped = "interrupted"
            failure = what_happened.sentence if stopped == "failed" else None
            with os.fdopen(tell, "w", encoding="utf-8") as pipe:
                found = answer_from_files(folder, stopped, failure, sure=what_happened.sure)
                json.dump(found, pipe, allow_nan=False)
        os._exit(0)
    os.close(tell)
    content = _read_until(told, time.monotonic() + SECONDS_TO_TELL[what_happened.code])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        answer: dict[str, Any] = json.loads(content)
    except ValueError:
        return None
    return answer


def _read_until(pipe: int, deadline: float) -> bytes:
    """All that comes until the other end is closed, or until it is too late."""
    content = b""
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        more = os.read(pipe, 65536)
        if not more:
            break
        content += more
    return content


def _in_words(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    words = {
        signal.SIGSEGV: "segmentation fault",
        signal.SIGABRT: "abort",
    }
    return words.get(signal.Signals(number), signal.strsignal(number) or f"signal {number}")


def _read(pipe: int) -> bytes | None:
    """What is there, without waiting; None if there is nothing, b"" if nothing will come."""
    with contextlib.suppress(BlockingIOError):
        return os.read(pipe, 65536)
    return None


def _exit(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
