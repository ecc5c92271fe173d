"""Filters compiled to the SQL that LanceDB understands.

Literals are escaped by doubling `'` and nothing else: a backslash is an ordinary character outside LIKE, and
LIKE is not used, since `_` and `%` are wildcards in it. A metadata key without a column of its own is matched by
the compact JSON pair `"key":"value"` with the `{` or `,` before it (see `text_order.json_pairs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.formats import unstorable_reason
from agenthood.stores.filters import (
    OWN_FIELDS,
    AllOf,
    AnyOf,
    AtLeast,
    Equals,
    Filter,
    Not,
    OneOf,
    StartsWith,
)
from agenthood.stores.text_order import json_pairs, past_surrogates, prefix_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenthood.stores.base import Collection


def literal(text: str) -> str:
    """`text` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def one_of(column: str, values: Iterable[str]) -> str:
    """`column IN (...)`, or `false` for no values; what no row can hold is left out, since LanceDB fails on it."""
    listed = ", ".join(literal(value) for value in values if unstorable_reason(value) is None)
    return f"{column} IN ({listed})" if listed else "false"


def compile_filter(condition: Filter, collection: Collection) -> str:  # noqa: PLR0911  one line per kind of filter
    """`condition` as an SQL expression over the columns of `collection`."""
    match condition:
        case Equals(field, value):
            return _equals(field, value, collection)
        case OneOf(field, values):
            if _is_column(field, collection):
                return one_of(field, values)
            return _joined(" OR ", [_equals(field, value, collection) for value in values], "false")
        case StartsWith(field, prefix):
            return _starts_with(field, prefix)
        case AtLeast(field, value):
            return f"{field} >= {literal(past_surrogates(value))}"
        case AllOf(parts):
            return _joined(" AND ", [compile_filter(part, collection) for part in parts], "true")
        case AnyOf(parts):
            return _joined(" OR ", [compile_filter(part, collection) for part in parts], "false")
        case Not(part):
            # A comparison with an absent value is NULL in SQL, and so is its negation.
            return f"NOT coalesce({compile_filter(part, collection)}, false)"


def only_ids(condition: Filter | None) -> bool:
    """Whether the answer depends on nothing but a row's id."""
    match condition:
        case None:
            return True
        case AllOf(parts) | AnyOf(parts):
            return all(map(only_ids, parts))
        case Not(part):
            return only_ids(part)
        case _:
            return condition.field == "id"


def _is_column(field: str, collection: Collection) -> bool:
    return field in OWN_FIELDS or field in collection.columns


def _equals(field: str, value: str, collection: Collection) -> str:
    if _is_column(field, collection):
        return one_of(field, [value])
    opening, following = json_pairs(field, value)
    # As the first key it is looked for at the start only: `contains` reads all of every row.
    return f"(contains(metadata, {literal(following)}) OR {_starts_with('metadata', opening)})"


def _starts_with(column: str, prefix: str) -> str:
    """As a range: LanceDB runs `starts_with` as a regular expression, which may not be long."""
    if (found := prefix_range(prefix)) is None:
        return "false"
    least, end = found
    at_least = f"{column} >= {literal(least)}"
    return at_least if end is None else f"({at_least} AND {column} < {literal(end)})"


def _joined(operator: str, parts: list[str], empty: str) -> str:
    return "(" + operator.join(parts) + ")" if parts else empty
