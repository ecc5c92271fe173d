"""The episode learner: scored episodes in, lessons and receipts out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.embedding.lexical import lexical_vectors
from agenthood.errors import AgenthoodError, EmbeddingError, InvalidInputError, StoreError
from agenthood.formats import LTM, PATTERN, iso, loads_object, storable, utc_now
from agenthood.learning import rules
from agenthood.learning.calibration import match_score
from agenthood.learning.index import Candidate, EmbeddingIndex, IndexEntry
from agenthood.learning.intake import Intake, take_in
from agenthood.learning.lessons import lesson_from, lesson_id, lesson_of_row, lesson_record
from agenthood.memory.episodic import episode_record
from agenthood.memory.long_term import long_term_record
from agenthood.memory.residual import MAX_SIGNAL_CHARACTERS
from agenthood.records import KINDS, EvalResult, LearnerStatus, Lesson, Receipt, ReceiptStatus
from agenthood.stores.base import SHARED, Collection, Record, Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenthood.learning.spaces import ActiveSpace
    from agenthood.memory.residual import ResidualMemory
    from agenthood.stores.base import VectorStore

STATUS_KEY = "learner/status"
BATCH_SIZE = 1_000
# The nearest pattern decides; the ones after it only count if its lesson has gone meanwhile.
_NEAREST = 3
_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class _Embedded:
    """The vectors of one batch: `semantic` is None, with the reason, where the embedder gave none."""

    semantic: Vector | None
    words: Vector
    reason: str = ""


@dataclass(slots=True)
class _Known:
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


class EpisodeLearner:
    """Turns judged episodes into lessons: looks for a lesson that says the same, merges or stores, and says so.

    A batch gives exactly the outcome of learning its episodes one by one.
    """

    def __init__(  # noqa: PLR0913  its parts
        self,
        store: VectorStore,
        *,
        index: EmbeddingIndex | None = None,
        space: ActiveSpace | None = None,
        residual: ResidualMemory | None = None,
        threshold: float = rules.MATCH_THRESHOLD,
        batch_size: int = BATCH_SIZE,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """Put its parts together.

        Args:
            store: where lessons and episodes live.
            index: the pattern index; None to match by exact text only.
            space: what embeds; None leaves new lessons pending.
            residual: signals to reinforce or weaken.
            threshold: match score in [0, 1] from which an episode merges into a lesson, inclusive.
            batch_size: how many episodes `learn_many` decides on under one lock and writes in one commit.
            clock: the current time in UTC.
        """
        self._store = store
        self._index = index
        self._space = space
        self._residual = residual
        self._threshold = threshold
        self._batch_size = max(1, batch_size)
        self._clock = clock

    async def learn(self, result: EvalResult) -> Receipt:
        """Learn from one episode; never raises into the caller's run.

        Returns:
            The receipt: what was decided and why.
        """
        return (await self.learn_many([result]))[0]

    async def learn_many(
        self, results: Sequence[EvalResult], *, on_progress: Callable[[int, int], None] | None = None
    ) -> list[Receipt]:
        """Learn from many episodes, with the same outcome as one by one, in order.

        Args:
            results: the episodes with their scores.
            on_progress: called with (done, total) after each batch.

        Returns:
            One receipt per episode, in order.
        """
        receipts: list[Receipt] = []
        for start in range(0, len(results), self._batch_size):
            receipts += await self._learn_batch(results[start : start + self._batch_size])
            if on_progress is not None:
                on_progress(len(receipts), len(results))
        return receipts

    async def get_status(self) -> LearnerStatus:
        """Counts per band and member, the last update, and whether confidence rises or falls."""
        row = (await self._store.get(SHARED, [LTM + STATUS_KEY])).get(LTM + STATUS_KEY)
        return _Tally.read(row).status()

    # -- one batch --------------------------------------------------------------------------------------

    async def _learn_batch(self, results: Sequence[EvalResult]) -> list[Receipt]:
        taken_in = [take_in(result) for result in results]
        intakes = [intake for intake in taken_in if isinstance(intake, Intake)]
        receipts: list[Receipt] = []
        if intakes:
            try:
                receipts = await self._learn_intakes(intakes)
            except AgenthoodError as exc:
                _log.warning("%d episodes were not learned: %s", len(intakes), exc)
                receipts = _refused(intakes, str(exc))
            except Exception as exc:  # noqa: BLE001  a fault of ours is logged and must not end the caller's run
                _log.exception("%d episodes were not learned", len(intakes))
                receipts = _refused(intakes, f"learning failed unexpectedly: {exc!r:.200}")
        learned = iter(receipts)
        return [next(learned) if isinstance(item, Intake) else item for item in taken_in]

    async def _learn_intakes(self, intakes: list[Intake]) -> list[Receipt]:
        lasting = [intake for intake in intakes if intake.kind is not None]
        embedded = await self._embed([intake.episode for intake in lasting])
        async with self._store.exclusive():
            known = await self._look_up(lasting, embedded)
            batch = _Batch(known, embedded, self._index, self._threshold, self._clock())
            receipts = [batch.decide(intake) for intake in intakes]
            unindexed = await self._write(batch, intakes)
        await self._reinforce(intakes)
        if not unindexed:
            return receipts
        return [
            replace(one, status="pending", reason=unindexed) if one.status == "stored" else one
            for one in receipts
        ]

    async def _embed(self, texts: list[str]) -> _Embedded:
        words = lexical_vectors(texts)
        if self._space is None:
            return _Embedded(None, words, "no embedder is active")
        if not texts:
            return _Embedded(np.zeros((0, self._space.space.dimension), np.float32), words)
        try:
            vectors = await self._space.embed(texts)
        except EmbeddingError as exc:
            _log.warning("%d episodes are learned by exact text only: %s", len(texts), exc)
            return _Embedded(None, words, str(exc))
        if self._index is not None:
            self._index.calibration = self._space.calibration
        return _Embedded(vectors, words)

    async def _look_up(self, intakes: list[Intake], embedded: _Embedded) -> _Known:
        known = _Known(candidates=[[] for _ in intakes])
        await self._note(known, {id_ for intake in intakes for id_ in _possible_ids(intake)})
        if self._index is None or embedded.semantic is None:
            return known
        try:
            await self._search(self._index, intakes, embedded, known)
        except StoreError as exc:
            _log.warning("%d episodes are matched by exact text only: %s", len(intakes), exc)
            known.candidates, known.reason = [[] for _ in intakes], str(exc)
        return known

    async def _search(
        self, index: EmbeddingIndex, intakes: list[Intake], embedded: _Embedded, known: _Known
    ) -> None:
        assert embedded.semantic is not None  # noqa: S101  for the type checker
        groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for position, intake in enumerate(intakes):
            groups.setdefault(intake.fields, []).append(position)
        for fields, positions in groups.items():
            found = await index.candidates(
                embedded.semantic[positions], embedded.words[positions], fields=dict(fields), limit=_NEAREST
            )
            for position, row in zip(positions, found, strict=True):
                known.candidates[position] = row
        await self._load(known)

    async def _load(self, known: _Known) -> None:
        """Load the lessons of the candidates, so that one whose long-term row has gone or changed is none."""
        rows = [candidate.record for found in known.candidates for candidate in found]
        await self._note(
            known, {id_ for row in rows if (id_ := lesson_of_row(row)) is not None} - known.taken.keys()
        )
        for row in rows:
            _note_orphan(known, row)

    async def _note(self, known: _Known, ids: set[str]) -> None:
        rows = await self._store.get(SHARED, sorted(ids))
        for id_, row in rows.items():
            if id_.startswith(PATTERN):
                continue
            lesson = lesson_from(row)
            # A row without a usable pattern still occupies its key: what is there is never overwritten.
            known.taken[id_] = lesson.pattern if lesson else ""
            if lesson is not None:
                known.lessons[id_] = lesson
        for id_, row in rows.items():
            if id_.startswith(PATTERN):
                _note_orphan(known, row)

    async def _write(self, batch: _Batch, intakes: Sequence[Intake]) -> str:
        """Write a batch; the reason why the index could not be written, or an empty string.

        Episodes, lessons and status go first and in one commit: episode and evidence stand or fall together, and
        what the index then lacks the migration fills in.
        """
        status_id = LTM + STATUS_KEY
        tally = _Tally.read((await self._store.get(SHARED, [status_id])).get(status_id))
        for intake in intakes:
            tally.count(intake, batch.now)
        lessons = [lesson_record(lesson, at=batch.now) for lesson in batch.changed.values()]
        status = long_term_record(STATUS_KEY, tally.to_json(), at=batch.now)
        rows: dict[Collection, list[Record]] = {SHARED: [*batch.episodes, *lessons, status]}
        for collection, records in batch.index_rows().items():
            rows.setdefault(SHARED if collection.name == SHARED.name else collection, []).extend(records)
        await self._upsert(SHARED, rows.pop(SHARED))
        try:
            for collection, records in rows.items():
                await self._upsert(collection, records)
        except StoreError as exc:
            _log.warning("new lessons are not indexed yet: %s", exc)
            return str(exc)
        return ""

    async def _upsert(self, collection: Collection, records: list[Record]) -> None:
        result = await self._store.upsert(collection, records)
        if result.rejected:
            raise StoreError(f"the store refused {result.rejected[0].id!r:.120}: {result.rejected[0].reason}")

    async def _reinforce(self, intakes: Sequence[Intake]) -> None:
        if self._residual is None:
            return
        signals = [
            (i.episode, i.mean if i.kind == "learned" else i.mean - 1)
            for i in intakes
            if i.kind
            and len(i.episode) <= MAX_SIGNAL_CHARACTERS  # a longer text is no hint, and would be refused
        ]
        try:
            self._residual.record_many(signals)
        except (AgenthoodError, OSError) as exc:
            # Residual memory only hints; the lesson itself is stored already.
            _log.warning("residual memory was not updated: %s", exc)


class _Batch:
    """The decisions of one batch, made in order on what the store held and what the batch has added since."""

    def __init__(
        self,
        known: _Known,
        embedded: _Embedded,
        index: EmbeddingIndex | None,
        threshold: float,
        now: datetime,
    ) -> None:
        self.now = now
        self.changed: dict[str, Lesson] = {}
        self.episodes: list[Record] = []
        self._known = known
        self._embedded = embedded
        self._index = index
        self._threshold = threshold
        self._next = 0
        self._added: dict[tuple[tuple[str, str], ...], list[tuple[int, str]]] = {}
        self._entries: list[tuple[int, IndexEntry]] = []

    def decide(self, intake: Intake) -> Receipt:
        """Record the episode and merge it into a lesson, make one of it, or learn nothing from it."""
        at = intake.at or self.now
        details: dict[str, Any] = {
            "member": intake.member,
            "skill": intake.skill,
            "scores": dict(intake.scores),
        }
        episode = episode_record(intake.episode, intake.outcome, at=at, recorded=self.now, details=details)
        receipt = Receipt("skipped", score=intake.mean, episode_id=episode.id)
        if intake.kind is None:
            self.episodes.append(episode)
            return replace(
                receipt,
                reason=f"a mean score of {intake.mean:g} is neither a success nor a failure: nothing learned",
            )
        position, self._next = self._next, self._next + 1
        try:
            id_, exact = self._exact(intake)
        except InvalidInputError as exc:
            return Receipt("rejected", score=intake.mean, kind=intake.kind, reason=str(exc))
        self.episodes.append(episode)
        matched, similarity = (id_, 1.0) if exact else self._best(position, intake)
        receipt = replace(receipt, kind=intake.kind)
        if matched is not None:
            return self._merge(receipt, matched, intake.mean, similarity, iso(at))
        return self._store(receipt, id_, intake, position, iso(at))

    def _exact(self, intake: Intake) -> tuple[str, bool]:
        assert intake.kind is not None  # noqa: S101  for the type checker
        holders: dict[str, str] = {}
        for key in rules.candidate_keys(intake.pattern):
            # The id of a pattern row does not tell the kind, so a key serves one lesson of either.
            ids = [id_ for kind in KINDS if (id_ := lesson_id(kind, key)) in self._known.taken]
            if ids:
                holders[key] = next((id_ for id_ in ids if self._known.taken[id_] == intake.pattern), ids[0])
        taken = {key: self._known.taken[id_] for key, id_ in holders.items()}
        key, exact = rules.choose_key(intake.pattern, taken)
        if not exact:
            return lesson_id(intake.kind, key), False
        rules.check_same(self._known.lessons[holders[key]], intake.member, intake.skill)
        return holders[key], True

    def _best(self, position: int, intake: Intake) -> tuple[str | None, float]:
        """The id and score of the best lesson at or above the threshold, ties by id; (None, 0) if there is none."""
        assert intake.kind is not None  # noqa: S101  for the type checker
        if self._index is None or self._embedded.semantic is None or self._known.reason:
            return None, 0.0
        scored = [
            (candidate.score(self._index.calibration), id_)
            for candidate in self._known.candidates[position]
            if (id_ := self._live_lesson(candidate)) is not None
        ]
        scored += self._added_scores(position, intake)
        # Another text under the same hash is a lesson of its own, however alike the two are.
        keys = {lesson_id(intake.kind, key) for key in rules.candidate_keys(intake.pattern)}
        scored = [pair for pair in scored if pair[1] not in keys]
        score, id_ = min(scored, key=lambda pair: (-pair[0], pair[1]), default=(0.0, None))
        return (id_, score) if score >= self._threshold else (None, 0.0)

    def _live_lesson(self, candidate: Candidate) -> str | None:
        id_ = lesson_of_row(candidate.record)
        lesson = self._known.lessons.get(id_) if id_ is not None else None
        return id_ if lesson is not None and storable(lesson.pattern) == candidate.record.content else None

    def _added_scores(self, position: int, intake: Intake) -> list[tuple[float, str]]:
        added = self._added.get(intake.fields)
        if not added or self._index is None or self._embedded.semantic is None:
            return []
        rows = [row for row, _ in added]
        semantic = _cosines(self._embedded.semantic, rows, position)
        words = _cosines(self._embedded.words, rows, position)
        scores = match_score(semantic, words, self._index.calibration)
        return [(float(score), id_) for score, (_, id_) in zip(scores, added, strict=True)]

    def _merge(self, receipt: Receipt, id_: str, mean: float, similarity: float, seen: str) -> Receipt:
        assert receipt.episode_id is not None  # noqa: S101  for the type checker
        lesson = rules.merged(self._known.lessons[id_], mean=mean, episode_id=receipt.episode_id, seen=seen)
        self._known.lessons[id_] = self.changed[id_] = lesson
        return replace(receipt, status="merged", id=id_, similarity=similarity, evidence=lesson.evidence)

    def _store(self, receipt: Receipt, id_: str, intake: Intake, position: int, seen: str) -> Receipt:
        assert intake.kind is not None  # noqa: S101  for the type checker
        assert receipt.episode_id is not None  # noqa: S101  for the type checker
        lesson = rules.new_lesson(
            id_, intake.kind, intake.member, intake.skill, intake.episode,
            mean=intake.mean, episode_id=receipt.episode_id, seen=seen,
        )  # fmt: skip
        self._known.taken[id_] = lesson.pattern
        self._known.lessons[id_] = self.changed[id_] = lesson
        self._added.setdefault(intake.fields, []).append((position, id_))
        self._entries.append((position, IndexEntry.of(lesson)))
        pending = (
            self._embedded.reason or self._known.reason or ("" if self._index else "no embedder is active")
        )
        status: ReceiptStatus = "pending" if pending else "stored"
        return replace(receipt, status=status, id=id_, evidence=1, reason=pending)

    def index_rows(self) -> dict[Collection, list[Record]]:
        """The index rows of the new lessons; of those merged, the one that only a pattern row knew is left as it is."""
        if self._index is None or not self._entries:
            return {}
        rows = [row for row, _ in self._entries]
        semantic = self._embedded.semantic
        vectors = None if semantic is None else semantic[rows]
        return self._index.rows([entry for _, entry in self._entries], vectors, self._embedded.words[rows])


def _possible_ids(intake: Intake) -> list[str]:
    """Where the exact pattern of `intake` may be: its long-term rows, and rows that only the index knows."""
    keys = rules.candidate_keys(intake.pattern)
    return [*(lesson_id(kind, key) for kind in KINDS for key in keys), *(PATTERN + key for key in keys)]


def _refused(intakes: Sequence[Intake], reason: str) -> list[Receipt]:
    return [Receipt("rejected", kind=intake.kind, score=intake.mean, reason=reason) for intake in intakes]


def _note_orphan(known: _Known, row: Record) -> None:
    """Take a lesson into account that only a pattern row knows; its key is as taken as any other."""
    orphan = lesson_from(row)
    if "lesson" not in row.metadata and orphan is not None and orphan.id not in known.taken:
        known.taken[orphan.id] = orphan.pattern
        known.lessons[orphan.id] = orphan


def _cosines(vectors: Vector, rows: list[int], position: int) -> Vector:
    products = vectors[rows].astype(np.float64) @ vectors[position].astype(np.float64)
    lengths = np.linalg.norm(vectors[rows].astype(np.float64), axis=1) * np.linalg.norm(vectors[position])
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Tally:
    """The learner's running counts, kept in long-term memory under `STATUS_KEY`."""

    bands: dict[str, int] = field(default_factory=lambda: {"learned": 0, "antipattern": 0, "skipped": 0})
    members: dict[str, int] = field(default_factory=dict)
    last_update: str | None = None
    recent: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, record: Record | None) -> _Tally:
        tally = cls()
        body = loads_object(record.content) if record is not None else {}
        for mine, name in ((tally.bands, "bands"), (tally.members, "members")):
            stored = body.get(name)
            if isinstance(stored, dict):
                mine.update({k: v for k, v in stored.items() if isinstance(v, int)})
        recent = body.get("recent")
        if isinstance(recent, list):
            tally.recent = [score for score in recent if isinstance(score, int | float)]
        last = body.get("lastUpdate")
        tally.last_update = last if isinstance(last, str) else None
        return tally

    def count(self, intake: Intake, now: datetime) -> None:
        name = intake.kind or "skipped"
        self.bands[name] = self.bands.get(name, 0) + 1
        self.members[intake.member] = self.members.get(intake.member, 0) + 1
        self.recent = [*self.recent, intake.mean][-rules.RECENT_SCORES :]
        self.last_update = iso(now)

    def to_json(self) -> dict[str, Any]:
        return {
            "bands": self.bands,
            "members": self.members,
            "lastUpdate": self.last_update,
            "recent": self.recent,
        }

    def status(self) -> LearnerStatus:
        return LearnerStatus(self.bands, self.members, self.last_update, rules.trend(self.recent))
