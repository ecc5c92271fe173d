"""What the speed benchmark works on: clustered vectors, recombined texts, and the truth by brute force."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import common
import numpy as np
import numpy.typing as npt

from agenthood import EvalResult
from agenthood.errors import EmbedderUnavailableError
from agenthood.formats import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from agenthood.embedding.base import Embedder, EmbeddingSpace, Role, Vectors

SEED = 20261130
SPREAD = 1.0
"""Length of the noise around a centre of length 1: two members of a cluster have a cosine of about 0.5."""
MEMBERS = 100
BEST = 10
TIE = 1e-6
"""Cosines this close count as equal: which of two equals is tenth is nobody's mistake."""
_BLOCK = 50_000
_AT = parse_time("2026-06-01T00:00:00.000Z")


# -- vectors ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Rows of an index, without their texts.

    Attributes:
        vectors: float32 (n, dimension) of unit length.
        antipattern: bool (n,), one in four.
        member: int (n,), one of `MEMBERS`.
    """

    vectors: Vectors
    antipattern: npt.NDArray[np.bool_]
    member: npt.NDArray[np.int64]

    def mask(self, member: int | None = None) -> npt.NDArray[np.bool_]:
        """Which rows are lessons of the kind `learned`, and of this member if one is named."""
        return ~self.antipattern if member is None else ~self.antipattern & (self.member == member)


def points(count: int, dimension: int, seed: int = SEED) -> Points:
    """`count` rows whose vectors lie in about sqrt(count) clusters of unequal size."""
    rng = np.random.default_rng([seed, 1])
    return Points(
        clustered(count, dimension, around=count, seed=seed),
        rng.random(count) < 0.25,
        rng.integers(0, MEMBERS, count),
    )


def clustered(count: int, dimension: int, *, around: int, seed: int, draw: int = 0) -> Vectors:
    """float32 (count, dimension) of unit length, in clusters.

    Args:
        count: how many.
        dimension: of what length.
        around: as many clusters as suit this many rows; with one `seed` the same centres.
        seed: of the centres.
        draw: another number gives other points around the same centres.
    """
    rng = np.random.default_rng([seed, 2])
    clusters = max(4, round(around**0.5))
    centres = unit(rng.standard_normal((clusters, dimension), dtype=np.float32))
    weights = rng.pareto(2.0, clusters) + 0.1
    rng = np.random.default_rng([seed, 3, draw])
    chosen = rng.choice(clusters, count, p=weights / weights.sum())
    out = np.empty((count, dimension), np.float32)
    for start in range(0, count, _BLOCK):
        part = chosen[start : start + _BLOCK]
        noise = rng.standard_normal((len(part), dimension), dtype=np.float32) * (SPREAD / dimension**0.5)
        out[start : start + len(part)] = unit(centres[part] + noise)
    return out


def unit(rows: Vectors) -> Vectors:
    """The rows scaled to unit length."""
    scaled: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


# -- the truth ----------------------------------------------------------------------------------------------


def brute_force(vectors: Vectors, query: Vectors, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The `BEST` rows of the mask nearest to one query, best first: what NumPy can do at its fastest."""
    scores = vectors @ query
    scores[~mask] = -2.0
    count = min(BEST, int(mask.sum()))
    best = np.argpartition(-scores, count - 1)[:count] if count else np.zeros(0, np.int64)
    return best[np.argsort(-scores[best], kind="stable")]


def recall(
    vectors: Vectors,
    queries: Vectors,
    found: Sequence[Sequence[int]],
    mask: npt.NDArray[np.bool_],
) -> float:
    """The share of the true `BEST` neighbours that were found; rows as near as the last of them count too.

    Args:
        vectors: float32 (n, dimension).
        queries: float32 (m, dimension).
        found: for each query the rows found.
        mask: bool (n,), the rows that may be found; any other counts as missed.
    """
    right = wanted = 0
    for query, rows in zip(queries, found, strict=True):
        best = brute_force(vectors, query, mask)
        wanted += len(best)
        if len(best):
            last = float(vectors[best[-1]] @ query) - TIE
            right += sum(bool(mask[row]) and float(vectors[row] @ query) >= last for row in set(rows))
    return right / wanted if wanted else 1.0


# -- texts --------------------------------------------------------------------------------------------------


def sentences(folder: Path) -> list[str]:
    """The distinct sentences of the data folder, in a fixed order."""
    pairs = [pair for pairs in common.changelog_pairs(folder).values() for pair in pairs]
    for file, learned, asked in (
        ("banking77_intents.tsv", 1, 1),
        ("clinc150_intents.tsv", 1, 1),
        ("tatoeba_en_zsm.tsv", 0, 1),
        ("tatoeba_en_cmn.tsv", 0, 1),
        ("ntrex_en_ms_zh.tsv", 1, 2),
    ):
        pairs += common.sentence_pairs(folder, file, learned, asked)
    return list(dict.fromkeys(text for pair in pairs for text in (pair.learned, pair.asked) if text.strip()))


def recombined(folder: Path, *, seed: int = SEED) -> Iterator[str]:
    """Distinct texts without end, almost: the first half of one sentence and the second half of another."""
    halves = [_halves(text) for text in sentences(folder)]
    rng = random.Random(seed)
    firsts, seconds = (list(dict.fromkeys(part)) for part in zip(*halves, strict=True))
    rng.shuffle(firsts)
    rng.shuffle(seconds)
    for shift in range(len(seconds)):
        for n, first in enumerate(firsts):
            yield f"{first} {seconds[(n + shift) % len(seconds)]}".strip()


def _halves(text: str) -> tuple[str, str]:
    words = text.split()
    if len(words) < 2:  # Chinese has no spaces
        middle = len(text) // 2
        return text[:middle], text[middle:]
    middle = len(words) // 2
    return " ".join(words[:middle]), " ".join(words[middle:])


@dataclass(frozen=True, slots=True)
class Episodes:
    """A store's history and what comes after it.

    Attributes:
        before: what the store has learned already.
        after: what is learned next: four in five are new, one in ten repeats an earlier episode word for word,
            one in ten says it in other words.
    """

    before: list[EvalResult]
    after: list[EvalResult]

    @property
    def texts(self) -> list[str]:
        """Every distinct text."""
        return list(dict.fromkeys(one.episode for one in (*self.before, *self.after)))


def episodes(folder: Path, before: int, after: int) -> Episodes:
    """`before` and `after` episodes of four members in five skills, one in four of them a failure."""
    rng = random.Random(SEED)
    source = recombined(folder)
    made = [_episode(next(source), rng) for _ in range(before)]
    following: list[EvalResult] = []
    for n in range(after):
        if n % 5 != 4:
            following.append(_episode(next(source), rng))
            continue
        old = rng.choice([*made[:1_000], *following[-1_000:]])
        text = old.episode if n % 10 == 4 else reworded(old.episode, rng)
        following.append(EvalResult(text, old.scores, old.outcome, old.member, old.skill, old.timestamp))
    return Episodes(made, following)


def numbered(count: int, *, start: int = 0) -> list[EvalResult]:
    """Episodes that say the same of other numbers, of one member and skill, one in four of them a failure."""
    return [
        EvalResult(
            f"ticket {n}: component c{n % 97} failed at step {n % 1_009} because token t{n} had expired",
            {"score": 0.2 if n % 4 == 0 else 0.9}, "done", "member-0", "skill-0", _AT,
        )
        for n in range(start, start + count)
    ]  # fmt: skip


def _episode(text: str, rng: random.Random) -> EvalResult:
    score = rng.choice((0.95, 0.9, 0.85, 0.2))
    member, skill = f"member-{rng.randrange(4)}", f"skill-{rng.randrange(5)}"
    return EvalResult(text, {"score": score}, "done", member, skill, _AT)


def reworded(text: str, rng: random.Random) -> str:
    """The text with one word left out, another moved to the front, and a word put before it."""
    words = text.split()
    if len(words) > 3:
        words.pop(rng.randrange(len(words)))
        words.insert(0, words.pop(rng.randrange(len(words))))
    return " ".join(["again:", *words])


class Given:
    """An embedder that looks its answers up: what is left is the time of everything else.

    Attributes:
        space: the space of the embedder that made the vectors.
        texts: what it can be asked for.
        vectors: the answers.
    """

    semantic = True
    pinned = True

    def __init__(self, space: EmbeddingSpace, texts: Sequence[str], vectors: Vectors) -> None:
        """Args: the `space`, the `texts` that may be asked for, and their `vectors`, float32 (n, dimension)."""
        self.space = space
        self.texts = texts
        self.vectors = vectors
        self._rows = {text: row for row, text in enumerate(texts)}

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        """The prepared vectors, in order."""
        try:
            return self.vectors[[self._rows[text] for text in texts]]
        except KeyError as exc:
            raise EmbedderUnavailableError(
                f"no vector was prepared for {exc.args[0]!r:.120}: prepare it"
            ) from exc

    async def aclose(self) -> None:
        """Nothing is open."""


async def given(embedder: Embedder, texts: Sequence[str]) -> Given:
    """An embedder that answers as `embedder` does on `texts` and on what a store asks of a new space."""
    from agenthood.learning.calibration import reference_texts  # noqa: PLC0415
    from agenthood.learning.spaces import CANARY  # noqa: PLC0415

    known = list(dict.fromkeys((*texts, *reference_texts(), CANARY)))
    return Given(embedder.space, known, await embedder.embed(known))


def row_key(row: int) -> str:
    """The key of a row: not the hash of its text, since a million of those collide."""
    return f"v1:row{row}"


def row_of(key: str) -> int:
    """The row that has this key."""
    return int(key.rpartition("row")[2])
