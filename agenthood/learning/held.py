"""The vectors of an index kept in memory while its table stays small: a look-up is then a matrix product.

They belong to one version of the table. Whoever holds the store's write lock checks the version first and tells what
it wrote; every other commit, also another process's, makes the next look-up read them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from agenthood.learning.numbered import UNREAD, NumberedTexts
from agenthood.stores.base import LEXICAL_DIMENSION, TYPED_FIELDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from agenthood.learning.numbered import Slots
    from agenthood.stores.base import Collection, Matrix, Record, Vector, VectorStore

Owner: TypeAlias = tuple[str | None, ...]
"""Kind, member and skill of a pattern."""

MANY = 64
"""From so many episodes on, reading every vector once costs less than a search for each."""

_MOST_BYTES = 128 * 1024**2  # 43,000 lessons of the bundled model
_FEW_IN_A_ROW = 4
_LEAST_ROOM = 8


class Group:
    """The vectors of one owner, with room for more.

    Attributes:
        ids: of its patterns.
    """

    def __init__(self, ids: list[str], vectors: Vector) -> None:
        """Args: the `ids` of n patterns and their `vectors`, float32 (n, d)."""
        self.ids = ids
        self._vectors = vectors
        self._slots = np.full(len(ids), UNREAD)

    @property
    def vectors(self) -> Vector:
        """float32 (n, d)."""
        return self._vectors[: len(self.ids)]

    @property
    def slots(self) -> Slots:
        """int64 (n,): the slots of their texts among those read, `UNREAD` for the others; to be written to."""
        return self._slots[: len(self.ids)]

    def add(self, id_: str, vector: Vector) -> None:
        """Add a pattern, whose text is unread."""
        count = len(self.ids)
        if count == len(self._vectors):
            more = max(_LEAST_ROOM, count)
            room = np.zeros((more, vector.shape[0]), dtype=np.float32)
            self._vectors = np.concatenate([self._vectors, room])
            self._slots = np.concatenate([self._slots, np.full(more, UNREAD)])
        self._vectors[count], self._slots[count] = vector, UNREAD
        self.ids.append(id_)

    def drop(self, id_: str) -> None:
        """Remove one; the last takes its place."""
        position, last = self.ids.index(id_), self.ids.pop()
        if last != id_:
            self.ids[position] = last
            self._vectors[position] = self._vectors[len(self.ids)]
            self._slots[position] = self._slots[len(self.ids)]


class GroupedVectors:
    """The vectors of many patterns, by owner: only patterns of one owner are ever compared."""

    def __init__(self, matrix: Matrix) -> None:
        """Args: the `matrix` as the store gives it."""
        rows: dict[Owner, list[int]] = {}
        for row, owner in enumerate(matrix.owners):
            rows.setdefault(owner, []).append(row)
        self._groups = {
            owner: Group([matrix.ids[row] for row in some], matrix.vectors[some])
            for owner, some in rows.items()
        }
        self._owners = dict(zip(matrix.ids, matrix.owners, strict=True))
        self._width = matrix.vectors.shape[1]

    def __len__(self) -> int:
        return len(self._owners)

    def of(self, owner: Owner) -> Group:
        """The patterns of an owner."""
        return self._groups.get(owner) or self._empty()

    def _empty(self) -> Group:
        return Group([], np.zeros((0, self._width), dtype=np.float32))

    def put(self, rows: Iterable[tuple[str, Owner, Vector | None]]) -> None:
        """Take rows into account that were inserted or replaced: id, owner and vector, None where there is none."""
        for id_, owner, vector in rows:
            before = self._owners.pop(id_, None)
            if before is not None:
                self._groups[before].drop(id_)
            if vector is None:
                continue
            if owner not in self._groups:
                self._groups[owner] = self._empty()
            self._groups[owner].add(id_, vector)
            self._owners[id_] = owner


@dataclass(slots=True)
class Held:
    """The vectors of an index at one version of its table.

    Attributes:
        version: the version; None if the store has none.
        semantic: None in a space that only compares wording.
        words: the lexical vectors.
        numbered: the texts that were read for comparing their numbers.
    """

    version: int | None
    semantic: GroupedVectors | None
    words: GroupedVectors
    numbered: NumberedTexts = field(default_factory=NumberedTexts)
    _slots: dict[str, int] = field(default_factory=dict)

    async def slots(
        self, group: Group, rows: Slots, read: Callable[[list[str]], Awaitable[list[str]]]
    ) -> Slots:
        """The slots in `numbered` of some patterns.

        Args:
            group: of this index.
            rows: int (n,), which of its patterns.
            read: gives the texts of patterns by id; asked only for those that were not read before.
        """
        unread = np.unique(rows[group.slots[rows] == UNREAD])
        ids = [group.ids[row] for row in unread]
        missing = [id_ for id_ in ids if id_ not in self._slots]
        for id_, text in zip(missing, await read(missing) if missing else (), strict=True):
            self._slots[id_] = self.numbered.add(text)
        group.slots[unread] = [self._slots[id_] for id_ in ids]
        return group.slots[rows]

    def put(self, records: Sequence[Record]) -> None:
        """Take rows into account that were inserted or replaced."""
        owners = [tuple(record.metadata.get(name) for name in TYPED_FIELDS) for record in records]
        for record in records:
            self._slots.pop(record.id, None)
        lexical = [record.vector if self.semantic is None else record.lexical for record in records]
        ids = [record.id for record in records]
        self.words.put(zip(ids, owners, lexical, strict=True))
        if self.semantic is not None:
            self.semantic.put(zip(ids, owners, (record.vector for record in records), strict=True))


class HeldVectors:
    """What is kept of one index, for whoever holds the store's write lock: nobody changes the table meanwhile."""

    def __init__(self, store: VectorStore, collection: Collection) -> None:
        """Args: the `store` and the `collection` of the index."""
        self._store = store
        self._collection = collection
        self._kept: Held | None = None
        self._few = 0
        self._seen: int | None = None

    async def of(self, episodes: int) -> Held | None:
        """The vectors to compare so many episodes with; None where searching for them costs less."""
        version = await self._store.version(self._collection)
        if self._kept is not None and self._kept.version == version:
            return self._kept
        self._kept = None
        if version != self._seen:  # where others write in turn, all would be read again for every episode
            self._few = 0
        self._seen = version
        self._few = 0 if episodes >= MANY else self._few + 1
        if episodes >= MANY or (self._few >= _FEW_IN_A_ROW and version is not None and await self._fits()):
            return await self.read()
        return None

    async def read(self) -> Held:
        """The vectors as they are now; kept if they are few enough and the store tells when they change."""
        version = await self._store.version(self._collection)
        lexical = self._collection.lexical
        words = await self._store.matrix(self._collection, field="lexical" if lexical else "vector")
        semantic = await self._store.matrix(self._collection) if lexical else None
        held = Held(version, None if semantic is None else GroupedVectors(semantic), GroupedVectors(words))
        if version is not None and await self._fits():
            self._kept = held
        return held

    def wrote(self, records: Sequence[Record], version: int | None) -> None:
        """Take into account what the holder of the lock wrote, and the `version` of the table then."""
        if self._seen is not None and version == self._seen + 1:
            self._seen = version
        kept = self._kept
        if kept is None or kept.version is None or version != kept.version + 1:
            self._kept = None  # something else came in between
            return
        kept.version = version
        kept.put(records)
        if not self._are_few(len(kept.words)):  # whoever learns on and on would else keep all of them
            self._kept = None

    async def _fits(self) -> bool:
        return self._are_few(await self._store.count(self._collection))

    def _are_few(self, count: int) -> bool:
        width = self._collection.dimension + (LEXICAL_DIMENSION if self._collection.lexical else 0)
        return 4 * width * count <= _MOST_BYTES
