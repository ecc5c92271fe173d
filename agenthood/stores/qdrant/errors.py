"""What qdrant-client raises, in one table to our errors: four families, and texts that must lose their secrets."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from agenthood.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from agenthood.stores.qdrant.address import Address

_SHOWN = 300
_NO_QDRANT = "what answers there is no Qdrant server: check store.url, and any proxy between"
_REFUSED = {
    401: "the key was refused: set store.api_key or AGENTHOOD_STORE_API_KEY",
    403: "the key may not do this: give one that may read and write",
    413: "the request is larger than the server takes: raise its service.max_request_size_mb",
    429: "it is asked too much at once: try again later, or raise the server's limits",
    507: "the server is out of disk or memory: free some of it and try again",
}


class GoneError(StoreError):
    """The collection is not there, or no longer."""


class ConflictError(StoreError):
    """The collection is there already: somebody else was first."""


def from_status(status: int, text: str, failed: str) -> StoreError:
    """The error for an HTTP status; `failed` says what failed, where; `text` is the server's."""
    told = f" ({text[:_SHOWN]!r})" if text else ""
    if status == HTTPStatus.NOT_FOUND:
        return GoneError(f"{failed}: there is no such collection{told}")
    if status == HTTPStatus.CONFLICT or "already exists" in text:
        return ConflictError(f"{failed}: it exists already{told}")
    advice = _REFUSED.get(status)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return StoreUnavailableError(
            f"{failed}: it answered {status}, {advice or 'see its log and try again'}{told}"
        )
    return StoreError(f"{failed}: it answered {status}, {advice or 'which refuses the request itself'}{told}")


def translated(exc: Exception, doing: str, address: Address) -> StoreError:
    """Our error for `exc`, which was raised while `doing` something, such as `reading 'vectors'`."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse  # noqa: PLC0415

    failed = f"{doing} at {address.shown!r} failed"
    if isinstance(exc, UnexpectedResponse):
        return from_status(exc.status_code or 0, address.without_secrets(_message(exc.content)), failed)
    if isinstance(exc, ResponseHandlingException):
        return _from_source(exc.source, failed, address)
    text = address.without_secrets(str(exc))
    if isinstance(exc, AssertionError):
        return StoreUnavailableError(f"{failed}: {_NO_QDRANT} ({text[:_SHOWN]!r})")
    if isinstance(exc, ValueError):
        return _from_value_error(exc, text, failed)
    return StoreUnavailableError(f"{failed}: try again, or check the server ({text[:_SHOWN]!r})")


def _from_source(source: Exception, failed: str, address: Address) -> StoreError:
    """What kept the client from an answer: the network, or an answer of another shape."""
    text = address.without_secrets(str(source) or type(source).__name__)[:_SHOWN]
    if isinstance(source, ValueError):
        return StoreUnavailableError(f"{failed}: {_NO_QDRANT} ({text!r})")
    return StoreUnavailableError(f"{failed}: it cannot be reached, start it or check store.url ({text!r})")


def _from_value_error(exc: ValueError, text: str, failed: str) -> StoreError:
    """An answer that is no JSON, or anything that local mode refuses."""
    if isinstance(exc, json.JSONDecodeError | UnicodeDecodeError):
        return StoreUnavailableError(f"{failed}: {_NO_QDRANT} ({text[:_SHOWN]!r})")
    if "not found" in text:
        return GoneError(f"{failed}: there is no such collection ({text[:_SHOWN]!r})")
    if "already exists" in text:
        return ConflictError(f"{failed}: it exists already ({text[:_SHOWN]!r})")
    return StoreError(f"{failed}: {text[:_SHOWN]!r}")


def _message(content: bytes) -> str:
    """What the server says is wrong, without the frame of its JSON."""
    try:
        found = json.loads(content)["status"]["error"]
    except (ValueError, TypeError, KeyError):
        return content[:_SHOWN].decode("utf-8", "replace")
    return str(found)
