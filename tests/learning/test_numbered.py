"""Many texts of one template are told apart by their numbers, all at once, as two of them are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.learning import batch
from agenthood.learning.distinct import are_distinct
from agenthood.learning.numbered import NumberedTexts
from hoods import good, opened, small

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from agenthood import Lesson, Receipt
    from agenthood.records import EvalResult

NOW = datetime(2026, 5, 1, tzinfo=UTC)

# Without negations, opposites and words of order, numbers alone decide.
PLAIN = st.lists(
    st.sampled_from(["ticket", "step", "token", "3", "3", "17", "1.5", "c4", "9f", "!", "日", ""]), max_size=7
).map(" ".join)
ANY = PLAIN | st.sampled_from(
    ["not a ticket 3", "ticket 3 before 17", "a ticket 17 failed", "passed ticket 17"]
)


def _found(text: str, others: Sequence[str]) -> list[bool]:
    numbered = NumberedTexts()
    slots = np.array([numbered.add(other) for other in others], dtype=np.int64)
    return numbered.others(text, slots).tolist()


@given(PLAIN, st.lists(PLAIN, max_size=12))
def test_numbers_decide_for_many_as_for_two(text: str, others: list[str]) -> None:
    """Where only numbers can tell texts apart, exactly those are found that the rule for two texts calls distinct."""
    assert _found(text, others) == [are_distinct(text, other) for other in others]


@given(ANY, st.lists(ANY, max_size=12))
def test_no_more_than_the_distinct_are_found(text: str, others: list[str]) -> None:
    """Whatever else is in the texts, none is found that is not distinct, asked for in any order and repeatedly."""
    found = _found(text, others)
    assert all(are_distinct(text, other) for other, one in zip(others, found, strict=True) if one)
    numbered = NumberedTexts()
    slots = np.array([numbered.add(other) for other in others], dtype=np.int64)[::-1]
    assert numbered.others(text, np.concatenate([slots, slots])).tolist() == [*found[::-1], *found[::-1]]


def _template(number: int) -> str:
    """One of many texts alike: most name numbers of their own, some none, some a few in common, some say no."""
    match number % 11:
        case 0:
            return "ticket of the build failed at a step and was run again"
        case 1:
            return f"ticket {number % 4} of the build never failed at step 2 and was run again"
        case 2:
            return f"ticket {number % 4} of the build failed at a step and was run again"
    return f"ticket {number} of the build failed at step {number % 3} and was run again"


async def _outcome(
    folder: Path, episodes: Sequence[EvalResult], embedder: Any, sizes: Sequence[int]
) -> tuple[list[Receipt], list[Lesson]]:
    """Learn in calls of these sizes; the receipts, and what a reopened store holds."""
    told: list[Receipt] = []
    async with opened(folder, embedder) as hood:
        for size in sizes:
            told += await hood.learn_many(episodes[len(told) : len(told) + size])
    async with opened(folder, embedder) as hood:
        lessons = [replace(one, episodes=("ep",) * len(one.episodes)) for one in await hood.lessons()]
    return [replace(one, episode_id=one.episode_id and "ep") for one in told], sorted(
        lessons, key=lambda one: one.id
    )


@settings(max_examples=2)
@given(
    embedder=st.sampled_from(["lexical", "semantic"]),
    numbers=st.lists(st.integers(0, 60), min_size=90, max_size=90),
    split=st.integers(64, 80),
)
def test_batches_of_one_template_decide_as_one_by_one(embedder: str, numbers: list[int], split: int) -> None:
    """Episodes of a template end the same in large batches as one by one: with numbers, without and in between."""
    model: Any = {"lexical": "lexical", "semantic": small()}[embedder]
    episodes = [
        replace(good(_template(number), score=0.9 if number % 5 else 0.1), timestamp=NOW)
        for number in numbers
    ]

    async def all_ways() -> None:
        with TemporaryDirectory() as folder:
            one = await _outcome(Path(folder, "one"), episodes, model, [1] * len(episodes))
            assert await _outcome(Path(folder, "all"), episodes, model, [len(episodes)]) == one
            two = await _outcome(Path(folder, "two"), episodes, model, [split, len(episodes) - split])
            assert two == one

    asyncio.run(all_ways())


async def test_a_template_costs_each_episode_few_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many lessons of a template there are, the whole rule and the store are asked for few of them."""
    asked: list[str] = []

    def counted(first: str, second: str) -> bool:
        asked.append(first)
        return are_distinct(first, second)

    monkeypatch.setattr(batch, "are_distinct", counted)
    texts = [
        f"ticket {number}: component c{number % 7} fails because token t{number} expired"
        for number in range(300)
    ]
    async with opened(tmp_path, "lexical") as hood:
        for start in (0, 100, 200):
            told = await hood.learn_many([good(text) for text in texts[start : start + 100]])
            assert {one.status for one in told} == {"stored"}
        again = await hood.learn_many([good(f"{text}!") for text in texts])
    assert [(one.status, one.similarity) for one in again] == [("merged", 1.0)] * len(texts)
    assert len(asked) <= 2 * len(texts)
