"""Which indexed patterns may be the same as each of a batch of episodes.

A few episodes are searched for in the store. For many, or several times a few, the vectors of all patterns are read
once and compared in blocks, each episode with those of its own kind, member and skill, and kept for the next batch as
long as nobody else writes. Both give the same best match.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from agenthood.formats import pattern_text, storable
from agenthood.learning.patterns import Candidate
from agenthood.learning.similar import FEW, Lowest, cosines_of_pairs, crowded, pairs_above

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    import numpy.typing as npt

    from agenthood.learning.held import Group as Patterns
    from agenthood.learning.held import GroupedVectors, Held
    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.intake import Lasting
    from agenthood.learning.similar import Rows
    from agenthood.stores.base import Record, Vector, VectorStore

Group: TypeAlias = tuple[tuple[str, str], ...]
"""What a pattern must have in common with an episode: (field, value) for kind, member and skill."""


async def matches(
    store: VectorStore,
    index: EmbeddingIndex,
    episodes: Sequence[Lasting],
    vectors: tuple[Vector, Vector],
    threshold: float,
) -> list[list[Candidate]]:
    """For each episode, the patterns of its group that may reach the match threshold.

    Of many that reach it, those that name other numbers may be left out: `distinct` keeps them apart anyway.

    Args:
        store: the store the index is in.
        index: the pattern index.
        episodes: the episodes.
        vectors: float32 (n, dimension) and (n, LEXICAL_DIMENSION) of the episodes; zero rows match nothing.
        threshold: match score in [0, 1].
    """
    positions: dict[Group, list[int]] = {}
    for position, episode in enumerate(episodes):
        positions.setdefault(episode.fields, []).append(position)
    found: list[list[Candidate]] = [[] for _ in episodes]
    held = await index.held.of(len(episodes))
    if held is None:
        for group, members in positions.items():
            for position, near in zip(members, await _near(index, vectors, members, group), strict=True):
                found[position] = near
        # If so many are alike, there may be more, and not the nearest may be the one that fits.
        if all(sum(c.score(index.calibration) >= threshold for c in some) < FEW for some in found):
            return found
        held = await index.held.read()
    return await _Comparison(store, index, held, episodes, positions).candidates(vectors, threshold)


async def _near(
    index: EmbeddingIndex, vectors: tuple[Vector, Vector], members: list[int], group: Group
) -> list[list[Candidate]]:
    semantic, words = vectors
    return await index.candidates(semantic[members], words[members], fields=dict(group), limit=FEW)


@dataclass(slots=True)
class _Comparison:
    """Episodes compared with all patterns of their groups.

    Attributes:
        store: the store the index is in.
        index: the pattern index.
        held: its vectors.
        episodes: the episodes.
        positions: the episodes of each group, by position.
    """

    store: VectorStore
    index: EmbeddingIndex
    held: Held
    episodes: Sequence[Lasting]
    positions: dict[Group, list[int]]

    async def candidates(self, vectors: tuple[Vector, Vector], threshold: float) -> list[list[Candidate]]:
        """As `matches`."""
        semantic, words = vectors
        lowest = Lowest.of(self.index.calibration, threshold)
        found: list[dict[str, tuple[float, float]]] = [{} for _ in self.episodes]
        if self.held.semantic is not None:
            async for position, id_, cosine in self._pairs(self.held.semantic, semantic, lowest.semantic):
                found[position][id_] = (cosine, 0.0)
        async for position, id_, cosine in self._pairs(self.held.words, words, lowest.words):
            found[position][id_] = (found[position].get(id_, (-1.0, 0.0))[0], cosine)
        rows = await self._rows({id_ for some in found for id_ in some})
        return [
            [Candidate(rows[id_], *cosines) for id_, cosines in some.items() if id_ in rows] for some in found
        ]

    async def _pairs(
        self, stored: GroupedVectors, vectors: Vector, lowest: float
    ) -> AsyncIterator[tuple[int, str, float]]:
        """The (episode, row id, cosine) of every pair of one group whose cosine may be enough."""
        for group, positions in self.positions.items():
            patterns = stored.of(tuple(storable(value) for _, value in group))
            members = np.array(positions)
            for queries, columns in pairs_above(vectors[members], patterns.vectors, lowest):
                kept = await self._not_numbered(patterns, members[queries], columns)
                pairs = members[queries[kept]], columns[kept]
                cosines = cosines_of_pairs(vectors, pairs[0], patterns.vectors, pairs[1])
                for row, column, cosine in zip(*(some.tolist() for some in (*pairs, cosines)), strict=True):
                    yield row, patterns.ids[column], cosine

    async def _not_numbered(self, patterns: Patterns, rows: Rows, columns: Rows) -> npt.NDArray[np.bool_]:
        """Which pairs are left without those that name other numbers, where an episode has many; bool (k,)."""
        kept = np.ones(len(rows), dtype=np.bool_)
        for row, pairs in crowded(rows):
            episode = self.episodes[row]
            slots = await self.held.slots(patterns, columns[pairs], partial(self._texts, episode))
            kept[pairs] = ~self.held.numbered.others(episode.episode, slots)
        return kept

    async def _texts(self, episode: Lasting, ids: Sequence[str]) -> list[str]:
        """The texts of patterns of the group of `episode`; empty for what is no pattern of it."""
        start = storable(pattern_text(episode.kind, episode.member, episode.skill, ""))
        rows = await self._rows(ids)
        contents = (rows[id_].content if id_ in rows else "" for id_ in ids)
        return [text.removeprefix(start) if text.startswith(start) else "" for text in contents]

    async def _rows(self, ids: Collection[str]) -> dict[str, Record]:
        return await self.store.get(self.index.main, sorted(ids)) if ids else {}
