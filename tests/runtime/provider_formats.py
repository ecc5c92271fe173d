"""How each provider words a good answer, whole and streamed; for `provider_server`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.provider_server import Request, Spoken

PIECE = 5


@dataclass(frozen=True)
class Wire:
    """One format: the whole body as JSON, and the events of a stream."""

    whole: Callable[[Spoken, Request], dict[str, Any]]
    events: Callable[[Spoken, Request], Iterator[bytes]]


def pieces(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def event(data: object, name: str | None = None) -> bytes:
    """One server-sent event; text is sent as it is."""
    payload = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {payload}\n\n".encode()


def openai_whole(spoken: Spoken, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": spoken.text or None}
    if spoken.calls:
        message["tool_calls"] = [
            {
                "id": spoken.call_id(i),
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for i, call in enumerate(spoken.calls)
        ]
    finish = spoken.stop or ("tool_calls" if spoken.calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.json["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": _openai_usage(spoken),
    }


def openai_events(spoken: Spoken, request: Request) -> Iterator[bytes]:
    base = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": request.json["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(spoken.text):
        yield chunk({"content": piece})
    for i, call in enumerate(spoken.calls):
        start = {"index": i, "id": spoken.call_id(i), "type": "function"}
        yield chunk({"tool_calls": [start | {"function": {"name": call.name, "arguments": ""}}]})
        for piece in pieces(call.text):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, spoken.stop or ("tool_calls" if spoken.calls else "stop"))
    if request.json.get("stream_options", {}).get("include_usage"):
        yield event(base | {"choices": [], "usage": _openai_usage(spoken)})
    yield event("[DONE]")


def _openai_usage(spoken: Spoken) -> dict[str, int]:
    return {
        "prompt_tokens": spoken.tokens[0],
        "completion_tokens": spoken.tokens[1],
        "total_tokens": sum(spoken.tokens),
    }


def _anthropic_blocks(spoken: Spoken) -> list[tuple[dict[str, Any], str, str]]:
    """Every block: its whole form, and the kind and text of the deltas that make it."""
    blocks: list[tuple[dict[str, Any], str, str]] = []
    if spoken.thinking:
        whole = {"type": "thinking", "thinking": spoken.thinking, "signature": "signed"}
        blocks.append((whole, "thinking", spoken.thinking))
    if spoken.text:
        blocks.append(({"type": "text", "text": spoken.text}, "text", spoken.text))
    for i, call in enumerate(spoken.calls):
        # A whole answer holds the arguments as JSON; only a stream can hold anything else.
        value = call.arguments if not isinstance(call.arguments, str) else {}
        whole = {"type": "tool_use", "id": spoken.call_id(i), "name": call.name, "input": value}
        blocks.append((whole, "partial_json", call.text))
    return blocks


def _anthropic_message(spoken: Spoken, request: Request) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.json["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": spoken.tokens[0], "output_tokens": 1},
    }


def anthropic_whole(spoken: Spoken, request: Request) -> dict[str, Any]:
    return _anthropic_message(spoken, request) | {
        "content": [whole for whole, _, _ in _anthropic_blocks(spoken)],
        "stop_reason": spoken.stop or ("tool_use" if spoken.calls else "end_turn"),
        "usage": {"input_tokens": spoken.tokens[0], "output_tokens": spoken.tokens[1]},
    }


_DELTAS = {"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"}


def anthropic_events(spoken: Spoken, request: Request) -> Iterator[bytes]:
    def named(data: dict[str, Any]) -> bytes:
        return event(data, data["type"])

    yield named({"type": "message_start", "message": _anthropic_message(spoken, request)})
    yield named({"type": "ping"})
    for i, (whole, kind, text) in enumerate(_anthropic_blocks(spoken)):
        empty = {"text": "", "thinking": "", "signature": "", "input": {}}
        start = whole | {key: value for key, value in empty.items() if key in whole}
        yield named({"type": "content_block_start", "index": i, "content_block": start})
        for piece in pieces(text):
            delta = {"type": _DELTAS[kind], kind: piece}
            yield named({"type": "content_block_delta", "index": i, "delta": delta})
        if kind == "thinking":
            delta = {"type": "signature_delta", "signature": "signed"}
            yield named({"type": "content_block_delta", "index": i, "delta": delta})
        yield named({"type": "content_block_stop", "index": i})
    stop = spoken.stop or ("tool_use" if spoken.calls else "end_turn")
    yield named(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": spoken.tokens[1]},
        }
    )
    yield named({"type": "message_stop"})


OPENAI = Wire(openai_whole, openai_events)
ANTHROPIC = Wire(anthropic_whole, anthropic_events)
