"""The wire format of OpenAI-compatible `/embeddings` endpoints, as plain functions without I/O."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

import numpy as np
import numpy.typing as npt

from agenthood.errors import ConfigError, EmbeddingResponseError

__all__ = ["Address", "RawVectors", "error_excerpt", "known_dimension", "parse_vectors", "retry_wait"]

RawVectors: TypeAlias = npt.NDArray[np.float64]

LONGEST_WAIT: Final = 20.0
"""Seconds: a server that asks for a longer pause is given up on sooner by the deadline anyway."""

_LONGEST_EXCERPT: Final = 200
_LARGEST_VALUE: Final = 1e30  # its square still fits a float64 many times over

_KNOWN_DIMENSIONS: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "nomic-embed-text": 768,
    "mxbai-embed-large": 1024,
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
    "BAAI/bge-m3": 1024,
    "BAAI/bge-small-en-v1.5": 384,
    "BAAI/bge-base-en-v1.5": 768,
    "BAAI/bge-large-en-v1.5": 1024,
    "intfloat/multilingual-e5-small": 384,
    "intfloat/multilingual-e5-base": 768,
    "intfloat/multilingual-e5-large": 1024,
}


def known_dimension(model: str) -> int | None:
    """Return the dimension of a well-known model, None for any other."""
    return _KNOWN_DIMENSIONS.get(model.removesuffix(":latest"))


@dataclass(frozen=True, slots=True)
class Address:
    """Where embeddings are asked for.

    Attributes:
        url: the full address of the embeddings resource, without a user name.
        shown: the base address for messages, without user name, password and query.
        login: user name and password that the address held, if any.
        local: True if the host is this machine, which no proxy can reach.
        server: host and port.
    """

    url: str = field(repr=False)
    shown: str
    login: tuple[str, str] | None = field(repr=False)
    local: bool
    server: tuple[str, int]

    @classmethod
    def parse(cls, base_url: str) -> Address:
        """Read a base address such as `https://api.openai.com/v1`.

        Raises:
            ConfigError: it is no http or https address; the message holds no password.
        """
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host:
            shown = base_url.rsplit("@", 1)[-1].split("?", 1)[0]
            raise ConfigError(f"base_url {shown!r} is no address: it looks like 'http://127.0.0.1:11434/v1'")
        login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        name = f"[{host}]" if ":" in host else host
        netloc = name if port is None else f"{name}:{port}"
        path = parts.path.rstrip("/").removesuffix("/embeddings")
        url = urlunsplit((parts.scheme, netloc, path + "/embeddings", parts.query, ""))
        server = host, port or (443 if parts.scheme == "https" else 80)
        return cls(url, urlunsplit((parts.scheme, netloc, path, "", "")), login, _is_local(host), server)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_vectors(body: bytes, count: int) -> RawVectors:
    """Read a successful answer.

    Args:
        body: the JSON body; vectors may be lists of numbers or base64 of little-endian float32.
        count: how many texts were sent.

    Returns:
        float64 array (count, d), finite, in the order of the texts: rows are placed by their `index`, or
        as they come if no row has one.

    Raises:
        EmbeddingResponseError: anything else; the message names the fault and no content.
    """
    try:
        rows = json.loads(body)["data"]
        items = [(row.get("index"), row["embedding"]) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EmbeddingResponseError("the answer is not the JSON of an embeddings endpoint") from error
    if len(items) != count:
        raise EmbeddingResponseError(f"{count} texts were sent and {len(items)} vectors came back")
    if any(index is not None for index, _ in items):
        if {index for index, _ in items if type(index) is int} != set(range(count)):
            raise EmbeddingResponseError(f"the answer's indexes are not 0 to {count - 1}, each once")
        items.sort(key=lambda item: item[0])
    return _stack([_vector(value) for _, value in items])


def _vector(value: Any) -> RawVectors:  # noqa: ANN401  (any JSON value)
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise EmbeddingResponseError("an embedding is neither a list of numbers nor base64") from error
    if array.ndim != 1:
        raise EmbeddingResponseError(f"an embedding is not a flat list: its shape is {array.shape!r}")
    return array


def _stack(vectors: list[RawVectors]) -> RawVectors:
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) != 1 or lengths == [0]:
        raise EmbeddingResponseError(f"the vectors' lengths differ or are zero: {lengths[:5]!r}")
    array = np.stack(vectors)
    if not (np.abs(array) < _LARGEST_VALUE).all():  # false for NaN as well
        raise EmbeddingResponseError("the answer holds NaN, infinite or absurdly large values")
    return array


def error_excerpt(body: bytes, secrets: tuple[str, ...]) -> tuple[str, str]:
    """Return the error's code and one line of its message, with `secrets` blanked.

    Reads `{"error": {"code", "message"}}` (OpenAI), `{"error": "..."}` (Ollama) and plain text.
    """
    text = body[:20_000].decode("utf-8", "replace")
    code = ""
    try:
        error = json.loads(text)["error"]
        if isinstance(error, dict):
            code, error = str(error.get("code") or error.get("type") or ""), error.get("message", "")
        text = str(error)
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # plain text or another shape is quoted as it is
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return code, " ".join(text.split())[:_LONGEST_EXCERPT]


def retry_wait(attempt: int, *, backoff: float, asked: str | None = None) -> float:
    """Return how many seconds to wait after a failed attempt.

    Args:
        attempt: how many attempts have failed, from 1.
        backoff: seconds after the first; it doubles each time. A random part of up to a half is taken off,
            so that many clients do not come back at once.
        asked: the Retry-After header, in seconds or as a date; it counts if it is longer.

    Returns:
        Seconds in [0, 20].
    """
    own = min(backoff * 2.0 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)  # noqa: S311
    return min(max(own, _seconds(asked)), LONGEST_WAIT)


def _seconds(asked: str | None) -> float:
    try:
        seconds = float(asked or 0)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(str(asked)) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):  # no date, or one without a zone
            return 0.0
    return seconds if seconds > 0 else 0.0
