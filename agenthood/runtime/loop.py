"""The agent loop: ask the model, call the tools it wants, until it is done or a limit is reached."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agenthood.errors import AgenthoodError, InvalidInputError
from agenthood.formats import dumps, storable
from agenthood.redaction import redact
from agenthood.runtime.chat.base import Message, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.runtime.chat.base import ChatModel, Reply, ToolSpec
    from agenthood.runtime.prompt import Prompt

Ending: TypeAlias = Literal[
    "done", "steps", "tokens", "seconds", "repeated", "refused", "length", "failed", "interrupted"
]

REPLY_TOKENS = 16_000
"""Room for one reply; what a model thinks before it answers counts too."""
_MAX_NAME = 64
_MAX_TRACE = 100
_TRACED = 400
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go.

    Attributes:
        steps: replies of the model.
        tokens: input and output tokens in all; looked at after each reply.
        seconds: wall time.
        repeats: identical tool calls in a row; one more ends the run.
        reply_tokens: tokens per reply, thinking included.
    """

    steps: int = 25
    tokens: int = 300_000
    seconds: float = 900.0
    repeats: int = 3
    reply_tokens: int = REPLY_TOKENS


class ToolResult(Protocol):
    """What a tool gave back."""

    @property
    def text(self) -> str:
        """The text for the model."""
        ...

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        ...


class Tools(Protocol):
    """What the model may call."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered."""
        ...

    async def call(self, call: ToolCall) -> ToolResult:
        """Call one; a model's mistake is a result, not an exception."""
        ...


@dataclass(slots=True)
class Progress:
    """How far a run has come; complete also when it was interrupted.

    Attributes:
        text: what the model said last.
        ending: why it ended; None while it runs.
        reason: what a person should know about the ending; empty if it is done.
        steps: replies so far.
        spent: model -> tokens so far; a failover makes it several.
        tools: tool -> calls so far.
        tool_errors: calls that failed.
        trace: a line for each of the latest calls and its result: what the agent did and saw.
        provider: who answered last.
        model: which model.
        started: monotonic time of the start, in seconds.
    """

    text: str = ""
    ending: Ending | None = None
    reason: str = ""
    steps: int = 0
    spent: dict[str, Usage] = field(default_factory=dict)
    tools: Counter[str] = field(default_factory=Counter)
    tool_errors: int = 0
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_TRACE))
    provider: str = ""
    model: str = ""
    started: float = field(default_factory=time.monotonic)

    def end(self, ending: Ending, reason: str = "") -> None:
        """Note why the run ended, the first reason only."""
        if self.ending is None:
            self.ending, self.reason = ending, reason

    def break_off(self, ending: Ending, reason: str) -> None:
        """Note that something from outside ended the run, whatever had ended it before."""
        self.ending, self.reason = ending, reason

    def spend(self, model: str, usage: Usage) -> None:
        """Add the tokens of a reply of `model`."""
        self.spent[model] = self.spent.get(model, Usage()) + usage

    @property
    def usage(self) -> Usage:
        """Tokens of all models so far."""
        return sum(self.spent.values(), Usage())

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told what happens.

    Attributes:
        text: given each piece of the model's text as it comes; None to get whole replies without streaming.
        tool: given each call before it is made.
    """

    text: Callable[[str], None] | None = None
    tool: Callable[[ToolCall], None] | None = None


async def run_loop(  # noqa: PLR0913  the parts of one run
    model: ChatModel,
    tools: Tools,
    prompt: Prompt,
    *,
    limits: Limits,
    progress: Progress,
    listener: Listener | None = None,
) -> None:
    """Run until the model is done or a limit is reached; `progress` says which.

    Args:
        model: who answers.
        tools: what it may call.
        prompt: what it is sent at first.
        limits: how far it may go.
        progress: is kept up to date all the time, so that an interrupted run can be recorded.
        listener: who is told.

    Raises:
        asyncio.CancelledError: it was interrupted; `progress` says so.
    """
    loop = _Loop(model, tools, prompt, limits, progress, listener or Listener())
    scope = asyncio.timeout(limits.seconds)
    try:
        async with scope:
            await loop.run()
    except TimeoutError as exc:
        if not scope.expired():  # one from within says nothing about the limit
            progress.end("failed", f"failed with {exc!r:.200}")
            raise
        progress.end("seconds", f"stopped after {limits.seconds:g} s")
    except AgenthoodError as exc:  # the provider's failure, or an SDK that is not installed
        progress.end("failed", str(exc))
    except asyncio.CancelledError:
        progress.break_off("interrupted", "interrupted")
        raise


class _Loop:
    def __init__(  # noqa: PLR0913, PLR0917  the parts of one run
        self,
        model: ChatModel,
        tools: Tools,
        prompt: Prompt,
        limits: Limits,
        progress: Progress,
        listener: Listener,
    ) -> None:
        self._model = model
        self._tools = tools
        self._prompt = prompt
        self._limits = limits
        self._progress = progress
        self._listener = listener
        self._messages = [Message("user", prompt.user)]
        self._last_call = ""
        self._in_a_row = 0

    async def run(self) -> None:
        while self._progress.ending is None:
            reply = await self._reply()
            self._messages.append(reply.message())
            if reply.stop != "tools":
                self._finish(reply)
            elif not self._reached():
                await self._call_all(reply.tool_calls)

    async def _reply(self) -> Reply:
        reply = await self._model.reply(
            system=self._prompt.system,
            messages=self._messages,
            tools=self._tools.specs,
            max_tokens=self._limits.reply_tokens,
            on_text=self._listener.text,
        )
        progress = self._progress
        progress.steps += 1
        progress.spend(reply.model, reply.usage)
        progress.provider, progress.model = reply.provider, reply.model
        progress.text = reply.text or progress.text
        return reply

    def _finish(self, reply: Reply) -> None:
        match reply.stop:
            case "length":
                self._progress.end("length", f"a reply was cut off at {self._limits.reply_tokens} tokens")
            case "refused":
                self._progress.end("refused", "the model refused")
            case _:
                self._progress.end("done")

    def _reached(self) -> bool:
        """Whether a limit forbids another reply."""
        if self._progress.steps >= self._limits.steps:
            self._progress.end("steps", f"stopped after {self._limits.steps} steps")
        usage = self._progress.usage
        if usage.input_tokens + usage.output_tokens >= self._limits.tokens:
            self._progress.end("tokens", f"stopped after {self._limits.tokens} tokens")
        return self._progress.ending is not None

    async def _call_all(self, calls: tuple[ToolCall, ...]) -> None:
        for call in calls:
            if self._repeats(call):
                return
            if self._listener.tool is not None:
                self._listener.tool(call)
            self._progress.tools[call.name[:_MAX_NAME]] += 1
            answer = await self._call(call)
            self._progress.tool_errors += answer.is_error
            self._progress.trace.append(_traced(call, answer))
            self._messages.append(answer)

    def _repeats(self, call: ToolCall) -> bool:
        wanted = _wanted(call)
        self._in_a_row = self._in_a_row + 1 if wanted == self._last_call else 1
        self._last_call = wanted
        if self._in_a_row > self._limits.repeats:
            name = call.name[:_MAX_NAME]
            self._progress.end(
                "repeated", f"{name} was called {self._in_a_row} times in a row with the same input"
            )
            return True
        return False

    async def _call(self, call: ToolCall) -> Message:
        answer = Message("tool", "", tool_call_id=call.id)
        if call.error is not None:
            return replace(answer, text=call.error, is_error=True)
        try:
            result = await self._tools.call(call)
        except Exception as exc:  # noqa: BLE001  a fault of one tool is for the model to get round, not the run's end
            _log.debug("tool %.80r failed", call.name, exc_info=True)
            return replace(answer, text=redact(f"the tool failed: {exc!r:.200}"), is_error=True)
        # No encoder takes lone surrogates, wherever a tool found them.
        return replace(answer, text=storable(result.text), is_error=result.is_error)


def _wanted(call: ToolCall) -> str:
    """What a call asks for, to compare it with others."""
    try:
        return dumps([call.name, dict(call.arguments), call.error])
    except InvalidInputError:  # arguments that JSON has no form for, such as NaN
        return repr((call.name, call.arguments, call.error))


def _traced(call: ToolCall, answer: Message) -> str:
    how = "failed: " if answer.is_error else ""
    return f"{call.name[:_MAX_NAME]} {_wanted(call)[:_TRACED]} -> {how}{answer.text[:_TRACED]}"
