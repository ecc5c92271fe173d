"""The typed values that go into and come out of agenthood: episodes, receipts, lessons, recalls, reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, asdict, astuple, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from agenthood.errors import InvalidInputError

if TYPE_CHECKING:
    from agenthood.learning.calibration import Calibration

Kind: TypeAlias = Literal["learned", "antipattern"]
ReceiptStatus: TypeAlias = Literal["stored", "merged", "pending", "skipped", "rejected"]
Trend: TypeAlias = Literal["rising", "stable", "falling"]
Scoring: TypeAlias = Literal["calibrated", "cosine", "squared_l2"]
Tier: TypeAlias = Literal["working", "short", "long", "archive"]

SCORINGS: tuple[Scoring, ...] = ("calibrated", "cosine", "squared_l2")
KINDS: tuple[Kind, ...] = ("learned", "antipattern")
TIERS: tuple[Tier, ...] = ("working", "short", "long", "archive")
UNKNOWN = "unknown"
"""The member or skill of an episode that names none."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """One episode with its scores: what the learner learns from.

    Attributes:
        episode: what was done, in a sentence or a few.
        scores: name -> number in [0, 1]; their mean is the episode's score. Empty: nothing is learned.
        outcome: how it ended, in words.
        member: who did it.
        skill: in which skill.
        timestamp: when; now if absent. A naive time counts as UTC.
        episode_id: the id it is recorded under already; recorded anew if absent. A lesson counts an episode once.

    Args:
        score: how well it went, in [0, 1]; the short form of `scores={"score": score}`, and only kept there: the
            attribute `score` is None, and `dataclasses.replace` takes `scores`.

    Raises:
        InvalidInputError: both `score` and `scores` were given.
    """

    episode: str
    scores: Mapping[str, float] = field(default_factory=dict)
    outcome: str = ""
    member: str = UNKNOWN
    skill: str = UNKNOWN
    timestamp: datetime | None = None
    episode_id: str | None = None
    score: InitVar[float | None] = field(default=None, kw_only=True)

    def __post_init__(self, score: float | None) -> None:
        if score is None:
            return
        if self.scores:
            raise InvalidInputError(
                f"score={score!r} and scores={self.scores!r} were given: give one of them"
            )
        object.__setattr__(self, "scores", {"score": score})


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one thing that was handed in. Nothing vanishes without one.

    Attributes:
        status: `stored` a new lesson; `merged` into an existing one; `pending` stored or merged, but not yet
            findable by meaning, or, without an id, queued until the store can take it; `skipped` on purpose, nothing
            learned; `rejected` refused, nothing stored.
        id: the lesson's id, or None if there is none.
        reason: why, in words; empty when there is nothing to explain.
        kind: which kind of lesson.
        score: mean of the scores in [0, 1].
        similarity: match score in [0, 1] with the lesson it was merged into.
        evidence: the lesson's evidence count afterwards.
        episode_id: the id of the recorded episode, or under which one that is queued will be recorded.
    """

    status: ReceiptStatus
    id: str | None = None
    reason: str = ""
    kind: Kind | None = None
    score: float | None = None
    similarity: float | None = None
    evidence: int | None = None
    episode_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The receipt as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson as long-term memory holds it.

    Attributes:
        id: the id of its row, such as `ltm:learnings/v1:fn6jbb`.
        kind: `learned` or `antipattern`.
        text: the bare episode text.
        pattern: `{kind}:{member}:{skill}:{episode}`.
        member: who learned it.
        skill: in which skill.
        mean: mean of the scores of its episodes, in [0, 1]; low for an anti-pattern.
        evidence: how many episodes support it, at least 1.
        episodes: ids of the latest of those episodes, oldest first, at most `MAX_CITED`.
        first_seen: ISO 8601 time of its first episode.
        last_seen: ISO 8601 time of its latest episode.
        outcome: how the latest of them that said so ended.
        tier: how long it is kept: `working` (new), `short`, `long`; `archive` is out of look-ups, and restorable.
        pinned: True if upkeep never moves it.
        uses: how often it was put before an agent, as far as upkeep has counted.
        last_used: ISO 8601 time of the latest of those; empty if there was none.
    """

    id: str
    kind: Kind
    text: str
    pattern: str
    member: str
    skill: str
    mean: float
    evidence: int = 1
    episodes: tuple[str, ...] = ()
    first_seen: str = ""
    last_seen: str = ""
    outcome: str = ""
    tier: Tier = "working"
    pinned: bool = False
    uses: int = 0
    last_used: str = ""

    @property
    def archived(self) -> bool:
        """Whether it is kept out of look-ups."""
        return self.tier == "archive"

    def to_dict(self) -> dict[str, Any]:
        """The lesson as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RecalledLesson:
    """One lesson found by a recall.

    Attributes:
        id: the lesson's id.
        kind: `learned` or `antipattern`.
        text: the bare episode text.
        member: who learned it.
        skill: in which skill.
        similarity: match score in [0, 1], compared with the threshold; a raw number under another scoring.
        relevance: the coverage score the ranking follows; comparable within one recall.
        evidence: how many episodes support it.
        mean: mean score of those episodes, in [0, 1].
        episodes: ids of the episodes cited.
        semantic: True if meaning was compared, False if only wording could be.
        outcome: how the latest episode ended; empty if none said so.
        shared: True if it is not one's own but of the layer that all agents of the project share.
    """

    id: str
    kind: Kind
    text: str
    member: str
    skill: str
    similarity: float
    relevance: float
    evidence: int
    mean: float
    episodes: tuple[str, ...]
    semantic: bool
    outcome: str = ""
    shared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The lesson as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Recall(Sequence[RecalledLesson]):
    """The answer to a recall: the lessons, best first, and what fell short.

    Attributes:
        lessons: what passed the threshold, best first.
        threshold: the threshold that was applied.
        near_misses: how many of the candidates looked at fell below it by at most 0.1.
        nearest_miss: the best similarity below it, or None.
        semantic: True if meaning was compared.
        degraded: True if the answer may be incomplete because something was down.
        reason: why it is degraded or not semantic; empty otherwise.
    """

    lessons: tuple[RecalledLesson, ...] = ()
    threshold: float = 0.0
    near_misses: int = 0
    nearest_miss: float | None = None
    semantic: bool = True
    degraded: bool = False
    reason: str = ""

    @overload
    def __getitem__(self, index: int) -> RecalledLesson: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RecalledLesson, ...]: ...
    def __getitem__(self, index: int | slice) -> RecalledLesson | tuple[RecalledLesson, ...]:
        return self.lessons[index]

    def __len__(self) -> int:
        return len(self.lessons)

    def __iter__(self) -> Iterator[RecalledLesson]:
        return iter(self.lessons)

    def to_prompt(self, *, max_bytes: int = 4096) -> str:
        """The lessons as one fenced block that marks them as data; empty string without lessons.

        Args:
            max_bytes: cap on the block's length in UTF-8 bytes.
        """
        from agenthood.block import render_block  # noqa: PLC0415  keeps the import of this module light

        return render_block(self.lessons, max_bytes=max_bytes)

    def to_dict(self) -> dict[str, Any]:
        """The recall as a JSON-ready mapping."""
        return {
            "lessons": [lesson.to_dict() for lesson in self.lessons],
            "threshold": self.threshold,
            "near_misses": self.near_misses,
            "nearest_miss": self.nearest_miss,
            "semantic": self.semantic,
            "degraded": self.degraded,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """One match of `EmbeddingIndex.find_similar`.

    Attributes:
        key: key of the pattern, such as `v1:fn6jbb`.
        pattern: the pattern text.
        score: similarity on the scale asked for, higher is closer.
    """

    key: str
    pattern: str
    score: float


@dataclass(frozen=True, slots=True)
class LearnerStatus:
    """What the learner has done on this store so far.

    Attributes:
        bands: episodes per band: `learned`, `antipattern`, `skipped`.
        members: episodes per member, all bands.
        last_update: ISO 8601 time of the last judged episode, or None.
        trend: whether the mean score of the last ten judged episodes is more than 0.05 above or below that of the
            ten before; of fewer than twenty the later half is compared with the one before.
    """

    bands: Mapping[str, int]
    members: Mapping[str, int]
    last_update: str | None
    trend: Trend

    def to_dict(self) -> dict[str, Any]:
        """The status as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a store and its engine.

    Attributes:
        path: the `.agenthood` directory.
        lessons: lessons per kind, without the archived ones.
        episodes: how many episodes are recorded.
        indexed: how many lessons are findable by meaning in the active space.
        pending: how many wait for an embedder.
        space: fingerprint of the active embedding space, or None without an embedder.
        semantic: True if the active embedder compares meaning.
        calibration: the active space's calibration, or None while scores are raw.
        learner: what the learner has done.
        reason: why no (semantic) embedder is active; empty if one is.
        store: the backend, such as `lancedb`.
        scope: whose memory it is; empty for the directory's own.
        archived: how many lessons are archived.
        queued: how many episodes wait to be learned until the store can take them.
        queued_since: ISO 8601 time since when the oldest of them waits, or None.
    """

    path: str
    lessons: Mapping[str, int]
    episodes: int
    indexed: int
    pending: int
    space: str | None
    semantic: bool
    calibration: Calibration | None
    learner: LearnerStatus
    reason: str = ""
    store: str = "lancedb"
    scope: str = ""
    archived: int = 0
    queued: int = 0
    queued_since: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The status as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a migration of the pattern index did.

    Attributes:
        space: the embedding space it filled.
        lessons: distinct usable lessons on the store, without the archived ones.
        present: how many were already indexed.
        embedded: how many this run embedded and indexed.
        remaining: how many are still to do.
        unusable: long-term rows under a lesson's key that hold no usable pattern; left as they are.
        complete: True if the index now holds every lesson.
        reason: why it stopped early; empty otherwise.
        seconds: wall time.
    """

    space: str | None
    lessons: int = 0
    present: int = 0
    embedded: int = 0
    remaining: int = 0
    unusable: int = 0
    complete: bool = True
    reason: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What `forget` removed.

    Attributes:
        lessons: ids of the lessons removed.
        episodes: ids of the episodes removed.
        signals: how many residual signals were removed.
        missing: ids that no lesson has.
    """

    lessons: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()
    signals: int = 0
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Imported:
    """What `import_` did with each kind of line.

    Attributes:
        stored: new lessons and episodes.
        merged: lessons whose evidence grew.
        skipped: lines whose content was already there.
        rejected: (line number, reason) for every line that was refused; the rest is imported.
        pending: new lessons that cannot be found by meaning before a migration.
        reason: why they cannot.
    """

    stored: int = 0
    merged: int = 0
    skipped: int = 0
    rejected: tuple[tuple[int, str], ...] = ()
    pending: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Changed:
    """What `pin`, `unpin`, `archive` or `restore` did.

    Attributes:
        lessons: ids of the lessons changed.
        unchanged: ids of those that were like that already.
        missing: ids that no lesson has.
        pending: how many of the restored ones cannot be found by meaning before a migration.
        reason: why they cannot.
    """

    lessons: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    pending: int = 0
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Tidied:
    """What `maintain` did to the lessons.

    Attributes:
        promoted: how many it moved up a tier.
        demoted: how many it moved down a tier.
        archived: how many it took out of look-ups.
        restored: how many it put back.
        uses: how many uses it counted.
    """

    promoted: int = 0
    demoted: int = 0
    archived: int = 0
    restored: int = 0
    uses: int = 0

    def __add__(self, other: Tidied) -> Tidied:
        """Both together."""
        return Tidied(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What `maintain` did to the lessons and to each collection.

    Attributes:
        collections: name -> what was done and found: rows, fragments before and after, bytes freed, index state.
        migration: what the pattern index still needed.
        lessons: what became of the lessons.
    """

    collections: Mapping[str, Mapping[str, Any]]
    migration: MigrationReport | None = None
    lessons: Tidied = Tidied()

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-ready mapping."""
        return asdict(self)
