"""What several test modules share: Node's side of the store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agenthood.formats import hash_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

DIMENSION = 1536
CREATED = "2026-06-01T00:02:28.000Z"
PATTERN_METADATA = '{"type":"learned_pattern"}'
NODE_FOLDER = Path(__file__).parent / "node"
NODE_TIMEOUT = 60.0
"""Seconds one call may take; a usual one takes about 0.3."""


def node_store(command: str, folder: Path, argument: object = None) -> list[dict[str, Any]]:
    """Run one command of `node/store.mjs` on the LanceDB folder `folder`.

    Args:
        command: `write`, `upsert`, `delete`, `read`, `schema`, `search` or `indices`.
        folder: the LanceDB folder, such as `.agenthood/memory`.
        argument: for `write` and `upsert` the rows, for `search` the query (both plain JSON values), for
            `delete` the id.

    Returns:
        The objects it printed, one per line; none for commands that write.

    Raises:
        AssertionError: Node failed; the message holds what it printed.
    """
    require_node()
    result = _run(command, folder, argument)
    assert result.returncode == 0, f"node store.mjs {command} failed: {result.stderr or result.stdout}"
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def node_write(folder: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Add `rows` through Node, making the table if there is none."""
    node_store("write", folder, list(rows))


def node_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Every row as Node reads it, by id; fails if two rows have the same id."""
    rows = node_store("read", folder)
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows), "several rows have the same id"
    return by_id


def node_scores(folder: Path, vector: npt.NDArray[np.float32], limit: int = 10) -> dict[str, float]:
    """What the TypeScript program finds near `vector`: id -> its score, best first."""
    found = node_store("search", folder, {"vector": vector.tolist(), "limit": limit})
    return {hit["id"]: hit["score"] for hit in found}


def unit_vector(seed: int) -> npt.NDArray[np.float32]:
    """float32 (1536,) of unit length, the same for the same seed."""
    values = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (values / np.linalg.norm(values)).astype(np.float32)


def pattern_row(text: str, seed: int) -> dict[str, Any]:
    """A pattern row as JSON, as the TypeScript program writes it."""
    return {
        "id": f"pattern:{hash_pattern(text)}",
        "content": text,
        "metadata": PATTERN_METADATA,
        "created_at": CREATED,
        "vector": unit_vector(seed).tolist(),
    }


def require_node() -> None:
    """Skip the test, saying why, unless Node and the packages of `node/` are installed."""
    reason = _node_missing()
    if reason is not None:
        pytest.skip(reason)


@cache
def _node_missing() -> str | None:
    if shutil.which("node") is None:
        return "node is not installed: the store is not checked against Node's LanceDB"
    if not (NODE_FOLDER / "node_modules" / "@lancedb" / "lancedb").is_dir():
        return "tests/node has no node_modules: run ./scripts/test, or `npm ci` there"
    return None


def _run(command: str, folder: Path, argument: object) -> subprocess.CompletedProcess[str]:
    arguments, text = _argument(command, argument)
    return subprocess.run(
        ["node", str(NODE_FOLDER / "store.mjs"), command, str(folder), *arguments],
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=NODE_TIMEOUT,
        check=False,
        env=os.environ | {"LANCEDB_LOG": "error"},
    )


def _argument(command: str, argument: object) -> tuple[list[str], str | None]:
    if argument is None:
        return [], None
    if command == "delete":
        return [str(argument)], None
    return ["-"], json.dumps(argument)
