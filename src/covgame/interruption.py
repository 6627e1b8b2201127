"""Ctrl-C at a moment that suits: the wish is noted, and whoever works stops in good order."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While it is entered, the first Ctrl-C only sets ``wanted``; a second one breaks off."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {name: signal.signal(name, self._note) for name in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
