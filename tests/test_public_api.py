"""The public names, and that they and the example in the package's docstring work."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

import agenthood

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "open", "open_async", "Hood", "AsyncHood", "Session", "AsyncSession", "Settings", "EmbedderSettings",
    "EvalResult", "Receipt", "Lesson", "Recall", "RecalledLesson", "Status", "LearnerStatus", "Changed", "Forgotten",
    "Imported", "MigrationReport", "MaintenanceReport", "Tidied", "PatternMatch",
    "Embedder", "EmbeddingIndex", "EmbeddingSpace", "EpisodeLearner", "EpisodicMemory", "LongTermMemory",
    "ResidualMemory", "SemanticPatternMatcher", "ShortTermMemory", "reindex_legacy_patterns", "hash_pattern",
    "INDEX_CURRENT_VERSION", "INDEX_VERSION_KEY",
    "AgenthoodError", "ConfigError", "EmbedderUnavailableError", "EmbeddingError", "EmbeddingResponseError",
    "EmbeddingSpaceError", "InvalidInputError", "InvalidRecordError", "MissingExtraError", "StoreError",
    "StoreUnavailableError", "__version__",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    """Adding or removing one is a decision, made here."""
    assert set(agenthood.__all__) == NAMES
    assert len(agenthood.__all__) == len(NAMES)
    assert dir(agenthood) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there(name: str) -> None:
    """Each loads when it is first asked for, and is the same thing afterwards."""
    value = getattr(agenthood, name)
    assert value is not None
    assert getattr(agenthood, name) is value


def test_names_tell_where_they_come_from() -> None:
    """`agenthood.open` is the synchronous front door, not the built-in; errors share one root."""
    assert agenthood.open.__module__ == "agenthood.sync"
    assert agenthood.INDEX_VERSION_KEY == "__index_version__"
    assert agenthood.INDEX_CURRENT_VERSION == 2
    errors = [getattr(agenthood, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(error, agenthood.AgenthoodError) for error in errors)


def test_what_the_front_door_takes_and_gives_is_public() -> None:
    """Every type of ours in a signature of `Hood` or `open` can be imported from agenthood itself."""
    functions = [agenthood.open, *(f for n, f in vars(agenthood.Hood).items() if n[0] != "_" and callable(f))]
    ours = {
        name
        for function in functions
        for hint in function.__annotations__.values()
        for name in re.findall(r"\b[A-Z]\w+", hint)
    }
    elsewhere = {"Path", "Iterable", "Mapping", "TextIO", "None", "Callable", "Progress"}
    assert ours - elsewhere - {"Kind", "Scoring", "Tier", "Health", "Fail"} <= NAMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As with any module."""
    with pytest.raises(AttributeError, match="'agenthood' has no attribute 'nope'"):
        _ = agenthood.nope


def test_a_star_import_takes_all_names() -> None:
    """In a process of its own: the names are loaded lazily, so nothing else may have loaded them before."""
    code = "from agenthood import *; import agenthood; print(sorted(set(agenthood.__all__) - set(globals())))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_example_of_the_package_works(tmp_path: Path) -> None:
    """The lines in its docstring run as they are and find what they learned."""
    lines = (agenthood.__doc__ or "").partition("    import agenthood\n")[2]
    code = "import agenthood\n" + textwrap.dedent(lines)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=100
    )
    assert run.stdout.startswith("learned fixed the flaky login test by mocking the clock 0.")
    assert (tmp_path / ".agenthood" / "memory").is_dir()
