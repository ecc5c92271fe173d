"""The program: its commands in the order a newcomer meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agenthood.cli.completion import completion
from agenthood.cli.doctor import doctor
from agenthood.cli.feedback import feedback
from agenthood.cli.keeping import archive, pin, restore, unpin
from agenthood.cli.learn import learn
from agenthood.cli.members import members
from agenthood.cli.moving import store
from agenthood.cli.recall import lessons, recall
from agenthood.cli.run import run
from agenthood.cli.session import common_options
from agenthood.cli.store import forget, maintain, migrate, status
from agenthood.cli.transfer import export, import_

if TYPE_CHECKING:
    from collections.abc import Sequence


class UnreadError(Exception):
    """Nobody reads the output any more."""


class _Program(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the commands in the order they were added."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; click would end the process on a closed pipe."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise UnreadError from error


def _program(commands: Sequence[click.Command]) -> click.Group:
    for command in commands:
        cli.add_command(command)
    return cli


@click.group(cls=_Program, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100})
@click.version_option(package_name="agenthood-learning", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """Keep what agents did and how well it went, and find the lessons again by meaning.

    \b
    agenthood learn --episode "fixed the flaky login test by mocking the clock" --score 0.95
    agenthood recall "login test fails now and then"
    """  # noqa: D301  click keeps the lines below a backspace as they are


_program(
    [
        *(learn, recall, lessons, status, forget, run, members, feedback),
        *(pin, unpin, archive, restore),
        *(migrate, maintain, export, import_, store, doctor, completion),
    ]
)
