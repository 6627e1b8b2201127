"""``py:module:name``: what users wrote themselves, found by where it stands."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from covgame.errors import BadInput
from covgame.signals import OneProcess

PREFIX = "py:"


def find(name: str) -> Any:
    """What ``py:module:name`` names; the module may lie in the current folder.

    That is searched last: nothing there takes the place of a library.
    """
    module, colon, attribute = name.removeprefix(PREFIX).partition(":")
    if not (module and colon and attribute):
        raise BadInput(f"{name}: write py:module:name")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        with OneProcess():
            imported = importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"{name}: the module cannot be imported: {error}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also sys.exit: a module does not end a command
        raise BadInput(f"{name}: importing it raised {said(error)}") from error
    if not hasattr(imported, attribute):
        place = getattr(imported, "__file__", None) or "which is built in"
        raise BadInput(f"{name}: the module ({place}) has no {attribute!r}")
    return getattr(imported, attribute)


def call(name: str) -> Any:
    """What the function or class of that name returns, called without arguments."""
    function = find(name)
    if not callable(function):
        raise BadInput(f"{name}: the module has no function {name.rpartition(':')[2]!r}")
    try:
        with OneProcess():
            return function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also sys.exit: a module does not end a command
        raise BadInput(f"{name}: calling it raised {said(error)}") from error


def said(error: BaseException) -> str:
    """An error of somebody else's code, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
