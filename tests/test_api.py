"""Docstrings of the public names: complete enough for a reference, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from typing import Any

import pytest

import covgame as cg

PUBLIC = {name: getattr(cg, name) for name in cg.__all__}
FUNCTIONS = sorted(name for name, value in PUBLIC.items() if inspect.isfunction(value))
DOCUMENTED = sorted(name for name, value in PUBLIC.items() if callable(value))


def section(text: str, name: str) -> str:
    """What a docstring says under a heading, empty if it is not there."""
    found = re.search(rf"^{name}:\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
    return found.group(1) if found else ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_explained(name: str) -> None:
    """All of them, in order, and none that does not exist."""
    text = inspect.getdoc(PUBLIC[name]) or ""
    listed = re.findall(r"^    (\**\w+): ", section(text, "Args"), re.MULTILINE)
    parameters = inspect.signature(PUBLIC[name]).parameters.values()
    assert listed == [
        f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in parameters
    ]


@pytest.mark.parametrize(
    "name", ["cover", "explore", "identify", "plan", "certify", "resume", "audit", "export"]
)
def test_verbs_say_what_they_return_and_raise_and_show_it(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert section(text, "Returns")
    assert section(text, "Example").strip().startswith(">>>")
    for error in re.findall(r"^    (\w+): ", section(text, "Raises"), re.MULTILINE):
        assert error in cg.__all__ or error == "KeyboardInterrupt"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_names_and_their_members_have_docstrings(name: str) -> None:
    value: Any = PUBLIC[name]
    assert inspect.getdoc(value)
    if inspect.isclass(value) and value.__module__.startswith("covgame"):
        bare = [
            key
            for key, member in vars(value).items()
            if not key.startswith("_")
            and (inspect.isfunction(member) or isinstance(member, property))
            and not inspect.getdoc(member)
        ]
        assert not bare, f"{name} has members without a docstring: {bare}"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_run(name: str) -> None:
    for example in doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name, globs={}):
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(example)
        assert runner.summarize(verbose=False).failed == 0


def test_names_are_imported_from_where_type_checkers_look_for_them() -> None:
    tree = ast.parse(inspect.getsource(cg))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and node.orelse == [] and isinstance(node.test, ast.Attribute)
    )
    declared = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared == vars(cg)["_HOME_OF"]
    assert sorted(declared) == sorted(cg.__all__)
    assert sorted(cg.__all__) == [name for name in dir(cg) if not name.startswith("__")]


def test_what_does_not_exist_is_said_by_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'covr'"):
        getattr(cg, "covr")  # noqa: B009 (mypy knows as well)
    with pytest.raises(ImportError, match="covr"):
        exec("from covgame import covr")
