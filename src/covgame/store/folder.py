"""The folder of a run: files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.errors import BadInput, StorageFailed
from covgame.jsonfile import check_content, is_file, is_folder, read_json
from covgame.names import Names
from covgame.store.arrays import DAMAGED, read_arrays
from covgame.store.checksums import NAME as CHECKSUMS
from covgame.store.checksums import Checksums, verified
from covgame.store.files import inside, make_folder, remove, write_whole
from covgame.store.inspection import check_entries
from covgame.store.trust import resume_command

FORMAT = "covgame-run/2"
OLDER = ("covgame-run/1",)
"""Episodes of the first format do not say in which state they terminated."""

PLAY_AGAIN = "remove it, and resuming plays everything again"
NAMELESS = "remove it, and states and actions are called by their numbers"
MANIFEST = "run.json"
COUNTS = "counts.npz"
RESULT = "result.json"
MODEL = "model.json"
TARGET = "target.json"
EPISODES = "episodes"
GIVEN = "given"
STATES = "states.json"
NAMES = "names.json"
CERTIFICATE = "certificate.json"
JOURNAL = "journal"
FAILURES = "failures.jsonl"
REPORT = "report.html"

LEFTOVERS = (
    *(COUNTS, RESULT, STATES, NAMES, CERTIFICATE),
    *(JOURNAL, FAILURES, CHECKSUMS),
)
"""Of a run that has no manifest."""

FILES = frozenset([MANIFEST, MODEL, TARGET, REPORT, *LEFTOVERS])
FOLDERS = frozenset([EPISODES, GIVEN])


MADE_AGAIN = frozenset({COUNTS})
"""If it is damaged or missing, it is counted again; who reads it has to check it."""

MAY_LACK = frozenset({COUNTS, RESULT, CERTIFICATE})
"""What a run writes when it stops, made from the rest."""


class RunFolder:
    """Where a run lives. ``run.json`` comes first; once it is there, the run can be resumed.

    ``path`` is what a user calls it. Files are read and written in ``place``, the same folder
    wherever an environment may change to.
    """

    def __init__(
        self, path: Path, manifest: dict[str, Any], checksums: Checksums | None = None
    ) -> None:
        self.path, self.place = path, path.absolute()
        self.manifest, self.checksums = manifest, checksums

    @classmethod
    def create(
        cls,
        path: Path,
        manifest: Mapping[str, Any],
        files: Mapping[str, str],
        fill: Callable[[RunFolder], None] | None = None,
        *,
        checked: bool = False,
    ) -> RunFolder:
        """A new run: first the ``files`` it needs and what ``fill`` adds, then the manifest.

        If it is ``checked``, checksums of all files are kept: nobody could play it again.
        """
        _check_is_free(path)
        folder = cls(path, {"format": FORMAT, **manifest, "state": "running"})
        folder.checksums = Checksums(folder.place) if checked else None
        try:
            make_folder(folder.place)
            for leftover in LEFTOVERS:
                remove(folder.place / leftover)
            for name, text in files.items():
                folder.write(name, text.encode())
            if fill is not None:
                fill(folder)
            folder.save_manifest()
        except StorageFailed as error:
            raise BadInput(f"no run can be written to {path}: {error}") from error
        return folder

    @classmethod
    def around(cls, path: str | Path) -> RunFolder | None:
        """The run that ``path`` is or belongs to: ``RUN``, ``RUN/episodes`` or ``RUN/given/00``."""
        if is_file(str(Path(path) / MANIFEST)):
            return cls.open(path)
        if not is_folder(str(path)):
            return None
        place = Path(os.path.realpath(path))
        for run in (place.parent, place.parent.parent):
            is_part = place == run / EPISODES or place.parent == run / GIVEN
            if is_part and is_file(str(run / MANIFEST)):
                return cls.open(run)
        return None

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run, or an error that says what is wrong with it."""
        path = Path(path)
        if not is_file(str(path / MANIFEST)):
            raise BadInput(f"{path} is no run: it holds no {MANIFEST}")
        check_entries(path, FILES, FOLDERS)
        checksums = _verified(path.absolute())
        manifest = read_json(path / MANIFEST)
        said = manifest.get("format") if isinstance(manifest, dict) else None
        if _is_newer(said):
            raise BadInput(
                f"{path} was written by a newer covgame, in the format {said}, and this one reads "
                f"up to {FORMAT}; upgrade: pip install --upgrade covgame"
            )
        if said not in (FORMAT, *OLDER):
            raise BadInput(f"{path / MANIFEST} is not in the format {FORMAT}")
        return cls(path, manifest, checksums)

    @property
    def episodes(self) -> Path:
        return inside(self.place, EPISODES)

    @property
    def horizon(self) -> int:
        horizon = self.manifest.get("horizon")
        if not isinstance(horizon, int) or horizon < 1:
            raise BadInput(f"{self.path / MANIFEST} is damaged: its horizon is {horizon!r}")
        return horizon

    @property
    def finished(self) -> bool:
        return bool(self.manifest.get("state") == "finished")

    def verify(self) -> None:
        """Compare all files with their checksums once more."""
        self.checksums = _verified(self.place)

    def bring_up_to_date(self) -> None:
        """Before anything is written that older versions could not read."""
        if self.manifest["format"] != FORMAT:
            self.manifest["format"] = FORMAT
            self.save_manifest()

    def write(self, name: str | Path, content: bytes | memoryview) -> None:
        """Write a file of the run, by its name or its place, whole or not at all."""
        path = self.place / name
        if self.checksums is None:
            write_whole(path, content)
        else:
            self.checksums.write(path.relative_to(self.place).as_posix(), content)

    def save_manifest(self) -> None:
        self.write(MANIFEST, _as_json(self.manifest))

    def save_result(self, result: Mapping[str, Any], state: str) -> None:
        """The answer, and in the manifest what became of the run.

        A run is never called finished while its answer is not the last word.
        """
        self.manifest["state"] = state
        if state != "finished":
            self.save_manifest()
        self.write(RESULT, _as_json(result))
        if state == "finished":
            self.save_manifest()
        if self.checksums is not None:
            self.checksums.settle()

    def save_counts(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        self.write(COUNTS, buffer.getvalue())

    def save_states(self, keys: list[str], labels: list[str] | None = None) -> None:
        """The observations of discovered states, by number, and what they are called."""
        content: dict[str, Any] = {"format": "covgame-states/1", "states": keys}
        if labels is not None:
            content["labels"] = labels
        self.write(STATES, _as_json(content))

    def load_states(self) -> tuple[list[str], list[str] | None] | None:
        """(keys, labels) in order, None if states are numbered by the environment.

        States that only the journal names are included.
        """
        if not (self.place / JOURNAL).is_file():
            return self._saved_states()
        from covgame.store.journal import add_new_states, read_journal

        # The journal first: states are saved before their episodes are removed from it.
        entries = list(read_journal(inside(self.place, JOURNAL)))
        return add_new_states(self._saved_states(), entries)

    def _saved_states(self) -> tuple[list[str], list[str] | None] | None:
        if not (self.place / STATES).is_file():
            return None
        content = read_json(self.place / STATES)
        keys = content.get("states") if isinstance(content, dict) else None
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise BadInput(f"{self.place / STATES} is damaged: it lists no states")
        labels = content.get("labels")
        fits = isinstance(labels, list) and len(labels) == len(keys)
        return keys, [str(label) for label in labels] if fits else None

    def load_size(self) -> dict[str, Any] | None:
        """How many states and actions there are; None if neither run.json nor counts.npz says so.

        ``states`` is None where they are discovered, ``plays`` False where a driver plays.
        """
        if "size" in self.manifest:
            from covgame.store.manifest import SizeFile

            return check_content(SizeFile, self.manifest["size"], self.path / MANIFEST).model_dump()
        arrays = self.load_counts()  # simulated and older runs
        if arrays is None:
            return None
        _, states, actions = arrays["visits"].shape
        return {
            "states": states if self.load_states() is None else None,
            "actions": actions,
            "plays": "by_chance" in arrays,
            "possible": None,
        }

    def load_names(self) -> Names:
        """What states and actions are called, as far as that was known."""
        found = read_json(self.place / NAMES) if (self.place / NAMES).is_file() else {}
        known = self.load_states()
        try:
            states = found.get("states") if known is None else known[1]
            actions, grid, places = (found.get(name) for name in ("actions", "grid", "places"))
            return Names(
                None if states is None else [str(name) for name in states],
                None if actions is None else [str(name) for name in actions],
                None if grid is None else (int(grid[0]), int(grid[1])),
                None if places is None else [str(place) for place in places],
            )
        except (AttributeError, TypeError, ValueError, LookupError) as error:
            raise BadInput(f"{self.place / NAMES} is damaged; {NAMELESS}") from error

    def load_result(self) -> dict[str, Any]:
        """The answer that was saved last, empty if there is none."""
        if not (self.place / RESULT).is_file():
            return {}
        result = read_json(self.place / RESULT)
        if not isinstance(result, dict):
            raise BadInput(f"{self.place / RESULT} is damaged: it holds no answer")
        return result

    def load_counts(self) -> dict[str, npt.NDArray[Any]] | None:
        """What was saved last, or None if the run was stopped before that."""
        path = self.place / COUNTS
        if not path.is_file():
            return None
        try:
            content = path.read_bytes()
            if self.checksums is not None and not self.checksums.accept(COUNTS, content):
                raise ValueError("it is not what was written")
            return _checked_counts(read_arrays(content), self.manifest.get("horizon"))
        except (OSError, *DAMAGED) as error:
            raise BadInput(f"{path} is damaged ({error}); {PLAY_AGAIN}") from error


def _verified(place: Path) -> Checksums | None:
    return verified(place, MADE_AGAIN, MAY_LACK)


def _is_newer(said: Any) -> bool:
    """Whether a format is one of ours that this version does not know yet."""
    number = re.fullmatch(r"covgame-run/(\d{1,6})", str(said))
    return number is not None and int(number[1]) > int(FORMAT.rpartition("/")[2])


def _checked_counts(
    arrays: dict[str, npt.NDArray[Any]], horizon: Any
) -> dict[str, npt.NDArray[Any]]:
    visits = arrays.get("visits")
    if visits is None or visits.ndim != 3 or visits.dtype.kind not in "iu":
        raise ValueError("it has no visits")
    stages, states, actions = visits.shape
    added_up = arrays.get("horizon", np.array(stages))  # over so many stages, where it says so
    if added_up.shape != () or stages not in (1, horizon) or int(added_up) != horizon:
        raise ValueError(f"it is about {stages} stages, and {MANIFEST} about {horizon}")
    if states and not actions:
        raise ValueError("it is about no actions")
    return arrays


def names_text(names: Names) -> str:
    """What states and actions are called, as ``names.json`` keeps it."""
    states, actions, grid = (
        None if part is None else list(part) for part in (names.states, names.actions, names.grid)
    )
    content = {"format": "covgame-names/1", "states": states, "actions": actions, "grid": grid}
    if names.places is not None:
        content["places"] = list(names.places)
    return json.dumps(content, indent=1) + "\n"


def fresh_folder(environment: str, parent: Path = Path("runs")) -> Path:
    """``runs/<environment>-<n>``, the first n that is free; made at once, so that it is ours."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", environment.partition("?")[0]).strip("-")[:40] or "run"
    number = 1
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            path = parent / f"{name}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return path
    except OSError as error:
        raise BadInput(f"no folder can be made in {parent}: {error}; say --out") from error


def _check_is_free(path: Path) -> None:
    if (path / MANIFEST).exists():
        raise BadInput(
            f"{path} holds a run already; go on with it by {_how_to_resume(path)}, "
            "or choose another --out"
        )
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file; --out names a folder")
    for name in FOLDERS:
        if (path / name).is_symlink():
            raise BadInput(f"{path / name} is a link; choose another --out")
    if (path / EPISODES).is_dir() and any((path / EPISODES).glob("*.parquet")):
        raise BadInput(f"{path / EPISODES} holds episodes of another run; choose another --out")


def _how_to_resume(path: Path) -> str:
    with contextlib.suppress(BadInput):
        return resume_command(RunFolder.open(path))
    return f"covgame resume {path}"


def _as_json(content: Mapping[str, Any]) -> bytes:
    """A line for each key: easy to read, and quick to write where one lists a million rows."""
    lines = (f" {json.dumps(key)}: {json.dumps(content[key], allow_nan=False)}" for key in content)
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()
