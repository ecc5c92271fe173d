"""Filters compiled to SQLite's SQL with parameters, and to what sqlite-vec can search by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    from collections.abc import Iterable, Sequence

    from agenthood.stores.sqlite.schema import Tables


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression over the table of records, named `r`, and its parameters in order."""

    sql: str
    values: tuple[Any, ...] = ()


_FEW_PAIRS = 32
TRUE, FALSE = Condition("true"), Condition("false")


def json_list(values: Iterable[object]) -> str:
    """`values` as one parameter for `json_each`, which takes any number of them."""
    return json.dumps(list(values), ensure_ascii=False)


def compiled(condition: Filter | None, tables: Tables) -> Condition:  # noqa: PLR0911  one line per kind of filter
    """`condition` over the records of `tables`; true or false for each, never NULL below a `Not`."""
    match condition:
        case None:
            return TRUE
        case Equals(field, value):
            return _one_of(field, (value,), tables)
        case OneOf(field, values):
            return _one_of(field, values, tables)
        case StartsWith(field, prefix):
            return _starts_with(field, prefix)
        case AtLeast(field, value):
            return Condition(f"r.{field} >= ?", (past_surrogates(value),))
        case AllOf(parts):
            return _joined(" and ", [compiled(part, tables) for part in parts], TRUE)
        case AnyOf(parts):
            return _joined(" or ", [compiled(part, tables) for part in parts], FALSE)
        case Not(part):
            inner = compiled(part, tables)
            # A comparison with an absent value is NULL in SQL, and so is its negation.
            return Condition(f"not coalesce({inner.sql}, false)", inner.values)


def marked(condition: Filter, tables: Tables) -> dict[str, str] | None:
    """Column -> value, if these equalities are all that `condition` asks for and vectors can be searched by them."""
    match condition:
        case Equals(field, value) if field in tables.collection.columns:
            return {field: value}
        case AllOf(parts) if parts:
            found: dict[str, str] = {}
            for part in parts:
                more = marked(part, tables)
                if more is None or any(found.get(name, value) != value for name, value in more.items()):
                    return None
                found |= more
            return found
        case _:
            return None


def _one_of(field: str, values: Sequence[str], tables: Tables) -> Condition:
    # What no record can hold is left out: SQLite cannot be asked for it.
    known = [value for value in values if unstorable_reason(value) is None]
    if not known or unstorable_reason(field) is not None:
        return FALSE
    if field not in OWN_FIELDS and field not in tables.columns:
        pairs = [pair for value in known for pair in json_pairs(field, value)]
        if len(pairs) <= _FEW_PAIRS:  # ten times as fast
            return _joined(" or ", [Condition("instr(r.metadata, ?) > 0", (pair,)) for pair in pairs], FALSE)
        sql = "exists (select 1 from json_each(?) where instr(r.metadata, value) > 0)"
        return Condition(sql, (json_list(pairs),))
    if len(known) == 1:
        return Condition(f"r.{field} = ?", (known[0],))
    return Condition(f"r.{field} in (select value from json_each(?))", (json_list(known),))


def _starts_with(field: str, prefix: str) -> Condition:
    """As a range, which an index can serve."""
    found = prefix_range(prefix)
    if found is None:
        return FALSE
    least, end = found
    if end is None:
        return Condition(f"r.{field} >= ?", (least,))
    return Condition(f"(r.{field} >= ? and r.{field} < ?)", (least, end))


def _joined(operator: str, parts: list[Condition], empty: Condition) -> Condition:
    """As a balanced tree: SQLite bounds how deep an expression may be, and takes a chain for a deep one."""
    if len(parts) <= 1:
        return parts[0] if parts else empty
    middle = len(parts) // 2
    left, right = _joined(operator, parts[:middle], empty), _joined(operator, parts[middle:], empty)
    return Condition(f"({left.sql}{operator}{right.sql})", left.values + right.values)
