"""What the models behind an SDK share: a deadline, and errors that are ours and hold no key."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agenthood.errors import (
    ConfigError,
    ProviderError,
    ProviderResponseError,
    ProviderUnavailableError,
)
from agenthood.runtime.chat.address import Address
from agenthood.runtime.chat.base import MAX_TOKENS, Message, Reply, ToolSpec
from agenthood.runtime.chat.failures import Failures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx2

    from agenthood.runtime.chat.providers import Provider

TIMEOUT = 300.0
"""Seconds for one reply in all: models that think say nothing for minutes."""
CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of one request."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_tokens: int


@dataclass(slots=True)
class _Shown:
    """Passes text on, and remembers the listener's own error, to tell it from one of the provider."""

    listener: Callable[[str], None]
    error: BaseException | None = field(default=None)

    def __call__(self, text: str) -> None:
        if not text:
            return
        try:
            self.listener(text)
        except BaseException as error:  # kept to tell the listener's own fault from the provider's
            self.error = error
            raise


class SdkChatModel(ABC):
    """One model at one provider, through an SDK.

    It sends each request once: another attempt is for `FailoverChatModel` to decide. The connections belong
    to the event loop of the first reply.

    Args:
        known: the provider.
        model: the model's name; empty takes the provider's default.
        api_key: None sends none.
        base_url: None takes the provider's own.
        timeout: seconds for one reply in all, however slowly it drips in.

    Raises:
        ConfigError: an argument that cannot work.
    """

    def __init__(
        self,
        known: Provider,
        *,
        model: str = "",
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        if not timeout > 0:
            raise ConfigError(f"timeout is {timeout!r}: it must be above 0 seconds")
        self.provider = known.name
        self.model = model or known.model
        if not self.model:
            raise ConfigError(f"provider {known.name!r} has no default model: name one with --model")
        self._address = Address.parse(base_url or known.base_url, known.name)
        self._api_key = checked_key(api_key, known.name)
        self._timeout = timeout
        self._client: Any = None
        self._failures = Failures(known, self.model, self._address, self._api_key)

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        max_tokens: int = MAX_TOKENS,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer once, as `ChatModel.reply`.

        Raises:
            MissingExtraError: the SDK is not installed.
            ProviderError: no reply.
        """
        if self._client is None:
            self._client = self._connect()
        request = Request(system, messages, tools, max_tokens)
        shown = _Shown(on_text) if on_text else None
        scope = asyncio.timeout(self._timeout)
        try:
            async with scope:
                return await self._ask(request, shown)
        except Exception as error:  # sorted below: what is not the provider's doing is passed on
            failure = self._failure(error, scope, shown)
            if failure is None:
                raise
        raise failure  # out here, since the SDK's error may quote the key and would become its context

    def _failure(
        self, error: Exception, scope: asyncio.Timeout, shown: _Shown | None
    ) -> ProviderError | None:
        """The error to raise in place of `error`, or None if the provider is not to blame for it."""
        if shown is not None and shown.error is error:
            return None
        if isinstance(error, TimeoutError) and scope.expired():
            return self._failures.timed_out(self._timeout)
        if isinstance(error, ProviderResponseError | ProviderUnavailableError):
            return self._failures.found(error)
        return self._failures.from_sdk(error)

    async def aclose(self) -> None:
        """Close the connections; replying afterwards opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(provider={self.provider!r}, model={self.model!r})"

    @abstractmethod
    def _connect(self) -> Any:  # noqa: ANN401  (the client of an SDK that need not be installed)
        """Make the SDK's client.

        Raises:
            MissingExtraError: the SDK is not installed.
        """

    @abstractmethod
    async def _ask(self, request: Request, shown: Callable[[str], None] | None) -> Reply:
        """Send the request once, streamed if there is a listener."""

    def _http_options(self) -> dict[str, Any]:
        """Options for the HTTP client: redirects are not followed, since a key would go along."""
        options: dict[str, Any] = {"follow_redirects": False, "timeout": self._http_timeout()}
        if self._address.local:
            options["trust_env"] = False  # no proxy reaches this machine
        return options

    def _http_timeout(self) -> httpx2.Timeout:
        import httpx2  # noqa: PLC0415  keeps the import of this module light

        return httpx2.Timeout(self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout))


def checked_key(api_key: str | None, provider: str) -> str | None:
    """Refuse here what a header cannot hold: the HTTP library's own error would quote the key.

    Raises:
        ConfigError: it holds white space or characters that are not ASCII.
    """
    key = (api_key or "").strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"the key of {provider!r} holds characters that no key has: copy it again")
    return key or None


def plain(answer: Any) -> object:  # noqa: ANN401  (whatever an SDK made of the answer)
    """The answer as JSON: the SDKs do not check what they are given, so their objects may hold anything."""
    return answer.to_dict(warnings=False) if hasattr(answer, "to_dict") else answer
