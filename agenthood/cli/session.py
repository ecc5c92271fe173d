"""What all commands share: the options that may stand anywhere, and opening the store."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from agenthood.cli.output import Output
from agenthood.cli.text import counted
from agenthood.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenthood import Hood
    from agenthood.config import Settings
    from agenthood.records import MigrationReport

DEFAULT_DIRECTORY = ".agenthood"
_PATIENCE = 30.0
"""Seconds; a command that was given for the sake of the store may wait until another process is done with it."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class NoStoreError(StoreError):
    """A command that makes no store was given a directory without one."""


@dataclass
class Session:
    """One run of the program.

    Attributes:
        path: the `.agenthood` directory.
        output: where answers and notes go.
    """

    path: Path = Path(DEFAULT_DIRECTORY)
    output: Output = field(default_factory=Output)

    @property
    def has_store(self) -> bool:
        """Whether there is a store; one on a server is taken for granted."""
        from agenthood.config import load_settings  # noqa: PLC0415  only commands that open a store need it
        from agenthood.stores.factory import place_of  # noqa: PLC0415

        place = place_of(load_settings(self.path).store, self.path)
        return place is None or place.exists()

    def settings(self) -> Settings:
        """The settings of this store; what was not understood in them is printed as warnings.

        Raises:
            ConfigError: they cannot be used.
        """
        from agenthood.config import load_settings  # noqa: PLC0415  only commands that open a store need it

        settings = load_settings(self.path)
        for warning in settings.warnings:
            self.output.warn(warning)
        return settings

    def placed_settings(self) -> Settings:
        """As `settings`, of a store that is there or could be made.

        Raises:
            StoreUnavailableError: it could not, such as where a file stands in the place of the directory.
        """
        from agenthood.stores.factory import check_place  # noqa: PLC0415  only commands that open a store need it

        settings = self.settings()
        check_place(settings.store, self.path)
        return settings

    def missing(self, id_: str, see: str = "see agenthood lessons") -> str:
        """What to say of an id that no lesson has; an agent sees lessons that are not its own to change."""
        settings = self.settings()
        text = f"no lesson has the id {id_!r}: {see}"
        if settings.agent is None:
            return text
        source = settings.sources.get("agent", "the agent")
        return f"{text}; lessons of the project's shared layer: leave out {source}"

    @contextmanager
    def open(self, *, create: bool = False, migrate: bool = True, soft: bool = False) -> Iterator[Hood]:
        """Open the store for the length of a `with` block.

        Args:
            create: make the store if there is none.
            migrate: bring the pattern index up to date first, within the time the engine allows.
            soft: go on without a store that is down, if that is configured; else it is an error, after some patience.

        Raises:
            NoStoreError: there is no store, and `create` is False.
            AgenthoodError: whatever the engine raises.
        """
        settings = self.placed_settings()  # first, as a mistyped one looks like a store that is lost
        hint = elsewhere(settings, self.path)
        if not create and not self.has_store:
            raise NoStoreError(
                f"there is no store at {str(self.path)!r}: learn something first (agenthood learn), "
                "or name the directory with --dir"
                if hint is None
                else hint
            )
        if hint is not None:
            self.output.warn(hint)
        if not soft:
            settings = replace(settings, fail="closed", deadline=max(settings.deadline, _PATIENCE))
        import agenthood  # noqa: PLC0415  keeps --help light
        from agenthood.cli.logs import logged_to  # noqa: PLC0415

        with (
            logged_to(self.output.warn),
            agenthood.open(self.path, settings=settings, start_migration=migrate) as hood,
        ):
            _warn_of_pending(hood.migration, self.output)
            yield hood


def elsewhere(settings: Settings, path: Path) -> str | None:
    """What to say where the store that is set is not there and another backend's is; None where that is not so."""
    from agenthood.stores.factory import left_behind  # noqa: PLC0415  only commands that open a store need it

    backend, other = settings.store.backend, left_behind(settings.store, path)
    if other is None:
        return None
    place = "" if str(path) == DEFAULT_DIRECTORY else f" --dir {quote(str(path))}"
    return (
        f"there is no {backend} store at {str(path)!r}, but there is a {other} store: "
        f"agenthood store copy --from {other} --to {backend}{place} copies it"
    )


def _warn_of_pending(migration: MigrationReport | None, output: Output) -> None:
    """Say that lessons are still missing from look-ups, which would otherwise look like having none."""
    if migration is not None and migration.remaining:
        count = counted(migration.remaining, "lesson")
        why = f" ({migration.reason})" if migration.reason else ""
        output.warn(f"{count} cannot be found by meaning yet{why}: run agenthood migrate")


def pass_session(
    command: Callable[Concatenate[Session, _P], _R],
) -> Callable[_P, _R]:
    """Hand the session to a command, and give the command the options `--dir`, `--json` and `--quiet`."""

    @wraps(command)
    def with_session(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return command(click.get_current_context().ensure_object(Session), *args, **kwargs)

    return common_options(with_session)


def common_options(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """The options that may stand before the command as well as after it."""
    for option in (
        click.option(
            "--quiet",
            "-q",
            is_flag=True,
            expose_value=False,
            callback=_set_quiet,
            help="Leave out notes and warnings.",
        ),
        click.option(
            "--json", is_flag=True, expose_value=False, callback=_set_json, help="Print JSON for programs."
        ),
        click.option(
            "--dir",
            metavar="PATH",
            type=click.Path(path_type=Path, readable=False),  # what opens it says more, and is no usage error
            expose_value=False,
            callback=_set_path,
            help=f"Directory of the store.  [default: $AGENTHOOD_DIR, else {DEFAULT_DIRECTORY}]",
        ),
    ):
        command = option(command)
    return command


def _set_path(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    session = ctx.ensure_object(Session)
    if value is not None:
        session.path = value
    elif ctx.parent is None:
        session.path = Path(os.environ.get("AGENTHOOD_DIR") or DEFAULT_DIRECTORY)


def _set_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    session = ctx.ensure_object(Session)
    session.output.json = session.output.json or value


def _set_quiet(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    session = ctx.ensure_object(Session)
    session.output.quiet = session.output.quiet or value
