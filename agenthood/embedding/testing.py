"""A deterministic embedder of any dimension for tests: no files, no network, yet true sentences rank."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from agenthood.embedding.base import EmbeddingSpace, Role, Vectors
from agenthood.embedding.lexical import lexical_vectors
from agenthood.errors import EmbedderUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HashedEmbedder"]


class HashedEmbedder:
    """The features of the lexical vector, folded into any dimension.

    Attributes:
        calls: how often `embed` was called.
        texts_embedded: how many texts it has answered.

    Args:
        dimension: length of the vectors.
        model: name in the space.
        revision: revision in the space.
        salt: other vectors under the same space, as if the model behind a name had changed.
        semantic: what the embedder says of itself.
        pinned: what the embedder says of itself.
        fail_after: after that many texts every further call raises EmbedderUnavailableError, as if the
            endpoint had gone down; None never fails. Set the attribute to None to bring it back.
    """

    def __init__(  # noqa: PLR0913  (every option by name)
        self,
        *,
        dimension: int = 1536,
        model: str = "hashed",
        revision: str = "1",
        salt: str = "",
        semantic: bool = True,
        pinned: bool = False,
        fail_after: int | None = None,
    ) -> None:
        self._space = EmbeddingSpace("testing", model, revision, dimension)
        # blake2b takes 16 bytes of salt, a user any text.
        self._salt = blake2b(salt.encode(), digest_size=8).hexdigest() if salt else ""
        self._semantic = semantic
        self._pinned = pinned
        self.fail_after = fail_after
        self.calls = 0
        self.texts_embedded = 0

    @property
    def space(self) -> EmbeddingSpace:
        """Return the space; it does not tell the salt."""
        return self._space

    @property
    def semantic(self) -> bool:
        """Return what the constructor was given."""
        return self._semantic

    @property
    def pinned(self) -> bool:
        """Return what the constructor was given."""
        return self._pinned

    async def embed(self, texts: Sequence[str], *, role: Role = "document") -> Vectors:  # noqa: ARG002
        """Embed `texts`; `role` makes no difference.

        Raises:
            EmbedderUnavailableError: the call would go beyond `fail_after`; none of its texts count.
        """
        self.calls += 1
        if self.fail_after is not None and self.texts_embedded + len(texts) > self.fail_after:
            raise EmbedderUnavailableError(
                f"the test embedder stops after {self.fail_after} texts: set fail_after to None"
            )
        self.texts_embedded += len(texts)
        return lexical_vectors(texts, dimension=self._space.dimension, salt=self._salt)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
