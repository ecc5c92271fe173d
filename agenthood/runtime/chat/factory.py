"""Makes the chat model that the settings ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import MissingKeyError
from agenthood.runtime.chat.anthropic import AnthropicChatModel
from agenthood.runtime.chat.failover import FailoverChatModel
from agenthood.runtime.chat.openai import OpenAIChatModel
from agenthood.runtime.chat.providers import KEY_VARIABLES, provider_named
from agenthood.runtime.chat.sdk import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.runtime.chat.base import ChatModel
    from agenthood.runtime.chat.settings import ChatSettings, ProviderSettings


def create_chat_model(
    settings: ChatSettings,
    *,
    timeout: float = TIMEOUT,
    on_notice: Callable[[str], None] | None = None,
) -> FailoverChatModel:
    """Make the model; nothing is sent and no SDK is loaded before its first reply.

    Args:
        settings: from `load_chat_settings`.
        timeout: seconds for one attempt at one provider.
        on_notice: is told what the user has to repair while other providers still answer: keys that are
            missing (at once) or refused (when that happens); None logs a warning.

    Raises:
        MissingKeyError: nothing is configured, or no provider that is has its key.
        ConfigError: a value that cannot work.
    """
    usable = [one for one in settings.providers if one.missing_key is None]
    if not usable:
        raise _nothing_to_ask(settings)
    for one in settings.providers:
        if one.missing_key is not None and on_notice is not None:
            on_notice(one.missing_key)
    return FailoverChatModel(
        [_model(one, timeout) for one in usable],
        failure_threshold=settings.failover.failure_threshold,
        cooldown=settings.failover.cooldown,
        probe=settings.failover.probe,
        on_notice=on_notice,
    )


def _model(settings: ProviderSettings, timeout: float) -> ChatModel:
    known = provider_named(settings.name)
    kind = AnthropicChatModel if known.format == "anthropic" else OpenAIChatModel
    return kind(
        known,
        model=settings.model,
        api_key=settings.api_key,
        base_url=settings.base_url,
        timeout=timeout,
    )


def _nothing_to_ask(settings: ChatSettings) -> MissingKeyError:
    if not settings.providers:
        return MissingKeyError(
            f"no chat model is configured: set one of {', '.join(KEY_VARIABLES)}, or OLLAMA_HOST for a local one"
        )
    first = settings.providers[0]
    reasons = "; ".join(one.missing_key or "" for one in settings.providers)
    return MissingKeyError(reasons, provider=first.name, model=first.model)
