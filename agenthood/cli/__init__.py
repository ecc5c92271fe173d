"""The command line: `agenthood learn`, `recall`, `lessons` and the rest, each a thin layer over the engine.

Exit codes: 0 done, 1 something was refused or failed, 2 the command line was not understood, 130 interrupted,
141 nobody reads the output any more.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

__all__ = ["main"]

FAILED, USAGE, INTERRUPTED, UNREAD = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; those of the process if None.

    Returns:
        The exit code. Errors are printed, one line each; with `AGENTHOOD_DEBUG=1` those that do not concern
        the command line are raised instead.
    """
    import click  # noqa: PLC0415  importing agenthood.cli for its parts must not need it

    from agenthood.cli.app import UnreadError  # noqa: PLC0415
    from agenthood.cli.output import error_line, tolerate_encodings  # noqa: PLC0415

    tolerate_encodings()
    try:
        return _run(argv)
    except click.ClickException as error:
        return _misused(error)
    except (click.Abort, KeyboardInterrupt):
        error_line("interrupted")
        return INTERRUPTED
    except (UnreadError, BrokenPipeError):
        return _unread()
    except Exception as error:  # a bug must not end in a traceback for the person at the terminal
        if os.environ.get("AGENTHOOD_DEBUG", "") not in {"", "0"}:
            raise
        error_line(_explained(error))
        return FAILED


def _run(argv: Sequence[str] | None) -> int:
    from agenthood.cli.app import cli  # noqa: PLC0415

    code = cli.main(args=argv, prog_name="agenthood", standalone_mode=False)
    sys.stdout.flush()  # a closed pipe shows here, where it can still be answered
    return code if isinstance(code, int) else 0


def _misused(error: click.ClickException) -> int:
    """Say what is wrong with the command line, and where to read on."""
    from click.exceptions import NoArgsIsHelpError  # noqa: PLC0415

    from agenthood.cli.output import error_line  # noqa: PLC0415

    ctx = getattr(error, "ctx", None)
    message = error.format_message().strip()
    if isinstance(error, NoArgsIsHelpError):
        error.show()
    elif ctx is None:
        error_line(message)
    else:
        error_line(f"{message} See {ctx.command_path} --help")
    return error.exit_code


def _explained(error: Exception) -> str:
    from agenthood.errors import AgenthoodError  # noqa: PLC0415

    if isinstance(error, AgenthoodError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error}: check the path and its permissions"
    return f"unexpected {type(error).__name__}: {error}; AGENTHOOD_DEBUG=1 shows where"


def _unread() -> int:
    """Throw away what is still buffered for a reader who has gone: writing it at exit would fail again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)
    return UNREAD
