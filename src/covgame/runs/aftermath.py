"""The answer of a run whose process has ended without giving one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from covgame.errors import BadInput
from covgame.failures import Failure, Failures
from covgame.jsonfile import read_json
from covgame.runs.coverage import Coverage
from covgame.runs.opening import load
from covgame.runs.saving import absent_environment
from covgame.runs.unbegun import OPEN, why_key
from covgame.storage.folder import JOURNAL, MANIFEST, RunFolder
from covgame.storage.trust import how_to_resume

CODE_OF_OTHERS = ("py:", "gym:")
ASKED = ("environment", "epsilon", "delta", "seed", "preset")


def answer_from_files(
    path: Path,
    stopped: Literal["interrupted", "failed"],
    failure: str | None,
    *,
    sure: bool = True,
) -> dict[str, Any]:
    """What a run has to say, from its folder alone: no code of its environment is run.

    Before anything was counted that is little more than the number of its episodes. Not ``sure``:
    somebody may have killed the process, and the environment is blamed only if it ends the next one
    at the same step.
    """
    folder = RunFolder.open(path)
    if (folder.place / JOURNAL).is_file():
        from covgame.storage.journal import recover

        recover(folder)
    if failure is not None:
        failure = _blamed(folder, failure, sure=sure)
    try:
        run = load(path, env=_stand_in(folder))
    except BadInput:
        return _least(folder, stopped, failure)
    run.stopped, run.failure = stopped, failure
    return run.to_dict(solve=False) if isinstance(run, Coverage) else run.to_dict()


def how_to_go_on(folder: Path, *, failed: bool) -> str:
    """What to type next; past a step that ends processes, only with another rule."""
    try:
        manifest = read_json(folder / MANIFEST)
        command = how_to_resume(folder, manifest)
    except (BadInput, AttributeError, TypeError):
        return f"covgame resume {folder}"
    if not failed:
        return command
    return f"{command} --on-failure {'avoid' if manifest.get('command') == 'cover' else 'record'}"


def _blamed(folder: RunFolder, failure: str, *, sure: bool) -> str:
    """What ended the process, with the step of the episode that was being played then."""
    from covgame.storage.black_box import blame, read_box
    from covgame.storage.episodes import recorded_episodes

    recorded = recorded_episodes(folder.episodes)
    playing = read_box(folder.place)
    blame(folder.place, recorded, failure if sure else None)
    if playing is None or playing.episode != recorded:
        return failure
    found = Failure(playing.episode, playing.attempt, playing.seed, failure, playing.path)
    return f"{failure} in episode {found.episode}, at {found.words(folder.load_names())}"


def _stand_in(folder: RunFolder) -> Any:
    """In the place of an environment that would have to be imported; None for our own."""
    foreign = str(folder.config.get("environment")).startswith(CODE_OF_OTHERS)
    return absent_environment(folder) if foreign and not folder.config.get("model") else None


def _least(folder: RunFolder, stopped: str, failure: str | None) -> dict[str, Any]:
    from covgame.storage.episodes import recorded_episodes
    from covgame.storage.failures import load_failures

    command = str(folder.config.get("command"))
    return {
        **{name: folder.config[name] for name in ASKED if name in folder.config},
        "episodes": recorded_episodes(folder.episodes),
        **OPEN.get(command, {}),
        why_key(command): stopped,
        "failure": failure,
        "failures": Failures(load_failures(folder.place)).to_list(folder.load_names()),
        "run": str(folder.path),
    }
