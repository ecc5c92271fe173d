"""The agent loop: what it sends, when it ends, and what it knows when it does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agenthood.errors import MissingExtraError, ProviderUnavailableError
from agenthood.runtime.chat.base import Reply, ToolCall, ToolSpec, Usage
from agenthood.runtime.chat.testing import ScriptedChatModel
from agenthood.runtime.loop import Limits, Listener, Progress, run_loop
from agenthood.runtime.prompt import Prompt
from agenthood.runtime.tools.base import ToolResult
from agents import Never, says, toolbox, wants

PROMPT = Prompt("You write code.", "Task:\nsay what a.txt holds")


class Broken:
    """Tools with a fault of their own."""

    specs: tuple[ToolSpec, ...] = ()

    def __init__(self, answer: str | BaseException) -> None:
        self.answer = answer

    async def call(self, _: ToolCall) -> ToolResult:
        """Fail, or give what JSON cannot hold."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return ToolResult(self.answer)


async def loop(
    model: Any, folder: Path, tools: Any = None, *, listener: Listener | None = None, **limits: Any
) -> Progress:
    """Run the loop in `folder`."""
    progress = Progress()
    tools = tools or toolbox(folder)
    await run_loop(model, tools, PROMPT, limits=Limits(**limits), progress=progress, listener=listener)
    return progress


async def test_a_tool_is_called_and_its_result_goes_back(tmp_path: Path) -> None:
    """The model is sent its own turn and the result of its call, and its last words are the answer."""
    (tmp_path / "a.txt").write_text("the clock\n", encoding="utf-8")
    model = ScriptedChatModel([wants("read_file", "I look.", path="a.txt"), says("It holds the clock.")])
    progress = await loop(model, tmp_path)
    turns = model.asked[1].messages
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]
    assert turns[1].tool_calls[0].name == "read_file"
    assert "the clock" in turns[2].text
    assert turns[2].tool_call_id == "1"
    assert (progress.ending, progress.reason, progress.text) == ("done", "", "It holds the clock.")
    assert (progress.steps, progress.tools, progress.tool_errors) == (2, {"read_file": 1}, 0)
    assert progress.usage == Usage(20, 2)


async def test_a_reply_has_room_to_think(tmp_path: Path) -> None:
    """Thinking counts as output, so a reply may have 16,000 tokens."""
    model = ScriptedChatModel(["done"])
    await loop(model, tmp_path)
    assert model.asked[0].max_tokens == 16_000


async def test_steps_are_limited(tmp_path: Path) -> None:
    """The last reply's wishes are not carried out when no further reply may follow."""
    model = ScriptedChatModel(lambda asked: wants("list_files", pattern=f"*{len(asked.messages)}"))
    progress = await loop(model, tmp_path, steps=3)
    assert (progress.ending, progress.steps, progress.tools["list_files"]) == ("steps", 3, 2)
    assert progress.reason == "stopped after 3 steps"


async def test_tokens_are_limited(tmp_path: Path) -> None:
    """Input and output count together; a reply that ends the run anyway is no breach."""
    model = ScriptedChatModel(lambda asked: wants("list_files", pattern=f"*{len(asked.messages)}", tokens=49))
    progress = await loop(model, tmp_path, tokens=100)
    assert (progress.ending, progress.steps) == ("tokens", 2)
    assert (await loop(ScriptedChatModel([says("x", tokens=500)]), tmp_path, tokens=100)).ending == "done"


async def test_seconds_are_limited(tmp_path: Path) -> None:
    """A model that hangs ends at the time limit."""
    progress = await loop(Never(), tmp_path, seconds=0.1)
    assert (progress.ending, progress.reason) == ("seconds", "stopped after 0.1 s")


async def test_a_tool_that_takes_too_long_ends_at_the_time_limit(tmp_path: Path) -> None:
    """The time limit covers tools, and what a command started is killed."""
    model = ScriptedChatModel([wants("run_command", command="sleep 30; touch late")])
    progress = await loop(model, tmp_path, toolbox(tmp_path, allow_commands=True), seconds=0.3)
    assert progress.ending == "seconds"
    assert progress.seconds < 10


async def test_a_timeout_from_within_is_not_the_limit(tmp_path: Path) -> None:
    """A TimeoutError of a listener passes through and is not called the time limit."""

    def tired(_: str) -> None:
        raise TimeoutError("the terminal is slow")

    progress = Progress()
    with pytest.raises(TimeoutError, match="terminal"):
        await run_loop(
            ScriptedChatModel(["hi"]),
            toolbox(tmp_path),
            PROMPT,
            limits=Limits(),
            progress=progress,
            listener=Listener(text=tired),
        )
    assert progress.ending == "failed"


async def test_identical_calls_in_a_row_are_cut_off(tmp_path: Path) -> None:
    """Three identical calls are carried out, the fourth ends the run; another call in between starts anew."""
    same = wants("list_files", path=".")
    progress = await loop(ScriptedChatModel([same] * 9), tmp_path)
    assert (progress.ending, progress.tools["list_files"]) == ("repeated", 3)
    assert "4 times in a row" in progress.reason
    mixed = [same, same, same, wants("list_files", path=".", limit=9), same, same, same, says("done")]
    assert (await loop(ScriptedChatModel(mixed), tmp_path)).ending == "done"


async def test_identical_calls_within_one_reply_are_cut_off(tmp_path: Path) -> None:
    """Calls side by side count as in a row."""
    call = ToolCall("1", "list_files", {"path": "."})
    reply = Reply("", (call,) * 50, "tools")
    progress = await loop(ScriptedChatModel([reply]), tmp_path)
    assert (progress.ending, progress.tools["list_files"]) == ("repeated", 3)


async def test_arguments_that_json_cannot_hold_are_compared_all_the_same(tmp_path: Path) -> None:
    """A call with NaN is told to the model as its mistake, and repeats of it end the run."""
    model = ScriptedChatModel([wants("list_files", limit=float("nan"))] * 9)
    progress = await loop(model, tmp_path)
    assert (progress.ending, progress.tool_errors) == ("repeated", 3)


@pytest.mark.parametrize(("stop", "ending"), [("length", "length"), ("refused", "refused")])
async def test_a_reply_that_is_no_answer_is_no_success(stop: Any, ending: str, tmp_path: Path) -> None:
    """A reply cut off, or refused, ends the run as that."""
    progress = await loop(ScriptedChatModel([says("half of", stop)]), tmp_path)
    assert progress.ending == ending
    assert progress.reason


@pytest.mark.parametrize(
    "error",
    [ProviderUnavailableError("x is down"), MissingExtraError("the openai SDK", "openai")],
    ids=["provider", "sdk"],
)
async def test_a_provider_that_cannot_answer_ends_the_run_as_failed(error: Exception, tmp_path: Path) -> None:
    """Neither a provider that is down nor an SDK that is missing raises; the reason is kept."""
    progress = await loop(Never(error), tmp_path)
    assert (progress.ending, progress.reason) == ("failed", str(error))


async def test_a_tool_with_a_fault_does_not_end_the_run(tmp_path: Path) -> None:
    """The model is told that the tool failed, without any key in it, and goes on."""
    model = ScriptedChatModel([wants("read_file", path="a"), says("I could not read it.")])
    progress = await loop(model, tmp_path, Broken(RuntimeError("boom api_key=Zk3vQ9wX2pL7mN4tR8sB")))
    assert (progress.ending, progress.tool_errors) == ("done", 1)
    result = model.asked[1].messages[2]
    assert result.is_error
    assert "boom" in result.text
    assert "Zk3vQ9wX2pL7mN4tR8sB" not in result.text


async def test_what_no_encoder_takes_is_replaced(tmp_path: Path) -> None:
    """A lone surrogate in a result, as from a file name that is no UTF-8, does not reach the SDK."""
    model = ScriptedChatModel([wants("list_files"), says("done")])
    await loop(model, tmp_path, Broken("caf\udce9.txt"))
    assert model.asked[1].messages[2].text == "caf\ufffd.txt"


async def test_unusable_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    """A call whose arguments are no JSON object is answered with its error."""
    broken = Reply("", (ToolCall("1", "read_file", error="no JSON: write an object"),), "tools")
    model = ScriptedChatModel([broken, says("done")])
    progress = await loop(model, tmp_path)
    assert model.asked[1].messages[2].text == "no JSON: write an object"
    assert (progress.ending, progress.tool_errors) == ("done", 1)


async def test_a_hostile_name_does_not_grow_the_record(tmp_path: Path) -> None:
    """A tool name of a megabyte is cut where it is counted."""
    model = ScriptedChatModel([wants("x" * 1_000_000), says("done")])
    progress = await loop(model, tmp_path)
    assert list(progress.tools) == ["x" * 64]
    assert sum(map(len, progress.trace)) < 2_000


async def test_an_interruption_is_noted_and_passed_on(tmp_path: Path) -> None:
    """A cancelled loop raises, and the progress says what it was."""
    model, progress = Never(), Progress()
    task = asyncio.create_task(run_loop(model, toolbox(tmp_path), PROMPT, limits=Limits(), progress=progress))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert progress.ending == "interrupted"


async def test_the_listener_hears_text_and_calls_in_order(tmp_path: Path) -> None:
    """Text comes as it is said, and each call before it is made."""
    heard: list[str] = []
    model = ScriptedChatModel([wants("list_files", "one\ntwo"), says("three")])
    await loop(
        model, tmp_path, listener=Listener(text=heard.append, tool=lambda call: heard.append(call.name))
    )
    assert heard == ["one\n", "two", "list_files", "three"]


async def test_what_was_done_and_seen_is_traced(tmp_path: Path) -> None:
    """Each call leaves a line with its input and the beginning of its result."""
    (tmp_path / "a.txt").write_text("the clock\n", encoding="utf-8")
    model = ScriptedChatModel(
        [wants("read_file", path="a.txt"), wants("read_file", path="none"), says("done")]
    )
    first, second = (await loop(model, tmp_path)).trace
    assert first.startswith('read_file ["read_file",{"path":"a.txt"},null] -> ')
    assert "the clock" in first
    assert "-> failed: " in second
