"""What is seen for many records at once is what is seen for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import InvalidRecordError
from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Record
from agenthood.stores.validation import LARGEST_NORM, SMALLEST_NORM, check_record, partition
from stores.hostile import texts

COLLECTION = Collection("some", 4, typed=True, lexical=True)


def _filled(number: float, dtype: str = "float32", length: int = 4) -> Any:
    return np.full(length, number, dtype=dtype)


# Two of four numbers make a vector twice as long as each.
LENGTHS = [factor * norm / 2 for norm in (SMALLEST_NORM, LARGEST_NORM) for factor in (0.4, 0.999, 1.001, 2.5)]
VECTORS = [None, "text", [0.5] * 4, _filled(1, "int64"), _filled(1, "float64"), _filled(1, "complex64")]
VECTORS += [_filled(1, length=3), _filled(1, length=LEXICAL_DIMENSION), _filled(0), _filled(float("nan"))]
VECTORS += [np.array([1, np.inf, 0, 0], "float32"), _filled(3e38), _filled(1e-44), _filled(0.5).reshape(2, 2)]
VECTORS += [_filled(number) for number in LENGTHS]
ODD = [None, 1, 10**400, 0.5, True, float("nan"), float("inf"), ["x"], {"x": 1}, b"x", "", "a\0", "\ud800"]
NAMES = ("id", "content", "created_at", "terms", "metadata")
CHANGES = [{name: odd} for name in NAMES for odd in [*ODD, "b"]]
CHANGES += [{"metadata": {"a": odd}} for odd in ODD] + [
    {"metadata": {"a": "b", odd: "c"}} for odd in (1, None, "\0")
]
CHANGES += [{"vector": vector} for vector in VECTORS]
CHANGES += [{"lexical": _filled(1)}, {"lexical": _filled(0.1, length=LEXICAL_DIMENSION)}]
PLAIN = st.builds(
    Record,
    id=st.one_of(texts, st.sampled_from(["a", "b"])),
    content=texts,
    metadata=st.dictionaries(texts, texts, max_size=2),
    created_at=texts,
    vector=st.sampled_from([None, _filled(0.5)]),
)
CHANGED = st.builds(lambda record, change: replace(record, **change), PLAIN, st.sampled_from(CHANGES))


def _reason(record: Record) -> str | None:
    try:
        check_record(record, COLLECTION)
    except InvalidRecordError as exc:
        return exc.reason
    return None


@given(st.lists(st.one_of(PLAIN, CHANGED), max_size=8))
def test_a_batch_is_judged_as_its_records_one_by_one(records: list[Record]) -> None:
    """The same are refused for the same reasons, and of those that are not the last of each id is written."""
    reasons = [_reason(record) for record in records]
    valid, rejected = partition(records, COLLECTION)
    assert [one.reason for one in rejected] == [reason for reason in reasons if reason is not None]
    last = {record.id: record for record, reason in zip(records, reasons, strict=True) if reason is None}
    assert list(map(id, valid)) == list(map(id, last.values()))


class _OnlyItems:
    """What looks like a mapping until it is made one."""

    def items(self) -> list[tuple[str, str]]:
        return [("type", "t")]


def test_what_only_looks_like_a_mapping_is_refused_alone() -> None:
    """A record with such metadata is refused by name, and the one beside it is written."""
    odd: Any = _OnlyItems()
    even = Record("even", "text", {"type": "t"}, "2026-01-01T00:00:00.000Z")
    valid, rejected = partition([replace(even, id="odd", metadata=odd), even], COLLECTION)
    assert [one.id for one in valid] == ["even"]
    assert [one.id for one in rejected] == ["odd"]
