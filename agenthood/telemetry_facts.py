"""What telemetry tells of an operation: where it went, what came of it, and, only where that is asked for, its text."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from agenthood.redaction import redact
from agenthood.scope import Scope
from agenthood.stores.settings import EMBEDDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from agenthood.opening import OpenStore
    from agenthood.records import Changed, EvalResult, Forgotten, Imported, Recall, RecalledLesson, Receipt
    from agenthood.session import AsyncSession
    from agenthood.stores.settings import StoreSettings

    Records = list[dict[str, Any]]

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the environment by which GenAI instrumentations are told to report texts too."""
_LONGEST: Final = 8_192
_MOST_IDS: Final = 32


@dataclass(frozen=True, slots=True)
class Facts:
    """What came of an operation.

    Attributes:
        attributes: of its span.
        receipts: what became of what was handed in.
        degraded: whether something was down.
        query: gives what was asked for.
        records: gives what was found or handed in, as the conventions shape records.
    """

    attributes: Mapping[str, Any]
    receipts: Sequence[Receipt] = ()
    degraded: bool = False
    query: Callable[[], str] | None = None
    records: Callable[[], Records] | None = None


def content_wanted() -> bool:
    """Whether texts are to be reported as well."""
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"


def content_of(facts: Facts) -> dict[str, str]:
    """The attributes with text: secrets are redacted, and what is long is cut."""
    found = {}
    if facts.query is not None:
        found["gen_ai.memory.query.text"] = _clean(facts.query())
    if facts.records is not None:
        records: Records = []
        room = _LONGEST
        for record in facts.records():
            record["content"] = _clean(record["content"])[:room]
            room -= len(record["content"])
            records.append(record)
            if room <= 0:
                break
        found["gen_ai.memory.records"] = json.dumps(records, ensure_ascii=False)
    return found


def _clean(text: object) -> str:
    return redact(str(text))[:_LONGEST]


# -- where ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """The store that an operation goes to.

    Attributes:
        kind: of the span: `CLIENT` for a server's, `INTERNAL` for an embedded one.
        backend: its name.
        attributes: of every span.
    """

    kind: str
    backend: str
    attributes: Mapping[str, Any]


def place_of(hood: OpenStore) -> Place:
    """Where the operations of an open store go; one that is not open is in no place yet."""
    parts = hood._parts  # noqa: SLF001  `parts` raises where it is not open, which the operation itself does
    if parts is None:
        return Place("INTERNAL", "", {"gen_ai.provider.name": "agenthood"})
    return _place(parts.settings.store, parts.scope or Scope(), hood.path)


@lru_cache(maxsize=256)
def _place(settings: StoreSettings, scope: Scope, folder: Path) -> Place:
    embedded = settings.backend in EMBEDDED
    whose = {"tenant": scope.tenant, "project": scope.project, "agent": scope.agent}
    attributes: dict[str, Any] = {
        "gen_ai.provider.name": "agenthood",
        "gen_ai.memory.store.id": str(folder.absolute()) if embedded else settings.namespace,
        "agenthood.backend": settings.backend,
        **{f"agenthood.scope.{name}": value for name, value in whose.items() if value},
    }
    if not embedded:
        from agenthood.stores.factory import server_of  # noqa: PLC0415  its client is loaded by now

        host, port = server_of(settings)
        attributes |= {"server.address": host, "server.port": port}
    return Place("INTERNAL" if embedded else "CLIENT", str(settings.backend), attributes)


# -- what came of it ------------------------------------------------------------------------------------


def _ids(ids: Sequence[str], count: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"gen_ai.memory.record.count": len(ids) if count is None else count}
    if ids:
        # One attribute holds them all: to the conventions, a deletion without any is one of everything.
        told["gen_ai.memory.record.id"] = ",".join(ids[:_MOST_IDS])
    return told


def recalled(found: Recall, _: OpenStore, text: str, **__: Any) -> Facts:  # noqa: ANN401
    """Of `AsyncHood.recall`."""
    return _search(found.lessons, text, degraded=found.degraded, semantic=found.semantic)


def looked_up(shown: Sequence[RecalledLesson], session: AsyncSession) -> Facts:
    """Of what a session looks up on entering."""
    return _search(shown, session.task, degraded=bool(session.degraded))


def _search(
    found: Sequence[RecalledLesson], text: str, *, degraded: bool, semantic: bool | None = None
) -> Facts:
    attributes = {"gen_ai.memory.record.count": len(found), "agenthood.degraded": degraded}
    if semantic is not None:
        attributes["agenthood.semantic"] = semantic
    return Facts(
        attributes, degraded=degraded, query=lambda: text, records=lambda: [_record(one) for one in found]
    )


def _record(lesson: RecalledLesson) -> dict[str, Any]:
    return {
        "content": lesson.text,
        "id": lesson.id,
        "score": lesson.similarity,
        "metadata": {"kind": lesson.kind},
    }


def learned(receipt: Receipt, _: OpenStore, episode: str, **__: Any) -> Facts:  # noqa: ANN401
    """Of `AsyncHood.learn`."""
    return _upsert([receipt], lambda: [{"content": episode}])


def session_learned(receipt: Receipt, session: AsyncSession) -> Facts:
    """Of what a session learns at its end."""
    return _upsert([receipt], lambda: [{"content": session.task}])


def learned_many(
    receipts: Sequence[Receipt],
    _: OpenStore,
    results: Sequence[EvalResult],
    **__: Any,  # noqa: ANN401
) -> Facts:
    """Of `AsyncHood.learn_many`."""
    return _upsert(receipts, lambda: [{"content": one.episode} for one in results])


def _upsert(receipts: Sequence[Receipt], records: Callable[[], Records]) -> Facts:
    ids = list(dict.fromkeys(receipt.id for receipt in receipts if receipt.id is not None))
    queued = any(receipt.status == "pending" and receipt.id is None for receipt in receipts)
    attributes = _ids(ids) | {"agenthood.degraded": queued}
    return Facts(attributes, receipts, degraded=queued, records=records)


def recorded(episode: str | None, session: AsyncSession) -> Facts:
    """Of an episode that a session only records."""
    return Facts(_ids([episode] if episode else []), records=lambda: [{"content": session.task}])


def changed(done: Changed, *_: Any) -> Facts:  # noqa: ANN401
    """Of `AsyncHood.pin` and its kin."""
    return Facts(_ids(done.lessons))


def forgotten(done: Forgotten, *_: Any, **__: Any) -> Facts:  # noqa: ANN401
    """Of `AsyncHood.forget`."""
    return Facts(_ids((*done.lessons, *done.episodes)))


def imported(done: Imported, *_: Any, **__: Any) -> Facts:  # noqa: ANN401
    """Of `AsyncHood.import_`."""
    return Facts(_ids((), done.stored + done.merged))
