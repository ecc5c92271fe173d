"""What reads alike and says something else is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.learning.distinct import are_distinct
from hoods import good, opened

if TYPE_CHECKING:
    from pathlib import Path

DISTINCT = [
    ("always run the migrations before deploying", "never run the migrations before deploying"),
    ("run the linter before a commit", "do not run the linter before a commit"),
    ("enabled the cache for the product list", "disabled the cache for the product list"),
    ("set the timeout of the client to 30 seconds", "set the timeout of the client to 300 seconds"),
    ("upgraded postgres from 14 to 15", "upgraded postgres from 15 to 16"),
    ("used tabs instead of spaces", "used spaces instead of tabs"),
    ("deployed the API before the database migration", "deployed the database migration before the API"),
    ("部署前备份了数据库", "部署前没有备份数据库"),
    ("jangan padam log", "padam log"),
    ("opened the port", "closed the port"),
]
SAME = [
    ("mocked the clock to fix the flaky login test", "fixed the flaky login test by mocking the clock"),
    ("fixed the login", "fixed the login again"),
    ("retried the upload 3 times", "retried the upload"),
    ("handled orders that have no items", "an order without items no longer breaks the total"),
    ("fixed the login", "fixed the login"),
]


@pytest.mark.parametrize(("first", "second"), DISTINCT)
def test_opposites_numbers_and_orders_are_distinct(first: str, second: str) -> None:
    """A negation, an opposite, another number or another order is another fact, whichever comes first."""
    assert are_distinct(first, second)
    assert are_distinct(second, first)


@pytest.mark.parametrize(("first", "second"), SAME)
def test_rewordings_are_not(first: str, second: str) -> None:
    """The same told otherwise is not kept apart."""
    assert not are_distinct(first, second)
    assert not are_distinct(second, first)


@given(st.text(), st.text())
def test_any_two_texts(first: str, second: str) -> None:
    """The order of the two does not matter, and no text is distinct from itself."""
    assert are_distinct(first, second) == are_distinct(second, first)
    assert not are_distinct(first, first)


async def test_a_lesson_is_not_merged_into_its_opposite(tmp_path: Path) -> None:
    """Each of a pair becomes a lesson of its own, one by one and in a batch; a repeat still merges."""
    texts = [text for pair in DISTINCT for text in pair]
    async with opened(tmp_path / "single", "lexical") as hood:
        one_by_one = [await hood.learn(text, score=0.9, member="dev", skill="test") for text in texts]
    async with opened(tmp_path / "batch", "lexical") as hood:
        batch = await hood.learn_many([good(text) for text in [*texts, *texts]])
    assert [receipt.status for receipt in one_by_one] == ["stored"] * len(texts)
    assert [receipt.status for receipt in batch] == ["stored"] * len(texts) + ["merged"] * len(texts)
    async with opened(tmp_path / "batch", "lexical") as hood:
        assert {lesson.text: lesson.evidence for lesson in await hood.lessons()} == dict.fromkeys(texts, 2)
