"""The format of OpenAI-compatible `/chat/completions`, as plain functions without I/O."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import ProviderResponseError, ProviderUnavailableError
from agenthood.runtime.chat.base import Reply, Stop, Usage
from agenthood.runtime.chat.wire import clean, clean_json, read_call, result_text, stop_for, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.runtime.chat.base import Message, ToolCall, ToolSpec

Json = dict[str, Any]

_STOPS: Final[dict[str, Stop]] = {"length": "length", "content_filter": "refused"}


def messages_json(system: str, messages: Sequence[Message]) -> list[Json]:
    """The conversation as the endpoint wants it."""
    head = [{"role": "system", "content": clean(system)}] if system.strip() else []
    return head + [_message_json(message) for message in messages]


def _message_json(message: Message) -> Json:
    if message.role == "tool":
        text = result_text(message)  # this format has no other way to say that a tool failed
        content = f"Error: {text}" if message.is_error else text
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    if not message.tool_calls:
        return {"role": message.role, "content": clean(message.text)}
    calls = [_call_json(call) for call in message.tool_calls]
    return {"role": "assistant", "content": clean(message.text) or None, "tool_calls": calls}


def _call_json(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


def tools_json(tools: Sequence[ToolSpec]) -> list[Json]:
    """The tools as the endpoint wants them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": clean(tool.description),
                "parameters": clean_json(dict(tool.parameters)),
            },
        }
        for tool in tools
    ]


def read_reply(body: object) -> Reply:
    """Read a whole answer.

    Raises:
        ProviderResponseError: it is none.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(choices, list):
        raise ProviderResponseError("the answer is not the JSON of a chat completion: check the base URL")
    if not choices or not isinstance(choices[0], dict) or not isinstance(choices[0].get("message"), dict):
        raise ProviderResponseError("the answer holds no choice with a message: try again or another model")
    message = choices[0]["message"]
    content, refusal = _texts(message)
    return _reply(
        content + refusal,
        refused=bool(refusal),
        listed=message.get("tool_calls"),
        reason=choices[0].get("finish_reason"),
        usage=body.get("usage"),
    )


def _reply(text: str, *, refused: bool, listed: object, reason: object, usage: object) -> Reply:
    calls = _calls(listed) if isinstance(listed, list) else ()
    stop = "refused" if refused else stop_for(reason, calls, _STOPS)
    counts = Usage(tokens(usage, "prompt_tokens"), tokens(usage, "completion_tokens"))
    return Reply(text, calls if stop == "tools" else (), stop, counts)


def _texts(message: Json) -> tuple[str, str]:
    """What a message, or a piece of one, says, and what it says to refuse."""
    content, refusal = message.get("content"), message.get("refusal")
    return (
        clean(content) if isinstance(content, str) else "",
        clean(refusal) if isinstance(refusal, str) else "",
    )


def _calls(listed: list[Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for i, entry in enumerate(item for item in listed if isinstance(item, dict)):
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        identity = entry.get("id") or f"call_{i}"
        if any(call.id == identity for call in calls):  # results could not be told apart
            identity = f"{identity}_{i}"
        calls.append(read_call(identity, function.get("name"), function.get("arguments", "")))
    return tuple(calls)


class StreamReader:
    """Puts the chunks of a streamed answer together."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refused = False
        self._calls: list[Json] = []
        self._latest: dict[object, Json] = {}
        self._reason: object = None
        self._usage: object = None
        self._seen = False

    def add(self, chunk: object) -> str:
        """Take the next chunk; returns the text in it, which may be empty."""
        if not isinstance(chunk, dict):
            raise ProviderResponseError("a chunk of the answer is no JSON object: try again")
        self._seen = True
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return ""  # the chunk that holds the usage, or a server's sign of life
        self._reason = choice.get("finish_reason") or self._reason
        delta = choice.get("delta")
        return self._take(delta) if isinstance(delta, dict) else ""

    def _take(self, delta: Json) -> str:
        content, refusal = _texts(delta)
        self._refused = self._refused or bool(refusal)
        self._text.append(content + refusal)
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else ():
            if isinstance(part, dict):
                self._take_call(part)
        return content + refusal

    def _take_call(self, part: Json) -> None:
        index, function = part.get("index"), part.get("function")
        function = function if isinstance(function, dict) else {}
        call = self._latest.get(index)
        # Some servers give every call the index 0; a new id is a new call all the same.
        if call is None or (part.get("id") and call["id"] and part["id"] != call["id"]):
            call = {"id": "", "function": {"name": "", "arguments": ""}}
            self._latest[index] = call
            self._calls.append(call)
        call["id"] = call["id"] or part.get("id") or ""
        for name in ("name", "arguments"):
            value = function.get(name)
            if isinstance(value, str):
                call["function"][name] += value
            elif value is not None:
                call["function"][name] = value  # an object where its text belongs

    def reply(self) -> Reply:
        """The whole answer.

        Raises:
            ProviderResponseError: nothing came that is a chunk of an answer.
            ProviderUnavailableError: the answer broke off.
        """
        if not self._seen:
            raise ProviderResponseError("the stream held no chat completion: check the base URL")
        if self._reason is None:
            raise ProviderUnavailableError("the answer broke off before its end: try again")
        return _reply(
            "".join(self._text),
            refused=self._refused,
            listed=self._calls,
            reason=self._reason,
            usage=self._usage,
        )
