"""Chat through the `anthropic` SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agenthood.errors import MissingExtraError
from agenthood.runtime.chat.anthropic_wire import StreamReader, messages_json, read_reply, tools_json
from agenthood.runtime.chat.sdk import Request, SdkChatModel, plain
from agenthood.runtime.chat.wire import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from anthropic import AsyncAnthropic

    from agenthood.runtime.chat.base import Reply


class AnthropicChatModel(SdkChatModel):
    """A model at Anthropic, or behind anything that speaks its format; see `SdkChatModel`."""

    def _connect(self) -> AsyncAnthropic:
        try:
            import anthropic  # noqa: PLC0415  an optional SDK
        except ImportError as error:
            raise MissingExtraError("anthropic", "anthropic") from error
        return anthropic.AsyncAnthropic(
            base_url=self._address.url.removesuffix("/v1"),  # the SDK adds it
            # Without any key the SDK looks for other credentials on its own.
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._http_timeout(),
            http_client=anthropic.DefaultAsyncHttpxClient(**self._http_options()),
            open_telemetry=False,
        )

    async def _ask(self, request: Request, shown: Callable[[str], None] | None) -> Reply:
        arguments = self._arguments(request)
        provider, model = self.provider, self.model
        if shown is None:
            reply = read_reply(
                plain(await self._client.messages.create(**arguments)), provider=provider, model=model
            )
        else:
            reader = StreamReader()
            async with await self._client.messages.create(**arguments, stream=True) as events:
                async for event in events:
                    shown(reader.add(plain(event)))
            reply = reader.reply(provider=provider, model=model)
        return replace(reply, provider=provider, model=model)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "messages": messages_json(request.messages, provider=self.provider, model=self.model),
        }
        if request.system.strip():
            arguments["system"] = clean(request.system)
        if request.tools:
            arguments["tools"] = tools_json(request.tools)
        return arguments
