"""One way to compile, and compiled code that is never stale.

The compiler keeps its results on disk and takes them up again while the *one* file that a function
stands in has not changed. Constants and functions come from other files as well, so that a change
there would go unnoticed: the old episodes would be played. Here what is kept carries a stamp over
all ``SOURCES``; a test sees to it that the list is complete.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numba import njit, typeof
from numba.core import config, event
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from covgame import waiting

KERNELS = (
    *("adversary", "by_counts", "compiling", "confidence", "curiosity", "draws", "episodes"),
    *("expected_steps", "layout", "planner", "policies", "replanner", "shortest_path", "tables"),
    "warming",
)
SOURCES = (
    *("episodes.py", "rng.py", "types.py"),
    *("game/adversary.py", "game/counts.py", "game/lookahead.py", "game/successors.py"),
    *(f"kernels/{name}.py" for name in KERNELS),
)
"""Every file from which something flows into compiled code, from the package's folder."""

CHECKSUM_SIZE = 32

OPTIONS: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}
UNCOUNTED = {**OPTIONS, "_nrt": False}
"""Who uses an array is not counted: that would take as long as planning."""

INSIDE = {**UNCOUNTED, "no_cpython_wrapper": True}
"""Not for Python: unpacking Python's arrays takes the compiler longer than most functions."""


def stamp() -> str:
    """Changes when one of the sources does."""
    folder = Path(__file__).parent.parent
    return hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in SOURCES)).hexdigest()


STAMP = stamp()


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    if getattr(config, "DISABLE_JIT", False):  # NUMBA_DISABLE_JIT=1: to step through, to mutate
        return function
    try:
        dispatcher = njit(**options)(function)
    except RuntimeError:  # there is nowhere to keep it
        return njit(**{**options, "cache": False})(function)
    kept = dispatcher._cache._cache_file
    kept.__class__, kept._source_stamp = _Kept, STAMP
    return dispatcher


class _Kept(IndexDataCacheFile):
    """The compiler's files with a checksum before the content: what is damaged is compiled anew."""

    def _load_index(self) -> dict[Any, Any]:
        try:
            stamp, names = self._read(self._index_path)
        except OSError:
            return {}
        return names if stamp == self._source_stamp else {}

    def _save_index(self, names: dict[Any, Any]) -> None:
        self._write(self._index_path, (self._source_stamp, names))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))  # type: ignore[no-untyped-call]

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)  # type: ignore[no-untyped-call]

    def _write(self, path: str, what: Any) -> None:
        content = self._dump(what)  # type: ignore[no-untyped-call]
        with self._open_for_write(path) as file:
            file.write(self._checksum(content) + content)

    def _read(self, path: str) -> Any:
        content = Path(path).read_bytes()
        checksum, content = content[:CHECKSUM_SIZE], content[CHECKSUM_SIZE:]
        if checksum != self._checksum(content):
            raise OSError(f"{path} is damaged")  # which is taken as if it were not there
        return pickle.loads(content)  # noqa: S301 (as the compiler itself does)

    def _checksum(self, content: bytes) -> bytes:
        return hashlib.sha256(self._version.encode() + content).digest()


class _Noting(event.Listener):
    """Has it known that this process waits for the compiler."""

    def on_start(self, _: Any) -> None:
        waiting.compilations += 1

    def on_end(self, _: Any) -> None:
        waiting.compilations -= 1


event.register("numba:compile", _Noting())  # type: ignore[no-untyped-call]


def types_of(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """What a function is compiled for when it is called with these."""
    return tuple(map(typeof, arguments))


def folder_of(function: Any) -> Path | None:
    """Where compiled code of a function is kept, if there is such a place."""
    path = function._cache.cache_path
    return None if path is None else Path(path)


def is_kept(function: Any, types: tuple[Any, ...]) -> bool:
    """Whether to call it for the first time would not take the compiler."""
    if types in function.overloads:
        return True
    key = function._cache._index_key(types, function.targetctx.codegen())
    return function._cache._cache_file.load(key) is not None


class _Inside(CPUDispatcher):
    """Python would call an address that is not there."""

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"only compiled code can call {self.py_func.__name__}")


def _inside(dispatcher: Any) -> Any:
    if isinstance(dispatcher, CPUDispatcher):  # plain Python may call it
        dispatcher.__class__ = _Inside
    return dispatcher


def compiled(function: Callable[..., Any]) -> Any:
    """Compile what only compiled code calls, and what makes no arrays."""
    return _inside(_compile(function, **INSIDE))


def inlined(function: Callable[..., Any]) -> Any:
    """The same for what is a part of a loop."""
    return _inside(_compile(function, forceinline=True, **INSIDE))


def spliced(function: Callable[..., Any]) -> Any:
    """The same for what takes many arrays and has one caller: it becomes a part of its text.

    To hand over the arrays would take the compiler longer than all else in such a function.
    """
    return _compile(function, inline="always", **UNCOUNTED)


def for_python(function: Callable[..., Any]) -> Any:
    """Compile what Python calls, too."""
    return _compile(function, **UNCOUNTED)


def playing(function: Callable[..., Any]) -> Any:
    """The same for what plays a block, while other threads go on."""
    return _compile(function, nogil=True, **UNCOUNTED)


def counted(function: Callable[..., Any]) -> Any:
    """Compile what makes or copies arrays, or draws from a generator of numbers."""
    return _compile(function, **OPTIONS)
