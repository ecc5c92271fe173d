"""The decisions of one batch of episodes: pure bookkeeping on what the store held, without any I/O."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import iso, loads_object, shown, storable
from agenthood.learning import rules
from agenthood.learning.distinct import are_distinct
from agenthood.learning.intake import Lasting
from agenthood.learning.lessons import lesson_id, lesson_of_row, lesson_record
from agenthood.learning.patterns import Candidate, IndexEntry
from agenthood.learning.placing import Held
from agenthood.learning.similar import AddedLessons
from agenthood.memory.episodic import episode_record
from agenthood.records import Lesson, Receipt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.intake import Intake
    from agenthood.stores.base import Collection, Record, Vector

_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of a batch's episodes.

    Attributes:
        semantic: float32 (n, dimension); None where the embedder gave none.
        words: float32 (n, LEXICAL_DIMENSION).
        reason: why there are no semantic vectors.
    """

    semantic: Vector | None
    words: Vector
    reason: str = ""


@dataclass(slots=True)
class Known(Held):
    """What the store holds that bears on a batch.

    Attributes:
        candidates: for each episode, the indexed patterns that may match it.
        reason: why the store could not be searched by meaning; empty if it was.
    """

    candidates: list[Sequence[Candidate]] = field(default_factory=list)
    reason: str = ""

    def live_lesson(self, candidate: Candidate) -> str | None:
        """The id of the lesson a candidate stands for; None if that has gone, is archived or says another thing now."""
        id_ = lesson_of_row(candidate.record)
        lesson = self.lessons.get(id_) if id_ is not None else None
        if lesson is None or lesson.archived:
            return None
        return id_ if storable(lesson.pattern) == candidate.record.content else None


@dataclass(frozen=True, slots=True)
class Decided:
    """The rows of some episodes of a batch.

    Attributes:
        shared: episodes, and the lessons stored or merged.
        index: the index rows of the new and the restored lessons, by collection.
        restored: ids of the archived lessons that were learned again.
    """

    shared: list[Record]
    index: dict[Collection, list[Record]]
    restored: set[str]


@dataclass(frozen=True, slots=True)
class _Case:
    """An episode that something is learned from, as it is decided on.

    Attributes:
        intake: the episode.
        position: which of the batch's embedded episodes it is.
        episode_id: the id it is recorded under.
        seen: ISO 8601 time it happened at.
    """

    intake: Lasting
    position: int
    episode_id: str
    seen: str


class Batch:
    """Decides on episodes in order, on what the store held and what the batch has added since.

    Attributes:
        now: the time of the batch.
    """

    def __init__(  # noqa: PLR0913  what one batch is decided on
        self,
        known: Known,
        embedded: Embedded,
        index: EmbeddingIndex | None,
        lasting: Sequence[Lasting],
        *,
        threshold: float,
        now: datetime,
    ) -> None:
        """Put together what is decided on.

        Args:
            known: what the store holds.
            embedded: the vectors of the episodes something is learned from.
            index: the pattern index; None to match by exact text only.
            lasting: these episodes.
            threshold: match score in [0, 1], inclusive.
            now: the time of the batch.
        """
        self.now = now
        self._changed: dict[str, Lesson] = {}
        self._episodes: list[Record] = []
        self._restored: set[str] = set()
        self._known = known
        self._embedded = embedded
        self._index = index
        self._threshold = threshold
        self._next = 0
        self._to_index: dict[int, Lesson] = {}
        self._added: AddedLessons | None = None
        if index is not None and embedded.semantic is not None and not known.reason:
            self._added = AddedLessons(
                [one.episode for one in lasting], [one.fields for one in lasting],
                embedded.semantic, embedded.words, index.calibration, threshold,
            )  # fmt: skip

    def decide(self, intake: Intake, episode_id: str) -> Receipt:
        """Record the episode and merge it into a lesson, make one of it, or learn nothing from it.

        Args:
            intake: the episode; those something is learned from come in the order they were embedded in.
            episode_id: the id it is or will be recorded under.
        """
        at = intake.at or self.now
        try:
            receipt = self._judge(intake, episode_id, iso(at))
        except InvalidInputError as exc:
            return Receipt("rejected", score=intake.mean, kind=intake.kind, reason=str(exc))
        except Exception as exc:  # noqa: BLE001  a fault met by one episode must not cost its batch the others
            _log.exception("an episode was not learned")
            reason = f"learning failed unexpectedly: {shown(exc, 200)}"
            return Receipt("rejected", score=intake.mean, kind=intake.kind, reason=reason)
        if intake.episode_id is None:
            self._episodes.append(self._episode(episode_id, intake, at, receipt.id))
        return receipt

    def pass_over(self, intake: Intake, row: Record) -> Receipt:
        """The receipt of an episode that was learned before; `row` records it."""
        if isinstance(intake, Lasting):
            self._next += 1
        lesson = loads_object(row.content).get("lesson")
        return Receipt(
            "skipped", lesson if isinstance(lesson, str) else None, "this episode was learned already",
            intake.kind, intake.mean, episode_id=row.id,
        )  # fmt: skip

    def _judge(self, intake: Intake, episode_id: str, seen: str) -> Receipt:
        if not isinstance(intake, Lasting):
            reason = f"a mean score of {intake.mean:g} is neither a success nor a failure: nothing learned"
            return Receipt("skipped", score=intake.mean, episode_id=episode_id, reason=reason)
        case = _Case(intake, self._next, episode_id, seen)
        self._next += 1
        place = self._known.place(intake.kind, intake.member, intake.skill, intake.pattern)
        matched, similarity = (place.known, 1.0) if place.known is not None else self._best(case)
        if matched is not None:
            return self._merge(case, matched, similarity)
        return self._store(case, place.id)

    def _episode(self, id_: str, intake: Intake, at: datetime, lesson: str | None) -> Record:
        details: dict[str, Any] = {
            "member": intake.member,
            "skill": intake.skill,
            "scores": dict(intake.scores),
        }
        if lesson is not None:
            details["lesson"] = lesson
        return episode_record(
            intake.episode, intake.outcome, id_=id_, at=at, recorded=self.now, details=details
        )

    def _best(self, case: _Case) -> tuple[Lesson | None, float]:
        """The best lesson at or above the threshold and its score, ties by id; (None, 0) if there is none."""
        if self._index is None or self._added is None:
            return None, 0.0
        scored = [
            (candidate.score(self._index.calibration), id_)
            for candidate in self._known.candidates[case.position]
            if (id_ := self._known.live_lesson(candidate)) is not None
        ]
        scored += self._added.similar(case.position)
        if not scored:
            return None, 0.0
        # Another text under the same hash is a lesson of its own, however alike the two are.
        own = {lesson_id(case.intake.kind, key) for key in rules.candidate_keys(case.intake.pattern)}
        for score, id_ in sorted(scored, key=lambda pair: (-pair[0], pair[1])):
            if score < self._threshold:
                break
            lesson = self._known.lessons[id_]
            if id_ not in own and not are_distinct(case.intake.episode, lesson.text):
                return lesson, score
        return None, 0.0

    def _merge(self, case: _Case, known: Lesson, similarity: float) -> Receipt:
        intake = case.intake
        receipt = Receipt(
            "merged", known.id, kind=intake.kind, score=intake.mean, similarity=similarity,
            evidence=known.evidence, episode_id=case.episode_id,
        )  # fmt: skip
        if case.episode_id in known.episodes:
            reason = "this episode is evidence for the lesson already"
            return replace(receipt, status="skipped", reason=reason)
        lesson = rules.merged(
            known, mean=intake.mean, episode_id=case.episode_id, seen=case.seen, outcome=intake.outcome
        )
        self._keep(lesson)
        receipt = replace(receipt, evidence=lesson.evidence)
        if not known.archived:
            return receipt
        self._restored.add(lesson.id)
        pending = self._index_later(case, lesson)
        reason = pending or "it was archived, and is restored"
        return replace(receipt, status="pending" if pending else "merged", reason=reason)

    def _store(self, case: _Case, id_: str) -> Receipt:
        intake = case.intake
        lesson = rules.new_lesson(
            id_, intake.kind, intake.member, intake.skill, intake.episode,
            mean=intake.mean, episode_id=case.episode_id, seen=case.seen, outcome=intake.outcome,
        )  # fmt: skip
        self._keep(lesson)
        pending = self._index_later(case, lesson)
        return Receipt(
            "pending" if pending else "stored", id_, pending, intake.kind, intake.mean,
            evidence=1, episode_id=case.episode_id,
        )  # fmt: skip

    def _index_later(self, case: _Case, lesson: Lesson) -> str:
        """Index the case as `lesson` when the batch is written; why that will not do for meaning, or ""."""
        if self._added is not None:
            self._added.add(case.position, lesson.id)
        self._to_index[case.position] = lesson
        missing = "" if self._index is not None else "no embedder is active"
        return self._embedded.reason or self._known.reason or missing

    def _keep(self, lesson: Lesson) -> None:
        self._known.put(lesson)
        self._changed[lesson.id] = lesson

    def take(self, *more: Record) -> Decided:
        """What was decided since this was last asked, to be written before anything that comes after it.

        Args:
            more: rows to be written in the same commit.
        """
        decided = Decided(
            shared=[
                *self._episodes,
                *(lesson_record(one, at=self.now) for one in self._changed.values()),
                *more,
            ],
            index=self._index_rows(),
            restored=self._restored,
        )
        self._episodes, self._changed, self._restored, self._to_index = [], {}, set(), {}
        return decided

    def _index_rows(self) -> dict[Collection, list[Record]]:
        if self._index is None or not self._to_index:
            return {}
        rows = list(self._to_index)
        semantic = self._embedded.semantic
        vectors = None if semantic is None else semantic[rows]
        entries = list(map(IndexEntry.of, self._to_index.values()))
        return self._index.rows(entries, vectors, self._embedded.words[rows])
