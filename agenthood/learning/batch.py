"""The decisions of one batch of episodes: pure bookkeeping on what the store held, without any I/O."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import iso, new_episode_id, shown, storable
from agenthood.learning import rules
from agenthood.learning.index import Candidate, EmbeddingIndex, IndexEntry
from agenthood.learning.lessons import lesson_from, lesson_id, lesson_of_row
from agenthood.learning.similar import AddedLessons
from agenthood.memory.episodic import episode_record
from agenthood.records import KINDS, Lesson, Receipt, ReceiptStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

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
class Known:
    """What the store holds that bears on a batch.

    Attributes:
        taken: lesson id -> pattern text stored there.
        lessons: lesson id -> lesson.
        candidates: for each episode, the indexed patterns that may match it.
        reason: why the store could not be searched by meaning; empty if it was.
    """

    taken: dict[str, str] = field(default_factory=dict)
    lessons: dict[str, Lesson] = field(default_factory=dict)
    candidates: list[list[Candidate]] = field(default_factory=list)
    reason: str = ""

    def note(self, rows: Mapping[str, Record]) -> None:
        """Take long-term rows into account, then the lessons that only a pattern row knows."""
        for id_, row in rows.items():
            if not is_pattern_row(row):
                lesson = lesson_from(row)
                # A row without a usable pattern still occupies its key: what is there is never overwritten.
                self.taken[id_] = lesson.pattern if lesson else ""
                if lesson is not None:
                    self.lessons[id_] = lesson
        for row in rows.values():
            if is_pattern_row(row):
                self.note_orphan(row)

    def note_orphan(self, row: Record) -> None:
        """Take a lesson into account that only a pattern row knows; its key is as taken as any other."""
        orphan = lesson_from(row)
        if "lesson" not in row.metadata and orphan is not None and orphan.id not in self.taken:
            self.taken[orphan.id] = orphan.pattern
            self.lessons[orphan.id] = orphan

    def live_lesson(self, candidate: Candidate) -> str | None:
        """The id of the lesson a candidate stands for; None if that has gone or says something else now."""
        id_ = lesson_of_row(candidate.record)
        lesson = self.lessons.get(id_) if id_ is not None else None
        return id_ if lesson is not None and storable(lesson.pattern) == candidate.record.content else None


def is_pattern_row(row: Record) -> bool:
    """Whether a row of the shared table is one of the pattern index."""
    return row.id.startswith("pattern:")


class Batch:
    """Decides on episodes in order, on what the store held and what the batch has added since.

    Attributes:
        now: the time of the batch.
        changed: lesson id -> lesson, for every lesson stored or merged.
        episodes: the episodes to record.
    """

    def __init__(
        self,
        known: Known,
        embedded: Embedded,
        index: EmbeddingIndex | None,
        *,
        threshold: float,
        now: datetime,
    ) -> None:
        """Args: what is `known`, the `embedded` episodes, the `index`, the match `threshold`, the time `now`."""
        self.now = now
        self.changed: dict[str, Lesson] = {}
        self.episodes: list[Record] = []
        self._known = known
        self._embedded = embedded
        self._index = index
        self._threshold = threshold
        self._next = 0
        self._entries: list[tuple[int, IndexEntry]] = []
        self._added: AddedLessons | None = None
        if index is not None and embedded.semantic is not None and not known.reason:
            self._added = AddedLessons(embedded.semantic, embedded.words, index.calibration, threshold)

    def decide(self, intake: Intake) -> Receipt:
        """Record the episode and merge it into a lesson, make one of it, or learn nothing from it."""
        at = intake.at or self.now
        episode_id = intake.episode_id or new_episode_id(at)
        receipt = Receipt("skipped", score=intake.mean, kind=intake.kind, episode_id=episode_id)
        try:
            receipt = self._judge(receipt, intake, iso(at))
        except InvalidInputError as exc:
            return Receipt("rejected", score=intake.mean, kind=intake.kind, reason=str(exc))
        except Exception as exc:  # noqa: BLE001  a fault met by one episode must not cost its batch the others
            _log.exception("an episode was not learned")
            reason = f"learning failed unexpectedly: {shown(exc, 200)}"
            return Receipt("rejected", score=intake.mean, kind=intake.kind, reason=reason)
        if intake.episode_id is None:
            self.episodes.append(self._episode(episode_id, intake, at, receipt.id))
        return receipt

    def _judge(self, receipt: Receipt, intake: Intake, seen: str) -> Receipt:
        if intake.kind is None:
            reason = f"a mean score of {intake.mean:g} is neither a success nor a failure: nothing learned"
            return replace(receipt, reason=reason)
        position, self._next = self._next, self._next + 1
        keys = rules.candidate_keys(intake.pattern)
        id_, exact = self._exact(intake, keys)
        matched, similarity = (id_, 1.0) if exact else self._best(position, intake, keys)
        if matched is not None:
            return self._merge(replace(receipt, id=matched, similarity=similarity), intake, seen)
        return self._store(replace(receipt, id=id_), intake, position, seen)

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

    def _exact(self, intake: Intake, keys: tuple[str, ...]) -> tuple[str, bool]:
        assert intake.kind is not None  # noqa: S101  for the type checker
        taken = self._known.taken
        holders: dict[str, str] = {}
        for key in keys:
            # The id of a pattern row does not tell the kind, so a key serves one lesson of either.
            ids = [id_ for kind in KINDS if (id_ := lesson_id(kind, key)) in taken]
            if ids:
                holders[key] = next((id_ for id_ in ids if taken[id_] == intake.pattern), ids[0])
        key, exact = rules.choose_key(intake.pattern, {key: taken[id_] for key, id_ in holders.items()})
        if not exact:
            return lesson_id(intake.kind, key), False
        rules.check_same(self._known.lessons[holders[key]], intake.member, intake.skill)
        return holders[key], True

    def _best(self, position: int, intake: Intake, keys: tuple[str, ...]) -> tuple[str | None, float]:
        """The id and score of the best lesson at or above the threshold, ties by id; (None, 0) if there is none."""
        assert intake.kind is not None  # noqa: S101  for the type checker
        if self._index is None or self._added is None:
            return None, 0.0
        scored = [
            (candidate.score(self._index.calibration), id_)
            for candidate in self._known.candidates[position]
            if (id_ := self._known.live_lesson(candidate)) is not None
        ]
        scored += self._added.similar(position, intake.fields)
        # Another text under the same hash is a lesson of its own, however alike the two are.
        own = {lesson_id(intake.kind, key) for key in keys}
        scored = [(score, id_) for score, id_ in scored if score >= self._threshold and id_ not in own]
        score, id_ = min(scored, key=lambda pair: (-pair[0], pair[1]), default=(0.0, None))
        return id_, score

    def _merge(self, receipt: Receipt, intake: Intake, seen: str) -> Receipt:
        assert receipt.id is not None  # noqa: S101  for the type checker
        assert receipt.episode_id is not None  # noqa: S101  for the type checker
        known = self._known.lessons[receipt.id]
        if receipt.episode_id in known.episodes:
            return replace(
                receipt, reason="this episode is evidence for the lesson already", evidence=known.evidence
            )
        lesson = rules.merged(
            known, mean=intake.mean, episode_id=receipt.episode_id, seen=seen, outcome=intake.outcome
        )
        self._known.lessons[receipt.id] = self.changed[receipt.id] = lesson
        return replace(receipt, status="merged", evidence=lesson.evidence)

    def _store(self, receipt: Receipt, intake: Intake, position: int, seen: str) -> Receipt:
        assert receipt.id is not None  # noqa: S101  for the type checker
        assert receipt.episode_id is not None  # noqa: S101  for the type checker
        assert intake.kind is not None  # noqa: S101  for the type checker
        lesson = rules.new_lesson(
            receipt.id, intake.kind, intake.member, intake.skill, intake.episode,
            mean=intake.mean, episode_id=receipt.episode_id, seen=seen, outcome=intake.outcome,
        )  # fmt: skip
        self._known.taken[receipt.id] = lesson.pattern
        self._known.lessons[receipt.id] = self.changed[receipt.id] = lesson
        if self._added is not None:
            self._added.add(position, intake.fields, receipt.id)
        self._entries.append((position, IndexEntry.of(lesson)))
        missing = "" if self._index is not None else "no embedder is active"
        pending = self._embedded.reason or self._known.reason or missing
        status: ReceiptStatus = "pending" if pending else "stored"
        return replace(receipt, status=status, evidence=1, reason=pending)

    def index_rows(self) -> dict[Collection, list[Record]]:
        """The index rows of the new lessons."""
        if self._index is None or not self._entries:
            return {}
        rows = [row for row, _ in self._entries]
        semantic = self._embedded.semantic
        vectors = None if semantic is None else semantic[rows]
        return self._index.rows([entry for _, entry in self._entries], vectors, self._embedded.words[rows])
