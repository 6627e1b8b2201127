"""What a shell may complete: environments and targets.

Bash breaks words at colons and takes ``gym:FrozenLake-v1`` for three. So it is given a script of
its own, which hands over the line, and gets back what follows the last break.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    split_arg_string,
)

from covgame.mdp.families import FAMILIES

GYM = (  # by heart: to ask Gymnasium takes longer than one waits for a key
    "Acrobot-v1",
    "Blackjack-v1",
    "CartPole-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Taxi-v4",
)
TARGETS = {
    "uniform:50": "every cell (stage, state, action)",
    "uniform:50/pair": "every state and action, at any stage",
    "uniform:50/state": "every state",
    "proportional:500": "as often as can be reached",
}


def complete_env(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Families and their parameters, Gymnasium's environments, functions of one's own, files."""
    del context, parameter
    kind, colon, rest = incomplete.partition(":")
    if kind == "gym" and colon:
        return _matching((f"gym:{name}" for name in GYM), incomplete)
    if kind == "py" and colon:
        return _matching(_own(rest), incomplete)
    if kind == "gw" and colon:
        return _matching((f"gw:{item.value}" for item in _files(rest)), incomplete)
    if kind in FAMILIES and colon:
        return _matching(_parameters(kind, rest), incomplete)
    families = [
        CompletionItem(name, help=FAMILIES[name].summary)
        for name in sorted(FAMILIES)
        if name.startswith(incomplete)
    ]
    kinds = ["gym:", "gw:", "py:"]
    others = [*(f"gym:{name}" for name in GYM), *kinds[1:]] if incomplete else kinds
    return families + _matching(others, incomplete) + _files(incomplete)


def complete_target(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The kinds of target, for the number that was typed, and files."""
    del context, parameter
    kind, _, rest = incomplete.partition(":")
    count = rest.partition("/")[0]
    usual = {"uniform": "50", "proportional": "500"}.get(kind)
    items = [
        CompletionItem(target.replace(usual, count) if usual and count else target, help=meaning)
        for target, meaning in TARGETS.items()
    ]
    return [item for item in items if item.value.startswith(incomplete)] + _files(incomplete)


def _matching(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _parameters(family: str, said: str) -> list[str]:
    """``riverswim:states=8,horizon=`` for what was not said yet."""
    before, comma, _ = said.rpartition(",")
    given = {part.partition("=")[0] for part in before.split(",")}
    names = [name for name in FAMILIES[family].defaults if name not in given]
    return [f"{family}:{before}{comma}{name}=" for name in names]


def _own(said: str) -> Iterator[str]:
    """Modules of this folder, or the functions and classes of one."""
    module, colon, _ = said.partition(":")
    if not colon:
        yield from (f"py:{path.stem}:" for path in sorted(Path().glob("[!_.]*.py")))
        return
    path = Path(*module.split(".")).with_suffix(".py")
    try:
        content = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return
    for node in content.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield f"py:{module}:{node.name}"


def _files(incomplete: str) -> list[CompletionItem]:
    """JSON files, and folders once something was typed."""
    folder, name = os.path.split(incomplete)
    try:
        entries = sorted(Path(folder or ".").iterdir())
    except OSError:
        return []
    found = []
    for path in entries:
        hidden = path.name.startswith(".") and not name.startswith(".")
        if hidden or not path.name.startswith(name):
            continue
        written = os.path.join(folder, path.name)
        if path.suffix == ".json" and path.is_file():
            found.append(CompletionItem(written))
        elif incomplete and path.is_dir():
            found.append(CompletionItem(f"{written}/"))
    return found


# ----------------------------------------------------------------------------------- bash

SOURCE = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value
    response=$(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" \\
        COMP_BREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete $1)
    for completion in $response; do
        IFS=',' read type value <<< "$completion"
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=($value)
            if [[ $value == *[:=/] ]]; then compopt -o nospace; fi
        fi
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class WholeWords(BashComplete):
    """Bash, with words as people write them."""

    name = "bash"
    source_template = SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """(the words before, the one being written), from the line itself."""
        line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        is_option = incomplete.startswith("--") and "=" in incomplete
        self.written = incomplete.partition("=")[2] if is_option else incomplete
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Without what bash takes for words before."""
        breaks = set(os.environ.get("COMP_BREAKS", ":=")) & set(":=")
        kept = max((self.written.rfind(mark) for mark in breaks), default=-1) + 1
        value = item.value
        if item.type == "plain" and value.startswith(self.written):
            value = value[kept:]
        return f"{item.type},{value}"


def complete_whole_words() -> None:
    """Let bash complete words with colons."""
    add_completion_class(WholeWords)
