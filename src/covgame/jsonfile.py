"""Reading JSON that strangers wrote: strict, and every complaint names its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from covgame.errors import BadInput

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    Checked = TypeVar("Checked", bound=BaseModel)


def is_file(name: str) -> bool:
    """Whether a file has this name; what cannot be a name at all has none."""
    try:
        return bool(name) and Path(name).is_file()
    except (OSError, ValueError):
        return False


def is_folder(name: str) -> bool:
    """The same of a folder."""
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):
        return False


def read_json(path: Path) -> Any:
    """The content of a JSON file. NaN, infinities and repeated keys are refused."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as a text file: {error}") from error
    return parse_json(text, path)


def parse_json(text: str, path: Path) -> Any:
    """The content of a JSON text that comes from ``path``."""
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_keys
        )
    except RecursionError:
        raise BadInput(f"{path} is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"{path} is not valid JSON: {error}") from None


def check_content(schema: type[Checked], content: Any, path: Path) -> Checked:
    """The content as ``schema``, or an error that names the first wrong place."""
    from pydantic import ValidationError

    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"{path}: {_first_complaint(error)}") from None


IN_OUR_WORDS = {
    "model_type": "must be a JSON object",
    "extra_forbidden": "is no key of this format",
    "missing": "is missing",
    "too_long": "has too many entries",
}


UNION_TAGS = ("one", "several")
"""Tags that schemas give to the branches of a union; they are no part of a place."""


def _first_complaint(error: ValidationError) -> str:
    first, *others = error.errors(include_url=False, include_context=False)
    place = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}"
        for part in first["loc"]
        if part not in UNION_TAGS
    ).lstrip(".")
    message = IN_OUR_WORDS.get(first["type"]) or first["msg"].replace("Input should", "should")
    count = f" (and {len(others)} more such errors)" if others else ""
    return f"{place or 'the content'}: {message}{count}"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON knows")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} appears twice in one object")
    return content
