"""Which store is meant by a word, a directory or a URL on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from agenthood.errors import ConfigError
from agenthood.scope import LOCAL, Scope
from agenthood.stores.factory import create_store, place_of
from agenthood.stores.settings import BACKENDS, EMBEDDED, StoreSettings
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from agenthood.stores.base import VectorStore
    from agenthood.stores.relocation import Direction

_SCHEMES: Final = {
    "postgresql": "postgres",
    "postgres": "postgres",
    "http": "qdrant",
    "https": "qdrant",
}
_NAMESPACE: Final = "namespace="


@dataclass(frozen=True, slots=True)
class StorePlace:
    """One store that can be opened.

    Attributes:
        settings: which backend, and how to reach it.
        folder: the `.agenthood` directory, in which embedded stores live.
    """

    settings: StoreSettings
    folder: Path

    @property
    def embedded(self) -> bool:
        """Whether it lives in the directory."""
        return self.settings.backend in EMBEDDED

    @property
    def missing(self) -> bool:
        """Whether it would have to be made; a server's is taken to be there."""
        place = place_of(self.settings, self.folder)
        return place is not None and not place.exists()

    @property
    def nearest(self) -> Path:
        """The directory, or the nearest above it that exists."""
        return next(one for one in (self.folder, *self.folder.absolute().parents) if one.is_dir())

    @property
    def project(self) -> str:
        """The name of the directory that `.agenthood` is in."""
        return self.folder.absolute().parent.name

    def __str__(self) -> str:
        """What it is and where, without user, password and query."""
        place = place_of(self.settings, self.folder)
        if place is not None:
            return f"{self.settings.backend} in {str(place)!r}"
        return f"{self.settings.backend} at {_shown(self.settings.url or '')}, namespace {self.settings.namespace!r}"

    def open(self) -> VectorStore:
        """The store; nothing is reached before its first use."""
        return create_store(self.settings, self.folder)


def find_place(text: str, configured: StoreSettings, folder: Path) -> StorePlace:
    """The store that `text` means.

    Args:
        text: a backend's name, for what is configured or lies in `folder`; a directory with a LanceDB store, or with
            another after its name as in `sqlite:DIR`; or the URL of a server, with `?namespace=` if need be.
        configured: the settings of the store in use.
        folder: the `.agenthood` directory in use.

    Raises:
        ConfigError: it means none; the text is not quoted where it may hold a password.
    """
    if "://" in text:
        return StorePlace(_server(text, configured), folder)
    if text in EMBEDDED:
        return StorePlace(StoreSettings(backend=text), folder)
    if text in BACKENDS:
        return StorePlace(replace(configured, backend=text), folder)
    backend, colon, path = text.partition(":")
    if colon and backend in EMBEDDED and path:
        return StorePlace(StoreSettings(backend=backend), Path(path))
    hint = did_you_mean(text, BACKENDS)
    if not text or (hint and Path(text).name == text and not Path(text).exists()):
        raise ConfigError(
            f"{text!r:.40} is no store: name a backend ({', '.join(BACKENDS)}), a directory or a URL{hint}"
        )
    return StorePlace(StoreSettings(), Path(text))


def _server(url: str, configured: StoreSettings) -> StoreSettings:
    scheme = url.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"a URL that begins with {scheme[:20]!r} names no store: use postgresql:// or http(s):// for Qdrant"
        )
    backend = _SCHEMES[scheme]
    address, namespace = _without_namespace(url)
    try:
        same = _host(address) == _host(configured.url or "")
    except ValueError:
        raise ConfigError(
            f"the URL that begins with {scheme + '://'!r} cannot be read: percent-encode what is special "
            "in user and password"
        ) from None
    alike = configured.backend == backend
    return StoreSettings(
        backend=backend,
        url=address,
        # A key is for one server: where an address was configured with it, it is sent to no other.
        api_key=configured.api_key if same or not configured.url else None,
        namespace=namespace or (configured.namespace if alike else StoreSettings().namespace),
        timeout=configured.timeout,
    )


def _without_namespace(url: str) -> tuple[str, str]:
    """The URL without `namespace` in its query, and its value; the rest stays to the letter.

    Raises:
        ConfigError: it is misspelt, which a server would not say, and another namespace be used.
    """
    address, _, query = url.partition("?")
    parts = query.split("&") if query else []
    found = [part.removeprefix(_NAMESPACE) for part in parts if part.startswith(_NAMESPACE)]
    for name in (part.partition("=")[0] for part in parts if not part.startswith(_NAMESPACE)):
        # A password that holds a question mark ends up here too, and is not quoted: it has the host after it.
        if "@" not in query and (hint := did_you_mean(name, ["namespace"])):
            raise ConfigError(f"unknown parameter {name!r:.40} in the query of the URL{hint}")
    rest = "&".join(part for part in parts if not part.startswith(_NAMESPACE))
    return f"{address}?{rest}" if rest else address, unquote(found[-1]) if found else ""


def _shown(url: str) -> str:
    """Host, port and path of a server; nothing of what may hold a password, as libpq's lists of parameters do."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    # A password with `/`, `?` or `#` in it ends the user too early, and would be taken for a port or a path.
    torn = "@" in url.partition("://")[2].removeprefix(parts.netloc)
    return (
        "the address in store.url" if not parts.scheme or "://" not in url or torn else f"{host}{parts.path}"
    )


def _host(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def between(source: StorePlace, target: StorePlace) -> Direction:
    """What kind of copy it is, as far as scopes go."""
    if source.embedded == target.embedded:
        return "as it is"
    return "to a server" if source.embedded else "from a server"


def home_of(place: StorePlace, tenant: str | None, project: str | None) -> Scope:
    """The scope that the own records of an embedded store have on a server, as the engine names it there.

    Raises:
        ConfigError: the directory has no name and none is given.
    """
    name = place.project if project is None else project
    if not name:
        raise ConfigError(f"the directory of {str(place.folder)!r} has no name: give one with --project")
    return Scope(LOCAL if tenant is None else tenant, name)
