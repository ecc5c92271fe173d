"""Where a Postgres server is: its URL taken apart once, and shown without the password."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from agenthood.errors import ConfigError
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenthood.stores.settings import StoreSettings

_PORT = 5432
_KEPT_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


@dataclass(frozen=True, slots=True)
class Address:
    """What to connect to.

    Attributes:
        parameters: of the connection, as libpq names them; never shown.
        timeout: seconds that connecting, and each statement, may take.
    """

    parameters: Mapping[str, Any] = field(repr=False)
    timeout: float

    @classmethod
    def of(cls, settings: StoreSettings) -> Address:
        """The address that `settings.url` gives.

        Raises:
            ConfigError: it is no URL or list of parameters that libpq knows; an unknown one is named.
        """
        from psycopg import ProgrammingError  # noqa: PLC0415
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

        try:
            given = conninfo_to_dict(settings.url or "")
        except ProgrammingError:
            given = None  # its text may quote the password
        if given is None:
            _refuse_unknown(settings.url or "")
        if given is None or ("://" in (settings.url or "") and _is_torn(given)):
            raise ConfigError(
                "store.url cannot be read: write it as 'postgresql://user:password@host:5432/database', "
                "with what is special in a password percent-encoded"
            )
        milliseconds = int(settings.timeout * 1000)
        return cls(
            {
                "application_name": "agenthood",
                "connect_timeout": max(1, round(settings.timeout)),
                "tcp_user_timeout": milliseconds,
                **_KEPT_ALIVE,
                **given,
            },
            settings.timeout,
        )

    @property
    def server(self) -> tuple[str, int]:
        """Host, or what stands for it, and port; of several the first."""
        host = str(self.parameters.get("host") or self.parameters.get("hostaddr") or "localhost")
        port = str(self.parameters.get("port") or "").partition(",")[0]
        return host.partition(",")[0], int(port) if port.isdecimal() else _PORT

    def __str__(self) -> str:
        """`host:port/database`, without user and password."""
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "the default host"
        port = self.parameters.get("port") or _PORT
        database = self.parameters.get("dbname") or self.parameters.get("user") or "the default database"
        return f"{host}:{port}/{database}"

    def safe(self, text: str) -> str:
        """`text` without the password."""
        password = str(self.parameters.get("password") or "")
        return text.replace(password, "***") if password else text


def _is_torn(given: Mapping[str, Any]) -> bool:
    """Whether a password with `/` or `@` in it was taken for the end of the user, so that the rest would be shown."""
    places = [str(given.get(name) or "") for name in ("host", "port", "dbname")]
    return any("@" in place for place in places) or not set(places[1]) <= set("0123456789,")


def _refuse_unknown(url: str) -> None:
    """Name a parameter of the query that libpq does not know; never its value.

    A password that holds a question mark looks like a query too: it has the host after it.
    """
    from psycopg.pq import Conninfo  # noqa: PLC0415

    query = url.partition("?")[2]
    if "@" in query or "://" not in url:
        return
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    for name in (part.partition("=")[0] for part in query.split("&") if part):
        if name == "namespace":
            raise ConfigError("store.url has a parameter 'namespace': give store.namespace in its place")
        if unquote(name) not in {*known, "ssl"}:
            raise ConfigError(
                f"store.url has the unknown parameter {name!r:.40}{did_you_mean(name, [*known, 'namespace'])}"
            )
