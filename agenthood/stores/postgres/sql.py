"""Filters compiled to conditions of Postgres: values travel as parameters, names are quoted.

The condition of a metadata key is containment in `attributes`: `{"key": "value"}` is contained only where the key holds
this very string, so the number 5 is not "5". What no record can hold, NUL or a lone surrogate, is never sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenthood.formats import dumps, unstorable_reason
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
from agenthood.stores.postgres.keys import HEAD, key
from agenthood.stores.text_order import past_surrogates, prefix_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.stores.base import Collection

ID = "coalesce(full_id, id)"
TENANT = "tenant_id"


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of SQL and the parameters for its `%s`, in order."""

    text: str
    parameters: tuple[object, ...] = ()


TRUE = Clause("true")
FALSE = Clause("false")


def quoted(name: str) -> str:
    """`name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """`text` as an SQL string, for statements that take no parameters."""
    escaped = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{escaped}'"


def compile_filter(condition: Filter, collection: Collection) -> Clause:  # noqa: PLR0911  one line per kind
    """`condition` over the columns of `collection`."""
    match condition:
        case Equals(field, value):
            return _one_of(field, [value], collection)
        case OneOf(field, values):
            return _one_of(field, values, collection)
        case StartsWith(field, prefix):
            return _starts_with(field, prefix)
        case AtLeast(field, value):
            least = _past_nul(past_surrogates(value))
            return Clause(f"{_compared(field, least)} >= %s", (least,))
        case AllOf(parts):
            return joined(" and ", [compile_filter(part, collection) for part in parts], TRUE)
        case AnyOf(parts):
            return joined(" or ", [compile_filter(part, collection) for part in parts], FALSE)
        case Not(part):
            # A comparison with an absent value is null in SQL, and so is its negation.
            inner = compile_filter(part, collection)
            return Clause(f"not coalesce({inner.text}, false)", inner.parameters)


def joined(operator: str, parts: Sequence[Clause], empty: Clause) -> Clause:
    """The parts with `operator` between them, in brackets; `empty` if there are none."""
    if not parts:
        return empty
    texts = operator.join(part.text for part in parts)
    return Clause(f"({texts})", tuple(value for part in parts for value in part.parameters))


def _one_of(field: str, values: Sequence[str], collection: Collection) -> Clause:
    listed = [value for value in dict.fromkeys(values) if unstorable_reason(value) is None]
    if not listed or unstorable_reason(field) is not None:
        return FALSE
    if field in OWN_FIELDS - {"id"}:
        return Clause(f"{field} = any(%s)", (listed,))
    column = Clause(f"{field} = any(%s)", ([key(value) for value in listed],))
    if field == "id" or (field in collection.columns and field != TENANT):
        return column
    pairs = [dumps({field: value}) for value in listed]
    contained = (
        Clause("attributes @> %s::jsonb", (pairs[0],))
        if len(pairs) == 1  # which an index serves
        else Clause("attributes @> any(%s::jsonb[])", (pairs,))
    )
    # The column also has a value where the record names no tenant; it narrows the search down.
    return joined(" and ", [column, contained], TRUE) if field == TENANT else contained


def _starts_with(field: str, prefix: str) -> Clause:
    if (found := prefix_range(prefix)) is None:
        return FALSE
    least, end = found
    column = _compared(field, least)
    if end is None:
        return Clause(f"{column} >= %s", (least,))
    return Clause(f"({column} >= %s and {column} < %s)", (least, end))


def _compared(field: str, value: str) -> str:
    """The column to compare with: ids are shortened to keys, which compare alike with short texts alone."""
    return ID if field == "id" and len(value) > HEAD else field


def _past_nul(value: str) -> str:
    """The first text without NUL that sorts at or after `value`."""
    before, nul, _ = value.partition("\0")
    return before + "\x01" if nul else value
