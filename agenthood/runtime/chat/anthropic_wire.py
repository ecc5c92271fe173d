"""The format of Anthropic's `/v1/messages`, as plain functions without I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import ProviderResponseError, ProviderUnavailableError
from agenthood.runtime.chat.base import Native, Reply, Stop, Usage
from agenthood.runtime.chat.wire import clean, clean_json, read_call, result_text, stop_for, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.runtime.chat.base import Message, ToolCall, ToolSpec

Json = dict[str, Any]

_STOPS: Final[dict[str, Stop]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_INPUT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_UNDERSTOOD: Final = frozenset({"text", "tool_use"})


def messages_json(messages: Sequence[Message], *, provider: str, model: str) -> list[Json]:
    """The conversation as turns that alternate: results of several calls are one turn of the user.

    Args:
        messages: the oldest first.
        provider: to whom it goes; with `model`, whose own words go back as they were.
        model: see `provider`.
    """
    turns: list[Json] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, provider, model)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, provider: str, model: str) -> list[Json]:
    native = message.native
    if native is not None and (native.provider, native.model) == (provider, model):
        return [dict(block) for block in native.content]
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": _call_id(message.tool_call_id or ""),
                "content": result_text(message),
                "is_error": message.is_error,
            }
        ]
    text = clean(message.text)
    blocks: list[Json] = [{"type": "text", "text": text}] if text.strip() else []  # blank ones are refused
    return blocks + [_call_json(call) for call in message.tool_calls]


def _call_json(call: ToolCall) -> Json:
    arguments = clean_json(dict(call.arguments))
    return {"type": "tool_use", "id": _call_id(call.id), "name": call.name, "input": arguments}


def _call_id(identity: str) -> str:
    """Other providers' ids may hold what is refused here."""
    return _NOT_IN_ID.sub("_", identity) or "call"


def tools_json(tools: Sequence[ToolSpec]) -> list[Json]:
    """The tools as the endpoint wants them."""
    return [
        {
            "name": tool.name,
            "description": clean(tool.description),
            "input_schema": clean_json(dict(tool.parameters)),
        }
        for tool in tools
    ]


def read_reply(body: object, *, provider: str, model: str) -> Reply:
    """Read a whole answer.

    Raises:
        ProviderResponseError: it is none.
    """
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(content, list):
        raise ProviderResponseError("the answer is not the JSON of a message: check the base URL")
    blocks = [block for block in content if isinstance(block, dict)]
    text = "".join(block["text"] for block in blocks if _is_text(block))
    calls = tuple(
        read_call(block.get("id") or f"call_{i}", block.get("name"), block.get("input", ""))
        for i, block in enumerate(block for block in blocks if block.get("type") == "tool_use")
    )
    stop = stop_for(body.get("stop_reason"), calls, _STOPS)
    usage = body.get("usage")
    return Reply(
        clean(text),
        calls if stop == "tools" else (),
        stop,
        Usage(tokens(usage, *_INPUT_TOKENS), tokens(usage, "output_tokens")),
        native=Native(provider, model, _native(blocks, calls)) if _needs_native(blocks, stop) else None,
    )


def _is_text(block: Json) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _needs_native(blocks: list[Json], stop: Stop) -> bool:
    """True if the blocks hold more than text and calls, unless the answer ended before its time."""
    return stop in ("end", "tools") and any(block.get("type") not in _UNDERSTOOD for block in blocks)


def _native(blocks: list[Json], calls: Sequence[ToolCall]) -> tuple[Json, ...]:
    """The blocks as they can be sent: no blank text, and arguments as the object they turned out to be."""
    arguments = (dict(call.arguments) for call in calls)
    sent = [
        block | {"input": next(arguments)} if block.get("type") == "tool_use" else block for block in blocks
    ]
    return tuple(block for block in sent if not _is_text(block) or block["text"].strip())


class StreamReader:
    """Puts the events of a streamed answer together."""

    _GROWING: Final = {
        "text_delta": "text",
        "input_json_delta": "partial_json",
        "thinking_delta": "thinking",
        "signature_delta": "signature",
    }

    def __init__(self) -> None:
        self._blocks: dict[object, Json] = {}
        self._usage: Json = {}
        self._reason: object = None
        self._seen = False
        self._ended = False

    def add(self, event: object) -> str:
        """Take the next event; returns the text in it, which may be empty."""
        if not isinstance(event, dict):
            raise ProviderResponseError("an event of the answer is no JSON object: try again")
        self._seen = True
        kind = event.get("type")
        if kind == "message_start":
            self._count(_object(_object(event, "message"), "usage"))
        elif kind == "content_block_start":
            return self._start(event.get("index"), _object(event, "content_block"))
        elif kind == "content_block_delta":
            return self._grow(event.get("index"), _object(event, "delta"))
        elif kind == "message_delta":
            self._reason = _object(event, "delta").get("stop_reason") or self._reason
            self._count(_object(event, "usage"))
        elif kind == "message_stop":
            self._ended = True
        return ""

    def _count(self, usage: Json) -> None:
        self._usage |= {name: count for name, count in usage.items() if count is not None}

    def _start(self, index: object, block: Json) -> str:
        self._blocks[index] = dict(block)
        return clean(block["text"]) if _is_text(block) else ""

    def _grow(self, index: object, delta: Json) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        name = self._GROWING.get(str(delta.get("type")))
        piece = delta.get(name) if name else None
        if name is None or not isinstance(piece, str):
            return ""
        if name == "partial_json":
            written = block.get("input")
            block["input"] = (written if isinstance(written, str) else "") + piece
            return ""
        piece = clean(piece)
        block[name] = str(block.get(name) or "") + piece
        return piece if name == "text" else ""

    def reply(self, *, provider: str, model: str) -> Reply:
        """The whole answer.

        Raises:
            ProviderResponseError: nothing came that is part of an answer.
            ProviderUnavailableError: the answer broke off.
        """
        if not self._seen:
            raise ProviderResponseError("the stream held no message: check the base URL")
        if not self._ended:
            raise ProviderUnavailableError("the answer broke off before its end: try again")
        body = {"content": list(self._blocks.values()), "stop_reason": self._reason, "usage": self._usage}
        return read_reply(body, provider=provider, model=model)


def _object(value: Json, name: str) -> Json:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
