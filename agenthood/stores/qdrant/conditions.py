"""Filters as Qdrant's JSON: exact where its conditions allow it, else the nearest one that leaves nothing out.

Qdrant compares keywords for equality; it has neither the order of code points nor, before 1.20, prefixes. What it can
not tell exactly is narrowed to a condition that every match satisfies, and `filters.matches` decides on what is read.
Under a `Not` it is the other way round: there only what certainly matches is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agenthood.formats import unstorable_reason
from agenthood.stores.filters import AllOf, AnyOf, AtLeast, Equals, Not, OneOf, StartsWith
from agenthood.stores.qdrant.payload import (
    column_names,
    digest,
    heads,
    keyword,
    milliseconds,
    pair,
    point_id,
)

if TYPE_CHECKING:
    from agenthood.stores.base import Collection
    from agenthood.stores.filters import Filter

Clause: TypeAlias = dict[str, Any] | bool
"""A condition of Qdrant as JSON, or whether all records match."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A filter as Qdrant takes it.

    Attributes:
        clause: what every match satisfies.
        exact: False if also others may satisfy it.
    """

    clause: Clause
    exact: bool

    @property
    def nothing(self) -> bool:
        """Whether no record can match."""
        return self.clause is False

    def with_(self, *more: dict[str, Any]) -> dict[str, Any] | None:
        """The whole as the JSON of a `Filter`, together with further conditions; None for all records."""
        parts = [*([] if isinstance(self.clause, bool) else [self.clause]), *more]
        if not parts:
            return None
        return {"must": parts}


def compile_filter(condition: Filter | None, collection: Collection) -> Compiled:
    """`condition` for the collection as it is."""
    if condition is None:
        return Compiled(clause=True, exact=True)
    compiler = _Compiler(column_names(collection))
    clause = compiler.clause(condition, loose=True)
    return Compiled(clause, compiler.exact)


def matching(key: str, values: list[str]) -> dict[str, Any]:
    """The condition that a keyword is one of `values`, or a list of keywords holds one."""
    return {"key": key, "match": {"value": values[0]} if len(values) == 1 else {"any": values}}


class _Compiler:
    """Compiles one filter; `exact` becomes False on the way where it cannot be."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self.exact = True

    def clause(self, condition: Filter, *, loose: bool) -> Clause:  # noqa: PLR0911  one line per kind of filter
        """What `condition` comes to: all that matches, and perhaps more (`loose`) or perhaps less."""
        match condition:
            case Equals(field, value):
                return self._one_of(field, (value,))
            case OneOf(field, values):
                return self._one_of(field, values)
            case StartsWith(field, prefix):
                return self._starts(field, prefix, loose=loose)
            case AtLeast(field, value):
                return self._at_least(field, value, loose=loose)
            case AllOf(parts):
                return _all([self.clause(part, loose=loose) for part in parts])
            case AnyOf(parts):
                return _any([self.clause(part, loose=loose) for part in parts])
            case Not(part):
                inner = self.clause(part, loose=not loose)
                return not inner if isinstance(inner, bool) else {"must_not": [inner]}

    def _one_of(self, field: str, values: tuple[str, ...]) -> Clause:
        # What no record can hold would be refused by the server's JSON.
        wanted = [value for value in dict.fromkeys(values) if unstorable_reason(value) is None]
        if not wanted or unstorable_reason(field) is not None:
            return False
        match field:
            case "id":
                return {"has_id": [point_id(value) for value in wanted]}
            case "content":
                return matching("content_hash", [digest(value) for value in wanted])
            case "created_at":
                return matching(field, wanted)
        if field in self._columns:
            return matching(field, [keyword(value) for value in wanted])
        return matching("pairs", [pair(field, value) for value in wanted])

    def _starts(self, field: str, prefix: str, *, loose: bool) -> Clause:
        if not prefix:
            return True
        if unstorable_reason(prefix) is not None:
            return False
        known = heads(prefix) if field == "id" else []
        if known and prefix[-1] in ":/" and known[-1] == keyword(prefix):
            return matching("heads", [known[-1]])
        self.exact = False
        if not loose:
            return False
        return matching("heads", [known[-1]]) if known else True

    def _at_least(self, field: str, value: str, *, loose: bool) -> Clause:
        if not value:
            return True
        self.exact = False
        moment = milliseconds(value) if field == "created_at" else None
        if moment is None:
            return loose
        later = {"key": "created_ms", "range": {"gte": moment}}
        # Times of another form sort anywhere.
        return {"should": [later, {"is_empty": {"key": "created_ms"}}]} if loose else later


def _all(parts: list[Clause]) -> Clause:
    if any(part is False for part in parts):
        return False
    rest = [part for part in parts if part is not True]
    if len(rest) <= 1:
        return rest[0] if rest else True
    return {"must": rest}


def _any(parts: list[Clause]) -> Clause:
    if any(part is True for part in parts):
        return True
    rest = [part for part in parts if part is not False]
    if len(rest) <= 1:
        return rest[0] if rest else False
    return {"should": rest}
