"""The settings of the store and of the scope in `config.json` and the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agenthood.config_values import Value, seconds, text
from agenthood.errors import ConfigError
from agenthood.scope import Scope
from agenthood.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STORE_KEYS: Final = {
    "backend": "backend",
    "url": "url",
    "apiKey": "api_key",
    "namespace": "namespace",
    "timeout": "timeout",
}
STORE_VARIABLES: Final = {
    "AGENTHOOD_VECTOR_BACKEND": "backend",
    "AGENTHOOD_STORE_URL": "url",
    "AGENTHOOD_STORE_API_KEY": "api_key",
    "AGENTHOOD_STORE_NAMESPACE": "namespace",
    "AGENTHOOD_STORE_TIMEOUT": "timeout",
}
SCOPE_KEYS: Final = ("tenant", "project", "agent")
SCOPE_VARIABLES: Final = {
    "AGENTHOOD_TENANT": "tenant",
    "AGENTHOOD_PROJECT": "project",
    "AGENTHOOD_AGENT": "agent",
}
_USED: Final[dict[str, tuple[str, ...]]] = {
    "postgres": ("url", "namespace", "timeout"),
    "qdrant": ("url", "api_key", "namespace", "timeout"),
}
_CONVERTERS: dict[str, Callable[[Value], Any]] = {
    "backend": text,
    "url": text,
    "api_key": text,
    "namespace": text,
    "timeout": seconds,
}


def store_settings(found: Mapping[str, Value]) -> StoreSettings:
    """The settings of the store from what was found.

    Raises:
        ConfigError: a value cannot be used; it says where it came from.
    """
    values = {name: _CONVERTERS[name](value) for name, value in found.items()}
    try:
        return StoreSettings(**values)
    except ConfigError as error:
        sources = ", ".join(value.source for value in found.values())
        raise ConfigError(f"{error} ({sources})") from error


def scope_settings(found: Mapping[str, Value]) -> dict[str, str]:
    """The names of the scope from what was found.

    Raises:
        ConfigError: a name cannot be used; it says where it came from.
    """
    names = {name: text(value) for name, value in found.items()}
    for name, value in names.items():
        try:
            Scope(**{name: value})
        except ConfigError as error:
            raise ConfigError(f"{error} ({found[name].source})") from error
    return names


def unused(found: Mapping[str, Value], store: StoreSettings) -> list[str]:
    """A warning for each value beside a `store` that needs none, such as an address without a backend."""
    used = ("backend", *_USED.get(store.backend, ()))
    return [
        f"{value.source} is not used by the {store.backend} store"
        for name, value in found.items()
        if name not in used
    ]
