"""A chat model for tests: real, deterministic, and without a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agenthood.errors import ProviderError, ProviderResponseError
from agenthood.runtime.chat.base import MAX_TOKENS, Message, Reply, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request held."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int


class ScriptedChatModel:
    """Plays what it is given, and keeps what it was asked.

    Args:
        script: replies and errors in order, or a function from what is asked to one of them; an error is
            raised. A plain text is a reply that says it.
        provider: the name under which it replies.
        model: the model's name.

    Attributes:
        asked: every request so far.
        closed: whether `aclose` was called.
    """

    def __init__(
        self,
        script: Sequence[Reply | str | ProviderError] | Callable[[Asked], Reply | str | ProviderError],
        *,
        provider: str = "scripted",
        model: str = "script",
    ) -> None:
        self.provider = provider
        self.model = model
        self.asked: list[Asked] = []
        self.closed = False
        self._script = script

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        max_tokens: int = MAX_TOKENS,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Play the next entry; with `on_text`, its text line by line.

        Raises:
            ProviderError: as the script says; `ProviderResponseError` after its last entry.
        """
        asked = Asked(system, tuple(messages), tuple(tools), max_tokens)
        self.asked.append(asked)
        entry = self._script(asked) if callable(self._script) else self._next()
        if isinstance(entry, ProviderError):
            raise entry
        reply = Reply(entry) if isinstance(entry, str) else entry
        if on_text is not None:
            for piece in reply.text.splitlines(keepends=True):
                on_text(piece)
        return replace(reply, provider=self.provider, model=self.model)

    def _next(self) -> Reply | str | ProviderError:
        position = len(self.asked) - 1
        if callable(self._script) or position >= len(self._script):
            return ProviderResponseError(
                f"{self.provider} {self.model!r}: the script has no reply number {position + 1}",
                provider=self.provider,
                model=self.model,
            )
        return self._script[position]

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True
