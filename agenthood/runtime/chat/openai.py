"""Chat through the `openai` SDK: OpenAI, Groq, Ollama, OpenRouter, and any server that speaks its format."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import MissingExtraError
from agenthood.runtime.chat.openai_wire import StreamReader, messages_json, read_reply, tools_json
from agenthood.runtime.chat.sdk import Request, SdkChatModel, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai import AsyncOpenAI

    from agenthood.runtime.chat.base import Reply

_REFUSED: Final = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|extra",
    re.IGNORECASE,
)
_NEEDED_FOR_TOOLS: Final = "reasoning_effort"
_NOT_EVERYWHERE: Final = (_NEEDED_FOR_TOOLS, "stream_options", "max_completion_tokens", "max_tokens")
_BAD_REQUESTS: Final = (400, 422)
_ACCOUNT: Final = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that the SDK fills from the environment and that are no other provider's business."""


class OpenAIChatModel(SdkChatModel):
    """A model behind an OpenAI-compatible `/chat/completions`; see `SdkChatModel`.

    Servers differ in what they take. What one refuses by name is left out or replaced, once, and remembered:
    `stream_options`, `max_tokens` against `max_completion_tokens`, and thinking beside tools, which newer
    models refuse at this endpoint unless it is switched off.
    """

    _refused: frozenset[str] = frozenset()

    def _connect(self) -> AsyncOpenAI:
        try:
            import openai  # noqa: PLC0415  an optional SDK
        except ImportError as error:
            raise MissingExtraError("openai", "openai") from error
        headers: dict[str, Any] = dict.fromkeys(_ACCOUNT, openai.Omit())
        return openai.AsyncOpenAI(
            base_url=self._address.url,
            # The SDK wants some key; a server without keys does not look at it.
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._http_timeout(),
            http_client=openai.DefaultAsyncHttpxClient(**self._http_options()),
            default_headers=None if self.provider == "openai" else headers,
        )

    async def _ask(self, request: Request, shown: Callable[[str], None] | None) -> Reply:
        answer = await self._create(request, stream=shown is not None)
        if shown is None:
            reply = read_reply(plain(answer))
        else:
            reader = StreamReader()
            async with answer:
                async for chunk in answer:
                    shown(reader.add(plain(chunk)))
            reply = reader.reply()
        return replace(reply, provider=self.provider, model=self.model)

    async def _create(self, request: Request, *, stream: bool) -> Any:  # noqa: ANN401  (an SDK's answer)
        import openai  # noqa: PLC0415

        while True:
            try:
                return await self._client.chat.completions.create(**self._arguments(request, stream=stream))
            except openai.APIStatusError as error:
                refused = self._newly_refused(error.status_code, error.message)
                if refused is None:
                    raise
            self._refused |= {refused}  # one name fewer each time, so this ends

    def _newly_refused(self, status: int, message: str) -> str | None:
        """The option that the server refuses, if it says so and it was not refused before."""
        if status not in _BAD_REQUESTS or not _REFUSED.search(message):
            return None
        named = [name for name in _NOT_EVERYWHERE if name in message and name not in self._refused]
        return named[0] if named else None

    def _arguments(self, request: Request, *, stream: bool) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": messages_json(request.system, request.messages),
            self._limit_name(): request.max_tokens,
            "stream": stream,
        }
        if request.tools:
            arguments["tools"] = tools_json(request.tools)
            if _NEEDED_FOR_TOOLS in self._refused:
                arguments["reasoning_effort"] = "none"
        if stream and "stream_options" not in self._refused:
            arguments["stream_options"] = {"include_usage": True}
        return arguments

    def _limit_name(self) -> str:
        """OpenAI's newer models want the long name, most other servers know only the short one."""
        names = ("max_completion_tokens", "max_tokens")
        preferred, other = names if self.provider == "openai" else names[::-1]
        return other if preferred in self._refused else preferred
