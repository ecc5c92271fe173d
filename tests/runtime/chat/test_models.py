"""Both SDK clients against a real local server: what is sent, what comes back, and what each failure becomes."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.embedding.http import HttpEmbedder
from agenthood.errors import (
    ConfigError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderResponseError,
    ProviderUnavailableError,
)
from agenthood.runtime.chat.anthropic import AnthropicChatModel
from agenthood.runtime.chat.base import ChatModel, Message, Reply, ToolCall, ToolSpec, Usage
from agenthood.runtime.chat.openai import OpenAIChatModel
from agenthood.runtime.chat.providers import KNOWN, Provider
from runtime.provider_formats import ANTHROPIC, OPENAI, event
from runtime.provider_server import (
    Call,
    Server,
    cut,
    drip,
    hang,
    no_answer,
    provider_server,
    raw,
    refuse,
    say,
    send_events,
    status,
    stream_of,
)

if TYPE_CHECKING:
    from agenthood.runtime.chat.sdk import SdkChatModel

KEY = "sk-test-aaaaaaaaaaaaaaaaaaaaaaaa"
CUSTOM = Provider("box", "", "")
BOTH = pytest.mark.parametrize("name", ["openai", "anthropic"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
READ = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def model_at(server: Server, name: str, **options: Any) -> SdkChatModel:
    known = KNOWN.get(name, CUSTOM)
    kind = AnthropicChatModel if known.format == "anthropic" else OpenAIChatModel
    return kind(known, **{"api_key": KEY, "base_url": server.base_url, "timeout": 5.0} | options)


async def ask(model: ChatModel, *messages: Message, **options: Any) -> Reply:
    try:
        return await model.reply(
            system="be brief", messages=messages or [Message("user", "hello?")], **options
        )
    finally:
        await model.aclose()


async def failure(answer: Any, name: str, *, streamed: bool = False, **options: Any) -> ProviderError:
    listener = {"on_text": (lambda _: None)} if streamed else {}
    with provider_server([answer]) as server, pytest.raises(ProviderError) as caught:
        await ask(model_at(server, name, **options), **listener)
    assert len(server.requests) == 1, "a model sends each request once"
    return caught.value


@BOTH
@STREAMED
async def test_a_reply(name: str, streamed: bool) -> None:
    """Text, tokens and who replied come back; streamed, the pieces together are the text."""
    pieces: list[str] = []
    with provider_server([say("good morning, world \N{SUN BEHIND CLOUD}")]) as server:
        model = model_at(server, name)
        reply = await ask(model, on_text=pieces.append if streamed else None)
    text = "good morning, world \N{SUN BEHIND CLOUD}"
    assert reply == Reply(text, (), "end", Usage(11, 7), name, model.model)
    assert "".join(pieces) == (text if streamed else "")
    assert (len(pieces) > 2) == streamed


@BOTH
@STREAMED
async def test_several_calls_at_once(name: str, streamed: bool) -> None:
    """Calls come back in order with their arguments, beside the text."""
    calls = [Call("read_file", {"path": "a.py"}, "id-a"), Call("read_file", {"path": "b.py"}, "id-b")]
    with provider_server([say("looking", calls=calls)]) as server:
        reply = await ask(model_at(server, name), tools=[READ], on_text=[].append if streamed else None)
    assert reply.stop == "tools"
    assert reply.text == "looking"
    assert reply.tool_calls == (
        ToolCall("id-a", "read_file", {"path": "a.py"}),
        ToolCall("id-b", "read_file", {"path": "b.py"}),
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('{"path": "a', "not JSON"),
        ("[1, 2]", "no JSON object"),
        ('"text"', "no JSON object"),
        ('{"path": NaN}', "not JSON"),
    ],
)
@pytest.mark.parametrize(("name", "streamed"), [("openai", False), ("openai", True), ("anthropic", True)])
async def test_arguments_that_are_no_object(name: str, streamed: bool, written: str, reason: str) -> None:
    """Arguments that are no JSON object become an error to tell the model; the reply itself is good."""
    calls = [Call("read_file", written), Call("read_file", {"path": "b.py"})]
    with provider_server([say(calls=calls, text="")]) as server:
        reply = await ask(model_at(server, name), tools=[READ], on_text=[].append if streamed else None)
    bad, good = reply.tool_calls
    assert (dict(bad.arguments), dict(good.arguments)) == ({}, {"path": "b.py"})
    assert reason in (bad.error or "")
    assert good.error is None


@BOTH
async def test_a_call_without_arguments(name: str) -> None:
    """A tool without parameters is called with an empty object, even where the model wrote nothing."""
    with provider_server([say("", calls=[Call("list_files", "")])]) as server:
        reply = await ask(model_at(server, name), tools=[READ], on_text=[].append)
    assert reply.tool_calls[0].error is None
    assert dict(reply.tool_calls[0].arguments) == {}


CONVERSATION = (
    Message("user", "compare them"),
    Message("assistant", "", (ToolCall("id-a", "read_file", {"path": "a"}), ToolCall("id/b", "read_file"))),
    Message("tool", "contents", tool_call_id="id-a"),
    Message("tool", "no such file", tool_call_id="id/b", is_error=True),
    Message("user", "well?"),
)


async def test_the_conversation_as_openai_wants_it() -> None:
    """The system prompt leads; calls carry their arguments as text; every result is a turn of its own."""
    with provider_server([say("done")]) as server:
        await ask(model_at(server, "openai"), *CONVERSATION, tools=[READ], max_tokens=77)
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["max_completion_tokens"] == 77
    assert [turn["role"] for turn in sent.json["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    calls = sent.json["messages"][2]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"path": "a"}, {}]
    assert sent.json["messages"][4] == {
        "role": "tool",
        "tool_call_id": "id/b",
        "content": "Error: no such file",
    }
    assert sent.json["tools"][0]["function"]["parameters"] == READ.parameters


async def test_the_conversation_as_anthropic_wants_it() -> None:
    """Roles alternate: both results and the next words of the user are one turn, with ids that are allowed."""
    with provider_server([say("done")]) as server:
        await ask(model_at(server, "anthropic"), *CONVERSATION, tools=[READ], max_tokens=77)
    sent = server.requests[0]
    assert sent.path == "/v1/messages"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert (sent.json["system"], sent.json["max_tokens"]) == ("be brief", 77)
    assert [turn["role"] for turn in sent.json["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent.json["messages"][2]["content"]] == [
        "tool_result", "tool_result", "text",
    ]  # fmt: skip
    assert sent.json["messages"][2]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "id_b",
        "content": "no such file",
        "is_error": True,
    }
    assert sent.json["messages"][1]["content"][1]["id"] == "id_b"
    assert sent.json["tools"][0]["input_schema"] == READ.parameters


@STREAMED
async def test_thinking_goes_back_to_the_model_that_thought(streamed: bool) -> None:
    """Signed thinking comes back unchanged with the next request, but never to another model."""
    script = [
        say("let me see", calls=[Call("read_file", {"path": "a"})], thinking="hmm, a file"),
        say("done"),
    ]
    with provider_server([*script, say("other")]) as server:
        model = model_at(server, "anthropic")
        question = Message("user", "what is in a?")
        first = await model.reply(
            system="", messages=[question], tools=[READ], on_text=[].append if streamed else None
        )
        turns = (question, first.message(), Message("tool", "42", tool_call_id="call_0"))
        await ask(model, *turns, tools=[READ])
        await ask(model_at(server, "anthropic", model="another-model"), *turns, tools=[READ])
    assert first.text == "let me see"
    back, other = (request.json["messages"][1]["content"] for request in server.requests[1:])
    assert back[0] == {"type": "thinking", "thinking": "hmm, a file", "signature": "signed"}
    assert back[2]["input"] == {"path": "a"}
    assert [block["type"] for block in back] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in other] == ["text", "tool_use"]


@BOTH
@STREAMED
@pytest.mark.parametrize(
    ("reasons", "stop"),
    [
        ({"openai": "length", "anthropic": "max_tokens"}, "length"),
        ({"openai": "content_filter", "anthropic": "refusal"}, "refused"),
        ({"openai": "stop", "anthropic": "end_turn"}, "tools"),
        ({"openai": "something new", "anthropic": "something new"}, "tools"),
    ],
)
async def test_why_it_stopped(name: str, streamed: bool, reasons: dict[str, str], stop: str) -> None:
    """Calls of a reply that was cut off or refused are dropped; with any other reason they are to be made."""
    answer = say("so far", calls=[Call("read_file", {"path": "a"})], stop=reasons[name])
    with provider_server([answer]) as server:
        reply = await ask(model_at(server, name), tools=[READ], on_text=[].append if streamed else None)
    assert reply.stop == stop
    assert bool(reply.tool_calls) == (stop == "tools")


@BOTH
@pytest.mark.parametrize("text", ["lone \ud800 half", "", "  "])
async def test_odd_texts_can_be_sent(name: str, text: str) -> None:
    """Lone surrogates and blank turns do not fail the request."""
    turns = [
        Message("user", "x" + text),
        Message("assistant", text, (ToolCall("i", "f", {"a": text}),)),
        Message("tool", text, tool_call_id="i"),
    ]
    with provider_server([say("fine")]) as server:
        assert (await ask(model_at(server, name), *turns, tools=[READ])).text == "fine"


@BOTH
@STREAMED
@pytest.mark.parametrize(
    ("code", "kind", "retryable", "elsewhere", "says"),
    [
        (400, ProviderRequestError, False, False, "change the request"),
        (401, ProviderAuthError, False, True, "_API_KEY"),
        (402, ProviderRequestError, False, True, "credit"),
        (403, ProviderAuthError, False, True, "rights"),
        (404, ProviderRequestError, False, True, "--model"),
        (413, ProviderRequestError, False, False, "shorten"),
        (422, ProviderRequestError, False, False, "change the request"),
        (429, ProviderRateLimitError, True, True, "try again later"),
        (500, ProviderUnavailableError, True, True, "try again later"),
        (503, ProviderUnavailableError, True, True, "try again later"),
        (529, ProviderUnavailableError, True, True, "try again later"),
    ],
)
async def test_every_status(  # noqa: PLR0913, PLR0917
    name: str, streamed: bool, code: int, kind: type, retryable: bool, elsewhere: bool, says: str
) -> None:
    """Each status becomes the error that says whether to try again, whether elsewhere, and what to do."""
    error = await failure(refuse(code, "the reason given"), name, streamed=streamed)
    assert type(error) is kind
    assert (error.retryable, error.elsewhere) == (retryable, elsewhere)
    assert says in str(error)
    assert (error.provider, error.model) == (name, KNOWN[name].model)
    assert str(error).startswith(f"{name} {KNOWN[name].model!r}: ")
    assert ("the reason given" in str(error)) == (code != 401)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.__dict__) == (str(error), error.__dict__)


@BOTH
@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "2"}, 2.0, 2.0),
        ({"retry-after": "0.5"}, 0.5, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.25),
        ({"retry-after": "-3"}, 0.0, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, 0.0),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, 1e8, 1e10),
    ],
)
async def test_when_to_come_back(name: str, headers: dict[str, str], low: float, high: float) -> None:
    """A rate limit knows the seconds that the provider asked for."""
    error = await failure(refuse(429, "slow down", "rate_limit_error", **headers), name)
    assert isinstance(error, ProviderRateLimitError)
    assert error.retry_after is not None
    assert low <= error.retry_after <= high


@BOTH
@pytest.mark.parametrize("headers", [{}, {"retry-after": "soon"}, {"retry-after": "nan"}])
async def test_no_time_to_come_back(name: str, headers: dict[str, str]) -> None:
    """Without a usable header the error says that the provider did not say."""
    error = await failure(refuse(429, "slow down", "rate_limit_error", **headers), name)
    assert isinstance(error, ProviderRateLimitError)
    assert error.retry_after is None


async def test_a_used_up_quota_is_no_rate_limit() -> None:
    """Waiting does not help where the quota is used up."""
    error = await failure(refuse(429, "quota", "insufficient_quota"), "openai")
    assert isinstance(error, ProviderRequestError)
    assert (error.retryable, error.elsewhere) == (False, True)


@BOTH
@STREAMED
@pytest.mark.parametrize("answer", [hang, drip], ids=["hang", "drip"])
async def test_a_deadline_of_its_own(name: str, streamed: bool, answer: Any) -> None:
    """A server that says nothing, or drips, is given up on in time."""
    started = time.monotonic()
    error = await failure(answer, name, streamed=streamed, timeout=0.4)
    assert time.monotonic() - started < 2
    assert isinstance(error, ProviderUnavailableError)
    assert "within 0.4 s" in str(error)


@BOTH
async def test_a_slow_stream_is_given_up_on_in_time(name: str) -> None:
    """A stream that goes on for ever, each piece in time, ends at the deadline."""
    error = await failure(say("long " * 100, pause=0.05), name, streamed=True, timeout=0.4)
    assert isinstance(error, ProviderUnavailableError)


@BOTH
@STREAMED
@pytest.mark.parametrize("answer", [cut, no_answer], ids=["cut", "no answer"])
async def test_a_cut_connection(name: str, streamed: bool, answer: Any) -> None:
    """A connection that ends early is unavailable, which may pass."""
    error = await failure(answer, name, streamed=streamed)
    assert isinstance(error, ProviderUnavailableError)
    assert "broke off" in str(error)


@BOTH
@pytest.mark.parametrize("events", range(1, 6))
async def test_a_cut_stream(name: str, events: int) -> None:
    """A stream that is cut is no reply, wherever it is cut."""
    error = await failure(
        say("hello there", calls=[Call("f", {"a": 1})], cut_after=events), name, streamed=True
    )
    assert isinstance(error, ProviderUnavailableError)


@BOTH
async def test_a_stream_that_ends_well_but_early(name: str) -> None:
    """A proxy may end the connection properly in the middle; without the provider's own end it is no reply."""

    def early(handler: Any, request: Any) -> None:
        wire = ANTHROPIC if request.anthropic else OPENAI
        send_events(handler, list(wire.events(say("hello there"), request))[:3], cut_after=None, pause=0)

    error = await failure(early, name, streamed=True)
    assert isinstance(error, ProviderUnavailableError)
    assert "broke off" in str(error)


@BOTH
async def test_nobody_listens(name: str) -> None:
    """An address where nothing listens says so, with the address and what to do."""
    with provider_server() as server:
        pass
    with pytest.raises(ProviderUnavailableError, match=f"not reached at '{server.base_url}'.*--provider"):
        await ask(model_at(server, name))


NO_REPLIES = {
    "no JSON": b'{"choices": [nope',
    "empty": b"",
    "not UTF-8": b'{"choices": "\xff\xfe"}',
    "a list": b"[1, 2]",
    "no choices": b'{"choices": [], "content": null}',
    "text for choices": b'{"choices": "abc", "content": "abc"}',
    "a choice that is none": b'{"choices": [17], "content": 17}',
    "no message": b'{"choices": [{"message": null}], "content": {}}',
    "null": b"null",
    "deep": b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@BOTH
@STREAMED
@pytest.mark.parametrize("body", NO_REPLIES.values(), ids=NO_REPLIES)
async def test_no_reply_at_all(name: str, streamed: bool, body: bytes) -> None:
    """What is no reply is an error that says so, never an empty reply."""
    error = await failure(raw(body), name, streamed=streamed)
    assert isinstance(error, ProviderResponseError), repr(error)


@BOTH
async def test_an_event_that_is_no_json(name: str) -> None:
    """A broken event ends the reply with an error that says so."""
    error = await failure(stream_of(event("{nope", "message_start")), name, streamed=True)
    assert isinstance(error, ProviderResponseError)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", ProviderUnavailableError),
        ("rate_limit_error", ProviderRateLimitError),
        ("invalid_request_error", ProviderRequestError),
        ("something_new", ProviderUnavailableError),
    ],
)
@BOTH
async def test_an_error_within_a_stream(name: str, kind: str, expected: type) -> None:
    """An error that comes after status 200 is taken for what its type says."""
    body = {"type": "error", "error": {"type": kind, "message": "too busy"}}
    error = await failure(stream_of(event(body, "error")), name, streamed=True)
    assert type(error) is expected
    assert "too busy" in str(error)


@BOTH
async def test_redirects_are_not_followed(name: str) -> None:
    """A redirect could take the key to another host."""
    with provider_server([say("caught")]) as other:
        error = await failure(status(307, b"", Location=f"{other.base_url}/messages"), name)
    assert isinstance(error, ProviderRequestError)
    assert "final address" in str(error)
    assert other.requests == []


@BOTH
@STREAMED
@pytest.mark.parametrize("code", [400, 401, 403, 404, 429, 500])
async def test_the_key_is_nowhere(
    name: str, streamed: bool, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that quotes the key does not get it into the error, its causes, a traceback or the log."""
    caplog.set_level(logging.DEBUG)
    error = await failure(refuse(code, f"bad key {KEY} given"), name, streamed=streamed)
    seen = [*traceback.format_exception(error), repr(error), repr(error.__dict__), caplog.text]
    seen += [str(record.__dict__) for record in caplog.records]
    assert not [text for text in seen if KEY in text]
    assert (error.__context__, error.__cause__) == (None, None)


@BOTH
async def test_a_key_of_no_known_shape_is_nowhere_either(name: str) -> None:
    """The key itself is blanked, whatever it looks like, also where it is cut by the end of the excerpt."""
    key = "plain-word-key"
    error = await failure(refuse(500, "x" * 190 + f" {key} and {key}"), name, api_key=key)
    assert "plain" not in str(error)


@BOTH
async def test_the_key_is_not_shown(name: str) -> None:
    """The model's own `repr` has no key."""
    with provider_server() as server:
        model = model_at(server, name)
    assert KEY not in repr(model)
    assert KEY not in repr(model._failures)


@BOTH
@pytest.mark.parametrize("key", ["sk-with space", "sk-line\nbreak", "sk-\N{SNOWMAN}"])
def test_a_key_that_is_none(name: str, key: str) -> None:
    """A key that no header can hold is refused without being quoted."""
    with provider_server() as server, pytest.raises(ConfigError) as caught:
        model_at(server, name, api_key=key)
    assert key not in str(caught.value)


@BOTH
async def test_the_listeners_own_error_is_passed_on(name: str) -> None:
    """An error of whoever shows the text is not mistaken for one of the provider."""

    def broken(_: str) -> None:
        json.loads("nope")

    with provider_server([say("hello")]) as server, pytest.raises(json.JSONDecodeError):
        await ask(model_at(server, name), on_text=broken)


async def test_no_key_is_asked_for_by_the_server() -> None:
    """Without a key the error says that none was sent."""
    error = await failure(refuse(401, "who are you?"), "openai", api_key=None)
    assert "none was sent" in str(error)


async def test_a_server_of_ones_own() -> None:
    """Any OpenAI-compatible server works by its address, without a key, with the parameter that all know."""
    with provider_server([say("hi")]) as server:
        reply = await ask(model_at(server, "box", model="tiny", api_key=None))
    assert (reply.provider, reply.model) == ("box", "tiny")
    assert server.requests[0].json["max_tokens"] == 4096


async def test_an_account_at_openai_is_nobody_elses_business(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the SDK reads from the environment for OpenAI goes to no other provider."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    with provider_server([say("a"), say("b")]) as server:
        await ask(model_at(server, "groq"))
        await ask(model_at(server, "openai"))
    groq, own = (request.header_values() for request in server.requests)
    assert "secret" not in groq
    assert "org-secret" in own


def test_a_server_of_ones_own_needs_a_model() -> None:
    """A provider without a default model wants one named."""
    with provider_server() as server, pytest.raises(ConfigError, match="--model"):
        model_at(server, "box")


REFUSALS = {
    "stream_options": "Unrecognized request argument supplied: stream_options",
    "max_completion_tokens": "Unknown parameter: max_completion_tokens",
    "reasoning_effort": "Function tools with reasoning_effort are not supported: set it to 'none'",
}


@pytest.mark.parametrize("option", REFUSALS)
async def test_what_a_server_does_not_know_is_left_out(option: str) -> None:
    """An option that a server refuses by name is left out or replaced, and stays so."""
    with provider_server([refuse(400, REFUSALS[option]), say("yes"), say("again")]) as server:
        model = model_at(server, "openai")
        for expected in ("yes", "again"):
            pieces: list[str] = []
            reply = await model.reply(
                system="", messages=[Message("user", "?")], tools=[READ], on_text=pieces.append
            )
            assert reply.text == "".join(pieces) == expected
        await model.aclose()
    first, *later = (request.json for request in server.requests)
    assert len(later) == 2
    for sent in later:
        changed = {
            "stream_options": "stream_options" not in sent,
            "max_completion_tokens": sent.get("max_tokens") == first["max_completion_tokens"],
            "reasoning_effort": sent.get("reasoning_effort") == "none",
        }
        assert [name for name, done in changed.items() if done] == [option]


async def test_a_server_that_refuses_everything() -> None:
    """What is refused again after it was left out is an error, not an endless loop."""
    with (
        provider_server(lambda _: refuse(400, " ".join(REFUSALS.values()))) as server,
        pytest.raises(ProviderRequestError),
    ):
        await ask(model_at(server, "openai"), on_text=[].append, tools=[READ])
    assert len(server.requests) <= 5


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


async def test_calls_that_all_have_the_index_0() -> None:
    """Servers that give every call the same index are understood by the ids, and calls without ids get some."""

    def part(identity: str | None, arguments: str) -> dict[str, Any]:
        return {"index": 0, "id": identity, "function": {"name": "f", "arguments": arguments}}

    first, second = part("one", '{"a": 1}'), part("two", '{"a": 2}')
    answer = stream_of(chunk({"tool_calls": [first, second]}), chunk({}, "stop"), event("[DONE]"))
    nameless = stream_of(chunk({"tool_calls": [part(None, "{}")]}), chunk({}, "stop"), event("[DONE]"))
    with provider_server([answer, nameless]) as server:
        model = model_at(server, "openai")
        reply = await ask(model, on_text=[].append)
        unnamed = await ask(model, on_text=[].append)
    assert reply.tool_calls == (ToolCall("one", "f", {"a": 1}), ToolCall("two", "f", {"a": 2}))
    assert unnamed.tool_calls == (ToolCall("call_0", "f", {}),)


def test_no_sdk_is_loaded_before_the_first_reply() -> None:
    """Making a model and its settings loads neither SDK nor HTTP library."""
    code = (
        "import sys\n"
        "from agenthood.runtime.chat.factory import create_chat_model\n"
        "from agenthood.runtime.chat.settings import load_chat_settings\n"
        "for name in ('openai', 'anthropic'):\n"
        "    environ = {'OPENAI_API_KEY': 'k', 'ANTHROPIC_API_KEY': 'k', 'AGENTHOOD_PROVIDER': name}\n"
        "    create_chat_model(load_chat_settings('absent', environ=environ))\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"openai", "anthropic", "httpx2", "numpy", "pydantic"}.isdisjoint(done.stdout.split())


def test_a_missing_sdk_names_the_extra() -> None:
    """Without the SDK the error says which extra to install."""
    code = (
        "import sys, asyncio\n"
        "sys.modules['{0}'] = None\n"
        "from agenthood.runtime.chat.{0} import {1} as M\n"
        "from agenthood.runtime.chat.base import Message\n"
        "from agenthood.runtime.chat.providers import KNOWN\n"
        "try: asyncio.run(M(KNOWN['{0}']).reply(system='', messages=[Message('user', 'x')]))\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    for name, kind in (("openai", "OpenAIChatModel"), ("anthropic", "AnthropicChatModel")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(name, kind)], capture_output=True, text=True, check=True
        )
        assert done.stdout == (
            f"MissingExtraError {name} is not installed: pip install 'agenthood-learning[{name}]'\n"
        )


@BOTH
def test_both_are_chat_models(name: str) -> None:
    """Both fulfil the protocol."""
    with provider_server() as server:
        assert isinstance(model_at(server, name), ChatModel)


async def test_the_server_gives_vectors_too() -> None:
    """One server does for an agent and its embedder: the same text has the same vector."""
    with provider_server() as server:
        embedder = HttpEmbedder("tiny", base_url=server.base_url)
        vectors = await embedder.embed(["one text", "another", "one text"])
        await embedder.aclose()
    assert vectors.shape == (3, 64)
    assert (vectors[0] == vectors[2]).all()
    assert not (vectors[0] == vectors[1]).all()
    assert (len(server.requests), len(server.embedding_requests)) == (0, 2)
