"""Long-term memory: key -> JSON value, the durable truth about lessons and anything else worth keeping."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import LTM, dumps, iso, unstorable_reason, utc_now
from agenthood.redaction import redact, redact_json
from agenthood.stores.base import SHARED, Record
from agenthood.stores.filters import StartsWith

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenthood.stores.base import VectorStore

_log = logging.getLogger("agenthood")


def long_term_record(key: str, value: Any, *, at: datetime) -> Record:  # noqa: ANN401  any JSON value
    """The row that keeps `value` under `key`; secrets are the caller's to redact."""
    stamp = iso(at)
    return Record(
        id=LTM + key,
        content=dumps(value),
        metadata={"type": "long_term", "key": key, "storedAt": stamp},
        created_at=stamp,
    )


class LongTermMemory:
    """A key-value memory in the shared table, in the TypeScript program's shapes."""

    def __init__(self, store: VectorStore, *, clock: Callable[[], datetime] = utc_now) -> None:
        """Args: `store` to keep it in; `clock` giving the current time in UTC."""
        self._store = store
        self._clock = clock

    async def store(self, key: str, value: Any) -> None:  # noqa: ANN401  any JSON value
        """Keep `value` under `key`, replacing what was there; secrets of well-known shapes are redacted in both.

        Keys that differ in nothing but a secret are one key.

        Raises:
            InvalidInputError: an empty key, a key with NUL or lone surrogates, or a value that is no JSON.
            StoreError: it could not be written.
        """
        if not key:
            raise InvalidInputError("a key of long-term memory cannot be empty")
        if reason := unstorable_reason(key):
            raise InvalidInputError(f"key {key!r:.120} cannot be stored: {reason}")
        record = long_term_record(redact(key), redact_json(value), at=self._clock())
        result = await self._store.upsert(SHARED, [record])
        if result.rejected:
            raise InvalidInputError(f"key {redact(key)!r:.120} was refused: {result.rejected[0].reason}")

    async def retrieve(self, key: str) -> Any:  # noqa: ANN401  any JSON value
        """The value under `key`; None if there is none, or if another program left what is no JSON (logged)."""
        ids = _ids(key)
        found = await self._store.get(SHARED, ids)
        record = next((found[id_] for id_ in ids if id_ in found), None)
        if record is None:
            return None
        try:
            return json.loads(record.content)
        except (ValueError, RecursionError):
            _log.warning(
                "long-term memory holds no JSON under %r: %.80r", redact(key), redact(record.content)
            )
            return None

    async def delete(self, key: str) -> bool:
        """Remove `key`; whether there was one."""
        return await self._store.delete(SHARED, _ids(key)) > 0

    async def keys(self, prefix: str = "") -> list[str]:
        """The keys that start with `prefix`, sorted."""
        found = await self._store.ids(SHARED, condition=StartsWith("id", LTM + prefix))
        return sorted(id_.removeprefix(LTM) for id_ in found)


def _ids(key: str) -> list[str]:
    """The rows `key` may be kept in: as another program wrote it, and as it is written here."""
    return list(dict.fromkeys((LTM + key, LTM + redact(key))))
