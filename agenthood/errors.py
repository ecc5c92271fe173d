"""Every error agenthood raises on purpose.

    AgenthoodError
    ├── ConfigError              what the user configured cannot be used
    │   └── MissingExtraError    an optional dependency is not installed
    ├── InvalidInputError        a value the caller passed was refused; nothing was stored
    │   └── InvalidRecordError   a record no backend may see (also names the record's id)
    ├── StoreError               the store answered, and refused
    │   └── StoreUnavailableError  the store could not be reached, opened or written to
    ├── EmbeddingError           the embedder could not answer
    │   ├── EmbedderUnavailableError  unreachable, timed out, refused the key, missing weights
    │   ├── EmbeddingResponseError    it answered with something unusable
    │   └── EmbeddingSpaceError       it answers differently from when the space was created
    └── ProviderError            the provider of a chat model gave no reply (names provider and model)
        ├── MissingKeyError          no key was found; nothing was sent
        ├── ProviderAuthError        the key was refused
        ├── ProviderRateLimitError   too many requests (knows when to come back, if the provider said)
        ├── ProviderUnavailableError unreachable, timed out, overloaded, or the answer broke off
        │   └── AllProvidersFailedError  several were asked; names each with its cause
        ├── ProviderRequestError     it refused the request itself: too long, an unknown model
        └── ProviderResponseError    it answered with something unusable

Messages name what was wrong with `repr` of the value, and the next step. None holds a secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AgenthoodError(Exception):
    """The common root: `except AgenthoodError` catches everything agenthood raises on purpose."""


class ConfigError(AgenthoodError):
    """A setting is unknown, malformed or contradicts another."""


class MissingExtraError(ConfigError):
    """An optional dependency is not installed; the message has the `pip install` line."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(f"{what} is not installed: pip install 'agenthood-learning[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return (type(self), (self.what, self.extra))


class InvalidInputError(AgenthoodError, ValueError):
    """A value from the caller was refused before anything was stored."""


class InvalidRecordError(InvalidInputError):
    """A record was refused before any backend saw it.

    Attributes:
        record_id: the id of the refused record.
        reason: what was wrong with it.
    """

    def __init__(self, record_id: str, reason: str) -> None:
        self.record_id = record_id
        self.reason = reason
        super().__init__(f"record {record_id[:120]!r} was refused: {reason}")

    def __reduce__(self) -> tuple[type[InvalidRecordError], tuple[str, str]]:
        return (type(self), (self.record_id, self.reason))


class StoreError(AgenthoodError):
    """The store answered, and the answer was a refusal."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, opened or written to (permissions, disk, network, lock)."""


class EmbeddingError(AgenthoodError):
    """The embedder could not turn the texts into vectors."""


class EmbedderUnavailableError(EmbeddingError):
    """The embedder cannot be reached or loaded: network, key, quota, missing weights."""


class EmbeddingResponseError(EmbeddingError):
    """The embedder answered with something unusable: wrong count, dimension or values."""


class EmbeddingSpaceError(EmbeddingError):
    """The model behind an embedding space now answers differently from when the space was created."""


class ProviderError(AgenthoodError):
    """The provider of a chat model gave no reply.

    Attributes:
        provider: the provider's name, such as `anthropic`; empty if none was chosen.
        model: the model that was asked; empty if none was chosen.
        retryable: the same request may succeed at the same provider later.
        elsewhere: the same request may succeed at another provider.
    """

    retryable: bool = False
    elsewhere: bool = False

    def __init__(self, message: str, *, provider: str = "", model: str = "") -> None:
        self.provider = provider
        self.model = model
        super().__init__(message)


class MissingKeyError(ProviderError):
    """No key was found, so nothing was sent; the message says which variable to set."""

    elsewhere = True


class ProviderAuthError(ProviderError):
    """The provider refused the key, or what the key may do (401, 403)."""

    elsewhere = True


class ProviderRateLimitError(ProviderError):
    """The provider asks to slow down (429).

    Attributes:
        retry_after: seconds to wait as the provider said, at least 0; None if it did not say.
    """

    retryable = True
    elsewhere = True

    def __init__(
        self, message: str, *, provider: str = "", model: str = "", retry_after: float | None = None
    ) -> None:
        self.retry_after = retry_after
        super().__init__(message, provider=provider, model=model)


class ProviderUnavailableError(ProviderError):
    """The provider cannot be reached, took too long, is overloaded (5xx), or its answer broke off."""

    retryable = True
    elsewhere = True


class AllProvidersFailedError(ProviderUnavailableError):
    """Several providers were asked and none replied; the message has one line with each cause.

    Attributes:
        failures: the error of each, by priority.
    """

    def __init__(self, failures: Sequence[ProviderError]) -> None:
        self.failures = tuple(failures)
        super().__init__(f"no provider answered: {'; '.join(str(failure) for failure in failures)}")
        self.retryable = any(failure.retryable for failure in self.failures)

    def __reduce__(self) -> tuple[type[AllProvidersFailedError], tuple[tuple[ProviderError, ...]]]:
        return (type(self), (self.failures,))


class ProviderRequestError(ProviderError):
    """The provider refused the request itself; sending it again changes nothing.

    `elsewhere` is True only where the fault lies in what this provider has: no such model, no credit.
    """

    def __init__(self, message: str, *, provider: str = "", model: str = "", elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        super().__init__(message, provider=provider, model=model)


class ProviderResponseError(ProviderError):
    """The provider answered with something unusable: no JSON, no choices, an unknown shape."""

    retryable = True
    elsewhere = True
