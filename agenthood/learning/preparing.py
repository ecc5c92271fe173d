"""A batch of episodes before anybody is asked about it: checked, cleaned, and given its lexical vectors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.lexical import lexical_vectors
from agenthood.learning.intake import Intake, Lasting, take_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.records import EvalResult, Receipt
    from agenthood.stores.base import Vector

AT_A_TIME = 64
"""Episodes after which others have their turn."""


@dataclass(slots=True)
class Prepared:
    """A batch of episodes before the store and the embedder are asked: both have deadlines, and may be down.

    Attributes:
        taken_in: each episode as it is learned from, or the receipt that says why it is not.
        words: the lexical vectors of those that are; None to compute them when they are needed.
        decided: set when nothing is left to do but to write, which leaves time to prepare another batch.
    """

    taken_in: Sequence[Intake | Receipt]
    words: Vector | None = None
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def intakes(self) -> list[Intake]:
        """The episodes that are learned from."""
        return [one for one in self.taken_in if isinstance(one, Intake)]


async def prepare(results: Sequence[EvalResult], *, once: asyncio.Event | None = None) -> Prepared:
    """Take in and compare wording, `once` that is set; gives way to others now and then."""
    if once is not None:
        await once.wait()
    taken_in: list[Intake | Receipt] = []
    for number, result in enumerate(results):
        taken_in.append(take_in(result))
        if number % AT_A_TIME == 0:
            await asyncio.sleep(0)
    prepared = Prepared(taken_in)
    prepared.words = await words_of(texts_of(prepared.intakes))
    return prepared


def texts_of(intakes: Sequence[Intake]) -> list[str]:
    """The texts of those that something is learned from."""
    return [intake.episode for intake in intakes if isinstance(intake, Lasting)]


async def words_of(texts: list[str]) -> Vector:
    """The lexical vectors of the texts, some at a time: others have their turn in between."""
    parts = []
    for start in range(0, len(texts), AT_A_TIME):
        parts.append(lexical_vectors(texts[start : start + AT_A_TIME]))
        await asyncio.sleep(0)
    return np.concatenate(parts) if parts else lexical_vectors(texts)
