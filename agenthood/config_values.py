"""Values of the configuration turned into what settings hold, or into an error that says where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agenthood.errors import ConfigError
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it came from, for the error about it."""

    value: Any = field(repr=False)
    source: str


def threshold(value: object, source: str) -> float:
    """`value` as a number in [0, 1].

    Args:
        value: a number, or a text that is one.
        source: where it came from, for the error.

    Raises:
        ConfigError: it is none.
    """
    number = _float(value, source)
    if not 0.0 <= number <= 1.0:
        raise ConfigError(
            f"{source} must be a number in [0, 1], not {value!r:.40}: the default is a good start"
        )
    return number


def _float(value: object, source: str) -> float:
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{source} must be a finite number, not {value!r:.40}: correct it")
    return number


def text(found: Value) -> str:
    """Text that is not empty, without the space around it.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(found.value, str) or not found.value.strip():
        raise ConfigError(f"{found.source} must be text that is not empty: correct it or leave it out")
    return found.value.strip()


def _prefix(found: Value) -> str:
    if not isinstance(found.value, str):
        raise ConfigError(f"{found.source} must be text, not {found.value!r:.40}: correct it or leave it out")
    return found.value


def _flag(found: Value) -> bool:
    if not isinstance(found.value, bool):
        raise ConfigError(f"{found.source} must be true or false, not {found.value!r:.40}: correct it")
    return found.value


def seconds(found: Value) -> float:
    """A number above 0.

    Raises:
        ConfigError: it is none.
    """
    number = _float(found.value, found.source)
    if number <= 0:
        raise ConfigError(
            f"{found.source} must be above 0, not {found.value!r:.40}: correct it or leave it out"
        )
    return number


def choice(*allowed: str) -> Callable[[Value], str]:
    """What turns a value into one of `allowed`, or raises."""

    def convert(found: Value) -> str:
        if found.value not in allowed:
            raise ConfigError(
                f"{found.source} must be one of {', '.join(map(repr, allowed))}, not {found.value!r:.40}"
                f"{did_you_mean(str(found.value), allowed)}"
            )
        return str(found.value)

    return convert


def _whole(minimum: int) -> Callable[[Value], int]:
    def convert(found: Value) -> int:
        number = _float(found.value, found.source)
        if number != int(number) or number < minimum:
            raise ConfigError(
                f"{found.source} must be a whole number from {minimum}, not {found.value!r:.40}: correct it"
            )
        return int(number)

    return convert


def count(value: object, source: str) -> int:
    """`value` as a whole number from 1; as `threshold` otherwise."""
    return _whole(1)(Value(value, source))


CONVERTERS: dict[str, Callable[[Value], Any]] = {
    "kind": text,
    "model": text,
    "base_url": text,
    "api_key": text,
    "dimension": _whole(1),
    "revision": text,
    "timeout": seconds,
    "deadline": seconds,
    "batch_size": _whole(1),
    "concurrency": _whole(1),
    "max_retries": _whole(0),
    "send_dimensions": _flag,
    "query_prefix": _prefix,
    "document_prefix": _prefix,
}
