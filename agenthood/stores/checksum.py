"""Checksums of records: equal exactly if every field is, whatever backend they were read from, in any order."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from agenthood.formats import dumps

if TYPE_CHECKING:
    from agenthood.stores.base import Record

_BITS = 256


def digest(record: Record) -> bytes:
    """SHA-256 over id, content, metadata in their order, time, terms and both vectors as float32; 32 bytes."""
    found = sha256()
    texts = (record.id, record.content, dumps(dict(record.metadata)), record.created_at, record.terms)
    parts: list[bytes | None] = [
        None if text is None else text.encode("utf-8", "surrogatepass") for text in texts
    ]
    parts += [
        None if vector is None else np.ascontiguousarray(vector, dtype="<f4").tobytes()
        for vector in (record.vector, record.lexical)
    ]
    for part in parts:  # with their lengths, so that nothing can pass from one field to the next
        found.update(b"-" if part is None else b"%d:" % len(part))
        found.update(part or b"")
    return found.digest()


class Checksum:
    """The sum of the digests of records; XOR would not see a record that is there twice.

    Attributes:
        count: how many records it is of.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, one: bytes) -> None:
        """Count the record with this digest."""
        self.count += 1
        self._sum = (self._sum + int.from_bytes(one)) % 2**_BITS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checksum) and str(self) == str(other) and self.count == other.count

    def __hash__(self) -> int:
        return hash((self.count, self._sum))

    def __str__(self) -> str:
        return f"{self._sum:0{_BITS // 4}x}"
