"""The chat settings in `.agenthood/config.json`, in the shape that the TypeScript program writes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from agenthood.errors import ConfigError
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ENTRY_KEYS: Final = ("name", "model", "models", "apiKey", "baseUrl", "priority")
_FAILOVER_KEYS: Final = ("failureThreshold", "cooldownMs", "probeEnabled")


@dataclass(frozen=True, slots=True)
class Entry:
    """One provider as `config.json` has it; None where it says nothing.

    Attributes:
        name: in lower case.
        where: what to call the entry in a message.
        models: what else may be asked there; the first is taken if there is no `model`.
        api_key: the key, or a reference to a variable.
        priority: the lowest goes first; entries without one come last, in their order.
    """

    name: str
    where: str
    model: str | None = None
    models: tuple[str, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    priority: float = math.inf

    def over(self, other: Entry) -> Entry:
        """This entry, with what it leaves open taken from `other`."""
        return replace(
            self,
            model=self.model or other.model,
            models=self.models or other.models,
            api_key=self.api_key or other.api_key,
            base_url=self.base_url or other.base_url,
        )


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """When a provider that fails is left alone.

    Attributes:
        failure_threshold: failures in a row, at least 1.
        cooldown: seconds, at least 0.
        probe: after that, try it with one request before it counts as well again.
    """

    failure_threshold: int = 3
    cooldown: float = 60.0
    probe: bool = True


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What `config.json` says.

    Attributes:
        first: `provider`, the first choice; None if it is not there.
        entries: `providers`, by priority.
        failover: `failover`.
        warnings: what was not understood, one sentence each.
    """

    first: Entry | None
    entries: tuple[Entry, ...]
    failover: FailoverSettings
    warnings: tuple[str, ...]

    def named(self, name: str) -> Entry | None:
        """What the file says about `name`: the first choice, completed by the list, or the list's entry."""
        listed = next((entry for entry in self.entries if entry.name == name), None)
        if self.first is not None and self.first.name == name:
            return self.first.over(listed) if listed else self.first
        return listed


def read_entries(content: Mapping[str, Any], file: Path) -> FileSettings:
    """Read the chat settings among those of `config.json`.

    Args:
        content: the object in the file.
        file: where it is, for messages.

    Raises:
        ConfigError: a value of the wrong kind.
    """
    warnings: list[str] = []
    first = content.get("provider")
    if isinstance(first, str) and first.strip():
        first = {"name": first}
    listed = content.get("providers")
    if listed is not None and not isinstance(listed, list):
        raise ConfigError(f'providers in {str(file)!r} must be a list: write [{{"name": "anthropic"}}]')
    entries = [_entry(value, f"providers[{i}]", file, warnings) for i, value in enumerate(listed or ())]
    return FileSettings(
        first=None if first is None else _entry(first, "provider", file, warnings),
        entries=tuple(sorted(entries, key=lambda entry: entry.priority)),
        failover=_failover(content.get("failover"), file, warnings),
        warnings=tuple(warnings),
    )


def _entry(value: object, path: str, file: Path, warnings: list[str]) -> Entry:
    where = f"{path} in {str(file)!r}"
    if isinstance(value, str) and value.strip():
        value = {"name": value}
    if not isinstance(value, dict):
        raise ConfigError(f'{where} must be a name or an object: write {{"name": "anthropic"}}')
    warnings += _unknown(value, _ENTRY_KEYS, path, file)
    name = _text(value, "name", where)
    if name is None:
        raise ConfigError(f'{where} needs a name: write {{"name": "anthropic"}}')
    return Entry(
        name=name.casefold(),
        where=where,
        model=_text(value, "model", where),
        models=_texts(value.get("models"), where),
        api_key=_text(value, "apiKey", where),
        base_url=_text(value, "baseUrl", where),
        priority=_number(value, "priority", where, math.inf),
    )


def _failover(value: object, file: Path, warnings: list[str]) -> FailoverSettings:
    where = f"failover in {str(file)!r}"
    if value is None:
        return FailoverSettings()
    if not isinstance(value, dict):
        raise ConfigError(f'{where} must be an object: write {{"failureThreshold": 3}}')
    warnings += _unknown(value, _FAILOVER_KEYS, "failover", file)
    threshold = _number(value, "failureThreshold", where, 3)
    if threshold < 1 or threshold != int(threshold):
        raise ConfigError(f"failureThreshold of {where} is {threshold!r}: it must be a whole number from 1")
    cooldown = _number(value, "cooldownMs", where, 60_000)
    if cooldown < 0:
        raise ConfigError(f"cooldownMs of {where} is {cooldown!r}: it must be at least 0")
    probe = value.get("probeEnabled")
    if probe is not None and not isinstance(probe, bool):
        raise ConfigError(f"probeEnabled of {where} must be true or false, not {probe!r:.40}: correct it")
    return FailoverSettings(int(threshold), cooldown / 1_000, probe is not False)


def _unknown(value: Mapping[str, Any], known: tuple[str, ...], path: str, file: Path) -> list[str]:
    return [
        f"unknown key {f'{path}.{key[:80]}'!r} in {str(file)!r}{did_you_mean(key, known)}"
        for key in value
        if key not in known
    ]


# The values themselves are not quoted below: one in the wrong place may be a key.
def _text(value: Mapping[str, Any], key: str, where: str) -> str | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, str):
        raise ConfigError(f"{key} of {where} must be text, not {type(found).__name__}: correct it")
    return found.strip() or None


def _texts(value: object, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ConfigError(f"models of {where} must be a list of names: correct it")
    return tuple(item.strip() for item in value)


def _number(value: Mapping[str, Any], key: str, where: str, default: float) -> float:
    found = value.get(key)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ConfigError(f"{key} of {where} must be a number, not {found!r:.40}: correct it")
    return found
