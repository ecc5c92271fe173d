"""Several chat models as one: attempts in order of priority, pauses, and a circuit breaker for each."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from agenthood.breaker import Breaker
from agenthood.errors import (
    AllProvidersFailedError,
    ConfigError,
    ProviderError,
    ProviderRateLimitError,
    ProviderUnavailableError,
)
from agenthood.runtime.chat.base import MAX_TOKENS, ChatModel, Message, Reply, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agenthood.breaker import State

FAILURE_THRESHOLD = 3
COOLDOWN = 60.0
DEADLINE = 600.0
LONGEST_WAIT = 30.0
"""Seconds: a provider that asks for a longer pause is not waited for."""
_BACKOFF = 1.0

_log = logging.getLogger(__name__)


class FailoverChatModel:
    """Asks the first model that may be asked, and the next where that one fails.

    Failures that may pass (`retryable`) and those that another provider does not share (`elsewhere`) move on
    to the next model. A request that is itself at fault does not. After the last one the round begins again,
    up to `rounds` times, after the shortest pause that a provider asked for, or else one of 1 s, doubled.
    A reply of which text was already shown is not begun again elsewhere.

    Args:
        models: by priority, at least one.
        failure_threshold: failures in a row after which a model is left alone.
        cooldown: seconds for which it is.
        probe: after that, try it with one request before it counts as well again.
        rounds: how often each model is asked for one reply, at least 1.
        deadline: seconds for one reply in all; no pause goes beyond it.
        longest_wait: seconds that a pause may last.
        on_notice: is told once of each model that cannot work as it is configured (its key is refused, it
            does not exist); None logs a warning.
        clock: seconds that never go back.
        sleep: waits so many seconds.

    Raises:
        ConfigError: an argument that cannot work.
    """

    def __init__(  # noqa: PLR0913  (every option by name)
        self,
        models: Sequence[ChatModel],
        *,
        failure_threshold: int = FAILURE_THRESHOLD,
        cooldown: float = COOLDOWN,
        probe: bool = True,
        rounds: int = 3,
        deadline: float = DEADLINE,
        longest_wait: float = LONGEST_WAIT,
        on_notice: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if not models:
            raise ConfigError("no chat model was given: pass at least one")
        least = {
            "failure_threshold": (failure_threshold, 1),
            "rounds": (rounds, 1),
            "cooldown": (cooldown, 0),
        }
        for name, (value, minimum) in least.items():
            if not value >= minimum:
                raise ConfigError(f"{name} is {value!r}: it must be at least {minimum}")
        self._models = tuple(models)
        self._breakers = [Breaker(failure_threshold, cooldown, probe, clock) for _ in models]
        self._rounds = rounds
        self._deadline = deadline
        self._longest_wait = longest_wait
        self._notice = on_notice or _log.warning
        self._noticed: set[int] = set()
        self._clock = clock
        self._sleep = sleep

    @property
    def provider(self) -> str:
        """The provider of the first choice; a reply names the one that gave it."""
        return self._models[0].provider

    @property
    def model(self) -> str:
        """The model of the first choice; a reply names the one that gave it."""
        return self._models[0].model

    @property
    def states(self) -> Mapping[str, State]:
        """`provider/model` -> its circuit, by priority."""
        pairs = zip(self._models, self._breakers, strict=True)
        return {f"{model.provider}/{model.model}": breaker.state for model, breaker in pairs}

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        max_tokens: int = MAX_TOKENS,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer once, by whichever model can, as `ChatModel.reply`.

        Raises:
            ProviderError: the only model failed, or the request is at fault, or text was already shown.
            AllProvidersFailedError: several models failed; it names each with its cause.
        """
        shown = _Watched(on_text) if on_text else None

        def ask(model: ChatModel) -> Awaitable[Reply]:
            return model.reply(
                system=system, messages=messages, tools=tools, max_tokens=max_tokens, on_text=shown
            )

        end = self._clock() + self._deadline
        failures: dict[int, ProviderError] = {}
        for round_ in range(self._rounds):
            reply = await self._round(ask, shown, failures, end)
            if reply is not None:
                return reply
            pause = self._pause(round_, failures, end)
            if pause is None or round_ == self._rounds - 1:
                break
            await self._sleep(pause)
        raise self._summary(failures)

    async def aclose(self) -> None:
        """Close every model."""
        for model in self._models:
            await model.aclose()

    async def _round(
        self,
        ask: Callable[[ChatModel], Awaitable[Reply]],
        shown: _Watched | None,
        failures: dict[int, ProviderError],
        end: float,
    ) -> Reply | None:
        """Ask each model that may be asked, in order; None if none answered."""
        for i, (model, breaker) in enumerate(zip(self._models, self._breakers, strict=True)):
            if self._clock() >= end or not breaker.allow():
                continue
            try:
                reply = await self._within(ask(model), model, end)
            except ProviderError as error:
                self._note(i, error)
                if not (error.retryable or error.elsewhere) or (shown is not None and shown.begun):
                    raise
                failures[i] = error
            except BaseException:  # also a cancellation: a probe that told nothing must not count as one
                breaker.undecided()
                raise
            else:
                breaker.succeeded()
                return reply
        return None

    async def _within(self, asked: Awaitable[Reply], model: ChatModel, end: float) -> Reply:
        """The reply, or an error when the time for all attempts is over."""
        scope = asyncio.timeout(max(end - self._clock(), 0.0))
        try:
            async with scope:
                return await asked
        except TimeoutError:
            if not scope.expired():
                raise
        raise ProviderUnavailableError(
            f"{model.provider} {model.model!r}: no complete answer within {self._deadline:g} s in all: try again",
            provider=model.provider,
            model=model.model,
        )

    def _note(self, i: int, error: ProviderError) -> None:
        """Tell the circuit, and the user of what they have to repair."""
        breaker = self._breakers[i]
        if isinstance(error, ProviderRateLimitError) and error.retry_after is not None:
            breaker.hold(error.retry_after)
        if error.retryable:
            breaker.failed()
        elif error.elsewhere:
            breaker.failed(at_once=True)
            if i not in self._noticed and len(self._models) > 1:
                self._noticed.add(i)
                self._notice(str(error))
        else:
            breaker.undecided()

    def _pause(self, round_: int, failures: Mapping[int, ProviderError], end: float) -> float | None:
        """Seconds until it makes sense to ask again; None if it makes none."""
        waits = [
            breaker.opens_in or min(_BACKOFF * 2**round_, self._longest_wait)
            for i, breaker in enumerate(self._breakers)
            if i in failures and failures[i].retryable and breaker.state != "open"
        ]
        pause = min(waits, default=None)
        if pause is None or pause > self._longest_wait or self._clock() + pause >= end:
            return None
        return pause

    def _summary(self, failures: Mapping[int, ProviderError]) -> ProviderError:
        causes = [failures.get(i) or self._left_alone(i) for i in range(len(self._models))]
        return causes[0] if len(causes) == 1 else AllProvidersFailedError(causes)

    def _left_alone(self, i: int) -> ProviderUnavailableError:
        model, seconds = self._models[i], self._breakers[i].opens_in
        when = f"in {seconds:.0f} s" if seconds else "later"
        return ProviderUnavailableError(
            f"{model.provider} {model.model!r}: not asked since it failed before: try again {when}",
            provider=model.provider,
            model=model.model,
        )


class _Watched:
    """Passes text on and remembers whether any was shown."""

    def __init__(self, listener: Callable[[str], None]) -> None:
        self._listener = listener
        self.begun = False

    def __call__(self, text: str) -> None:
        self.begun = self.begun or bool(text)
        self._listener(text)
