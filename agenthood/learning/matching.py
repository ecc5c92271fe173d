"""Which indexed patterns may be the same as each of a batch of episodes.

A few episodes are searched for in the store. For many, or several times a few, the vectors of all patterns are read
once and compared in blocks, each episode with those of its own kind, member and skill, and kept for the next batch as
long as nobody else writes. Both give the same best match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from agenthood.formats import storable
from agenthood.learning.patterns import Candidate
from agenthood.learning.similar import Lowest, pairs_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agenthood.learning.held import GroupedVectors, Held
    from agenthood.learning.index import EmbeddingIndex
    from agenthood.stores.base import Vector, VectorStore

Group: TypeAlias = tuple[tuple[str, str], ...]
"""What a pattern must have in common with an episode: (field, value) for kind, member and skill."""

# The nearest pattern decides, unless its lesson has gone meanwhile or says the opposite.
_NEAREST = 8


async def matches(
    store: VectorStore,
    index: EmbeddingIndex,
    vectors: tuple[Vector, Vector],
    groups: Sequence[Group],
    threshold: float,
) -> list[list[Candidate]]:
    """For each episode, the patterns of its group that may reach the match threshold.

    Args:
        store: the store the index is in.
        index: the pattern index.
        vectors: float32 (n, dimension) and (n, LEXICAL_DIMENSION) of the episodes; zero rows match nothing.
        groups: the group of each episode.
        threshold: match score in [0, 1].
    """
    positions: dict[Group, list[int]] = {}
    for position, group in enumerate(groups):
        positions.setdefault(group, []).append(position)
    found: list[list[Candidate]] = [[] for _ in groups]
    held = await index.held.of(len(groups))
    if held is None:
        for group, members in positions.items():
            for position, near in zip(members, await _near(index, vectors, members, group), strict=True):
                found[position] = near
        # If so many are alike, there may be more, and not the nearest may be the one that fits.
        if all(sum(c.score(index.calibration) >= threshold for c in some) < _NEAREST for some in found):
            return found
        held = await index.held.read()
    return await _compared(store, index, held, vectors, positions, threshold)


async def _near(
    index: EmbeddingIndex, vectors: tuple[Vector, Vector], members: list[int], group: Group
) -> list[list[Candidate]]:
    semantic, words = vectors
    return await index.candidates(semantic[members], words[members], fields=dict(group), limit=_NEAREST)


async def _compared(  # noqa: PLR0913, PLR0917  one comparison
    store: VectorStore,
    index: EmbeddingIndex,
    held: Held,
    vectors: tuple[Vector, Vector],
    positions: dict[Group, list[int]],
    threshold: float,
) -> list[list[Candidate]]:
    semantic, words = vectors
    lowest = Lowest.of(index.calibration, threshold)
    found: list[dict[str, tuple[float, float]]] = [{} for _ in words]
    if held.semantic is not None:
        for position, id_, cosine in _pairs(held.semantic, semantic, positions, lowest.semantic):
            found[position][id_] = (cosine, 0.0)
    for position, id_, cosine in _pairs(held.words, words, positions, lowest.words):
        found[position][id_] = (found[position].get(id_, (-1.0, 0.0))[0], cosine)
    wanted = sorted({id_ for some in found for id_ in some})
    rows = await store.get(index.main, wanted) if wanted else {}
    return [
        [Candidate(rows[id_], *cosines) for id_, cosines in some.items() if id_ in rows] for some in found
    ]


def _pairs(
    stored: GroupedVectors, vectors: Vector, positions: dict[Group, list[int]], lowest: float
) -> Iterator[tuple[int, str, float]]:
    """The (episode, row id, cosine) of every pair of one group whose cosine may be enough."""
    for group, members in positions.items():
        ids, held = stored.of(tuple(storable(value) for _, value in group))
        for query, row, cosine in pairs_above(vectors[members], held, lowest):
            yield members[query], ids[row], cosine
