"""Vectors kept in memory: the same as in the store, whatever is written, by whomever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agenthood.learning import held
from agenthood.learning.held import GroupedVectors
from agenthood.stores.base import LEXICAL_DIMENSION, TYPED_FIELDS, Matrix, Record
from hoods import good, opened, small
from outages import FaultyHood

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from agenthood.learning.held import Held, Owner
    from agenthood.stores.base import Vector

OWNERS: tuple[Owner, ...] = (
    ("learned", "dev", "test"),
    ("antipattern", "dev", "test"),
    ("learned", None, "x"),
)

ROW = np.array([1.0, 0.0, 0.0], dtype=np.float32)

_rows = st.tuples(st.integers(0, 9).map(str), st.sampled_from(OWNERS), st.none() | st.integers(1, 99))


def _vector(value: int | None) -> Vector | None:
    return None if value is None else np.array([value, 1.0, 0.0], dtype=np.float32)


def _shown(grouped: GroupedVectors) -> dict[Owner, dict[str, list[float]]]:
    shown = {}
    for owner in OWNERS:
        group = grouped.of(owner)
        assert len(group.ids) == len(group.vectors) == len(group.slots) == len(set(group.ids))
        shown[owner] = dict(zip(group.ids, group.vectors.tolist(), strict=True))
    return shown


@given(st.lists(_rows, max_size=12, unique_by=lambda row: row[0]), st.lists(_rows, max_size=40))
def test_it_holds_what_a_dictionary_would(before: list, later: list) -> None:
    """Rows are inserted, replaced, moved to another owner and emptied; every owner has exactly its own."""
    there = [(id_, owner, vector) for id_, owner, value in before if (vector := _vector(value)) is not None]
    matrix = Matrix(
        [id_ for id_, _, _ in there],
        np.array([vector for *_, vector in there], dtype=np.float32).reshape(-1, 3),
        [owner for _, owner, _ in there],
    )
    grouped = GroupedVectors(matrix)
    expected = {id_: (owner, vector) for id_, owner, vector in there}
    for id_, owner, value in later:
        vector = _vector(value)
        grouped.put([(id_, owner, vector)])
        expected.pop(id_, None)
        if vector is not None:
            expected[id_] = (owner, vector)
    wanted: dict[Owner, dict[str, list[float]]] = {owner: {} for owner in OWNERS}
    for id_, (owner, vector) in expected.items():
        wanted[owner][id_] = vector.tolist()
    assert _shown(grouped) == wanted


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(2, 4), st.booleans()), max_size=30))
def test_texts_are_read_once_and_again_where_they_changed(steps: list[tuple[str, int, bool]]) -> None:
    """Whatever is written and removed in between, a row's slot is that of its present text."""
    kept, texts, read = _no_vectors(), dict[str, str](), list[str]()

    async def texts_of(ids: list[str]) -> list[str]:
        read.extend(ids)
        return [texts[id_] for id_ in ids]

    async def all_slots() -> None:
        group = kept.words.of(OWNERS[0])
        slots = await kept.slots(group, np.arange(len(group.ids)), texts_of)
        for id_, slot in zip(group.ids, slots.tolist(), strict=True):
            others = kept.numbered.others("case 3 of many", np.array([slot]))
            assert others.tolist() == [texts[id_] != "case 3 of many"]

    for id_, number, gone in steps:
        texts[id_] = f"case {number} of many"
        kept.put(
            [Record(id_, "", dict(zip(TYPED_FIELDS, OWNERS[0], strict=True)), "", None if gone else ROW)]
        )
        asyncio.run(all_slots())
        read.clear()
        asyncio.run(all_slots())
        assert not read


def _no_vectors() -> Held:
    empty = Matrix([], np.zeros((0, 3), np.float32), [])
    return held.Held(1, None, GroupedVectors(empty))


def _ids(held: Held | None) -> set[str]:
    assert held is not None
    assert held.semantic is not None
    owner = ("learned", "dev", "test")
    assert sorted(held.semantic.of(owner).ids) == sorted(held.words.of(owner).ids)
    return set(held.words.of(owner).ids)


async def test_what_was_learned_is_held_without_reading_it_again(tmp_path: Path) -> None:
    """After a few in a row the vectors are read once, and kept up with what is learned."""
    async with opened(tmp_path, small()) as hood:
        for number in range(8):
            receipt = await hood.learn(
                f"number {number} fixed the parser of case {number}", score=0.9, member="dev", skill="test"
            )
            assert receipt.status == "stored"
        held = await hood.index.held.of(1)
        assert _ids(held) == await hood.store.ids(hood.index.main)
        await hood.learn("sped up the cache", score=0.9, member="dev", skill="test")
        assert await hood.index.held.of(1) is held
        assert _ids(held) == await hood.store.ids(hood.index.main)


async def test_what_others_write_is_read_again(tmp_path: Path) -> None:
    """Another opening of the store learns and forgets in between: nothing is learned twice, nothing dead is met."""
    text = "fixed the login by mocking the clock"
    async with opened(tmp_path, small()) as hood, opened(tmp_path, small()) as other:
        for number in range(6):
            await hood.learner.learn(good(f"case {number} of {number} was made faster"))
        assert await hood.index.held.of(1) is not None
        first = await other.learn(text, score=0.9, member="dev", skill="test")
        again = await hood.learn(f"{text}!", score=0.9, member="dev", skill="test")
        assert (again.status, again.id) == ("merged", first.id)
        await other.forget(first.id or "")
        anew = await hood.learn(f"{text}!", score=0.9, member="dev", skill="test")
        assert (anew.status, anew.evidence) == ("stored", 1)
    async with opened(tmp_path, small()) as hood:
        assert len(await hood.lessons()) == 7


async def test_no_more_is_held_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that learns on and on lets the vectors go when they have grown too many."""
    async with opened(tmp_path, small()) as hood:
        wanted = hood.index.main.dimension + LEXICAL_DIMENSION
        monkeypatch.setattr(held, "_MOST_BYTES", 10 * 4 * wanted)
        for number in range(10):
            await hood.learner.learn(good(f"case {number} of {number} was made faster"))
        assert len(_ids(await hood.index.held.of(1))) == 10
        await hood.learner.learn(good("sped up the cache"))
        assert await hood.index.held.of(1) is None


async def test_two_that_learn_in_turn_do_not_read_all_vectors_each_time(tmp_path: Path) -> None:
    """What another's next write makes worthless is not read; once nobody else writes it is."""
    texts = iter([str(uuid5(NAMESPACE_URL, str(number))) for number in range(24)])
    async with FaultyHood(tmp_path, deadline=10) as hood, FaultyHood(tmp_path, deadline=10) as other:
        for _ in range(8):
            assert (await hood.learner.learn(good(next(texts)))).status == "stored"
            assert (await other.learner.learn(good(next(texts)))).status == "stored"
        assert "matrix" not in hood.faulty.calls
        for _ in range(8):
            await hood.learner.learn(good(next(texts)))
        assert hood.faulty.calls.count("matrix") == 1
