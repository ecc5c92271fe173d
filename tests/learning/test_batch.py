"""The decisions of one batch, without a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agenthood.embedding.lexical import lexical_vectors
from agenthood.learning.batch import Batch, Embedded, Known, draw_ids
from agenthood.learning.intake import Intake, Lasting, take_in
from hoods import good

if TYPE_CHECKING:
    from agenthood.records import Lesson

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def _intakes(*texts: str) -> list[Intake]:
    taken = [take_in(replace(good(text), timestamp=NOW)) for text in texts]
    return [one for one in taken if isinstance(one, Intake)]


def _batch(intakes: list[Intake], known: Known | None = None) -> Batch:
    words = lexical_vectors([one.episode for one in intakes])
    lasting = [one for one in intakes if isinstance(one, Lasting)]
    return Batch(known or Known(), Embedded(None, words), None, lasting, threshold=0.85, now=NOW)


def _stored(text: str) -> Lesson:
    """The lesson a batch makes of `text`."""
    batch = _batch(_intakes(text))
    batch.decide(_intakes(text)[0], "ep:1-a")
    (lesson,) = batch.changed.values()
    return lesson


def test_drawn_ids_differ() -> None:
    """An id that another episode of the batch or of the store has is drawn again."""
    drawn = iter(["ep:1-a", "ep:1-a", "ep:1-b", "ep:1-c"])
    assert draw_ids([NOW, NOW], {"ep:1-b"}, lambda _: next(drawn)) == ["ep:1-a", "ep:1-c"]


def test_a_fault_met_by_one_episode_spares_the_others() -> None:
    """Whatever goes wrong with one is told in its receipt, and the next is decided on."""
    broken: Any = replace(_stored("first"), mean="no number")
    known = Known()
    known.put(broken)
    intakes = _intakes("first", "second")
    batch = _batch(intakes, known)
    receipts = [batch.decide(intake, f"ep:1-{n}") for n, intake in enumerate(intakes)]
    assert [receipt.status for receipt in receipts] == ["rejected", "pending"]
    assert "unexpectedly" in receipts[0].reason
    assert [lesson.text for lesson in batch.changed.values()] == ["second"]
    assert len(batch.episodes) == 1
