"""HDF5, behind one door: it comes with an extra, and a file may point to others.

External links, user-defined links, external storage and virtual datasets make the library read
other files, whichever the author of a file has named. Readers get at objects by ``member`` alone,
which refuses them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from covgame.errors import BadInput, MissingExtra
from covgame.memory import check_expansion

DAMAGED = (
    OSError, ValueError, EOFError, LookupError, TypeError, AttributeError, OverflowError,
    RuntimeError,
)  # fmt: skip
"""What the library raises where a file is damaged, or has other things in it than it should."""


HARD, SOFT = 0, 1
"""Types of links, as HDF5 numbers them; the others lead out of the file."""

MOST_LINKS = 16
"""Soft links that lead to soft links, as many as HDF5 itself follows."""


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


def member(group: Any, name: str, *, most_links: int = MOST_LINKS) -> Any:
    """What a group of a file holds under a name; None if there is nothing.

    Soft links are followed inside the file.

    Raises:
        BadInput: It is kept in another file.
    """
    links, key = group.id.links, name.encode()
    if not links.exists(key):
        return None
    kind = links.get_info(key).type
    if kind == SOFT:
        if not most_links:
            raise BadInput(f"{group.file.filename}: soft links lead from {name!r} to nowhere")
        path = links.get_val(key).decode()
        found = group.file["/"] if path.startswith("/") else group
        for part in filter(lambda part: part not in ("", "."), path.split("/")):
            found = member(found, part, most_links=most_links - 1) if _is_group(found) else None
        return found
    if kind != HARD:
        _refuse(group, name, "a link to another file")
    found = group[name]
    if not _is_group(found) and found.external:
        _refuse(group, name, "stored in another file")
    if not _is_group(found) and found.is_virtual:
        _refuse(group, name, "a virtual dataset, a view of other files")
    if not _is_group(found):
        check_expansion(Path(group.file.filename), found.nbytes)
    return found


def _is_group(found: Any) -> bool:
    return hasattr(found, "keys")


def _refuse(group: Any, name: str, what: str) -> NoReturn:
    raise BadInput(
        f"{group.file.filename}: {name!r} is {what}, and covgame reads no file that another one "
        "names; save a copy that holds the data itself"
    )
