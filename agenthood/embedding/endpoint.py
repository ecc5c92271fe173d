"""Talks to one OpenAI-compatible endpoint: attempts, pauses, deadlines, and what each failure means."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from agenthood.embedding.wire import RawVectors, error_excerpt, parse_vectors, retry_wait
from agenthood.errors import ConfigError, EmbedderUnavailableError, EmbeddingResponseError

if TYPE_CHECKING:
    import httpx2

    from agenthood.embedding.wire import Address

__all__ = ["EndpointClient", "EndpointOptions"]

_log = logging.getLogger(__name__)

_MAY_PASS: Final = frozenset({408, 409, 425, 429})
_OK: Final = 200
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """How patient a client is.

    Attributes:
        timeout: seconds that one attempt may take in all, however slowly the answer drips in.
        deadline: seconds for one request with all its attempts and pauses.
        concurrency: requests at once, in one event loop.
        max_retries: further attempts after a failure that may pass.
        backoff: seconds before the second attempt; doubled each time.

    Raises:
        ConfigError: a number is out of range.
    """

    timeout: float
    deadline: float
    concurrency: int
    max_retries: int
    backoff: float

    def __post_init__(self) -> None:
        least = {"timeout": 0.001, "deadline": 0.001, "concurrency": 1, "max_retries": 0, "backoff": 0}
        for name, value in least.items():
            if not getattr(self, name) >= value:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: it must be at least {value!r}")


@dataclass(frozen=True, slots=True)
class _Connection:
    client: httpx2.AsyncClient
    slots: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class _Failure:
    """An attempt that failed in a way that may pass."""

    reason: str
    retry_after: str | None = None


class EndpointClient:
    """Posts texts to one endpoint and returns their vectors; usable from several event loops.

    Args:
        address: where.
        api_key: sent as a bearer token; it appears in no message, log line or `repr`.
        model: named in every message.
        options: how patient to be.
        key_advice: what to do when the key is refused, such as `set OPENAI_API_KEY`.
        ollama: give advice for Ollama.
    """

    def __init__(  # noqa: PLR0913  (one caller, every argument by name)
        self,
        *,
        address: Address,
        api_key: str | None,
        model: str,
        options: EndpointOptions,
        key_advice: str,
        ollama: bool,
    ) -> None:
        self._address = address
        self._api_key = _checked_key(api_key)
        self._options = options
        self._who = f"embedding model {model!r} at {address.shown!r}"
        self._key_advice = key_advice
        self._start_advice = (
            "start it: ollama serve" if ollama else "check that it runs and that base_url is right"
        )
        self._model_advice = f"run: ollama pull {model}" if ollama else "check the model's name and base_url"
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection] = WeakKeyDictionary()
        self._closed = False

    async def post(self, payload: dict[str, object], count: int) -> RawVectors:
        """Send one request, again if that may help.

        Args:
            payload: the JSON body.
            count: how many texts it holds.

        Returns:
            float64 array (count, d), finite, not scaled.

        Raises:
            EmbedderUnavailableError: not reached, refused, or no answer within the deadline.
            EmbeddingResponseError: an unusable answer, or the texts were refused.
        """
        connection = self._connection()
        options = self._options
        async with connection.slots:
            clock = asyncio.get_running_loop().time
            end = clock() + options.deadline
            for attempt in range(1, options.max_retries + 2):
                answer = await self._attempt(connection.client, payload, min(end, clock() + options.timeout))
                if isinstance(answer, bytes):
                    return self._parsed(answer, count)
                failure = f"{answer.reason} (attempt {attempt} of {options.max_retries + 1})"
                wait = retry_wait(attempt, backoff=options.backoff, asked=answer.retry_after)
                if attempt > options.max_retries or clock() + wait >= end:
                    break
                _log.info("%s: %s; next attempt in %.1f s", self._who, failure, wait)
                await asyncio.sleep(wait)
        raise EmbedderUnavailableError(f"{self._who}: {failure}: {self._start_advice}")

    async def aclose(self) -> None:
        """Close this event loop's connections and refuse further requests."""
        self._closed = True
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.client.aclose()

    def _connection(self) -> _Connection:
        """Return this event loop's connections; neither a client nor a semaphore may change loops."""
        if self._closed:
            raise EmbedderUnavailableError(f"{self._who} is closed: make a new embedder")
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            import httpx2  # noqa: PLC0415  (0.1 s, and only HTTP embedders need it)

            client = httpx2.AsyncClient(
                auth=self._address.login,
                headers={"Authorization": f"Bearer {self._api_key}"} if self._api_key else None,
                timeout=None,  # it would be per read; the attempt as a whole is bounded below
                trust_env=not self._address.local,
            )
            self._connections[loop] = _Connection(client, asyncio.Semaphore(self._options.concurrency))
        return self._connections[loop]

    async def _attempt(
        self, client: httpx2.AsyncClient, payload: dict[str, object], end: float
    ) -> bytes | _Failure:
        """Send the request once.

        Args:
            client: this loop's client.
            payload: the JSON body.
            end: when to give up, on the event loop's clock.

        Returns:
            The body of a successful answer, or why another attempt may succeed.
        """
        import httpx2  # noqa: PLC0415

        try:
            async with asyncio.timeout_at(end):
                response = await client.post(self._address.url, json=payload)
        except TimeoutError:
            return _Failure("no complete answer in time")
        except httpx2.TransportError as error:
            return _Failure(f"not reached ({error or type(error).__name__})")
        except httpx2.RequestError as error:  # such as a body that is not gzip although it says so
            raise EmbeddingResponseError(
                f"{self._who}: unreadable answer ({type(error).__name__})"
            ) from error
        status = response.status_code
        if status == _OK:
            return response.content
        code, text = error_excerpt(response.content, self._secrets())
        if (status in _MAY_PASS and code != "insufficient_quota") or status >= _SERVER_ERROR:
            return _Failure(f"status {status} {text}".strip(), response.headers.get("Retry-After"))
        raise self._refusal(status, text)

    def _secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self._api_key, *(self._address.login or ())) if secret)

    def _parsed(self, body: bytes, count: int) -> RawVectors:
        try:
            return parse_vectors(body, count)
        except EmbeddingResponseError as error:
            raise EmbeddingResponseError(f"{self._who}: {error}: {self._model_advice}") from error

    def _refusal(self, status: int, text: str) -> EmbedderUnavailableError | EmbeddingResponseError:
        """Say what a status means that another attempt would not change."""
        said = f"{self._who}: status {status} {text}".rstrip(" .")
        if status in (401, 403):
            # The text is left out: some servers quote the key, whole or in part.
            return EmbedderUnavailableError(
                f"{self._who}: the key was refused ({status}): {self._key_advice}"
            )
        if status == 404:  # noqa: PLR2004
            return EmbedderUnavailableError(f"{said}: {self._model_advice}")
        if status in (402, 429):
            return EmbedderUnavailableError(
                f"{said}: the quota is used up, look at the provider's billing page"
            )
        if 300 <= status < 400:  # noqa: PLR2004
            return EmbedderUnavailableError(f"{said}: it points elsewhere, set base_url to the final address")
        return EmbeddingResponseError(
            f"{said}: the request was refused, try a smaller batch_size or shorter texts"
        )


def _checked_key(api_key: str | None) -> str | None:
    """Refuse here what a header cannot hold: the HTTP library's own error would quote the key."""
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the embedding API key holds characters that no key has: copy it again")
    return key or None
