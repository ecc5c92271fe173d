"""The learner on real stores: what it decides, what it stores, and that nothing it meets ends a run."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.block import render_block
from agenthood.embedding.lexical import lexical_vectors
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import EmbeddingResponseError
from agenthood.files import locked
from agenthood.formats import hash_pattern, pattern_text
from agenthood.learning.learner import EpisodeLearner
from agenthood.learning.patterns import IndexEntry
from agenthood.records import EvalResult, RecalledLesson
from agenthood.stores.base import SHARED, Record
from hoods import bad, bodies, files_with, good, opened, shared_rows, small

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood.embedding.base import Role, Vectors

TEXT = "fixed the flaky login test by mocking the clock"


async def test_an_episode_becomes_a_lesson_in_the_stored_format(tmp_path: Path) -> None:
    """After reopening, long-term row, episode and pattern row have the shared shapes."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learn(TEXT, score=0.95, member="dev", skill="test", outcome="it passes")
    async with opened(tmp_path) as hood:
        pattern = f"learned:dev:test:{TEXT}"
        assert receipt.status == "stored"
        assert receipt.id == f"ltm:learnings/{hash_pattern(pattern)}"
        (lesson,) = (await bodies(hood, "ltm:learnings/")).values()
        assert list(lesson)[:4] == ["pattern", "score", "member", "skill"]
        assert (lesson["pattern"], lesson["score"], lesson["evidence"]) == (pattern, 0.95, 1)
        episode = (await bodies(hood, "ep:"))[receipt.episode_id or ""]
        assert list(episode)[:3] == ["episode", "outcome", "timestamp"]
        assert (episode["episode"], episode["outcome"]) == (TEXT, "it passes")
        assert list((await hood.index.present()).values()) == [pattern]


async def test_a_failure_stores_its_score_turned(tmp_path: Path) -> None:
    """An anti-pattern lives in its own folder, with 1 - mean as its score."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learn(TEXT, scores={"a": 0.1, "b": 0.3})
        (body,) = (await bodies(hood, "ltm:antipatterns/")).values()
    assert (receipt.kind, receipt.status, receipt.score) == ("antipattern", "stored", 0.2)
    assert (body["score"], body["mean"]) == (0.8, 0.2)


async def test_the_middle_is_recorded_and_counted_but_not_learned(tmp_path: Path) -> None:
    """Between the bands an episode is kept and counted; nothing becomes a lesson."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learn(TEXT, score=0.6)
    async with opened(tmp_path) as hood:
        assert receipt.status == "skipped"
        assert "0.6" in receipt.reason
        assert receipt.episode_id in await bodies(hood, "ep:")
        assert await hood.lessons() == []
        assert (await hood.learner.get_status()).bands["skipped"] == 1


async def test_without_scores_nothing_happens(tmp_path: Path) -> None:
    """Empty scores leave no row at all."""
    async with opened(tmp_path) as hood:
        before = set(await shared_rows(hood))
        for scores in ({}, None):
            receipt = await hood.learn(TEXT, scores=scores)
            assert (receipt.status, receipt.episode_id) == ("skipped", None)
        assert set(await shared_rows(hood)) == before


async def test_a_repeat_is_evidence(tmp_path: Path) -> None:
    """The same text merges at 1.0: count, running mean, times and episodes follow."""
    async with opened(tmp_path, small()) as hood:
        first = await hood.learn("ok", score=1.0, timestamp="2026-05-02T00:00:00Z")
        second = await hood.learn("ok", score=0.8, timestamp="2026-05-01T00:00:00Z")
    async with opened(tmp_path, small()) as hood:
        (lesson,) = await hood.lessons()
    assert (second.status, second.id, second.similarity, second.evidence) == ("merged", first.id, 1.0, 2)
    assert lesson.mean == pytest.approx(0.9)
    assert lesson.episodes == (first.episode_id, second.episode_id)
    assert (lesson.first_seen, lesson.last_seen) == ("2026-05-01T00:00:00.000Z", "2026-05-02T00:00:00.000Z")


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_the_bare_episode_is_compared_on_both_sides(tmp_path: Path, dimension: int) -> None:
    """A short text with another ending merges by its own words; the prefix of its pattern plays no part."""
    embedder = HashedEmbedder(dimension=dimension)
    async with opened(tmp_path, embedder) as hood:
        first = await hood.learn("Retry uploads!", score=0.9)
        second = await hood.learn("retry uploads", score=0.9)
    assert (second.status, second.id, second.similarity) == ("merged", first.id, 1.0)


async def test_kinds_members_and_skills_never_merge(tmp_path: Path) -> None:
    """The same text by another member, in another skill, or as a failure is a lesson of its own."""
    async with opened(tmp_path, small()) as hood:
        wanted = [good(TEXT), bad(TEXT), good(TEXT, member="qa"), good(TEXT, skill="deploy")]
        for near in ("", "!"):
            receipts = await hood.learn_many(
                [EvalResult(r.episode + near, r.scores, "", r.member, r.skill) for r in wanted]
            )
            assert {r.status for r in receipts} == {"merged" if near else "stored"}
    async with opened(tmp_path, small()) as hood:
        lessons = await hood.lessons()
        found = {(one.kind, one.member, one.skill): one.evidence for one in lessons}
    assert found == {
        ("learned", "dev", "test"): 2, ("antipattern", "dev", "test"): 2,
        ("learned", "qa", "test"): 2, ("learned", "dev", "deploy"): 2,
    }  # fmt: skip


async def test_names_that_write_the_same_pattern_never_merge(tmp_path: Path) -> None:
    """Member `a`, skill `b:c` and member `a:b`, skill `c` share their pattern text and are not the same."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn(TEXT, score=0.9, member="a", skill="b:c")
        receipt = await hood.learn(TEXT, score=0.9, member="a:b", skill="c")
        (lesson,) = await hood.lessons()
        assert len(await bodies(hood, "ep:")) == 1
    assert receipt.status == "rejected"
    assert "without a colon" in receipt.reason
    assert (lesson.member, lesson.evidence) == ("a", 1)


def _colliding_kinds() -> tuple[str, str]:
    """Two episodes whose learned and failed patterns have one key."""
    random.seed(1)
    seen: dict[str, str] = {}
    for n in range(200_000):
        text = f"{random.randrange(10**9)} step"
        kind = "learned" if n % 2 else "antipattern"
        other = seen.setdefault(hash_pattern(pattern_text(kind, "dev", "test", text)), f"{kind} {text}")
        if not other.startswith(kind):
            other = other.partition(" ")[2]
            return (other, text) if kind == "antipattern" else (text, other)
    raise AssertionError


async def test_a_success_and_a_failure_with_one_key_both_stay_indexed(tmp_path: Path) -> None:
    """A pattern row's id does not tell the kind, so the second of such a pair gets a key of its own."""
    worked, failed = _colliding_kinds()
    async with opened(tmp_path) as hood:
        await hood.learner.learn(good(worked))
        receipt = await hood.learner.learn(bad(failed))
        assert (receipt.id or "").endswith("~2")
        assert sorted((await hood.index.present()).values()) == sorted(
            [f"learned:dev:test:{worked}", f"antipattern:dev:test:{failed}"]
        )


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("turned", [True, False])
async def test_colliding_patterns_both_survive(
    tmp_path: Path, shared: Path, *, together: bool, turned: bool
) -> None:
    """Of each pair with one key both lessons are there after reopening, and recall finds each by its text."""
    pairs = json.loads((shared / "ts-store" / "collisions.json").read_text(encoding="utf-8"))
    texts = [[p["first"], p["second"]] if not turned else [p["second"], p["first"]] for p in pairs]
    batches = (
        [[t for pair in texts for t in pair]]
        if together
        else [list(column) for column in zip(*texts, strict=True)]
    )
    async with opened(tmp_path) as hood:
        for batch in batches:
            receipts = await hood.learn_many([_of_pattern(pattern) for pattern in batch])
            assert {receipt.status for receipt in receipts} == {"stored"}
    async with opened(tmp_path) as hood:
        assert sorted(lesson.pattern for lesson in await hood.lessons()) == sorted(
            t for pair in texts for t in pair
        )
        for pattern in [t for pair in texts[:6] for t in pair]:
            episode = pattern.split(":", 3)[3]
            found = await hood.recall(episode, limit=1)
            assert [lesson.text for lesson in found] == [episode]
        again = await hood.learn_many([_of_pattern(pattern) for batch in batches for pattern in batch])
        assert {(receipt.status, receipt.evidence) for receipt in again} == {("merged", 2)}


def _of_pattern(pattern: str) -> EvalResult:
    _, member, skill, episode = pattern.split(":", 3)
    return good(episode, member=member, skill=skill)


async def test_the_threshold_is_inclusive(tmp_path: Path) -> None:
    """A score exactly at the threshold merges, one a millionth below it does not."""
    near = "fixed the flaky login test by mocking the calendar"
    async with opened(tmp_path, small()) as hood:
        await hood.learn(TEXT, score=0.9)
        vectors = await hood.space.embed([near])
        words = lexical_vectors([near])
        fields = {"kind": "learned", "member": "unknown", "skill": "unknown"}
        (found,) = await hood.index.candidates(vectors, words, fields=fields)
        score = found[0].score(hood.space.calibration)
        assert 0.5 < score < 1
        for threshold, status in ((score + 1e-6, "stored"), (score, "merged")):
            parts = {"index": hood.index, "space": hood.space, "threshold": threshold}
            receipt = await EpisodeLearner(hood.store, **parts).learn(
                good(near, member="unknown", skill="unknown")
            )
            assert receipt.status == status
            if status == "stored":
                await hood.forget(receipt.id or "", episodes=True)


@pytest.mark.parametrize("dimension", [64, 1536])
async def test_without_the_embedder_lessons_wait(tmp_path: Path, dimension: int) -> None:
    """They are stored by key, merge by key, are found by wording, and are indexed once a model works again."""
    down = HashedEmbedder(dimension=dimension, fail_after=0)
    async with opened(tmp_path, down) as hood:
        receipt = await hood.learn(TEXT, score=0.9)
        assert receipt.status == "pending"
        assert "fail_after" in receipt.reason
        assert (await hood.learn(TEXT, score=0.9)).evidence == 2
        near = await hood.learn(TEXT + "!", score=0.9)
        assert near.status == "pending"
        found = await hood.recall(TEXT)
        assert (found.semantic, found.degraded, found[0].semantic) == (False, True, False)
        assert found[0].text == TEXT
        assert (await hood.status()).pending == 2
    async with opened(tmp_path, HashedEmbedder(dimension=dimension)) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (2, True)
        found = await hood.recall(TEXT)
        assert (found.semantic, found.degraded, found[0].semantic) == (True, False, True)
        assert (await hood.status()).pending == 0


class _Broken:
    """An embedder that is not ours: it raises, or answers, whatever it likes."""

    semantic, pinned = True, False

    def __init__(self, answer: Any) -> None:
        self.space = small().space
        self._answer = answer

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("no route"), EmbeddingResponseError("garbage"), np.full((1, 64), np.nan),
        np.ones((1, 3)), np.ones((2, 64)), "text", None,
    ],
    ids=["raises", "refuses", "nan", "short", "many", "text", "nothing"],
)  # fmt: skip
async def test_a_misbehaving_embedder_leaves_the_lesson_pending(tmp_path: Path, answer: Any) -> None:
    """Whatever a foreign embedder raises or answers, the lesson is stored and waits."""
    async with opened(tmp_path, _Broken(answer)) as hood:
        receipt = await hood.learn(TEXT, score=0.9)
        assert receipt.status == "pending"
        assert receipt.reason
        assert (await hood.recall(TEXT)).degraded
    async with opened(tmp_path, small()) as hood:
        assert (await hood.recall(TEXT)).semantic


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"episode": ""}, "empty"), ({"episode": "  "}, "empty"), ({"episode": 7}, "give text"),
        ({"episode": "a\x00b"}, "NUL"), ({"outcome": "\ud800"}, "surrogate"), ({"member": None}, "give text"),
        ({"scores": {"a": float("nan")}}, "'a'"), ({"scores": 0.9}, "mapping"), ({"scores": None}, "mapping"),
        ({"scores": {1: 0.9}}, "mapping"), ({"scores": {"a": True}}, "'a'"), ({"timestamp": "today"}, "datetime"),
        ({"timestamp": datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))}, "is not a time"),
    ],
)  # fmt: skip
async def test_unusable_input_is_rejected_with_its_reason(
    tmp_path: Path, fields: dict[str, Any], part: str
) -> None:
    """It leaves nothing behind, and its neighbours in the batch are learned."""
    wrong = EvalResult(**({"episode": TEXT, "scores": {"score": 0.9}} | fields))
    async with opened(tmp_path) as hood:
        receipts = await hood.learn_many([good("kept one"), wrong, good("kept another")])
        assert [receipt.status for receipt in receipts] == ["stored", "rejected", "stored"]
        assert part in receipts[1].reason
        assert len(await bodies(hood, "ep:")) == 2


def _deep() -> Any:
    """A list nested deeper than `repr` and JSON can follow."""
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    return nested


class _Hostile:
    """Raises at any look."""

    def __repr__(self) -> str:
        raise KeyError("no name")


@pytest.mark.parametrize(
    "fields",
    [
        {"scores": {"a": 10**5000}}, {"scores": {"a": -(10**5000)}}, {"scores": {"a": _deep()}},
        {"scores": _deep()}, {"episode": _deep()}, {"outcome": 10**5000}, {"timestamp": _deep()},
        {"member": np.array([1, 2])}, {"skill": np.array([1, 2])}, {"episode": _Hostile()},
        {"scores": {"a": _Hostile()}}, {"episode_id": _deep()}, {"episode_id": _Hostile()},
    ],
    ids=[
        "huge", "hugely negative", "deep score", "deep scores", "deep episode", "huge outcome", "deep time",
        "array member", "array skill", "hostile episode", "hostile score", "deep id", "hostile id",
    ],
)  # fmt: skip
async def test_what_cannot_even_be_shown_is_rejected(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Numbers, nesting and objects that `repr` fails on end neither the run nor their batch."""
    wrong = EvalResult(**({"episode": TEXT, "scores": {"score": 0.9}} | fields))
    async with opened(tmp_path) as hood:
        receipts = await hood.learner.learn_many([good("kept one"), wrong, good("kept another")])
        assert [receipt.status for receipt in receipts] == ["stored", "rejected", "stored"]
        assert receipts[1].reason
        assert len(receipts[1].reason) < 400


@pytest.mark.parametrize(
    "id_",
    [
        123,
        "",
        "ep:",
        "ep:1-a\x00",
        "ep:1-sk-proj-Ab1",
        "ltm:learnings/v1:a",
        "ep:1-a ",
        "ep:1-a\n",
        "ep:1-\ud800",
    ],
)
async def test_an_id_that_is_no_episodes_is_rejected(tmp_path: Path, id_: Any) -> None:
    """What would be cited as an episode has its shape, so that no secret or NUL gets in that way."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learner.learn(EvalResult(TEXT, {"score": 0.9}, episode_id=id_))
        assert await hood.lessons() == []
    assert receipt.status == "rejected"
    assert "episode_id" in receipt.reason


async def test_what_is_no_result_at_all_is_rejected(tmp_path: Path) -> None:
    """Neither a mapping nor None in place of an EvalResult ends the run."""
    async with opened(tmp_path) as hood:
        receipts = await hood.learn_many([{"episode": TEXT}, None, good(TEXT)])  # type: ignore[list-item]
    assert [receipt.status for receipt in receipts] == ["rejected", "rejected", "stored"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"scores": 5}, {"scores": "good"}, {"score": "high"}, {"score": 0.9, "scores": {"a": 1}},
        {"score": 0.9, "timestamp": "yesterday"}, {"score": 0.9, "member": 3}, {"score": 0.9, "outcome": None},
    ],
)  # fmt: skip
async def test_the_front_door_rejects_instead_of_raising(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """`learn` answers any nonsense with a receipt."""
    async with opened(tmp_path) as hood:
        receipt = await hood.learn(TEXT, **arguments)
    assert (receipt.status, receipt.id) == ("rejected", None)
    assert receipt.reason


async def test_numbers_and_times_of_any_kind_are_learned(tmp_path: Path) -> None:
    """Fractions, NumPy scalars and naive times end up as plain JSON."""
    scores = {"a": Fraction(9, 10), "b": np.float32(0.5), "c": 1, "d": np.int64(1)}
    naive = datetime(2026, 5, 1, 12)  # noqa: DTZ001  which counts as UTC
    async with opened(tmp_path) as hood:
        receipt = await hood.learner.learn(EvalResult(TEXT, scores, timestamp=naive))  # type: ignore[arg-type]
        (episode,) = (await bodies(hood, "ep:")).values()
    assert receipt.status == "stored"
    assert episode["scores"] == {"a": 0.9, "b": 0.5, "c": 1, "d": 1}
    assert episode["timestamp"] == "2026-05-01T12:00:00.000Z"
    assert (receipt.episode_id or "").startswith("ep:1777636800000-")


async def test_a_receipt_is_true_where_the_store_vanished(tmp_path: Path) -> None:
    """With its directory gone mid-run, what a receipt calls stored is there at the next start."""
    async with opened(tmp_path) as hood:
        await hood.learn(TEXT, score=0.9)
        shutil.rmtree(tmp_path / ".agenthood" / "memory")
        receipt = await hood.learn("something else", score=0.9)
    async with opened(tmp_path) as hood:
        lessons = [lesson.id for lesson in await hood.lessons()]
    assert receipt.status in {"stored", "pending"}
    assert lessons == [receipt.id]


async def test_a_file_in_the_place_of_the_store_queues(tmp_path: Path) -> None:
    """What is no directory any more is a reason, not an exception, and nothing is lost by it."""
    async with opened(tmp_path) as hood:
        shutil.rmtree(tmp_path / ".agenthood" / "memory")
        (tmp_path / ".agenthood" / "memory").write_text("not a store")
        receipt = await hood.learn("something else", score=0.9)
    assert (receipt.status, receipt.id) == ("pending", None)
    assert "not a directory" in receipt.reason
    (tmp_path / ".agenthood" / "memory").unlink()
    async with opened(tmp_path) as hood:
        assert [lesson.episodes for lesson in await hood.lessons()] == [(receipt.episode_id,)]


async def test_without_the_index_lessons_are_stored_pending(tmp_path: Path) -> None:
    """Where the index's table cannot be searched or written, the lesson is stored by key and waits."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn(TEXT, score=0.9)
        table = tmp_path / ".agenthood" / "memory" / f"{hood.index.main.name}.lance"
        shutil.rmtree(table)
        table.write_text("no table")
        receipt = await hood.learn("something else entirely", score=0.9)
        assert receipt.status == "pending"
        assert hood.index.main.name in receipt.reason
        assert (await hood.learn(TEXT, score=0.9)).evidence == 2
    table.unlink()
    async with opened(tmp_path, small()) as hood:
        assert (await hood.status()).indexed == 2
        assert len(await hood.recall("something else entirely", limit=1)) == 1


async def test_status_survives_and_counts(tmp_path: Path) -> None:
    """Counts per band and member, the last update and the trend are on the store, not in the process."""
    rising = [good(f"middling {n}", 0.5) for n in range(3)]
    for batch in ([bad("broke it", member="qa"), *rising], [good(f"worked well {n}", 1.0) for n in range(4)]):
        async with opened(tmp_path) as hood:
            await hood.learn_many(batch)
    async with opened(tmp_path) as hood:
        status = await hood.learner.get_status()
    assert status.bands == {"learned": 4, "antipattern": 1, "skipped": 3}
    assert status.members == {"qa": 1, "dev": 7}
    assert status.trend == "rising"
    assert (status.last_update or "") > "2026"


async def test_secrets_reach_no_file(tmp_path: Path) -> None:
    """A key in the episode, the outcome or a name is redacted before anything is stored."""
    key = "sk-proj-" + "Ab1" * 16
    async with opened(tmp_path, small()) as hood:
        receipt = await hood.learn(f"called it with {key} set", score=0.9, outcome=f"saw {key}", member=key)
        await hood.learn(f"tried {key} again and failed", score=0.1, skill=key)
    assert receipt.status == "stored"
    assert files_with(tmp_path, "called it with") != []
    assert files_with(tmp_path, key) == []


async def test_a_recalled_block_is_not_learned_again(tmp_path: Path) -> None:
    """What we put into a prompt ourselves is skipped, with the reason."""
    lesson = RecalledLesson("id", "learned", TEXT, "dev", "test", 0.9, 0.9, 1, 0.9, (), semantic=True)
    block = render_block([lesson], max_bytes=4096)
    async with opened(tmp_path) as hood:
        receipts = [
            await hood.learn(block, score=0.9),
            await hood.learn("x", outcome=f"saw {block}", score=0.9),
        ]
        assert await bodies(hood, "ep:") == {}
    assert {(receipt.status, receipt.id) for receipt in receipts} == {("skipped", None)}
    assert "block" in receipts[0].reason


async def test_long_episodes_do_not_cost_the_others_their_signals(tmp_path: Path) -> None:
    """An episode too long for a residual signal leaves out its own only."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good("short one"), good("long " * 2_000), good("another thing done")])
        assert {signal.text for signal in hood.residual.get_active()} == {"short one", "another thing done"}


async def test_no_episode_takes_the_id_of_another(tmp_path: Path) -> None:
    """Where the same id is drawn twice, or one that the store has, every episode is still there under its own."""
    async with opened(tmp_path) as hood:
        drawn = iter(f"ep:1-{end}" for end in "aabbabcd")
        learner = EpisodeLearner(hood.store, draw_id=lambda _: next(drawn))
        receipts = await learner.learn_many([good("first"), good("second")])
        receipts += await learner.learn_many([good("third"), good("fourth", 0.5)])
        kept = {id_: body["episode"] for id_, body in (await bodies(hood, "ep:")).items()}
    assert kept == {"ep:1-a": "first", "ep:1-b": "second", "ep:1-c": "third", "ep:1-d": "fourth"}
    assert [receipt.episode_id for receipt in receipts] == list(kept)


async def test_only_what_was_taken_in_is_counted_and_reinforced(tmp_path: Path) -> None:
    """An episode refused, or evidence already, changes neither the counts nor its signal."""
    async with opened(tmp_path, small()) as hood:
        id_ = await hood.episodic.record(TEXT)
        once = EvalResult(TEXT, {"score": 0.85}, member="a", skill="b:c", episode_id=id_)
        taken = EvalResult("taken by another", {"score": 0.85}, member="a", skill="b:c")
        refused = replace(taken, member="a:b", skill="c")
        await hood.learner.learn_many([taken, once])
        before = await hood.learner.get_status(), hood.residual.get_active()
        receipts = await hood.learner.learn_many([refused, once, refused])
        assert [receipt.status for receipt in receipts] == ["rejected", "skipped", "rejected"]
        after = await hood.learner.get_status(), hood.residual.get_active()
    assert after[0] == before[0]
    assert after[0].members == {"a": 2}
    assert [one.text for one in after[1]] == [one.text for one in before[1]]
    assert all(new.weight <= old.weight for new, old in zip(after[1], before[1], strict=True))


async def test_a_held_residual_file_holds_up_neither_the_loop_nor_the_lesson(tmp_path: Path) -> None:
    """While another holds its lock, learning stores the lesson within a few seconds and the loop goes on turning."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, monotonic() - before)

    async with opened(tmp_path) as hood:
        await hood.learn("warmed up", score=0.9)
        with locked(tmp_path / ".agenthood" / "residual.json"):
            ticking, began = asyncio.create_task(tick()), monotonic()
            receipt = await hood.learn(TEXT, score=0.9)
            took = monotonic() - began
            ticking.cancel()
        assert {signal.text for signal in hood.residual.get_active()} == {"warmed up"}
    assert receipt.status == "stored"
    assert took < 8
    assert longest < 1


async def test_an_unusable_row_is_never_overwritten(tmp_path: Path) -> None:
    """A row of another program under a lesson's key keeps its bytes; the lesson gets a key of its own."""
    key = hash_pattern(f"learned:dev:test:{TEXT}")
    row = Record(f"ltm:learnings/{key}", "no json", {"type": "long_term"}, "2026-01-01T00:00:00.000Z")
    async with opened(tmp_path) as hood:
        await hood.store.upsert(SHARED, [row])
        receipt = await hood.learner.learn(good(TEXT))
        assert receipt.id == f"ltm:learnings/{key}~2"
        assert (await shared_rows(hood))[row.id].content == "no json"


_STATUS = "ltm:learner/status"
_LESSON = f"ltm:learnings/{hash_pattern(f'learned:dev:test:{TEXT}')}"
_DIGITS = "9" * 400


@pytest.mark.parametrize(
    ("id_", "content"),
    [
        (_STATUS, "garbage"), (_STATUS, '{"recent":[NaN]}'), (_STATUS, '{"recent":[1e999,-1e999]}'),
        (_STATUS, f'{{"recent":[{_DIGITS},{_DIGITS}]}}'), (_STATUS, '{"recent":[true,"x",null]}'),
        (_STATUS, f'{{"bands":{{"learned":{"9" * 4300}}},"members":{{"dev":{"9" * 4300}}}}}'),
        (_STATUS, '{"bands":{"learned":-5,"skipped":true},"members":[]}'),
        (_LESSON, f'{{"pattern":"learned:dev:test:{TEXT}","score":{_DIGITS}}}'),
        (_LESSON, f'{{"pattern":"learned:dev:test:{TEXT}","mean":NaN,"score":1e999}}'),
        (_LESSON, f'{{"pattern":"learned:dev:test:{TEXT}","evidence":{"9" * 4300}}}'),
        (_LESSON, f'{{"pattern":"learned:dev:test:{TEXT}","evidence":-3,"mean":true}}'),
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
async def test_one_odd_row_does_not_break_the_store(tmp_path: Path, id_: str, content: str) -> None:
    """With counts or numbers that no program should have written, everything else still works."""
    row = Record(id_, content, {"type": "long_term"}, "2026-01-01T00:00:00.000Z")
    async with opened(tmp_path) as hood:
        await hood.store.upsert(SHARED, [row])
    async with opened(tmp_path) as hood:
        receipts = await hood.learn_many([good(TEXT), good("something else entirely")])
        assert {receipt.status for receipt in receipts} <= {"stored", "merged"}
        assert len(await hood.lessons()) == 2
        assert all(0 <= lesson.mean <= 1 and lesson.evidence >= 1 for lesson in await hood.lessons())
        status = (await hood.status()).learner
        assert status.trend in {"rising", "stable", "falling"}
        assert min(status.bands.values()) >= 0


async def test_an_episode_merges_into_what_only_a_pattern_row_knows(tmp_path: Path) -> None:
    """Such a lesson becomes a long-term row with evidence 2, once."""
    async with opened(tmp_path, small()) as hood:
        entry = IndexEntry(
            hash_pattern(f"learned:dev:test:{TEXT}"),
            None,
            "learned",
            "dev",
            "test",
            TEXT,
            f"learned:dev:test:{TEXT}",
        )
        row = Record(
            "pattern:" + entry.key, entry.pattern, {"type": "learned_pattern"}, "2026-01-01T00:00:00.000Z"
        )
        await hood.store.upsert(SHARED, [row])
        assert (await hood.learner.learn(good(TEXT))).evidence == 2
    async with opened(tmp_path, small()) as hood:
        assert [lesson.evidence for lesson in await hood.lessons()] == [2]


async def test_an_episode_keeps_its_own_time(tmp_path: Path) -> None:
    """A time with an offset is stored in UTC; without one it is now."""
    async with opened(tmp_path) as hood:
        await hood.learn(TEXT, score=0.9, timestamp="2026-05-01T12:00:00+08:00")
        before = datetime.now(UTC)
        receipt = await hood.learn("another", score=0.9)
        stamps = {e["episode"]: e["timestamp"] for e in (await bodies(hood, "ep:")).values()}
    assert stamps[TEXT] == "2026-05-01T04:00:00.000Z"
    assert datetime.fromisoformat(stamps["another"]) >= before - timedelta(milliseconds=1)
    assert int((receipt.episode_id or "")[3:].partition("-")[0]) >= int(before.timestamp() * 1000) - 1
