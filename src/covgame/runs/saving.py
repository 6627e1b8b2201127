"""What a run leaves on disk: its folder, and who writes to it while it is played."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covgame.config import RunConfig
from covgame.errors import BadInput
from covgame.failures import Failure, Failures
from covgame.mdp.families import FAMILIES
from covgame.runs.given import write_given
from covgame.runs.run import Run
from covgame.sources.environments import Care, Environment, make
from covgame.sources.external import ExternalSource
from covgame.sources.maps import FUNCTION
from covgame.sources.objects import Reading
from covgame.sources.states import CountedStates, DiscoveredStates, States
from covgame.sources.steppers import AbsentStepper, Actions, Stepper
from covgame.storage.folder import MODEL, NAMES, RunFolder, fresh_folder, names_text
from covgame.storage.trust import code_named, resume_command

if TYPE_CHECKING:
    from covgame.storage.recorder import Recorder


def create_folder(run: Run, out: str | Path | None = None) -> RunFolder:
    """Give a run a place on disk, with all that is needed to resume it."""
    from covgame.mdp.files import model_text

    environment, documents = run.environment, run.documents()
    if environment.model is not None and not environment.by_name:
        documents[MODEL] = model_text(environment.model)
    names = run.names
    if run.source.discovers_states:
        names = replace(names, states=None)  # the table of states has them
    if names.known:
        documents[NAMES] = names_text(names)
    about: dict[str, Any] = {
        "environment": environment.name,
        "horizon": environment.horizon,
        "model": None if environment.by_name or environment.model is None else MODEL,
        "by_name": environment.by_name,
        **environment.reading.texts(),
    }
    if isinstance(run.source, ExternalSource):
        about["size"] = _size_of(run.source)
        about |= run.source.spaces() if run.source.keeps_observations else {}
    given = [one.to_file() for one in run.given]
    about |= {**run.config(), "stream": run.stream_name, "given": given}
    config = {**about, "versions": versions()}
    if out is not None and not str(out):
        raise BadInput("--out names the folder of a run, and is empty; leave it out, or name one")
    path = Path(out) if out is not None else fresh_folder(environment.name)
    keys, states = run.source.state_keys, None
    if run.given and keys is not None:
        states = keys, run.source.state_labels
    fill = partial(write_given, given=run.given)
    run.folder = RunFolder.create(path, config, documents, states, fill)
    return run.folder


def _size_of(source: ExternalSource) -> dict[str, Any]:
    """What is enough to read the data of an environment where it is not at hand."""
    return {
        "states": None if source.discovers_states else source.states.size,
        "actions": len(source.stepper.actions),
        "plays": getattr(source.stepper, "plays", True),
        "possible": source.states.possible,
    }


def care_of(settings: RunConfig, folder: RunFolder | None = None) -> Care:
    """How to deal with an environment that may fail, and has perhaps failed before."""
    failures: list[Failure] = []
    if folder is not None and (failures := folder.load_failures()):
        from covgame.storage.reading import StepTables

        failures = folder.load_failures(StepTables(folder).n_episodes)
    return Care(
        settings.on_failure, settings.step_timeout, Failures(failures), isolate=settings.isolate
    )


def foreign_code(
    folder: RunFolder, *, env: Any = None, planner: Any = None, adversary: Any = None
) -> dict[str, str]:
    """The code that only the folder of a run names: what was handed over is somebody's word."""
    handed = {"environment": env, "planner": planner, "adversary": adversary}
    handed["states"] = env if isinstance(env, Environment) else None
    code = code_named(folder.config)
    return {key: name for key, name in code.items() if handed[key] is None}


def ask_for_trust(folder: RunFolder, code: Mapping[str, str]) -> str:
    """The sentence that says what would be imported, and how to agree."""
    trusting = resume_command(folder)
    again = ""
    if list(code) == ["environment"]:
        again = f", or name it again: --env {shlex.quote(code['environment'])}"
    return (
        f"resuming '{folder.path}' would import {' and '.join(code.values())}; if you trust that "
        f"code, use {trusting}{again} (trust=True or env= in Python)"
    )


def environment_of(
    folder: RunFolder, env: Any = None, code: Mapping[str, str] | None = None
) -> Environment:
    """The environment of a run: handed over, made again by name, or the model kept with the run.

    If there is ``code`` that nobody trusts, something in its place: enough to read the data.
    """
    asked = folder.config
    reading = {"states": asked.get("states"), "actions": asked.get("actions")}
    if code:
        return absent_environment(folder, ask_for_trust(folder, code))
    if env is not None:
        return _handed_over(folder, env, reading)
    if asked["model"] is None:
        if not asked.get("by_name", True):
            return absent_environment(folder)
        return make(_name_in(folder), asked["horizon"], **reading)
    from covgame.mdp.files import model_from

    model = model_from(folder.read_document(MODEL), folder.database)
    return Environment(asked["environment"], model.shape.horizon, model, by_name=False)


def _name_in(folder: RunFolder) -> str:
    """The name of an environment; a model of its own is in the folder, in no other place."""
    name: str = folder.config["environment"]
    kind = name.partition(":")[0]
    if kind not in ("gym", "py", *FAMILIES):
        raise BadInput(f"{folder.database} names an environment that does not exist: {name}")
    return name


def absent_environment(folder: RunFolder, why: str | None = None) -> Environment:
    """In the place of an environment that is not here: enough to read its data."""
    reading = {"states": folder.config.get("states"), "actions": folder.config.get("actions")}
    name, size = folder.config["environment"], folder.load_size()
    why = why or (
        f"{folder.path} was played on {name}, which only the program that made it has; go on "
        "there, by covgame.resume(path, env=...)"
    )
    if size is None:
        raise BadInput(why)
    labels = folder.load_names().actions

    def opener() -> tuple[Stepper, States]:
        numbered: States = (
            DiscoveredStates(possible=size.possible)
            if size.states is None
            else CountedStates(size.states)
        )
        known_as = None if labels is None else tuple(labels)
        return AbsentStepper(Actions(range(size.actions), known_as), plays=size.plays), numbered

    horizon = folder.config["horizon"]
    return Environment(name, horizon, None, False, opener, Reading(**reading), absent=why)


def _handed_over(folder: RunFolder, env: Any, reading: dict[str, Any]) -> Environment:
    """An environment for a run, checked to be as long as the one before."""
    horizon = folder.config["horizon"]
    if not isinstance(env, Environment) and str(reading["states"]).endswith(FUNCTION):
        raise BadInput(
            f"{folder.path} was played with the state map {reading['states']}; hand it over as "
            "well: covgame.resume(path, env=covgame.make(env, horizon, states=...))"
        )
    environment = env if isinstance(env, Environment) else make(env, horizon, **reading)
    if environment.horizon != horizon:
        raise BadInput(
            f"{folder.path} has episodes of {horizon} steps, and {environment.name} has "
            f"{environment.horizon}"
        )
    return environment


def recorder_for(run: Run) -> Recorder | None:
    """Writes the run down, if it has a folder; what that needs takes a moment to import."""
    if run.folder is None:
        return None
    from covgame.storage.recorder import EpisodeRecorder, Recorder, SimulatedRecorder

    if run.by_counts:
        return Recorder(run.folder, run.arrays)
    horizon = run.source.shape.horizon
    if run.source.observation_space != run.folder.config.get("observation_space"):
        raise BadInput(
            f"{run.folder.path} keeps observations of another space than those that "
            f"{run.environment.name} shows now"
        )
    if run.source.repeats:
        return SimulatedRecorder(run.folder, horizon, run.n_episodes, run.arrays)
    return EpisodeRecorder(run.folder, horizon, run.n_episodes, run.source, run.arrays)


def newer_notice(folder: RunFolder) -> str | None:
    """What to know of a run that a newer covgame has made: it may have played by other rules."""
    made, here = _covgame_in(folder.config.get("versions")), _covgame_in(versions())
    if made is None or here is None or made <= here:
        return None
    return (
        f"{folder.path} was made by covgame {_dotted(made)} and this is {_dotted(here)}: what is "
        "played from here on may differ; upgrade: pip install --upgrade covgame"
    )


def _covgame_in(found: Any) -> tuple[int, ...] | None:
    """Its version as numbers."""
    text = str(found.get("covgame")) if isinstance(found, dict) else ""
    numbers = re.match(r"\d{1,6}(\.\d{1,6})*", text)
    return tuple(map(int, numbers[0].split("."))) if numbers else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def versions() -> dict[str, str]:
    """What a run was made with."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("covgame", "numba", "numpy", "pyarrow")}
    return {"python": platform.python_version(), **libraries}
