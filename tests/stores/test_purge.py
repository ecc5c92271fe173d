"""A purge leaves nothing: every file of the store is searched for the bytes of what was removed."""

from __future__ import annotations

import random
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from agenthood.stores.filters import Equals
from stores.backends import SHARED, TYPED, WHOLE, Backend, everything, fields, full, record, unit
from stores.files import left

if TYPE_CHECKING:
    from agenthood.stores.base import Collection, Record, VectorStore

TESTED = WHOLE  # a view hands all this on as it is


pytestmark = pytest.mark.usefixtures("on_disk")


def secret(number: int) -> tuple[Record, list[bytes]]:
    """A record of random words, which no compression can hide, and those words."""
    words = [secrets.token_hex(12) for _ in range(5)]
    id_, content, note, term, member = words
    metadata = {"type": "t", "kind": "learned", "member": member, "note": note}
    row = record(id_, content, metadata=metadata, terms=f"all {term}", vector=unit(number))
    return row, [word.encode() for word in words]


async def _purged(backend: Backend, collection: Collection, rows: list[Record], words: list[bytes]) -> None:
    """Purge `rows`; nothing of `words` is left, and the other records are as they were."""
    gone = {row.id for row in rows}
    async with backend.reopened() as store:
        before = sorted(fields(row) for row in await everything(store, collection) if row.id not in gone)
        assert await store.purge(collection, [row.id for row in rows]) == len(rows)
        assert left(backend.folder, words) == set()
    async with backend.reopened() as again:
        assert sorted(map(fields, await everything(again, collection))) == before
        assert await again.purge(collection, [row.id for row in rows]) == 0
        if collection.typed:
            assert [row.id for row in await again.search_terms(TYPED, ["word1"])] == [full(1).id]
            assert full(1).id in await again.ids(TYPED, condition=Equals("member", "member-1"))
    assert left(backend.folder, words) == set()


async def test_from_among_many_in_one_batch(store: VectorStore, backend: Backend, collection: Collection):
    """Three of a thousand records written together go; the others keep content, vectors and terms."""
    made = [secret(number) for number in range(3)]
    words = [word for _, part in made for word in part]
    await store.upsert(collection, [full(n) for n in range(500)] + [row for row, _ in made])
    await store.upsert(collection, [full(n) for n in range(500, 1_000)])
    held = left(backend.folder, words)
    assert len(held) >= 6, "the search would not see them even before"
    await _purged(backend, collection, [row for row, _ in made], words)


async def test_after_many_single_writes(store: VectorStore, backend: Backend, collection: Collection):
    """A record among 60 written one by one goes."""
    row, words = secret(0)
    for number in range(60):
        await store.upsert(collection, [full(number)])
        if number == 30:
            await store.upsert(collection, [row])
    await _purged(backend, collection, [row], words)


@pytest.mark.parametrize("maintained", [True, False])
async def test_every_version_of_an_updated_record(
    store: VectorStore, backend: Backend, collection: Collection, maintained: bool
):
    """What a record said before it was changed goes too, also where few rows of a file changed."""
    versions = [secret(number) for number in range(4)]
    words = [word for _, part in versions for word in part[1:]]
    id_ = versions[0][0].id
    words.append(id_.encode())
    for row, _ in versions:
        same = record(id_, row.content, metadata=row.metadata, terms=row.terms, vector=row.vector)
        await store.upsert(collection, [full(n) for n in range(200)] + [same])
        if maintained:
            await store.maintain(collection)
    await store.upsert(collection, [record(id_, "harmless")])
    await _purged(backend, collection, [record(id_)], words)


async def test_records_that_grew_and_moved(store: VectorStore, backend: Backend, collection: Collection):
    """Records of all sizes, written in no order and changed: no copy stays where one lay for a while."""
    rng = random.Random(5)
    made = [secret(number) for number in range(300)]
    for _ in range(3):
        rng.shuffle(made)
        for start in range(0, 300, 50):
            part = [
                replace(row, content=row.content + "." * rng.randrange(900))
                for row, _ in made[start : start + 50]
            ]
            await store.upsert(collection, part)
    doomed = sorted(made, key=lambda one: one[0].id)[::2]
    assert await store.purge(collection, [row.id for row, _ in doomed]) == 150
    assert left(backend.folder, [word for _, part in doomed for word in part]) == set()
    assert await store.count(collection) == 150


async def test_what_was_deleted_before(store: VectorStore, backend: Backend, collection: Collection):
    """A record that was only deleted is gone from the disk after the next purge, and purging it finds none."""
    deleted, words = secret(0)
    await store.upsert(collection, [full(n) for n in range(300)] + [deleted])
    await store.delete(collection, [deleted.id])
    await store.maintain(collection)
    async with backend.reopened() as again:
        assert await again.purge(collection, [deleted.id]) == 0
    assert left(backend.folder, words) == set()
    async with backend.reopened() as again:
        assert await again.count(collection) == 300


async def test_the_last_record(store: VectorStore, backend: Backend, collection: Collection):
    """An emptied collection holds nothing and can be filled again."""
    row, words = secret(0)
    await store.upsert(collection, [row])
    assert await store.purge(collection, [row.id, "unknown"]) == 1
    assert left(backend.folder, words) == set()
    async with backend.reopened() as again:
        assert await everything(again, collection) == []
        await again.upsert(collection, [full(1)])
        assert len((await again.query(collection, unit(1)[None]))[0]) == 1


async def test_a_file_of_its_own(store: VectorStore, backend: Backend, collection: Collection):
    """A record whose file holds nothing else goes, though no other file has to be written."""
    row, words = secret(0)
    await store.upsert(collection, [full(n) for n in range(20)])
    await store.upsert(collection, [row])
    await _purged(backend, collection, [row], words)
    await store.upsert(collection, [row])
    await store.delete(collection, [row.id])
    async with backend.reopened() as again:
        assert await again.purge(collection, [row.id]) == 0
    assert left(backend.folder, words) == set()


async def test_hostile_ids_are_purged(store: VectorStore, backend: Backend):
    """Ids with quotes, wildcards and newlines are purged alone."""
    odd = ["it's", "100%", "a_b", "new\nline", "😀", "\\"]
    await store.upsert(SHARED, [record(id_) for id_ in (*odd, "axb")])
    assert await store.purge(SHARED, odd) == len(odd)
    async with backend.reopened() as again:
        assert await again.ids(SHARED) == {"axb"}
