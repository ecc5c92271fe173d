"""What a user may choose about the store; no database is imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal, TypeAlias, get_args

from agenthood.errors import ConfigError
from agenthood.suggest import did_you_mean

BackendName: TypeAlias = Literal["lancedb", "sqlite", "qdrant", "postgres"]
DEADLINE: Final = 1.0
"""Seconds of a store's time that a recall or learning one episode may take, unless configured."""
BACKENDS: Final[tuple[str, ...]] = get_args(BackendName)
EMBEDDED: Final = ("lancedb", "sqlite")
"""Backends that live in the `.agenthood` directory and belong to its project; the others serve many."""


# User and password in a URL, or in the `key=value` form that Postgres also takes.
_LOGIN: Final = re.compile(r"(?<=//)[^@/]*@|\b(?:user|password)=(?:'[^']*'|\S*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Which store to use and how to reach it; `create_store` makes it.

    Attributes:
        backend: one of `BACKENDS`. `lancedb` and `sqlite` need nothing else.
        url: address of a server, such as `http://host:6333` or `postgresql://user@host/database`; never shown,
            since it may hold a password.
        api_key: of a Qdrant server; never shown.
        namespace: what the tables or collections of a server are kept under, so that it can serve others too: the
            schema in Postgres, a prefix of the collections in Qdrant.
        timeout: seconds that one request to a server may take.

    Raises:
        ConfigError: the backend is unknown, or a server without an address.
    """

    backend: BackendName | str = "lancedb"
    url: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    namespace: str = "agenthood"
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ConfigError(
                f"store backend {self.backend!r:.40} is none of {', '.join(map(repr, BACKENDS))}"
                f"{did_you_mean(self.backend, BACKENDS)}"
            )
        if self.backend not in EMBEDDED and not self.url:
            raise ConfigError(
                f"the {self.backend} store needs the address of its server: give store.url or AGENTHOOD_STORE_URL"
            )

    @property
    def folder(self) -> str:
        """The folder, below the `.agenthood` directory, of what belongs to this store alone; empty for the default.

        Who logs in makes no difference, where to does.
        """
        if self.backend == "lancedb":
            return ""
        address = _LOGIN.sub("", self.url or "") if self.backend not in EMBEDDED else ""
        named = "\0".join((self.backend, address.rstrip("/"), self.namespace if address else ""))
        return f"stores/{sha256(named.encode(errors='surrogatepass')).hexdigest()[:16]}"
