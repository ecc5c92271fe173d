"""The command reference is what the program says, and the program says something about everything."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import click
import pytest

from agenthood.cli.app import cli

ROOT = Path(__file__).parent.parent
ALL = {"agenthood": cli, **{f"agenthood {name}": command for name, command in cli.commands.items()}}


def test_the_command_reference_is_up_to_date() -> None:
    """docs/commands.md is what scripts/docs makes of the help texts; run that when this fails."""
    render = runpy.run_path(str(ROOT / "scripts" / "docs"))["render"]
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == render()


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_option_has_help(name: str) -> None:
    """A command says what it does, each option too, and the list of commands has a line that is not cut."""
    command = ALL[name]
    assert command.help
    short = command.get_short_help_str(limit=60)
    assert command is cli or not short.endswith("..."), "give the command a short_help"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts[-1]} has no help"
        else:
            assert re.search(rf"\b{parameter.name}\b", command.help, re.IGNORECASE), parameter.name


def test_every_variable_in_the_reference_is_read_somewhere() -> None:
    """The page names no variable that the package does not know."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "agenthood").rglob("*.py"))
    for name in set(re.findall(r"AGENTHOOD_[A-Z_]*[A-Z]", page)):
        assert f'"{name}"' in sources, name
