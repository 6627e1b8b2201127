"""``export``: the recorded episodes of a run for other tools."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from covgame.data import to_minari
from covgame.data.recording import Recording
from covgame.errors import BadInput
from covgame.notebook import facts_table
from covgame.storage.folder import RunFolder

FORMATS = ("minari", "csv")


class InFolder(Protocol):
    """A run, as far as it matters here."""

    @property
    def folder(self) -> RunFolder | None: ...


@dataclass(frozen=True)
class Exported:
    """What an export has written."""

    to: str
    out: str  # the file or folder
    episodes: int
    steps: int
    size: int  # bytes
    load: str  # the Python call that reads it
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer of ``covgame export``."""
        counts = {"episodes": self.episodes, "steps": self.steps, "bytes": self.size}
        about = {"to": self.to, "out": self.out, **counts, "load": self.load}
        return {**about, "remarks": list(self.remarks)}

    def facts(self) -> list[tuple[str, str]]:
        """What was written, as (label, value) lines for people."""
        size = f"{self.size / 1e6:,.1f} MB" if self.size >= 1e6 else f"{self.size / 1e3:,.0f} kB"
        return [
            ("exported", f"{self.episodes:,} episodes, {self.steps:,} steps"),
            ("to", f"{self.to}: {self.out} ({size})"),
            ("load", self.load),
            *(("note", remark) for remark in self.remarks),
        ]

    def _repr_html_(self) -> str:
        return facts_table(self.facts())


def export(
    run: str | Path | InFolder, *, to: Literal["minari", "csv"], out: str | Path
) -> Exported:
    """Write the recorded episodes of a run for other tools.

    Only one file of episodes is in memory at a time, however long the run is. ``out`` appears when
    it is complete; if anything goes wrong, nothing is left behind.

    Args:
        run: The folder of a run, or a run that has one.
        to: The format: ``minari`` (a dataset) or ``csv`` (a row per step).
        out: What to write, which must not exist yet: a file, or for Minari the id of a dataset
            (``group/name-v0``, kept where Minari keeps its datasets) or a folder ``./name-v0``.

    Returns:
        What was written: ``out``, ``episodes``, ``steps``, ``size`` in bytes, ``load``, the Python
        call that reads it, and ``remarks``, what the format could not hold.

    Raises:
        BadInput: There is no run, it has no episodes, its files are damaged, or ``out`` is taken.

    Example:
        >>> import tempfile, covgame as cg
        >>> folder = tempfile.mkdtemp()
        >>> run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=f"{folder}/run")
        >>> cg.export(run, to="csv", out=f"{folder}/steps.csv").episodes == run.n_episodes
        True
    """
    if to not in FORMATS:
        raise BadInput(f"nothing can be exported to {to!r}; choose {', '.join(FORMATS)}")
    place, dataset_id, load = _place(to, out)
    _check_free(place)
    folder = RunFolder.open(run) if isinstance(run, str | Path) else run.folder
    if folder is None:
        raise BadInput("the episodes of a run are kept in its folder, and it has none: say out=")
    recording = Recording.of(folder)
    with _appearing(place) as draft:
        if to == "minari":
            to_minari.write_minari(recording, draft, dataset_id)
        else:
            from covgame.data.to_csv import write_csv

            write_csv(recording, draft)
    if to == "minari":
        to_minari.enter_namespaces(place, dataset_id)
    return Exported(
        to,
        str(place),
        recording.episodes,
        recording.steps,
        sum(path.stat().st_size for path in _files(place)),
        load,
        tuple(recording.remarks),
    )


def _place(to: str, out: str | Path) -> tuple[Path, str, str]:
    """(file or folder to be written, id of a Minari dataset, call that loads it)."""
    if not os.fspath(out):
        raise BadInput("--out is empty; say what to write")
    if to == "minari":
        return to_minari.find_place(out)
    path = Path(out).expanduser()
    return path, "", f'pandas.read_csv("{path}")'


def _check_free(place: Path) -> None:
    if place.exists() or place.is_symlink():
        raise BadInput(f"{place} exists already, and nothing is overwritten; choose another --out")


@contextmanager
def _appearing(place: Path) -> Iterator[Path]:
    """A place beside ``place`` that takes its name when all is written, and vanishes otherwise."""
    draft = place.with_name(f".{place.name}.draft-{os.getpid()}")
    above = [folder for folder in place.parents if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        for path in _files(draft):  # a name must not appear before its content is on the disk
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _check_free(place)
        draft.rename(place)
    except BaseException as error:
        shutil.rmtree(draft) if draft.is_dir() else draft.unlink(missing_ok=True)
        for folder in above:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        if isinstance(error, OSError):
            raise BadInput(f"{place} cannot be written: {error.strerror or error}") from error
        raise


def _files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else [place]
