"""HDF5, behind one door: it comes with an extra."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from covgame.errors import BadInput, MissingExtra

DAMAGED = (
    OSError, ValueError, EOFError, LookupError, TypeError, AttributeError, OverflowError,
    RuntimeError,
)  # fmt: skip
"""What the library raises where a file is damaged, or has other things in it than it should."""


def open_hdf5(path: Path) -> Any:
    """An HDF5 file to read from."""
    try:
        h5py = import_module("h5py")
    except ImportError:
        raise MissingExtra("minari", f"reading {path.name} (HDF5)") from None
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
