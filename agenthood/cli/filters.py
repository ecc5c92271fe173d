"""The options that several commands use to choose lessons."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

HEADINGS = {"learned": "what worked", "antipattern": "what failed"}
"""What people are shown for a kind."""


def chosen_lessons(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Give a command the options `--kind` and `--skill`."""
    for option in (
        click.option("--skill", metavar="NAME", help="Only lessons in this skill."),
        click.option(
            "--kind",
            type=click.Choice(tuple(HEADINGS)),
            help="Only what worked (learned) or only what failed (antipattern).",
        ),
    ):
        command = option(command)
    return command
