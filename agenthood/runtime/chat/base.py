"""The `ChatModel` protocol: what every provider offers, and the values that go in and come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Role: TypeAlias = Literal["user", "assistant", "tool"]
Stop: TypeAlias = Literal["end", "tools", "length", "refused"]

MAX_TOKENS = 4096
"""Tokens that a reply may have unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it.

    Attributes:
        name: letters, digits, `_` and `-`, at most 64, as every provider takes it.
        description: what it does and when to use it.
        parameters: JSON schema of its arguments, of type `object`.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's wish to have a tool called.

    Attributes:
        id: pairs the call with its result; unique within a reply, never empty.
        name: the tool, as the model wrote it: it may be one that was never offered.
        arguments: what to call it with; empty if `error` is set.
        error: why the arguments are unusable (no JSON object); to be told to the model as the result.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Native:
    """A reply as its provider wrote it, for what the other fields cannot hold, such as signed thinking.

    Models that think refuse to go on without it. It goes back unchanged to the same model, and to no other.

    Attributes:
        provider: who wrote it.
        model: the model that wrote it.
        content: its parts in that provider's format.
    """

    provider: str
    model: str
    content: tuple[Mapping[str, Any], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation; the system prompt is none.

    Attributes:
        role: who speaks. `tool` carries the result of one call.
        text: what is said; empty only where an assistant just calls tools, or a tool gave nothing.
        tool_calls: what the assistant wants called; empty for other roles.
        tool_call_id: the call that a `tool` message answers; None for other roles.
        is_error: the tool failed; `text` says how.
        native: an assistant's turn as its provider wrote it; None where text and calls say all.
    """

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens spent, at least 0; both are 0 where the provider does not say."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered.

    Attributes:
        text: everything it said; may be empty beside tool calls.
        tool_calls: what it wants called, in its order, each with its result to come as a `tool` message.
        stop: `tools` if and only if there are calls to make; `length` cut off at `max_tokens` (its calls
            are dropped, since the last may be incomplete); `refused` by the model or the provider's filter.
        usage: tokens of this reply, those of the prompt included.
        provider: who answered, which after a failover is another than the first choice.
        model: the model that answered, as it was asked for.
        native: the reply as the provider wrote it; None where text and calls say all.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    stop: Stop = "end"
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    native: Native | None = None

    def message(self) -> Message:
        """The reply as the assistant's turn, to be put after the messages it answered."""
        return Message("assistant", self.text, self.tool_calls, native=self.native)


@runtime_checkable
class ChatModel(Protocol):
    """One model at one provider, or several behind a failover."""

    @property
    def provider(self) -> str:
        """The provider's name, such as `anthropic`."""
        ...

    @property
    def model(self) -> str:
        """The model's name as the provider knows it."""
        ...

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        max_tokens: int = MAX_TOKENS,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the conversation once; tools are not called here.

        Args:
            system: the system prompt; empty for none.
            messages: at least one, the oldest first. Every tool call is followed by its result.
            tools: what the model may ask for.
            max_tokens: how long the reply may be.
            on_text: is given each piece of text as it comes, in order; together they are `Reply.text`. An
                exception of its own ends the reply and is passed on. Without it the answer is not streamed.

        Raises:
            ProviderError: no reply; see its branches. Nothing in it holds a key.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections; replying afterwards is an error."""
        ...
