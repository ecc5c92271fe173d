"""Which store a word, a directory or a URL means; passwords and keys go nowhere they do not belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenthood.errors import ConfigError
from agenthood.scope import Scope
from agenthood.stores.named import StorePlace, between, find_place, home_of
from agenthood.stores.settings import StoreSettings

FOLDER = Path("/home/me/shop/.agenthood")
PASSWORD = "p4ss-w0rd"
SERVER = StoreSettings(backend="qdrant", url="https://q.example:6333", api_key="key", namespace="mine")


@pytest.mark.parametrize(
    ("text", "backend", "folder"),
    [
        ("lancedb", "lancedb", FOLDER),
        ("sqlite", "sqlite", FOLDER),
        ("sqlite:other/.agenthood", "sqlite", Path("other/.agenthood")),
        ("lancedb:other", "lancedb", Path("other")),
        ("other/.agenthood", "lancedb", Path("other/.agenthood")),
        ("/abs/sqlite", "lancedb", Path("/abs/sqlite")),
    ],
)
def test_directories(text: str, backend: str, folder: Path):
    """A name is the store in the directory in use, a path is another directory."""
    found = find_place(text, SERVER, FOLDER)
    assert (found.settings.backend, found.folder) == (backend, folder)
    assert found.embedded


def test_a_name_is_what_is_configured():
    """With its address, key and namespace."""
    assert find_place("qdrant", SERVER, FOLDER) == StorePlace(SERVER, FOLDER)
    with pytest.raises(ConfigError, match=r"store\.url"):
        find_place("postgres", StoreSettings(), FOLDER)


@pytest.mark.parametrize(
    ("url", "backend", "rest", "namespace"),
    [
        (f"postgresql://me:{PASSWORD}@h/db", "postgres", f"postgresql://me:{PASSWORD}@h/db", "agenthood"),
        ("postgres://h/db?sslmode=disable&namespace=a", "postgres", "postgres://h/db?sslmode=disable", "a"),
        ("postgresql://h/db?namespace=a_b", "postgres", "postgresql://h/db", "a_b"),
        ("http://h:1?namespace=x&namespace=y", "qdrant", "http://h:1", "y"),
        ("https://h/path?a=%20", "qdrant", "https://h/path?a=%20", "mine"),
    ],
)
def test_urls(url: str, backend: str, rest: str, namespace: str):
    """The scheme says which server; the namespace is taken out, the rest stays to the letter."""
    found = find_place(url, SERVER, FOLDER)
    assert (found.settings.backend, found.settings.url, found.settings.namespace) == (
        backend,
        rest,
        namespace,
    )
    assert not found.embedded
    assert not found.missing
    assert PASSWORD not in f"{found} {found!r}"
    assert "me" not in str(found).replace("namespace", "")


@pytest.mark.parametrize(
    ("url", "configured", "key"),
    [
        ("https://q.example:6333/?namespace=other", SERVER, "key"),
        ("https://elsewhere.example:6333", SERVER, None),
        ("http://q.example:6333", SERVER, None),
        ("https://q.example:7777", SERVER, None),
        ("https://anywhere.example", StoreSettings(api_key="key"), "key"),
    ],
)
def test_a_key_is_sent_to_the_server_it_is_for(url: str, configured: StoreSettings, key: str | None):
    """The configured key goes to the configured address; given without one, it is for the URL."""
    assert find_place(url, configured, FOLDER).settings.api_key == key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sqlit", "did you mean 'sqlite'"),
        ("", "is no store"),
        (f"mysql://me:{PASSWORD}@h/db", "begins with 'mysql'"),
        (f"postgresql://me:{PASSWORD}@[h/db", "cannot be read"),
        (
            f"postgresql://me:{PASSWORD}@h/db?namspace=x",
            "parameter 'namspace' in the query of the URL; did you",
        ),
        (f"http://me:{PASSWORD}@h?a=1&Namespaces={PASSWORD}", "did you mean 'namespace'?"),
        (f"http://me:{PASSWORD}@h:port", "cannot be read"),
    ],
)
def test_what_means_no_store(text: str, words: str):
    """The error says what to write, and never the password."""
    with pytest.raises(ConfigError) as caught:
        find_place(text, StoreSettings(), FOLDER)
    assert words in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_home_of_a_directory_is_where_the_engine_looks():
    """The directory's name and the tenant `local`, unless told; a root has no name."""
    here, there = find_place("sqlite", SERVER, FOLDER), find_place("qdrant", SERVER, FOLDER)
    assert home_of(here, None, None) == Scope("local", "shop")
    assert home_of(here, "acme", "web") == Scope("acme", "web")
    with pytest.raises(ConfigError, match="--project"):
        home_of(find_place("/.agenthood", SERVER, FOLDER), None, None)
    assert [between(*pair) for pair in ((here, here), (there, there), (here, there), (there, here))] == [
        "as it is",
        "as it is",
        "to a server",
        "from a server",
    ]


@pytest.mark.parametrize(
    ("backend", "url"),
    [
        ("postgres", f"host=h password={PASSWORD}"),
        ("postgres", f"postgresql://me:{PASSWORD}/x@h:1/db"),
        ("postgres", f"postgresql://me:{PASSWORD}?x@h:1/db"),
        ("postgres", f"postgresql://me:{PASSWORD}#x@h:1/db"),
        ("postgres", f"postgresql://me:x@{PASSWORD}@h:1/db"),
        ("postgres", f"postgresql://h:1/db?password={PASSWORD}"),
        ("qdrant", f"https://me:{PASSWORD}/x@h:1"),
    ],
)
def test_what_is_shown_of_a_server_holds_no_password(backend: str, url: str):
    """Whether it is a list of parameters, or a URL in which the password was not percent-encoded."""
    place = StorePlace(StoreSettings(backend=backend, url=url), FOLDER)
    assert PASSWORD not in str(place)
    assert str(place).startswith(f"{backend} at ")
