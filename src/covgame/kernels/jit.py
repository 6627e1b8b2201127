"""Compile functions with numba: decorators, a cache, and compilation in the background.

Compiled code is cached on disk, in one folder per hash of all ``SOURCES``. numba itself compares
only the file that defines a function, and would use old code after a change of a constant in
another file.

Compiling the planner takes up to half a minute, once per version. ``Compilation`` does that in
another process, while the caller plays the readable game (decision 15).
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import hashlib
import logging
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from numba import njit, typeof
from numba.core import config as numba_config
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.misc.appdirs import AppDirs

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

config: Any = numba_config  # numba sets its attributes when it is imported
PACKAGE = Path(__file__).parent.parent
SOURCES = (
    *("episodes.py", "rng.py", "types.py"),
    *("game/adversary.py", "game/counts.py", "game/lookahead.py", "game/successors.py"),
    *sorted(f"kernels/{path.name}" for path in Path(__file__).parent.glob("*.py")),
)
"""Files that compiled code is made from; a test checks that the list is complete."""

KEPT_VERSIONS = 8
"""Folders of compiled code to keep: this one and those used most recently."""

OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}
UNCOUNTED = {**OPTIONS, "_nrt": False}
"""Without reference counts of arrays, which would take as long as planning."""

INSIDE = {**UNCOUNTED, "no_cpython_wrapper": True}
"""Without a wrapper for Python, which takes longer to compile than most functions."""


# -------------------------------------------------------------------------------- the cache


def _cache_folder() -> Path | None:
    """Create the cache folder of these sources and remove old ones; None if it is not writable.

    A process that still uses a removed folder compiles again.
    """
    digest = hashlib.sha256(b"\0".join((PACKAGE / name).read_bytes() for name in SOURCES))
    users = AppDirs("covgame", appauthor=False).user_cache_dir
    base = Path(config.CACHE_DIR, "covgame") if config.CACHE_DIR else Path(users)
    folder = base.absolute() / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # when it was last used
    except OSError:
        return None
    with contextlib.suppress(OSError):  # another process may remove them, too
        folders = base.glob("[0-9a-f]" * 16)
        for old in sorted(folders, key=lambda path: -path.stat().st_mtime)[KEPT_VERSIONS:]:
            shutil.rmtree(old, ignore_errors=True)
    return folder


FOLDER = None if config.DISABLE_JIT else _cache_folder()
"""Where compiled code is cached; None if it is not."""


class _Cache(FunctionCache):
    """numba's cache; damaged files count as missing, and a full disk is no error."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # reading a truncated file can raise almost anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)

    def has(self, sig: Any, target_context: Any) -> bool:
        """Whether code for a signature can be read."""
        try:
            key = self._index_key(sig, target_context.codegen())
            return self._cache_file.load(key) is not None
        except Exception:
            return False


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    """A function that numba compiles when it is called, with its cache in ``FOLDER``."""
    if config.DISABLE_JIT:  # NUMBA_DISABLE_JIT=1: to step through, to mutate
        return function
    dispatcher = njit(**options)(function)
    if FOLDER is None:
        return dispatcher
    before = config.CACHE_DIR
    config.CACHE_DIR = str(FOLDER)  # read by _Cache; restored for numba functions of users
    try:
        cache = _Cache(function)
    except RuntimeError:  # no folder is writable
        return dispatcher
    finally:
        config.CACHE_DIR = before
    if FOLDER in Path(cache.cache_path).parents:  # else numba fell back to another folder
        dispatcher._cache = cache
    return dispatcher


# --------------------------------------------------------------------------- the decorators


class _Inside(CPUDispatcher):
    """Raises an error where Python would jump to an address that does not exist."""

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"only compiled code can call {self.py_func.__name__}")


def _inside(dispatcher: Any) -> Any:
    if isinstance(dispatcher, CPUDispatcher):  # not with NUMBA_DISABLE_JIT
        dispatcher.__class__ = _Inside
    return dispatcher


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that creates no arrays and that only compiled code calls."""
    return _inside(_compile(function, **INSIDE))


def inlined(function: Callable[..., Any]) -> Any:
    """The same for the body of a loop; LLVM inlines it."""
    return _inside(_compile(function, forceinline=True, **INSIDE))


def spliced(function: Callable[..., Any]) -> Any:
    """The same for a function with many arrays and one caller; numba inlines it.

    Passing the arrays would take longer to compile than the rest of such a function.
    """
    return _compile(function, inline="always", **UNCOUNTED)


def for_python(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return _compile(function, **UNCOUNTED)


def playing(function: Callable[..., Any]) -> Any:
    """The same for a function that plays a block; other threads run meanwhile."""
    return _compile(function, nogil=True, **UNCOUNTED)


def counted(function: Callable[..., Any]) -> Any:
    """Compile a function that creates or copies arrays, or draws random numbers."""
    return _compile(function, **OPTIONS)


# ------------------------------------------------------------------------- the announcement


@functools.cache
def _announce(meanwhile: str = "") -> None:
    """Log, once, that functions are being compiled, why, and how long that takes."""
    why = "first use of this version" if FOLDER else "no writable cache; set NUMBA_CACHE_DIR"
    message = f"compiling inner loops ({why}, about 30 s){meanwhile}"
    logging.getLogger("covgame").info(message)


class _Listener(event.Listener):
    """Announces that this process compiles a function of ours."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("covgame."):
            _announce()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Listener())


# ----------------------------------------------------------------- compiling in another process


class Compilation:
    """The compilation of functions, for the argument types of given calls, by another process.

    One process at a time compiles into a folder. It holds a lock, which the system releases when
    that process ends.
    """

    def __init__(self, calls: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        self.wanted = [(function, tuple(map(typeof, values))) for function, values in calls]
        self.process: subprocess.Popen[bytes] | None = None

    def is_over(self) -> bool:
        """Whether to call the functions now: they are compiled, or no other process can do it."""
        if self.process is not None:
            return self.process.poll() is not None
        if FOLDER is None or fcntl is None or not sys.executable:
            return True
        try:
            with (FOLDER / "compiling.lock").open("wb") as lock:
                if _is_free(lock):
                    if all(one._cache.has(types, one.targetctx) for one, types in self.wanted):
                        return True
                    self._start(lock)
        except OSError:
            return True
        _announce("; playing uncompiled meanwhile")
        return False

    def _start(self, lock: IO[bytes]) -> None:
        """Start a process that compiles and inherits the lock.

        It has its own session, so that Ctrl-C does not reach it. It may outlive this process, and
        the next one uses the code.
        """
        command = "from covgame.kernels import jit; jit.compile_request()"
        process = _Process(
            [sys.executable, "-P", "-c", command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
        names = [(one.__module__, one.py_func.__name__, types) for one, types in self.wanted]
        with process.stdin as request:  # type: ignore[union-attr]
            request.write(pickle.dumps(names))
        self.process = process


def _is_free(lock: IO[bytes]) -> bool:
    """Take a lock; False if another process has it. Without locks, several may compile at once."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


class _Process(subprocess.Popen[bytes]):
    def __del__(self) -> None:
        """No warning that the process is still running."""


def compile_request() -> None:
    """Compile the functions that standard input names, as the process that ``_start`` starts."""
    os.nice(10)  # the game has priority
    gc.disable()  # saves a tenth of the time
    for module, name, types in pickle.load(sys.stdin.buffer):  # noqa: S301 (from our own process)
        getattr(import_module(module), name).compile(types)
