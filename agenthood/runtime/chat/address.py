"""Where a provider is reached, checked before anything is sent there."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from agenthood.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Address:
    """A base address.

    Attributes:
        url: without a slash at its end.
        local: True if the host is this machine.
    """

    url: str
    local: bool

    @classmethod
    def parse(cls, base_url: str, provider: str) -> Address:
        """Read a base address such as `https://api.openai.com/v1`.

        Args:
            base_url: the address.
            provider: whose it is, for errors.

        Raises:
            ConfigError: no http or https address, or one with a password or a query, which the message
                does not quote.
        """
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host:
            shown = base_url.rsplit("@", 1)[-1].split("?", 1)[0][:200]
            raise ConfigError(
                f"the address of {provider!r} is {shown!r}: it must look like 'http://127.0.0.1:8000/v1'"
            )
        if parts.username is not None or parts.query or parts.fragment:
            raise ConfigError(
                f"the address of {provider!r} at {host!r} holds a user name or a query: "
                "give the plain address, and the key as apiKey"
            )
        name = f"[{host}]" if ":" in host else host
        netloc = name if port is None else f"{name}:{port}"
        return cls(urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")), _is_local(host))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
