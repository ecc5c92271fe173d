"""agenthood: the learning engine for agents.

It keeps what an agent did and how well it went, turns it into lessons, finds them again by meaning, and puts them
before the next run.

    import agenthood

    with agenthood.open(".agenthood") as hood:
        hood.learn("fixed the flaky login test by mocking the clock", score=0.95, member="developer", skill="test")
        for lesson in hood.recall("login test fails now and then", limit=3):
            print(lesson.kind, lesson.text, lesson.similarity)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agenthood.config import Settings
    from agenthood.embedding.base import Embedder, EmbeddingSpace
    from agenthood.embedding.settings import EmbedderSettings
    from agenthood.engine import AsyncHood, open_async
    from agenthood.errors import (
        AgenthoodError,
        ConfigError,
        EmbedderUnavailableError,
        EmbeddingError,
        EmbeddingResponseError,
        EmbeddingSpaceError,
        InvalidInputError,
        InvalidRecordError,
        MissingExtraError,
        StoreError,
        StoreUnavailableError,
    )
    from agenthood.formats import INDEX_CURRENT_VERSION, INDEX_VERSION_KEY, hash_pattern
    from agenthood.learning.index import EmbeddingIndex
    from agenthood.learning.learner import EpisodeLearner
    from agenthood.learning.matcher import SemanticPatternMatcher
    from agenthood.learning.migration import reindex_legacy_patterns
    from agenthood.memory.episodic import EpisodicMemory
    from agenthood.memory.long_term import LongTermMemory
    from agenthood.memory.residual import ResidualMemory
    from agenthood.memory.short_term import ShortTermMemory
    from agenthood.records import (
        Changed,
        EvalResult,
        Forgotten,
        Imported,
        LearnerStatus,
        Lesson,
        MaintenanceReport,
        MigrationReport,
        PatternMatch,
        Recall,
        RecalledLesson,
        Receipt,
        Status,
        Tidied,
    )
    from agenthood.session import AsyncSession, Session
    from agenthood.sync import Hood
    from agenthood.sync import open_sync as open  # noqa: A004  the front door's name

__version__ = "0.1.0"

_HOMES = {
    "config": ("Settings",),
    "embedding.base": ("Embedder", "EmbeddingSpace"),
    "embedding.settings": ("EmbedderSettings",),
    "engine": ("AsyncHood", "open_async"),
    "errors": (
        "AgenthoodError",
        "ConfigError",
        "EmbedderUnavailableError",
        "EmbeddingError",
        "EmbeddingResponseError",
        "EmbeddingSpaceError",
        "InvalidInputError",
        "InvalidRecordError",
        "MissingExtraError",
        "StoreError",
        "StoreUnavailableError",
    ),
    "formats": ("INDEX_CURRENT_VERSION", "INDEX_VERSION_KEY", "hash_pattern"),
    "learning.index": ("EmbeddingIndex",),
    "learning.learner": ("EpisodeLearner",),
    "learning.matcher": ("SemanticPatternMatcher",),
    "learning.migration": ("reindex_legacy_patterns",),
    "memory.episodic": ("EpisodicMemory",),
    "memory.long_term": ("LongTermMemory",),
    "memory.residual": ("ResidualMemory",),
    "memory.short_term": ("ShortTermMemory",),
    "records": (
        "Changed",
        "EvalResult",
        "Forgotten",
        "Imported",
        "LearnerStatus",
        "Lesson",
        "MaintenanceReport",
        "MigrationReport",
        "PatternMatch",
        "Recall",
        "RecalledLesson",
        "Receipt",
        "Status",
        "Tidied",
    ),
    "session": ("AsyncSession", "Session"),
    "sync": ("Hood",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022  the front door first
    "open",
    "open_async",
    "Hood",
    "AsyncHood",
    "Session",
    "AsyncSession",
    "Settings",
    "EmbedderSettings",
    "EvalResult",
    "Receipt",
    "Lesson",
    "Recall",
    "RecalledLesson",
    "Status",
    "LearnerStatus",
    "Changed",
    "Forgotten",
    "Imported",
    "MigrationReport",
    "MaintenanceReport",
    "Tidied",
    "PatternMatch",
    "Embedder",
    "EmbeddingIndex",
    "EmbeddingSpace",
    "EpisodeLearner",
    "EpisodicMemory",
    "LongTermMemory",
    "ResidualMemory",
    "SemanticPatternMatcher",
    "ShortTermMemory",
    "reindex_legacy_patterns",
    "hash_pattern",
    "INDEX_CURRENT_VERSION",
    "INDEX_VERSION_KEY",
    "AgenthoodError",
    "ConfigError",
    "EmbedderUnavailableError",
    "EmbeddingError",
    "EmbeddingResponseError",
    "EmbeddingSpaceError",
    "InvalidInputError",
    "InvalidRecordError",
    "MissingExtraError",
    "StoreError",
    "StoreUnavailableError",
    "__version__",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  whatever the name stands for
    """Load a public name when it is first used: importing agenthood alone costs next to nothing."""
    if name == "open":
        value = import_module("agenthood.sync").open_sync
    elif name in _MODULES:
        value = getattr(import_module(f"agenthood.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'agenthood' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
