"""The address of a server: what of it may be shown, and what must not be."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agenthood.errors import ConfigError

if TYPE_CHECKING:
    from agenthood.stores.settings import StoreSettings

_PORT = 6333
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to introduce oneself.

    Attributes:
        server: host and port.
        shown: scheme, host, port and path: never a user, a password, a query or a key.
        headers: what a user and password in the url amount to.
        secrets: texts that no message may hold.
    """

    server: tuple[str, int]
    shown: str
    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: str) -> str:
        """`text` with every secret blanked, for texts that come from a server or a library."""
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def address_of(settings: StoreSettings) -> Address:
    """The address in `settings.url`.

    Raises:
        ConfigError: it is no http or https url.
    """
    try:
        parts = urlsplit(settings.url or "")
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, 0
    if host is None or parts.scheme not in {"http", "https"}:
        # The url itself may hold a password, so it is not quoted.
        raise ConfigError("store.url is no address of a Qdrant server: write it as 'http://host:6333'")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    headers = {}
    if user or password:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    secrets = (settings.api_key or "", password, parts.password or "", *headers.values())
    name = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/")
    return Address(
        (host, port), f"{parts.scheme}://{name}:{port}{path}", headers, tuple(filter(None, secrets))
    )
