"""The exact prompt of a run: the member's instructions, the warning about recalled text, the lessons, the task."""

from __future__ import annotations

from dataclasses import dataclass

from agenthood.block import SYSTEM_WARNING

_MANNER = (
    "You work inside one project directory with the tools you are given; paths are relative to it. "
    "Look before you conclude. When you are done, answer with what you did and what remains, in a few sentences."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is sent at first.

    Attributes:
        system: the system prompt; it does not depend on task or lessons, so that a provider can cache it.
        user: the first user message: the lessons, if any, then the task.
    """

    system: str
    user: str


def build_prompt(instructions: str, task: str, block: str) -> Prompt:
    """Put a prompt together; equal parts give equal bytes.

    Args:
        instructions: the member's own.
        task: what is to be done.
        block: the fenced block of lessons; empty for none.
    """
    system = f"{instructions.strip()}\n\n{_MANNER}\n\n{SYSTEM_WARNING}"
    user = f"{block}\n\nTask:\n{task.strip()}" if block else f"Task:\n{task.strip()}"
    return Prompt(system, user)
