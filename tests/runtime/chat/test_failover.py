"""Failover and its circuit breakers, with a clock that the test turns; the models are scripted or real."""

from __future__ import annotations

import asyncio
import logging
import pickle
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.breaker import Breaker
from agenthood.errors import (
    AllProvidersFailedError,
    ConfigError,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderUnavailableError,
)
from agenthood.runtime.chat.base import ChatModel, Message, Reply
from agenthood.runtime.chat.failover import FailoverChatModel
from agenthood.runtime.chat.openai import OpenAIChatModel
from agenthood.runtime.chat.providers import KNOWN
from agenthood.runtime.chat.testing import Asked, ScriptedChatModel
from runtime.provider_server import hang, provider_server, refuse, say

DOWN = ProviderUnavailableError("down", provider="a", model="m")
NO_KEY = ProviderAuthError("the key was refused", provider="a", model="m")
BAD = ProviderRequestError("too long", provider="a", model="m")


@dataclass
class Time:
    """A clock that only sleeping and the test move."""

    now: float = 1_000.0
    naps: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Seconds now."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let that time pass at once."""
        self.naps.append(seconds)
        self.now += seconds


def slow_down(seconds: float | None) -> ProviderRateLimitError:
    return ProviderRateLimitError("slow down", provider="a", model="m", retry_after=seconds)


def several(time: Time, *models: ChatModel, **options: object) -> FailoverChatModel:
    return FailoverChatModel(models, clock=time, sleep=time.sleep, **options)  # type: ignore[arg-type]


def scripted(name: str, *script: Reply | str | ProviderError) -> ScriptedChatModel:
    return ScriptedChatModel(script, provider=name, model="m")


async def ask(model: ChatModel, **options: object) -> Reply:
    return await model.reply(system="", messages=[Message("user", "?")], **options)  # type: ignore[arg-type]


async def test_the_first_that_works_replies() -> None:
    """While the first works the others are not asked, and the reply names who gave it."""
    first, second = scripted("a", "one", "two"), scripted("b", "three")
    model = several(Time(), first, second)
    assert [(await ask(model)).text, (await ask(model)).text] == ["one", "two"]
    assert second.asked == []
    assert (model.provider, model.model) == ("a", "m")


@pytest.mark.parametrize("error", [DOWN, NO_KEY, slow_down(5.0)], ids=lambda error: type(error).__name__)
async def test_the_next_takes_over_at_once(error: ProviderError) -> None:
    """What another provider does not share moves on, without a pause, with the same request."""
    time = Time()
    first, second = scripted("a", error), scripted("b", "here")
    reply = await ask(several(time, first, second))
    assert (reply.text, reply.provider) == ("here", "b")
    assert time.naps == []
    assert first.asked == second.asked


async def test_a_request_at_fault_goes_nowhere_else() -> None:
    """A request that is refused is not sent to the next, and says nothing about the provider."""
    second = scripted("b", "here")
    model = several(Time(), scripted("a", BAD, BAD, BAD, "fine"), second)
    for _ in range(3):
        with pytest.raises(ProviderRequestError):
            await ask(model)
    assert (await ask(model)).text == "fine"
    assert second.asked == []


async def test_one_alone_is_asked_again_after_pauses() -> None:
    """A failure that may pass is tried again, after pauses that double."""
    time = Time()
    assert (await ask(several(time, scripted("a", DOWN, DOWN, "back")))).text == "back"
    assert time.naps == [1.0, 2.0]


async def test_one_alone_keeps_its_own_error() -> None:
    """With one model its own error is raised, not a list of one."""
    with pytest.raises(ProviderUnavailableError) as caught:
        await ask(several(Time(), scripted("a", DOWN, DOWN, DOWN)))
    assert caught.value is DOWN


async def test_a_rate_limit_is_waited_for() -> None:
    """The pause is what the provider asked for."""
    time = Time()
    assert (await ask(several(time, scripted("a", slow_down(7.0), "now")))).text == "now"
    assert time.naps == [7.0]


@pytest.mark.parametrize(
    ("asked", "options"), [(31.0, {}), (20.0, {"deadline": 15.0}), (6.0, {"longest_wait": 5.0})]
)
async def test_a_pause_that_is_too_long_is_not_made(asked: float, options: dict[str, float]) -> None:
    """Beyond the cap or the deadline the error comes at once."""
    time = Time()
    with pytest.raises(ProviderRateLimitError):
        await ask(several(time, scripted("a", slow_down(asked), "now"), **options))
    assert time.naps == []


async def test_a_limited_provider_is_left_alone_as_long_as_it_asked() -> None:
    """Later replies do not ask it before its time is up, and ask it first again afterwards."""
    time = Time()
    first, second = scripted("a", slow_down(100.0), "back"), scripted("b", "1", "2")
    model = several(time, first, second)
    assert [(await ask(model)).text for _ in range(2)] == ["1", "2"]
    assert len(first.asked) == 1
    time.now += 100.0
    assert (await ask(model)).text == "back"


async def test_the_circuit_opens_probes_and_closes() -> None:
    """After three failures in a row it is left alone, then probed once: a failure opens it again."""
    time = Time()
    first = scripted("a", DOWN, DOWN, DOWN, DOWN, "back", DOWN, "well")
    second = ScriptedChatModel(lambda _: "b", provider="b", model="m")
    model = several(time, first, second, cooldown=60.0)

    async def replies() -> tuple[str, int, str]:
        text = (await ask(model)).text
        return text, len(first.asked), model.states["a/m"]

    assert [await replies() for _ in range(4)] == [
        ("b", 1, "closed"),
        ("b", 2, "closed"),
        ("b", 3, "open"),
        ("b", 3, "open"),
    ]
    time.now += 59.9
    assert await replies() == ("b", 3, "open")
    time.now += 0.1
    assert model.states["a/m"] == "half-open"
    assert await replies() == ("b", 4, "open")
    time.now += 60.0
    assert await replies() == ("back", 5, "closed")
    assert await replies() == ("b", 6, "closed")
    assert await replies() == ("well", 7, "closed")


async def test_a_failed_probe_opens_the_circuit_whatever_the_count() -> None:
    """A circuit that a refused key opened is opened again by one failure of its probe."""
    time = Time()
    second = ScriptedChatModel(lambda _: "b", provider="b", model="m")
    model = several(time, scripted("a", NO_KEY, DOWN, "back"), second, on_notice=lambda _: None)
    await ask(model)
    time.now += 60.0
    assert (await ask(model)).text == "b"
    assert model.states["a/m"] == "open"


async def test_without_a_probe_the_circuit_simply_closes() -> None:
    """Without a probe it counts as well after the cooldown: one failure does not open it again."""
    time = Time()
    first = scripted("a", DOWN, DOWN, DOWN, DOWN, "back")
    second = ScriptedChatModel(lambda _: "b", provider="b", model="m")
    model = several(time, first, second, failure_threshold=3, probe=False)
    for _ in range(3):
        await ask(model)
    assert model.states["a/m"] == "open"
    time.now += 60.0
    assert model.states["a/m"] == "closed"
    assert [(await ask(model)).text for _ in range(2)] == ["b", "back"]


async def test_only_one_request_probes() -> None:
    """While the probe is under way, other requests go to the next provider; a cancelled probe frees its place."""
    time, entered, gate = Time(), asyncio.Event(), asyncio.Event()

    class Waiting(ScriptedChatModel):
        async def reply(self, **options: object) -> Reply:  # type: ignore[override]
            if len(self.asked) == 1:
                entered.set()
                await gate.wait()
            return await super().reply(**options)  # type: ignore[arg-type]

    first = Waiting([DOWN, "back", "again"], provider="a", model="m")
    second = ScriptedChatModel(lambda _: "b", provider="b", model="m")
    model = several(time, first, second, failure_threshold=1)
    await ask(model)
    time.now += 60.0
    probe = asyncio.create_task(ask(model))
    await entered.wait()
    assert (await ask(model)).text == "b"
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    gate.set()
    assert (await ask(model)).text == "back"


async def test_what_the_user_must_repair_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A refused key is told once, however often it is refused, and the provider is left alone meanwhile."""
    time, told = Time(), []
    first = ScriptedChatModel(lambda _: NO_KEY, provider="a", model="m")
    second = ScriptedChatModel(lambda _: "b", provider="b", model="m")
    model = several(time, first, second, on_notice=told.append)
    for _ in range(3):
        assert (await ask(model)).text == "b"
    assert len(first.asked) == 1
    time.now += 60.0
    await ask(model)
    assert len(first.asked) == 2
    assert told == ["the key was refused"]
    with caplog.at_level(logging.WARNING):
        await ask(several(time, scripted("a", NO_KEY), second))
    assert [record.getMessage() for record in caplog.records] == ["the key was refused"]


async def test_all_failed() -> None:
    """One error, one line, each cause with its provider."""
    a = ProviderAuthError("a 'm': the key was refused", provider="a", model="m")
    b = ProviderUnavailableError("b 'm': not reached", provider="b", model="m")
    with pytest.raises(AllProvidersFailedError) as caught:
        await ask(several(Time(), scripted("a", a), scripted("b", b, b, b)))
    assert str(caught.value) == "no provider answered: a 'm': the key was refused; b 'm': not reached"
    assert caught.value.failures == (a, b)
    assert caught.value.retryable
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


async def test_all_are_left_alone() -> None:
    """With every circuit open the error says so and when to try again, without asking anyone."""
    first = scripted("a", *[DOWN] * 3)
    model = several(Time(), first)
    for _ in range(2):
        with pytest.raises(ProviderUnavailableError) as caught:
            await ask(model)
    assert len(first.asked) == 3
    assert "not asked since it failed before: try again in 60 s" in str(caught.value)


class BreaksOff(ScriptedChatModel):
    """Shows some text, then fails."""

    def __init__(self, shown: str) -> None:
        super().__init__([DOWN], provider="a", model="m")
        self.shown = shown

    async def reply(self, *, on_text=None, **options: object) -> Reply:  # type: ignore[no-untyped-def, override]
        """Show the text, then play the script."""
        if on_text:
            on_text(self.shown)
        return await super().reply(on_text=on_text, **options)


@pytest.mark.parametrize("shown", ["half a", ""])
async def test_text_that_was_shown_is_not_begun_again(shown: str) -> None:
    """A reply that breaks off after text was shown fails; with nothing shown the next takes over."""
    seen: list[str] = []
    second = scripted("b", "whole")
    model = several(Time(), BreaksOff(shown), second)
    if shown:
        with pytest.raises(ProviderUnavailableError):
            await ask(model, on_text=seen.append)
        assert (seen, second.asked) == ([shown], [])
    else:
        assert (await ask(model, on_text=seen.append)).text == "whole"
        assert "".join(seen) == "whole"


async def test_the_deadline_bounds_everything() -> None:
    """A provider that hangs is cut off at the deadline of the whole reply."""
    with provider_server([hang]) as server:
        slow = OpenAIChatModel(KNOWN["openai"], api_key="k", base_url=server.base_url, timeout=30)
        model = FailoverChatModel([slow], deadline=0.3)
        with pytest.raises(ProviderUnavailableError, match=r"within 0\.3 s in all"):
            await ask(model)
        await model.aclose()


async def test_real_servers() -> None:
    """Two real servers: the first is overloaded, the second replies; later the first is itself again."""
    with provider_server([refuse(503, "busy"), say("first")]) as a, provider_server([say("second")]) as b:
        models = [
            OpenAIChatModel(KNOWN[name], api_key="k", base_url=server.base_url)
            for name, server in (("openai", a), ("groq", b))
        ]
        model = FailoverChatModel(models)
        replies = [await ask(model) for _ in range(2)]
        await model.aclose()
    assert [(reply.provider, reply.text) for reply in replies] == [("groq", "second"), ("openai", "first")]


async def test_closing_closes_all() -> None:
    """Every model is closed."""
    models = [scripted("a"), scripted("b")]
    await several(Time(), *models).aclose()
    assert [model.closed for model in models] == [True, True]


@pytest.mark.parametrize("options", [{"failure_threshold": 0}, {"rounds": 0}, {"cooldown": -1}])
def test_options_that_cannot_work(options: dict[str, int]) -> None:
    """Each is refused with its name and value."""
    name, value = next(iter(options.items()))
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        several(Time(), scripted("a"), **options)
    with pytest.raises(ConfigError, match="at least one"):
        FailoverChatModel([])


STEPS = st.lists(st.sampled_from(["ok", "fail", "cancel", "wait", "nap"]), max_size=40)


@given(steps=STEPS, threshold=st.integers(1, 4), probe=st.booleans())
def test_the_circuit_as_a_machine(steps: list[str], threshold: int, probe: bool) -> None:
    """Open means nothing goes through until the cooldown is over; closed means fewer failures than the threshold."""
    time = Time()
    breaker = Breaker(threshold, 60.0, probe, time)
    failures, opened_at = 0, None
    for step in steps:
        if step in ("wait", "nap"):
            time.now += 60.0 if step == "wait" else 10.0
            continue
        cooling = opened_at is not None and time.now < opened_at + 60.0
        assert breaker.allow() != cooling
        if cooling:
            assert breaker.state == "open"
            continue
        if opened_at is not None and not probe:
            failures, opened_at = 0, None
        if step == "ok":
            breaker.succeeded()
            failures, opened_at = 0, None
        elif step == "fail":
            breaker.failed()
            failures += 1
            if opened_at is not None or failures >= threshold:
                opened_at = time.now
        else:
            breaker.undecided()
        assert (breaker.state == "closed") == (opened_at is None)


async def test_a_script_may_be_a_function() -> None:
    """The scripted model sees what is asked, keeps it, and shows its text in pieces."""

    def script(asked: Asked) -> str:
        return f"{len(asked.messages)} said\n{asked.system}"

    model = ScriptedChatModel(script)
    pieces: list[str] = []
    reply = await model.reply(system="s", messages=[Message("user", "?")], on_text=pieces.append)
    assert reply.text == "".join(pieces) == "1 said\ns"
    assert len(pieces) == 2
    assert isinstance(model, ChatModel)
    with pytest.raises(ProviderError, match="no reply number 1"):
        await ask(scripted("a"))
