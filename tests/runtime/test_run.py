"""One run: recorded whatever happens, judged by evidence, learned from, and never failed by its memory."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenthood.embedding.base import EmbeddingSpace
from agenthood.errors import InvalidInputError, ProviderUnavailableError
from agenthood.runtime.chat.base import Usage
from agenthood.runtime.chat.testing import ScriptedChatModel
from agenthood.runtime.evidence import Score
from agenthood.runtime.loop import Limits, Listener, Progress
from agenthood.runtime.run import Job, give_feedback, preview, run_member
from agenthood.runtime.runs import Run, load_run, save_run
from agents import KEY, Never, job, says, score_of, the_file, toolbox, wants
from hoods import bad, bodies, good, opened, small

if TYPE_CHECKING:
    from agenthood.engine import AsyncHood

TASK = "fix the flaky login test"
LOST = "rewrote the session cache from scratch"


async def took(work: Job, model: Any, hood: AsyncHood | None, **options: Any) -> Run:
    """Run it to its end."""
    return await run_member(work, model, toolbox(work.project), hood=hood, **options)


async def episodes(hood: AsyncHood) -> list[dict[str, Any]]:
    """The content of every episode."""
    return list((await bodies(hood, "ep:")).values())


# -- recording and learning --------------------------------------------------------------------------------


async def test_a_run_that_passes_its_check_is_learned(tmp_path: Path) -> None:
    """Episode, lesson, scores with their source, tokens and tools are all in the file."""
    (tmp_path / "a.txt").write_text("the clock", encoding="utf-8")
    model = ScriptedChatModel(
        [wants("read_file", path="a.txt"), says("I mocked the clock.")], model="claude-sonnet-5-5"
    )
    async with opened(tmp_path) as hood:
        run = await took(job(tmp_path, task=TASK, checks=("true",)), model, hood)
        (episode,) = await episodes(hood)
        (lesson,) = await hood.lessons()
    assert the_file(tmp_path) == run.to_dict()
    assert (run.status, run.reason, run.answer) == ("done", "", "I mocked the clock.")
    assert (run.input_tokens, run.output_tokens, run.tools) == (20, 2, {"read_file": 1})
    assert run.cost == pytest.approx(60e-6)
    assert run.scores == [{"name": "check: true", "value": 1.0, "source": "check", "detail": "passed"}]
    assert (run.receipts[0]["status"], run.receipts[0]["kind"]) == ("stored", "learned")
    assert episode["episode"] == TASK
    assert episode["outcome"] == "check: true: passed. I mocked the clock."
    assert lesson.episodes == (run.episode_id,)
    assert (lesson.member, lesson.skill) == ("dev", "dev")


async def test_a_run_that_fails_its_check_becomes_an_antipattern(tmp_path: Path) -> None:
    """The agent's own status stays `done`; what failed is in the lesson's outcome."""
    async with opened(tmp_path) as hood:
        run = await took(
            job(tmp_path, task=TASK, skill="test", checks=("echo 1 failed; false",)),
            ScriptedChatModel(["All is well."]),
            hood,
        )
        (lesson,) = await hood.lessons()
    assert (run.status, lesson.kind, lesson.skill) == ("done", "antipattern", "test")
    assert "1 failed" in lesson.outcome


async def test_the_file_says_running_while_it_runs(tmp_path: Path) -> None:
    """Before the model is asked for the first time the file is there."""
    seen: list[str] = []

    def answer(_: object) -> str:
        seen.append(the_file(tmp_path)["status"])
        return "done"

    run = await took(job(tmp_path, checks=("true",)), ScriptedChatModel(answer), None)
    assert seen == ["running"]
    assert the_file(tmp_path) == run.to_dict()


async def test_a_file_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    """With a file where the folder of runs should be, the run ends as it does, and is learned from."""
    (tmp_path / ".agenthood").mkdir()
    (tmp_path / ".agenthood" / "runs").touch()
    async with opened(tmp_path) as hood:
        run = await took(job(tmp_path, checks=("true",)), ScriptedChatModel(["done"]), hood)
    assert (run.status, run.receipts[0]["status"]) == ("done", "stored")
    assert "runs" in run.notes[0]


async def test_no_secret_of_the_task_or_the_answer_is_kept(tmp_path: Path) -> None:
    """The model gets the task as it is; the file and the rows have it redacted, also where a text was cut."""
    long_answer = f"{'x' * 570} {KEY} done"
    model = ScriptedChatModel([long_answer])
    async with opened(tmp_path) as hood:
        await took(job(tmp_path, task=f"use {KEY} here", checks=("true",)), model, hood)
        rows = json.dumps(await bodies(hood, ""))
    assert KEY in model.asked[0].messages[0].text
    for kept in (rows, json.dumps(the_file(tmp_path))):
        assert KEY[:20] not in kept
        assert "[redacted:" in kept


async def test_what_no_store_can_hold_does_not_lose_the_episode(tmp_path: Path) -> None:
    """An answer with NUL and lone surrogates is recorded without them."""
    async with opened(tmp_path) as hood:
        run = await took(job(tmp_path, checks=("true",)), ScriptedChatModel(["a\0b \udcff c"]), hood)
        (episode,) = await episodes(hood)
    assert run.receipts[0]["status"] == "stored"
    assert "a\ufffdb \ufffd c" in episode["outcome"]


async def test_an_answer_that_repeats_the_lessons_is_not_learned_again(tmp_path: Path) -> None:
    """Of an answer with the block in it only how the check ended is kept."""
    async with opened(tmp_path) as hood:
        await hood.learner.learn(good(TASK))
        session = hood.session(TASK, member="dev")
        await session.look_up()
        assert session.block
        model = ScriptedChatModel([f"I read:\n{session.block}"])
        await took(job(tmp_path, task="another thing entirely", checks=("true",)), model, hood)
        latest = (await hood.episodic.recall(limit=1))[0]
    assert latest.outcome == "check: true: passed"


# -- endings -----------------------------------------------------------------------------------------------


async def test_a_provider_that_fails_says_nothing_about_the_member(tmp_path: Path) -> None:
    """Status `failed`, the reason kept, the episode recorded, and nothing learned: not even from given scores."""
    work = job(tmp_path, checks=("false",), scores=(Score("own", 0.0, "given"),), judged=True)
    async with opened(tmp_path) as hood:
        run = await took(work, Never(ProviderUnavailableError("x is down")), hood)
        assert await hood.lessons() == []
        (episode,) = await episodes(hood)
    assert (run.status, run.reason, run.scores) == ("failed", "x is down", [])
    assert (run.receipts[0]["status"], episode["outcome"]) == ("skipped", "x is down")


async def test_a_fault_of_the_listener_is_recorded_and_passed_on(tmp_path: Path) -> None:
    """A terminal that has gone ends the run as failed, and says so to the caller."""

    def gone(_: str) -> None:
        raise BrokenPipeError("nobody reads")

    async with opened(tmp_path) as hood:
        with pytest.raises(BrokenPipeError):
            await took(
                job(tmp_path, checks=("false",)), ScriptedChatModel(["hi"]), hood, listener=Listener(gone)
            )
        assert len(await episodes(hood)) == 1
        assert await hood.lessons() == []
    assert the_file(tmp_path)["status"] == "failed"
    assert "nobody reads" in the_file(tmp_path)["reason"]


@pytest.mark.parametrize(
    "options",
    [{}, {"checks": ("sleep 60",), "check_before": True}, {"checks": ("sleep 60",)}],
    ids=["model", "check before", "check after"],
)
async def test_an_interrupted_run_is_recorded_as_that(options: dict[str, Any], tmp_path: Path) -> None:
    """Wherever it is cancelled, the file and the episode say interrupted, and nothing is learned."""
    model = Never() if options.get("checks") is None else ScriptedChatModel(["done"])
    async with opened(tmp_path) as hood:
        task = asyncio.create_task(took(job(tmp_path, **options), model, hood))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (episode,) = await episodes(hood)
        assert await hood.lessons() == []
    assert the_file(tmp_path)["status"] == "interrupted"
    assert episode["outcome"].startswith("interrupted")


async def test_learning_that_is_interrupted_leaves_the_run_as_it_ended(tmp_path: Path) -> None:
    """Cancelled while it waits for the store, a run that was done is in its file as done."""
    async with opened(tmp_path) as hood:
        with locked(tmp_path / ".agenthood" / "memory" / ".agenthood.lock"):
            task = asyncio.create_task(
                took(job(tmp_path, checks=("true",)), ScriptedChatModel(["done"]), hood)
            )
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert the_file(tmp_path)["status"] == "done"
    assert the_file(tmp_path)["receipts"][0]["reason"] == "interrupted while learning"


@pytest.mark.parametrize(("limits", "status"), [({"steps": 1}, "steps"), ({"tokens": 5}, "tokens")])
async def test_a_limit_is_the_status_and_checks_still_count(
    limits: dict[str, Any], status: str, tmp_path: Path
) -> None:
    """A run stopped at a limit is judged by its check; no opinion is asked for about half an answer."""
    async with opened(tmp_path) as hood:
        model = ScriptedChatModel([wants("list_files", "I look first.")])
        work = job(tmp_path, checks=("false",), judged=True, limits=Limits(**limits))
        run = await took(work, model, hood)
        (lesson,) = await hood.lessons()
    assert (run.status, lesson.kind, len(model.asked)) == (status, "antipattern", 1)
    assert score_of(run, "judge")["value"] is None
    assert run.reason in lesson.outcome


# -- evidence ----------------------------------------------------------------------------------------------


async def test_checks_are_run_before_where_asked(tmp_path: Path) -> None:
    """The detail says that a check failed before and passes now."""
    (tmp_path / "bad").touch()

    def mend(_: object) -> str:
        (tmp_path / "bad").unlink()
        return "mended"

    work = job(tmp_path, checks=("test ! -e bad",), check_before=True)
    run = await took(work, ScriptedChatModel(mend), None)
    assert score_of(run, "check: test ! -e bad")["detail"] == "passed, failed before"


async def test_a_check_named_twice_is_run_once(tmp_path: Path) -> None:
    """It is one piece of evidence."""
    work = job(tmp_path, checks=("echo x >> ran", "echo x >> ran"))
    run = await took(work, ScriptedChatModel(["done"]), None)
    assert len(run.scores) == 1
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "x\n"


async def test_a_check_has_a_time_limit(tmp_path: Path) -> None:
    """One that hangs has failed after the seconds of the job."""
    run = await took(
        job(tmp_path, checks=("sleep 60",), check_seconds=0.2), ScriptedChatModel(["done"]), None
    )
    assert score_of(run, "check: sleep 60")["value"] == 0


VERDICT = '{"faithfulness": 0.9, "relevance": 0.8}'


async def test_without_evidence_the_model_is_asked(tmp_path: Path) -> None:
    """Its grades are scores of their own source, and what they cost is counted."""
    async with opened(tmp_path) as hood:
        model = ScriptedChatModel([says("done", tokens=100), says(VERDICT, tokens=1_000)])
        run = await took(job(tmp_path), model, hood)
    assert {score["name"]: score["value"] for score in run.scores} == {"faithfulness": 0.9, "relevance": 0.8}
    assert {score["source"] for score in run.scores} == {"judge"}
    assert run.receipts[0]["kind"] == "learned"
    assert run.input_tokens == 1_100


@pytest.mark.parametrize(
    "evidence",
    [
        {"checks": ("true",)},
        {"checks": ("no-such-program",)},
        {"scores": (Score("own", 0.5, "given"),)},
    ],
    ids=["check", "check that cannot be run", "score"],
)
async def test_with_evidence_no_opinion_is_asked_for(evidence: dict[str, Any], tmp_path: Path) -> None:
    """Only `judged` asks for one beside it; a broken check is no reason to ask either."""
    model = ScriptedChatModel(["done", VERDICT])
    run = await took(job(tmp_path, **evidence), model, None)
    assert len(model.asked) == 1
    assert {score["source"] for score in run.scores} != {"judge"}
    asked = ScriptedChatModel(["done", VERDICT])
    run = await took(job(tmp_path, judged=True, **evidence), asked, None)
    assert len(asked.asked) == 2
    assert score_of(run, "relevance")["value"] == 0.8


@pytest.mark.parametrize("verdict", ["It is fine.", ProviderUnavailableError("x is down"), "0.2 or 0.9"])
async def test_a_verdict_that_cannot_be_had_teaches_nothing(verdict: Any, tmp_path: Path) -> None:
    """It is told as not judged, never as zero."""
    async with opened(tmp_path) as hood:
        run = await took(job(tmp_path), ScriptedChatModel(["done", verdict]), hood)
        assert await hood.lessons() == []
    assert run.status == "done"
    assert score_of(run, "judge")["value"] is None
    assert score_of(run, "judge")["detail"].startswith("not judged: ")
    assert run.receipts[0]["status"] == "skipped"


async def test_a_judge_that_breaks_or_hangs_changes_nothing(tmp_path: Path) -> None:
    """A judge with a fault of its own, or without an end, is not judged."""

    class Second(ScriptedChatModel):
        def __init__(self, after: Never) -> None:
            super().__init__(["done"])
            self.after = after

        async def reply(self, **asked: Any) -> Any:
            return await (super().reply(**asked) if not self.asked else self.after.reply())

    for after in (Never(), Never(RuntimeError("boom"))):
        run = await took(job(tmp_path, judge_seconds=0.2), Second(after), None)
        assert (run.status, score_of(run, "judge")["value"]) == ("done", None)


async def test_the_cost_of_several_models_is_their_sum(tmp_path: Path) -> None:
    """Tokens are priced by the model that used them; one without a price leaves the sum unknown."""

    class Two(ScriptedChatModel):
        second = ""

        async def reply(self, **asked: Any) -> Any:
            self.model = self.second if self.asked else "claude-sonnet-5-5"
            return await super().reply(**asked)

    costs = []
    for second in ("claude-haiku-4-5", "unknown"):
        model = Two([wants("list_files", tokens=100_000), says("done", tokens=100_000)])
        model.second = second
        costs.append((await took(job(tmp_path, checks=("true",)), model, None)).cost)
    assert costs == [pytest.approx(0.2 + 0.1 + 10e-6 + 5e-6), None]


# -- lessons in the prompt -----------------------------------------------------------------------------------


async def test_lessons_are_shown_and_noted(tmp_path: Path) -> None:
    """The block comes before the task with both kinds, and the file has ids and similarities."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(f"{TASK} by mocking the clock"), bad(f"{TASK} by sleeping longer")])
        model = ScriptedChatModel(["done"])
        run = await took(job(tmp_path, task=TASK, checks=("true",)), model, hood)
        shown = {lesson.id for lesson in await hood.lessons() if lesson.text != TASK}
    user = model.asked[0].messages[0].text
    assert user.startswith("<agenthood-lessons>")
    assert "What worked in earlier runs:" in user
    assert "What failed in earlier runs:" in user
    assert user.endswith(f"</agenthood-lessons>\n\nTask:\n{TASK}")
    assert {lesson["id"] for lesson in run.lessons} == shown
    assert all(0.7 <= lesson["similarity"] <= 1 for lesson in run.lessons)


async def test_only_lessons_that_fit_are_noted_as_shown(tmp_path: Path) -> None:
    """What the cap leaves out of the block is not in the file either."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good(f"{TASK} {'very ' * 30}", skill=f"skill {n}") for n in range(4)])
        model = ScriptedChatModel(["done"])
        run = await took(job(tmp_path, task=TASK, max_lesson_bytes=600, checks=("true",)), model, hood)
    block = model.asked[0].messages[0].text.partition("\n\nTask:")[0]
    assert len(block.encode()) <= 600
    assert 0 < len(run.lessons) < 4
    assert block.count("\n- [") == len(run.lessons)


async def test_a_run_without_lessons_is_learned_from(tmp_path: Path) -> None:
    """Shown none, it still leaves one."""
    async with opened(tmp_path) as hood:
        await hood.learner.learn(good(f"{TASK} by mocking the clock"))
        model = ScriptedChatModel(["done"])
        run = await took(job(tmp_path, task=TASK, lessons=0, checks=("true",)), model, hood)
    assert model.asked[0].messages[0].text == f"Task:\n{TASK}"
    assert run.lessons == []
    assert run.receipts[0]["kind"] == "learned"


async def test_the_preview_is_what_is_sent(tmp_path: Path) -> None:
    """It is byte for byte the prompt of the run, and leaves no trace."""
    async with opened(tmp_path) as hood:
        await hood.learner.learn(good(f"{TASK} by mocking the clock"))
        before = await bodies(hood, "")
        prompt, session = await preview(job(tmp_path, task=TASK), hood)
        assert await bodies(hood, "") == before
        assert not (tmp_path / ".agenthood" / "runs").exists()
        model = ScriptedChatModel(["done"])
        await took(job(tmp_path, task=TASK, checks=("true",)), model, hood)
    assert (model.asked[0].system, model.asked[0].messages[0].text) == (prompt.system, prompt.user)
    assert session is not None
    assert len(session.lessons) == 1


# -- memory that is down -------------------------------------------------------------------------------------


class Hangs:
    """An embedder that never answers, or fails in its own way."""

    semantic = True
    pinned = True
    space = EmbeddingSpace("testing", "hangs", "1", 64)

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def embed(self, *_: Any, **__: Any) -> Any:
        """Hang or raise."""
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        """Nothing to close."""


async def untouched(work: Job, hood: AsyncHood) -> Run:
    """Run with memory that is down; the agent's own end must be the same as ever, and soon."""
    start = time.monotonic()
    run = await took(work, ScriptedChatModel(["done"]), hood)
    assert time.monotonic() - start < 10
    assert (run.status, run.answer) == ("done", "done")
    assert score_of(run, "check: true")["value"] == 1
    assert load_run(work.home, run.id).status == "done"
    return run


@pytest.mark.parametrize("error", [None, RuntimeError("boom"), ProviderUnavailableError("x")])
async def test_an_embedder_that_is_down_fails_nothing(error: Exception | None, tmp_path: Path) -> None:
    """Hanging or raising whatever it likes, it costs the deadline at most."""
    async with opened(tmp_path, Hangs(error), start_migration=False) as hood:
        run = await untouched(job(tmp_path, checks=("true",), deadline=1), hood)
    assert run.notes


async def test_an_embedder_that_goes_down_leaves_the_lesson_pending(tmp_path: Path) -> None:
    """The lesson is kept, to be found by meaning later."""
    async with opened(tmp_path, small(fail_after=0), start_migration=False) as hood:
        run = await untouched(job(tmp_path, checks=("true",)), hood)
    assert run.receipts[0]["status"] == "pending"


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Another process holds the lock; it goes with its holder."""
    code = "import sys, filelock\nlock = filelock.FileLock(sys.argv[1])\nlock.acquire(); print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], **pipes) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.kill()


async def test_a_lock_that_hangs_costs_the_deadline(tmp_path: Path) -> None:
    """Another process that holds the store's lock delays the run by no more than its deadline."""
    async with opened(tmp_path) as hood:
        with locked(tmp_path / ".agenthood" / "memory" / ".agenthood.lock"):
            run = await untouched(job(tmp_path, checks=("true",), deadline=0.5), hood)
        assert run.receipts[0]["status"] == "pending"
        assert "0.5 s" in run.notes[0]
        again = await untouched(job(tmp_path, checks=("true",)), hood)
        assert (again.receipts[0]["status"], again.receipts[0]["evidence"]) == ("merged", 2)


def removed(memory: Path) -> None:
    """Take the store away under the engine."""
    shutil.rmtree(memory)


def replaced(memory: Path) -> None:
    """Put a file in its place."""
    removed(memory)
    memory.write_text("no store", encoding="utf-8")


def damaged(memory: Path) -> None:
    """Fill its files with rubbish."""
    for path in memory.rglob("*"):
        if path.is_file():
            path.write_bytes(b"rubbish")


@pytest.mark.parametrize("harm", [removed, replaced, damaged])
async def test_a_store_that_is_lost_fails_nothing(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """Between opening and learning the store may go: the run ends as it does, and says so."""
    async with opened(tmp_path) as hood:
        await hood.learner.learn(good(LOST))
        harm(tmp_path / ".agenthood" / "memory")
        run = await untouched(job(tmp_path, checks=("true",)), hood)
    assert run.receipts[0]["status"] in {"stored", "pending", "rejected"}
    if run.receipts[0]["status"] == "rejected":
        assert run.notes


async def test_a_closed_store_fails_nothing(tmp_path: Path) -> None:
    """Even a store that its owner has closed."""
    async with opened(tmp_path) as hood:
        pass
    run = await untouched(job(tmp_path, checks=("true",)), hood)
    assert run.receipts[0]["status"] == "rejected"


async def test_a_run_without_memory_is_a_run(tmp_path: Path) -> None:
    """Without a store at all the file is still kept."""
    run = await took(job(tmp_path, checks=("true",)), ScriptedChatModel(["done"]), None)
    assert (run.status, run.receipts, run.episode_id) == ("done", [], None)


# -- feedback ------------------------------------------------------------------------------------------------


async def finished(folder: Path, hood: AsyncHood, check: str = "true") -> Run:
    """A run that has ended, as its file holds it."""
    run = await took(job(folder, task=TASK, checks=(check,)), ScriptedChatModel(["I mocked it."]), hood)
    return load_run(folder / ".agenthood", run.id)


async def test_the_same_verdict_again_is_not_counted_twice(tmp_path: Path) -> None:
    """The episode is evidence for the lesson already."""
    async with opened(tmp_path) as hood:
        run = await finished(tmp_path, hood)
        receipt = await give_feedback(
            hood, tmp_path / ".agenthood", run, Score("feedback", 0.9, "feedback", "well done")
        )
        (lesson,) = await hood.lessons()
        assert len(await episodes(hood)) == 1
    assert (receipt.status, receipt.id, lesson.evidence) == ("skipped", lesson.id, 1)
    assert score_of(the_file(tmp_path), "feedback")["source"] == "feedback"
    assert len(the_file(tmp_path)["receipts"]) == 2


async def test_the_opposite_verdict_is_a_lesson_of_its_own(tmp_path: Path) -> None:
    """What a check let pass and a person did not is both a success and a failure, each with its outcome."""
    async with opened(tmp_path) as hood:
        run = await finished(tmp_path, hood)
        receipt = await give_feedback(
            hood, tmp_path / ".agenthood", run, Score("feedback", 0.1, "feedback", "it only hid the fault")
        )
        lessons = {lesson.kind: lesson for lesson in await hood.lessons()}
        assert len(await episodes(hood)) == 1
    assert (receipt.status, receipt.kind) == ("stored", "antipattern")
    assert lessons["antipattern"].outcome.startswith("it only hid the fault. ")
    assert lessons["antipattern"].episodes == lessons["learned"].episodes == (run.episode_id,)


async def test_feedback_on_a_run_that_was_killed_records_its_episode(tmp_path: Path) -> None:
    """A run that never got to its end has no episode yet; a second word on it counts the same one."""
    home = tmp_path / ".agenthood"
    killed = Run("20261130T120000-aaaaaa", "dev", "dev", TASK)
    async with opened(tmp_path) as hood:
        save_run(home, killed)
        for _ in range(2):
            await give_feedback(hood, home, load_run(home, "2026"), Score("feedback", 0.0, "feedback"))
        (lesson,) = await hood.lessons()
        assert len(await episodes(hood)) == 1
    assert (lesson.kind, lesson.evidence) == ("antipattern", 1)


async def test_a_score_that_is_no_number_changes_nothing(tmp_path: Path) -> None:
    """NaN is refused before the file is touched."""
    async with opened(tmp_path) as hood:
        run = await finished(tmp_path, hood)
        before = the_file(tmp_path)
        with pytest.raises(InvalidInputError, match="finite number"):
            await give_feedback(
                hood, tmp_path / ".agenthood", run, Score("feedback", float("nan"), "feedback")
            )
    assert the_file(tmp_path) == before


def test_usage_is_summed_over_models() -> None:
    """The tokens of a run are those of all its models."""
    progress = Progress()
    for model in ("a", "b", "a"):
        progress.spend(model, Usage(2, 1))
    assert progress.usage == Usage(6, 3)
    assert progress.spent["a"] == Usage(4, 2)
