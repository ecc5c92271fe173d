"""Makes the chat model that the settings ask for."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from agenthood.errors import MissingExtraError, MissingKeyError
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
    """Make the model; nothing is sent and no SDK is loaded before its first reply, but it is looked for.

    Args:
        settings: from `load_chat_settings`.
        timeout: seconds for one attempt at one provider.
        on_notice: is told what the user has to repair while other providers still answer: keys and SDKs that
            are missing (at once) or keys that are refused (when that happens); None logs a warning.

    Raises:
        MissingKeyError: nothing is configured, or no provider that is has its key.
        MissingExtraError: no provider that has its key has its SDK.
        ConfigError: a value that cannot work.
    """
    missing = [missing_part(one) for one in settings.providers]
    usable = [one for one, problem in zip(settings.providers, missing, strict=True) if problem is None]
    if not usable:
        raise _nothing_to_ask(settings)
    for problem in filter(None, missing):
        if on_notice is not None:
            on_notice(problem)
    return FailoverChatModel(
        [_model(one, timeout) for one in usable],
        failure_threshold=settings.failover.failure_threshold,
        cooldown=settings.failover.cooldown,
        probe=settings.failover.probe,
        on_notice=on_notice,
    )


def missing_part(settings: ProviderSettings) -> str | None:
    """Why the provider cannot be asked yet, with what to do: a key or an SDK is missing; None if it can."""
    missing = settings.missing_key or _missing_sdk(settings)
    return str(missing) if missing else None


def _missing_sdk(settings: ProviderSettings) -> MissingExtraError | None:
    """The error to raise if the SDK is not installed; package and extra have the name of the format it speaks."""
    sdk = provider_named(settings.name).format
    return MissingExtraError(sdk, sdk) if find_spec(sdk) is None else None


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


def _nothing_to_ask(settings: ChatSettings) -> MissingKeyError | MissingExtraError:
    if not settings.providers:
        return MissingKeyError(
            f"no chat model is configured: set one of {', '.join(KEY_VARIABLES)}, or OLLAMA_HOST for a local one"
        )
    for one in settings.providers:
        if one.missing_key is None and (missing := _missing_sdk(one)) is not None:
            return missing
    first = settings.providers[0]
    reasons = "; ".join(one.missing_key or "" for one in settings.providers)
    return MissingKeyError(reasons, provider=first.name, model=first.model)
