"""The agent loop: ask the model, call the tools it wants, until it is done or a limit is reached."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from agenthood.errors import ProviderError
from agenthood.formats import dumps
from agenthood.runtime.chat.base import MAX_TOKENS, Message, ToolCall, Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.runtime.chat.base import ChatModel, Reply, ToolSpec
    from agenthood.runtime.prompt import Prompt

Ending: TypeAlias = Literal[
    "done", "steps", "tokens", "seconds", "repeated", "refused", "length", "failed", "interrupted"
]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go.

    Attributes:
        steps: replies of the model.
        tokens: input and output tokens in all.
        seconds: wall time.
        repeats: identical tool calls in a row; one more ends the run.
        reply_tokens: tokens per reply.
    """

    steps: int = 25
    tokens: int = 300_000
    seconds: float = 900.0
    repeats: int = 3
    reply_tokens: int = MAX_TOKENS


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
        usage: tokens so far.
        tools: tool -> calls so far.
        tool_errors: calls that failed.
        provider: who answered last.
        model: which model.
        started: monotonic time of the start, in seconds.
    """

    text: str = ""
    ending: Ending | None = None
    reason: str = ""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    tools: Counter[str] = field(default_factory=Counter)
    tool_errors: int = 0
    provider: str = ""
    model: str = ""
    started: float = field(default_factory=time.monotonic)

    def end(self, ending: Ending, reason: str = "") -> None:
        """Note why the run ended, the first reason only."""
        if self.ending is None:
            self.ending, self.reason = ending, reason

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
    try:
        async with asyncio.timeout(limits.seconds):
            await loop.run()
    except TimeoutError:
        progress.end("seconds", f"stopped after {limits.seconds:g} s")
    except ProviderError as exc:
        progress.end("failed", str(exc))
    except asyncio.CancelledError:
        progress.end("interrupted", "interrupted")
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
        progress.usage += reply.usage
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
            self._progress.tools[call.name] += 1
            self._messages.append(await self._call(call))

    def _repeats(self, call: ToolCall) -> bool:
        wanted = dumps([call.name, dict(call.arguments), call.error])
        self._in_a_row = self._in_a_row + 1 if wanted == self._last_call else 1
        self._last_call = wanted
        if self._in_a_row > self._limits.repeats:
            self._progress.end(
                "repeated", f"{call.name} was called {self._in_a_row} times in a row with the same input"
            )
            return True
        return False

    async def _call(self, call: ToolCall) -> Message:
        answer = Message("tool", "", tool_call_id=call.id)
        if call.error is not None:
            self._progress.tool_errors += 1
            return replace(answer, text=call.error, is_error=True)
        result = await self._tools.call(call)
        self._progress.tool_errors += result.is_error
        return replace(answer, text=result.text, is_error=result.is_error)
