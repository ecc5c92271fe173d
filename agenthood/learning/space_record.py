"""What a store remembers of an embedding space: one row of long-term memory under `spaces/{fingerprint}`.

It holds the canary, the vector of one sentence as the model first gave it, and the calibration. Whoever wrote a
part first is right: another process that made it at the same time takes over what it finds.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agenthood.formats import LTM, dumps, loads_object, utc_now
from agenthood.learning.calibration import Calibration
from agenthood.memory.long_term import long_term_record
from agenthood.stores.base import SHARED

if TYPE_CHECKING:
    from agenthood.embedding.base import EmbeddingSpace, Vectors
    from agenthood.stores.base import VectorStore

_ROUNDING = 0.01
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True, eq=False)
class SpaceRecord:
    """The usable parts of a space's row; a part that is damaged counts as missing and is made anew.

    Attributes:
        canary: float32 (dimension,), of unit length.
        calibration: the background of the space.
    """

    canary: Vectors | None = None
    calibration: Calibration | None = None

    @classmethod
    def of(cls, body: dict[str, Any], space: EmbeddingSpace) -> SpaceRecord:
        """Read the row's content; never raises."""
        canary, calibration = body.get("canary"), body.get("calibration")
        found = cls(
            None if canary is None else _vector(canary, space.dimension),
            None if calibration is None else _calibration(calibration),
        )
        for name, stored in (("canary", canary), ("calibration", calibration)):
            if stored is not None and getattr(found, name) is None:
                _log.warning("the %s of space %s is unreadable and is made anew", name, space)
        return found


async def read_space(store: VectorStore, space: EmbeddingSpace) -> SpaceRecord:
    """What the store remembers of `space`.

    Raises:
        StoreError: it could not be read.
    """
    return SpaceRecord.of(await _body(store, space), space)


async def write_space(store: VectorStore, space: EmbeddingSpace, record: SpaceRecord) -> SpaceRecord:
    """Add the parts of `record` that the store lacks.

    Returns:
        What the store remembers now.

    Raises:
        StoreError: it could not be written.
    """
    async with store.exclusive():
        body = await _body(store, space)
        known = SpaceRecord.of(body, space)
        added: dict[str, Any] = {}
        if known.canary is None and record.canary is not None:
            added["canary"] = [round(float(x), 6) for x in record.canary]
        if known.calibration is None and record.calibration is not None:
            added["calibration"] = loads_object(record.calibration.to_json())
        if added:
            value = body | {"space": str(space)} | added
            await store.upsert(SHARED, [long_term_record(_key(space), value, at=utc_now())])
    return SpaceRecord(
        record.canary if known.canary is None else known.canary, known.calibration or record.calibration
    )


def _key(space: EmbeddingSpace) -> str:
    return f"spaces/{space}"


async def _body(store: VectorStore, space: EmbeddingSpace) -> dict[str, Any]:
    id_ = LTM + _key(space)
    found = await store.get(SHARED, [id_])
    return loads_object(found[id_].content) if id_ in found else {}


def _vector(value: object, dimension: int) -> Vectors | None:
    try:
        vector = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    if vector.shape != (dimension,) or not (np.abs(vector) <= 1.0).all():  # false for NaN as well
        return None
    # Rounded to six decimals, so its length is not exactly 1.
    return vector.astype(np.float32) if abs(float(vector @ vector) - 1.0) < _ROUNDING else None


def _calibration(value: object) -> Calibration | None:
    try:
        calibration = Calibration.from_json(dumps(value))
    except ValueError:  # InvalidInputError is one; another if it is no JSON
        return None
    return None if calibration.blind else calibration
