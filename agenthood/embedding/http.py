"""Embeddings from any OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, LM Studio and others."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from agenthood.embedding.base import EmbeddingSpace, Role, Vectors, clean, unit_rows
from agenthood.embedding.endpoint import EndpointClient, EndpointOptions
from agenthood.embedding.wire import Address, RawVectors, known_dimension
from agenthood.errors import ConfigError, EmbeddingResponseError
from agenthood.telemetry import embedding

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HttpEmbedder"]


class HttpEmbedder:
    """Embeds through an OpenAI-compatible `/embeddings` endpoint.

    The same model name may answer differently tomorrow, so `pinned` is False. It may be used from several
    event loops; each has its own connections. The key appears in no message, log line or `repr`.

    Args:
        model: the name that the endpoint knows.
        base_url: the address up to and with `/v1`.
        api_key: sent as a bearer token; None sends none.
        dimension: length of the vectors; None takes that of a well-known model, else `probe` finds it.
        revision: part of the space; change it when the model behind the name changes.
        timeout: seconds that one attempt may take in all, however slowly the answer drips in.
        deadline: seconds for one batch with all its attempts and pauses; None is twice `timeout`.
        batch_size: texts in one request.
        concurrency: requests at once, in one event loop.
        max_retries: further attempts after 408, 409, 425, 429, 5xx, timeouts and broken connections.
        backoff: seconds before the second attempt; doubled each time.
        send_dimensions: ask the endpoint to shorten its vectors to `dimension`.
        query_prefix: put before texts of role `query`, such as `query: ` for E5 models.
        document_prefix: put before texts of role `document`. Prefixes are part of the space.
        backend: name of the space's backend; `ollama` also changes the advice in messages.
        key_variable: the environment variable that messages name when the key is refused.

    Raises:
        ConfigError: an argument that cannot work.
    """

    semantic = True
    pinned = False

    def __init__(  # noqa: PLR0913  (every option by name)
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        dimension: int | None = None,
        revision: str = "1",
        timeout: float = 30.0,
        deadline: float | None = None,
        batch_size: int = 128,
        concurrency: int = 4,
        max_retries: int = 3,
        backoff: float = 0.5,
        send_dimensions: bool = False,
        query_prefix: str = "",
        document_prefix: str = "",
        backend: str = "http",
        key_variable: str | None = None,
    ) -> None:
        _check(model, dimension, batch_size, send_dimensions=send_dimensions)
        address = Address.parse(base_url)
        self._client = EndpointClient(
            address=address,
            api_key=api_key,
            model=model,
            options=EndpointOptions(
                timeout=timeout,
                deadline=2 * timeout if deadline is None else deadline,
                concurrency=concurrency,
                max_retries=max_retries,
                backoff=backoff,
            ),
            key_advice=f"set {key_variable} to a valid key" if key_variable else "give a valid api_key",
            ollama=backend == "ollama",
        )
        self._model = model
        self._shown_url = address.shown
        self._dimension = known_dimension(model) if dimension is None else dimension
        self._revision = _revision(revision, query_prefix, document_prefix)
        self._batch_size = batch_size
        self._request_dimension = dimension if send_dimensions else None
        self._prefixes: dict[Role, str] = {"query": query_prefix, "document": document_prefix}
        self._backend = backend
        host, port = address.server
        self._told = {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": backend,
            "gen_ai.request.model": model,
            "server.address": host,
            "server.port": port,
        }

    @property
    def dimension_known(self) -> bool:
        """Return whether `space` can be told without asking the endpoint."""
        return self._dimension is not None

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space.

        Raises:
            ConfigError: the dimension is not known yet.
        """
        if self._dimension is None:
            raise ConfigError(
                f"the dimension of {self._model!r} is not known: pass dimension=, or await probe() once"
            )
        return EmbeddingSpace(self._backend, self._model, self._revision, self._dimension)

    async def probe(self) -> int:
        """Embed one word and return the dimension, which is remembered.

        Raises:
            EmbedderUnavailableError: as `embed`.
            EmbeddingResponseError: as `embed`; another dimension than expected as well.
        """
        values = await self._request(["dimension"])
        self._dimension = values.shape[1]
        return self._dimension

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:
        """Embed `texts`, several requests at a time; the first failure cancels the rest.

        Returns:
            float32 array (len(texts), dimension), rows of unit length. Blank texts are not sent, since
            endpoints refuse them, and give a zero row.

        Raises:
            EmbedderUnavailableError: not reached, refused, or no answer within the deadline.
            EmbeddingResponseError: wrong count, dimension or values, or the texts were refused.
        """
        dimension = await self.probe() if self._dimension is None else self._dimension
        out = np.zeros((len(texts), dimension), dtype=np.float32)
        prefix = self._prefixes[role]
        ready = {i: prefix + clean(text) for i, text in enumerate(texts) if text.strip()}
        rows = list(ready)
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for start in range(0, len(rows), self._batch_size):
                    group.create_task(self._fill(out, rows[start : start + self._batch_size], ready))
        except BaseExceptionGroup as errors:  # the first of them is raised below
            failure = errors.exceptions[0]
        if failure is not None:  # raised out here, so that the group does not become its context
            raise failure
        return out

    async def aclose(self) -> None:
        """Close the connections of this event loop; embedding afterwards is an error."""
        await self._client.aclose()

    def __repr__(self) -> str:
        return f"HttpEmbedder(model={self._model!r}, base_url={self._shown_url!r})"

    async def _fill(self, out: Vectors, rows: list[int], texts: dict[int, str]) -> None:
        """Embed one batch into its rows of `out`."""
        values = await self._request([texts[i] for i in rows])
        out[rows] = unit_rows(values, count=len(rows), dimension=out.shape[1])

    async def _request(self, texts: list[str]) -> RawVectors:
        payload: dict[str, object] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._request_dimension is not None:
            payload["dimensions"] = self._request_dimension
        with embedding(self._told, self._dimension):
            values = await self._client.post(payload, len(texts))
        if self._dimension not in (None, values.shape[1]):
            raise EmbeddingResponseError(
                f"embedding model {self._model!r} at {self._shown_url!r} gives {values.shape[1]} dimensions, "
                f"not {self._dimension}: set dimension={values.shape[1]}, or check the model's name"
            )
        return values


def _check(model: str, dimension: int | None, batch_size: int, *, send_dimensions: bool) -> None:
    if not model:
        raise ConfigError("the embedding model has no name: set it to one that the endpoint lists")
    if dimension is not None and dimension < 1:
        raise ConfigError(f"dimension is {dimension!r}: it must be at least 1")
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size!r}: it must be at least 1")
    if send_dimensions and dimension is None:
        raise ConfigError("send_dimensions needs a dimension: set it, for example to 512")


def _revision(revision: str, query_prefix: str, document_prefix: str) -> str:
    """Add a mark for the prefixes: with others, the same model gives vectors of another space."""
    if not (query_prefix or document_prefix):
        return revision
    digest = blake2b(f"{query_prefix}\0{document_prefix}".encode(), digest_size=4).hexdigest()
    return f"{revision}+{digest}"
