"""The decisions of one batch, without a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agenthood.embedding.lexical import lexical_vectors
from agenthood.learning.batch import Batch, Decided, Embedded, Known
from agenthood.learning.episode_ids import draw_ids
from agenthood.learning.intake import Intake, Lasting, take_in
from agenthood.learning.lessons import lesson_from
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
    (lesson,) = _lessons(batch.take())
    return lesson


def _lessons(decided: Decided) -> list[Lesson]:
    """The lessons that are to be written."""
    return [lesson for row in decided.shared if (lesson := lesson_from(row)) is not None]


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
    decided = batch.take()
    assert [lesson.text for lesson in _lessons(decided)] == ["second"]
    assert len(decided.shared) == 2  # its episode, too


def test_what_is_written_is_taken_once() -> None:
    """Each part has what was decided since the one before, and a lesson again where it was merged again."""
    intakes = _intakes("first", "second", "first")
    batch = _batch(intakes)
    parts = []
    for number, intake in enumerate(intakes):
        batch.decide(intake, f"ep:1-{number}")
        parts.append(batch.take())
    assert [[(one.text, one.evidence) for one in _lessons(part)] for part in parts] == [
        [("first", 1)],
        [("second", 1)],
        [("first", 2)],
    ]
    assert [[row.id for row in part.shared if row.id[:3] == "ep:"] for part in parts] == [
        ["ep:1-0"],
        ["ep:1-1"],
        ["ep:1-2"],
    ]
    assert batch.take().shared == []
