"""Filters are values: built here, compiled by each backend, never SQL text from a caller.

A field is `id`, `content`, `created_at`, or the name of a metadata key. `matches` says what a filter means:
every backend returns exactly the records for which it is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agenthood.errors import InvalidInputError

if TYPE_CHECKING:
    from agenthood.stores.base import Record

OWN_FIELDS = frozenset({"id", "content", "created_at"})


@dataclass(frozen=True, slots=True)
class Equals:
    """The field holds exactly `value`; false if the field is absent."""

    field: str
    value: str

    def __post_init__(self) -> None:
        _check_name(self.field)


@dataclass(frozen=True, slots=True)
class OneOf:
    """The field holds one of `values`; an empty collection matches nothing."""

    field: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name(self.field)
        object.__setattr__(self, "values", tuple(self.values))  # a list would make the filter unhashable


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The field (`id`, `content` or `created_at`) starts with `prefix`."""

    field: str
    prefix: str

    def __post_init__(self) -> None:
        _check_own(self.field)


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The field (`id`, `content` or `created_at`) sorts at or after `value`, compared by code points."""

    field: str
    value: str

    def __post_init__(self) -> None:
        _check_own(self.field)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part matches; true if there is none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches; false if there is none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match; true where its field is absent."""

    part: Filter


Filter: TypeAlias = Equals | OneOf | StartsWith | AtLeast | AllOf | AnyOf | Not


def where(**fields: str) -> AllOf:
    """Every named field equals its value: `where(type="learned_pattern", kind="learned")`."""
    return AllOf(tuple(Equals(field, value) for field, value in fields.items()))


def _check_name(field: str) -> None:
    """In JSON text these may follow a quote, so that a backend which compares it could take a value for a name."""
    if field.startswith((",", ":", "}", "]")):
        raise InvalidInputError(
            f"{field!r:.80} cannot be compared: choose a metadata key that does not start with {field[0]!r}"
        )


def _check_own(field: str) -> None:
    """Only these are columns in every backend, which prefixes and ranges need."""
    if field not in OWN_FIELDS:
        raise InvalidInputError(
            f"{field!r:.80} cannot be compared this way, only one of {sorted(OWN_FIELDS)} can"
        )


def field_value(record: Record, field: str) -> str | None:
    """The text a filter compares, or None if the record has none."""
    value = getattr(record, field) if field in OWN_FIELDS else record.metadata.get(field)
    return value if isinstance(value, str) else None


def matches(record: Record, condition: Filter) -> bool:  # noqa: PLR0911  one line per kind of filter
    """Whether `record` satisfies `condition`: the meaning every backend is tested against."""
    match condition:
        case Equals(field, value):
            return field_value(record, field) == value
        case OneOf(field, values):
            return field_value(record, field) in values
        case StartsWith(field, prefix):
            found = field_value(record, field)
            return found is not None and found.startswith(prefix)
        case AtLeast(field, value):
            found = field_value(record, field)
            return found is not None and found >= value
        case AllOf(parts):
            return all(matches(record, part) for part in parts)
        case AnyOf(parts):
            return any(matches(record, part) for part in parts)
        case Not(part):
            return not matches(record, part)
