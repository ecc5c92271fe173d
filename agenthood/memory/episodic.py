"""Episodic memory: what was done, when and how it ended. Append-only, never rewritten."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import EPISODE, dumps, iso, loads_object, new_episode_id, unstorable_reason, utc_now
from agenthood.redaction import redact, redact_json
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import AllOf, AtLeast, Filter, StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agenthood.stores.base import VectorStore

_OWN_NAMES = ("episode", "outcome", "timestamp")


@dataclass(frozen=True, slots=True)
class Episode:
    """One recorded episode.

    Attributes:
        id: `ep:{epoch milliseconds}-{6 base-36 characters}`.
        episode: what was done.
        outcome: how it ended.
        timestamp: ISO 8601 in UTC.
        details: whatever else was recorded with it, such as `scores`, `member` and `skill`.
    """

    id: str
    episode: str
    outcome: str
    timestamp: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The episode as a JSON-ready mapping."""
        return asdict(self)


def episode_record(  # noqa: PLR0913  the parts of an episode
    episode: str,
    outcome: str,
    *,
    at: datetime,
    recorded: datetime,
    id_: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> Record:
    """The row of an episode, under a fresh id unless it has one; secrets are the caller's to redact."""
    stamp = iso(at)
    return Record(
        id=id_ or new_episode_id(at),
        content=dumps({"episode": episode, "outcome": outcome, "timestamp": stamp, **(details or {})}),
        metadata={"type": "episodic", "recordedAt": iso(recorded)},
        created_at=stamp,
    )


def episode_from(record: Record) -> Episode:
    """The episode a row holds; a row another program left without readable content has empty texts."""
    body = loads_object(record.content)
    texts = {name: _text(body.pop(name, None)) for name in _OWN_NAMES}
    texts["timestamp"] = texts["timestamp"] or record.created_at
    return Episode(record.id, **texts, details=body)


def _text(value: object) -> str:
    return "" if value is None else str(value)


class EpisodicMemory:
    """Episodes in the shared table, in the TypeScript program's shapes."""

    def __init__(self, store: VectorStore, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Args: `store` to keep it in; `clock` giving the current time in UTC."""
        self._store = store
        self._clock = clock

    async def record(
        self,
        episode: str,
        outcome: str = "",
        *,
        timestamp: datetime | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> str:
        """Append an episode; secrets of well-known shapes are redacted.

        Args:
            episode: what was done.
            outcome: how it ended.
            timestamp: when; now if absent. A naive time counts as UTC.
            details: anything else to keep with it, JSON-ready, under names other than `episode`, `outcome`
                and `timestamp`.

        Returns:
            The new episode's id.

        Raises:
            InvalidInputError: a text with NUL or lone surrogates, or details that are no JSON or bear the
                name of one of the episode's own parts.
            StoreError: it could not be written.
        """
        for name, text in (("episode", episode), ("outcome", outcome)):
            if reason := unstorable_reason(text):
                raise InvalidInputError(f"{name} {text!r:.120} cannot be stored: {reason}")
        if taken := [name for name in _OWN_NAMES if name in (details or {})]:
            raise InvalidInputError(f"details cannot hold {taken[0]!r}: give it as the argument of that name")
        now = self._clock()
        record = episode_record(
            redact(episode),
            redact(outcome),
            at=timestamp or now,
            recorded=now,
            details=redact_json(dict(details or {})),
        )
        result = await self._store.upsert(SHARED, [record])
        if result.rejected:
            raise InvalidInputError(f"the episode was refused: {result.rejected[0].reason}")
        return record.id

    async def get_episode(self, episode_id: str) -> Episode | None:
        """The episode with this id, or None."""
        record = (await self._store.get(SHARED, [episode_id])).get(episode_id)
        return episode_from(record) if record is not None and record.id.startswith(EPISODE) else None

    async def recall(
        self, *, limit: int = 10, since: datetime | None = None, contains: str | None = None
    ) -> list[Episode]:
        """The latest episodes, newest first.

        Args:
            limit: how many at most; at most 0 gives none.
            since: only episodes from this time on.
            contains: only episodes whose text or outcome holds this, upper or lower case.
        """
        parts: list[Filter] = [StartsWith("id", EPISODE)]
        if since is not None:
            parts.append(AtLeast("created_at", iso(since)))
        found: list[Episode] = []
        async for batch in self._store.scan(SHARED, condition=AllOf(tuple(parts))):
            episodes = map(episode_from, batch)
            wanted = (contains or "").lower()
            found += [e for e in episodes if wanted in f"{e.episode}\n{e.outcome}".lower()]
        found.sort(key=lambda e: (e.timestamp, e.id), reverse=True)
        return found[: max(0, limit)]
