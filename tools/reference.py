"""The pages of the site that nobody writes: commands, public names, decisions.

They are made from the commands, the docstrings and the records themselves whenever the site is
built, so they cannot fall behind.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import covgame
from covgame.cli.main import NAMES, Commands

DOCS = Path(__file__).parent.parent / "docs"

SECTIONS = {
    "verbs": (
        "Functions",
        "make plan cover explore identify audit resume load certify export learnt_model "
        "functionals",
    ),
    "targets": (
        "Targets, rewards and maps",
        "uniform proportional cells groups Target rewards bins",
    ),
    "results": (
        "What you get back",
        "Plan Run Coverage Exploration Identification LearntModel Audit Checked Exported Episode "
        "Policy Counts",
    ),
    "players": (
        "Playing the game yourself",
        "Driver OpenEpisode Environment TabularMDP Shape SimulatedSource EpisodeSource Game Round "
        "rounds default_game paper_game Planner Adversary AdversaryState Peer END LAST",
    ),
    "errors": (
        "Errors",
        "CovgameError BadInput UnknownModel UnreachableTarget TooLarge EnvironmentFailed "
        "StorageFailed SolverFailed MissingExtra",
    ),
}
"""Pages of the reference: a title and the public names on it. A name on none is on the last."""


def pages() -> dict[str, str]:
    """Every generated page, by its path below the sources of the site."""
    found = {"commands.md": commands_page(), "decisions/index.md": decisions_page()}
    found |= {
        f"api/{name}.md": api_page(name, title, names) for name, title, names in api_sections()
    }
    found["api/index.md"] = api_index()
    return found


# ------------------------------------------------------------------------------ commands


def commands_page() -> str:
    """Every command with its options, as ``--help`` has them."""
    parts = [
        "# Every command and option",
        "`covgame COMMAND --help` prints the same. Every command takes `--json`, `--quiet` and "
        "`--debug`; [exit codes](usage.md#exit-codes) are the same everywhere.",
    ]
    commands = Commands()
    for name in NAMES:
        parts += _command(commands[name], f"covgame {name}", depth=2)
    return "\n\n".join(parts) + "\n"


def _command(command: click.Command, path: str, depth: int) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"{'#' * depth} `{path}`"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{path} {usage}\n```"
    yield from _help_text(inspect.cleandoc(command.help or ""))
    rows = [row for one in command.params if (row := _option(one, context))]
    if rows:
        yield "\n".join(["| option | |", "| --- | --- |", *rows])
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _command(child, f"{path} {name}", depth + 1)


def _help_text(text: str) -> Iterator[str]:
    """Paragraphs; those marked to keep their lines become blocks, their first lines prose."""
    for paragraph in text.split("\n\n"):
        if not paragraph.startswith("\b"):
            yield paragraph.replace("\n", " ")
            continue
        lines = paragraph.splitlines()[1:]
        prose = [line for line in lines if not line.startswith("  ")]
        shown = [line.strip() for line in lines if line.startswith("  ")]
        yield "<br>\n".join(prose)
        if shown:
            yield "```text\n" + "\n".join(shown) + "\n```"


def _option(option: click.Parameter, context: click.Context) -> str | None:
    record = option.get_help_record(context)
    if record is None or not isinstance(option, click.Option):
        return None
    names, said = (text.replace("|", "\\|") for text in record)
    return f"| `{names}` | {said} |"


# ----------------------------------------------------------------------------------- API


def api_sections() -> list[tuple[str, str, list[str]]]:
    """Pages of the reference as (file, title, names): every public name on exactly one."""
    found = [
        (page, title, [name for name in names.split() if name in covgame.__all__])
        for page, (title, names) in SECTIONS.items()
    ]
    placed = {name for *_, names in found for name in names}
    further = [name for name in covgame.__all__ if name not in placed]
    return found + ([("further", "Further names", further)] if further else [])


def api_index() -> str:
    """The door of the reference: every name with the first sentence about it."""
    parts = [
        "# Python reference",
        "Everything you need is in `covgame`, usually imported as `cg`: `import covgame as cg`.",
    ]
    for page, title, names in api_sections():
        rows = [f"- [`{name}`]({page}.md#{_anchor(name)}): {_first(name)}" for name in names]
        parts += [f"## {title}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _first(name: str) -> str:
    value = getattr(covgame, name)
    text = inspect.getdoc(value) if callable(value) else f"`{value!r}`"
    return (text or "").split("\n\n")[0].replace("\n", " ")


def api_page(page: str, title: str, names: list[str]) -> str:
    """One page of the reference. Nobody calls results or errors, so theirs shows no signature."""
    called = page not in ("results", "errors")
    entries = (part for name in names for part in _entry(name, called))
    return "\n\n".join([f"# {title}", *entries]) + "\n"


def _anchor(name: str) -> str:
    return f"api-{name.lower()}-{'type' if name[0].isupper() else 'value'}"


def _entry(name: str, called: bool) -> Iterator[str]:
    value = getattr(covgame, name)
    yield f"({_anchor(name)})=\n## `{name}`"
    if not callable(value):
        yield f"`covgame.{name} = {value!r}`"
        return
    if called:
        yield signature(f"covgame.{name}", value)
    yield from markdown(inspect.getdoc(value) or "")
    if inspect.isclass(value):
        for key, member in _members(value):
            yield from _member(key, member)


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def _members(value: type) -> list[tuple[str, Any]]:
    """Public methods and properties, inherited ones of covgame's own included."""
    if _is_error(value):
        return []
    found: dict[str, Any] = {}
    for base in reversed(value.__mro__):
        if base.__module__.startswith("covgame"):
            found |= {key: one for key, one in vars(base).items() if not key.startswith("_")}
    kinds = (classmethod, staticmethod, property)
    return [
        (key, one)
        for key, one in found.items()
        if inspect.isfunction(one) or isinstance(one, kinds)
    ]


def _member(key: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield f"### `.{key}`"
    else:
        member = getattr(member, "__func__", member)
        yield f"### `.{key}()`"
        yield signature(key, member)
    yield from markdown(inspect.getdoc(member) or "")


def signature(name: str, value: Any) -> str:
    """A call as code, a parameter a line where it is long."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return ""
    shown = [
        re.sub(r"<.*?>", "...", str(one).replace("'", ""))
        for one in found.parameters.values()
        if one.name not in ("self", "cls")
    ]
    kinds = [one.kind for one in found.parameters.values() if one.name not in ("self", "cls")]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = found.return_annotation
    arrow = "" if inspect.isclass(value) or returns is found.empty else f" -> {_type(returns)}"
    line = f"{name}({', '.join(shown)}){arrow}"
    if len(line) > 90:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){arrow}"
    return f"```python\n{line}\n```"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


HEADINGS = ("Args", "Returns", "Raises", "Example", "Examples", "Attributes", "Yields")


def markdown(text: str) -> Iterator[str]:
    """A docstring as Markdown: prose, lists of arguments, examples as code."""
    for heading, body in _sections(text):
        if heading in ("Example", "Examples"):
            yield f"**Example**\n\n```pycon\n{body}\n```"
        elif heading in ("Args", "Raises", "Attributes"):
            title = {"Args": "Arguments", "Attributes": "Has"}.get(heading, heading)
            yield f"**{title}**\n\n" + "\n".join(_items(body))
        elif heading:
            yield f"**{heading}** {' '.join(body.split())}"
        else:
            yield from _prose(body)


def _sections(text: str) -> Iterator[tuple[str, str]]:
    parts = re.split(rf"^({'|'.join(HEADINGS)}):\n", text, flags=re.MULTILINE)
    yield "", parts[0].strip()
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.splitlines()
        inside = [place for place, line in enumerate(lines) if line and not line.startswith(" ")]
        end = inside[0] if inside else len(lines)
        yield heading, inspect.cleandoc("\n".join(["", *lines[:end]])).strip()
        yield "", "\n".join(lines[end:]).strip()


def _prose(body: str) -> Iterator[str]:
    for paragraph in filter(None, body.split("\n\n")):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            yield "```text\n" + inspect.cleandoc(paragraph) + "\n```"
        else:
            yield paragraph.rstrip(":") + ":" if paragraph.endswith("::") else paragraph


def _items(body: str) -> Iterator[str]:
    for item in re.split(r"\n(?=\S)", body):
        name, _, said = item.partition(":")
        shown = name.strip().replace("*", r"\*")
        yield f"- **{shown}**: {' '.join(said.split())}"


# ----------------------------------------------------------------------------- decisions


def decisions_page() -> str:
    """Every record, by number."""
    rows = []
    for path in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        rows.append(f"- [{title}]({path.name})")
    about = "Choices that a newcomer might question, each with what was measured."
    return f"# Decisions\n\n{about}\n\n" + "\n".join(rows) + "\n"
