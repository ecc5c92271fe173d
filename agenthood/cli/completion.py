"""`agenthood completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
    bash: add to ~/.bashrc   eval "$(agenthood completion bash)"
    zsh:  add to ~/.zshrc    eval "$(agenthood completion zsh)"
    fish: agenthood completion fish > ~/.config/fish/completions/agenthood.fish
    """  # noqa: D301  click keeps the lines below a backspace as they are
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    program = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None, shell  # noqa: S101  the choices are click's own
    click.echo(kind(program, {}, "agenthood", "_AGENTHOOD_COMPLETE").source())
