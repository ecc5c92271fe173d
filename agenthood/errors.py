"""Every error agenthood raises on purpose.

    AgenthoodError
    ├── ConfigError              what the user configured cannot be used
    │   └── MissingExtraError    an optional dependency is not installed
    ├── InvalidInputError        a value the caller passed was refused; nothing was stored
    │   └── InvalidRecordError   a record no backend may see (also names the record's id)
    ├── StoreError               the store answered, and refused
    │   └── StoreUnavailableError  the store could not be reached, opened or written to
    └── EmbeddingError           the embedder could not answer
        ├── EmbedderUnavailableError  unreachable, timed out, refused the key, missing weights
        ├── EmbeddingResponseError    it answered with something unusable
        └── EmbeddingSpaceError       it answers differently from when the space was created

Messages name what was wrong with `repr` of the value, and the next step. None holds a secret.
"""

from __future__ import annotations


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
