"""Looking at an open store: its lessons by what they are, and its state in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import InvalidInputError
from agenthood.formats import EPISODE, storable
from agenthood.learning.lessons import read_book
from agenthood.records import KINDS, TIERS, Lesson, Status
from agenthood.stores.base import SHARED
from agenthood.stores.filters import StartsWith

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.parts import Parts
    from agenthood.records import Kind, Tier
    from agenthood.stores.base import VectorStore


async def chosen_lessons(  # noqa: PLR0913  the options of a list
    store: VectorStore,
    *,
    kind: Kind | None,
    member: str | None,
    skill: str | None,
    contains: str | None,
    tier: Tier | None,
    limit: int | None,
) -> list[Lesson]:
    """See `AsyncHood.lessons`."""
    if tier is not None and tier not in TIERS:
        raise InvalidInputError(f"tier {tier!r} is none of {', '.join(map(repr, TIERS))}")
    if kind is not None and kind not in KINDS:
        raise InvalidInputError(f"kind {kind!r} is none of {', '.join(map(repr, KINDS))}")
    named = {"kind": kind, "member": member, "skill": skill}
    wanted = {name: value for name, value in named.items() if value is not None}
    part = (contains or "").lower()
    found = [
        lesson
        for lesson in (await read_book(store)).lessons.values()
        if (not lesson.archived if tier is None else lesson.tier == tier)
        and all(getattr(lesson, name) == value for name, value in wanted.items())
        and part in lesson.text.lower()
    ]
    found.sort(key=lambda lesson: lesson.id)
    found.sort(key=lambda lesson: lesson.last_seen, reverse=True)
    return found if limit is None else found[: max(0, limit)]


async def status_of(parts: Parts, path: Path, reason: str) -> Status:
    """See `AsyncHood.status`; `reason` says why meaning is not compared."""
    waiting = await parts.learner.waiting()
    book = await read_book(parts.store)
    present = set((await parts.index.present()).values())
    active = book.active
    indexed = sum(storable(pattern) in present for pattern in active)
    return Status(
        path=str(path),
        lessons={kind: sum(one.kind == kind for one in active.values()) for kind in KINDS},
        episodes=await parts.store.count(SHARED, StartsWith("id", EPISODE)),
        indexed=indexed,
        pending=len(active) - indexed,
        space=str(parts.index.space),
        semantic=parts.space.semantic,
        calibration=parts.space.calibration,
        learner=await parts.learner.get_status(),
        reason=reason,
        store=parts.settings.store.backend,
        scope=str(parts.scope or ""),
        archived=len(book.archived),
        queued=len(waiting.entries),
        queued_since=waiting.since,
    )
