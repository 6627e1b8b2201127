"""Code that a run's folder names. A folder is data: what it names is imported for who trusts it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covgame.imports import PREFIX

if TYPE_CHECKING:
    from covgame.storage.folder import RunFolder

GYMNASIUM = "gym:"


def code_named(config: Mapping[str, Any]) -> dict[str, str]:
    """What playing the run would import, by the key of the configuration that names it."""
    keys = ["states", "planner", "adversary"]
    if config.get("model") is None and config.get("by_name", True):
        keys.insert(0, "environment")
    named = {key: config.get(key) for key in keys}
    return {key: name for key, name in named.items() if isinstance(name, str) and _imports(name)}


def resume_command(folder: RunFolder) -> str:
    """What whoever trusts a run types to go on with it."""
    return how_to_resume(folder.path, folder.config)


def how_to_resume(path: Path, config: Mapping[str, Any]) -> str:
    """The same, from what a configuration says."""
    trust = " --trust" if code_named(config) else ""
    return f"covgame resume {shlex.quote(str(path))}{trust}"


def _imports(name: str) -> bool:
    """``py:module:name``, and Gymnasium's ``gym:module:Name-v0``, which imports the module."""
    if name.startswith(GYMNASIUM):
        return ":" in name.removeprefix(GYMNASIUM).partition("?")[0]
    return name.startswith(PREFIX)
