"""What a run leaves on disk: its folder, and who writes to it while it is played."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from covgame.runs.run import Run
from covgame.sources.environments import Environment, make
from covgame.store.folder import MODEL, RunFolder, fresh_folder

if TYPE_CHECKING:
    from covgame.store.recorder import CountsRecorder, Recorder

    AnyRecorder = Recorder | CountsRecorder


def create_folder(run: Run, out: str | Path | None = None) -> RunFolder:
    """Give a run a place on disk, with all that is needed to resume it."""
    from covgame.mdp.files import model_text

    environment, files = run.environment, run.files()
    if environment.model is not None and not environment.by_name:
        files[MODEL] = model_text(environment.model)
    about = {
        "environment": environment.name,
        "horizon": environment.horizon,
        "model": None if environment.by_name else MODEL,
    }
    manifest = {**about, **run.manifest(), "versions": versions()}
    path = Path(out) if out is not None else fresh_folder(environment.name)
    run.folder = RunFolder.create(path, manifest, files)
    return run.folder


def environment_of(folder: RunFolder) -> Environment:
    """The environment of a run, made again by name or from the model kept with the run."""
    asked = folder.manifest
    if asked["model"] is None:
        return make(asked["environment"], asked["horizon"])
    again = make(folder.path / asked["model"])
    return Environment(asked["environment"], again.horizon, again.model, by_name=False)


def recorder_for(run: Run) -> AnyRecorder | None:
    """Writes the run down, if it has a folder; what that needs takes a moment to import."""
    if run.folder is None:
        return None
    from covgame.store.recorder import CountsRecorder, Recorder

    if run.by_counts:
        return CountsRecorder(run.folder, run.arrays)
    horizon = run.source.shape.horizon
    return Recorder(run.folder, horizon, run.n_episodes, run.source, run.arrays)


def versions() -> dict[str, str]:
    """What a run was made with."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("covgame", "numba", "numpy", "pyarrow")}
    return {"python": platform.python_version(), **libraries}
