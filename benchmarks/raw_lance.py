"""Raw LanceDB as the TypeScript program uses it: a flat search in l2 with a LIKE filter; a write deletes, then adds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agenthood.embedding.base import Vectors

PATTERN_ROWS = r"""metadata LIKE '%"type":"learned\_pattern"%'"""
PATTERN = '{"type":"learned_pattern"}'
CREATED = "2026-06-01T00:02:28.000Z"
_LESSON = '{"type":"long_term"}'
_BATCH = 20_000


class RawTable:
    """The shared table without any code of ours."""

    def __init__(self, folder: Path, dimension: int) -> None:
        """Args: the database `folder`, and the `dimension` of the vectors."""
        os.environ.setdefault("LANCEDB_LOG", "error")
        import lancedb  # noqa: PLC0415
        import pyarrow as pa  # noqa: PLC0415

        self.folder = folder
        self.dimension = dimension
        self.schema = pa.schema(
            [
                pa.field("id", pa.utf8(), nullable=False),
                pa.field("vector", pa.list_(pa.float32(), dimension)),
                *(pa.field(name, pa.utf8()) for name in ("content", "metadata", "created_at")),
            ]
        )
        options = {"new_table_data_storage_version": "2.1"}
        self.table = lancedb.connect(folder, storage_options=options).create_table(
            "vectors", schema=self.schema
        )

    def load(self, ids: Sequence[str], vectors: Vectors, *, lessons: bool) -> None:
        """Add pattern rows in bulk, faster than that program does, and beside each the row of its lesson."""
        for start in range(0, len(ids), _BATCH):
            part = ids[start : start + _BATCH]
            self.table.add(self._rows([f"pattern:{id_}" for id_ in part], vectors[start:][:_BATCH], PATTERN))
            if lessons:
                nothing = np.zeros((len(part), self.dimension), np.float32)
                self.table.add(self._rows([f"ltm:learnings/{id_}" for id_ in part], nothing, _LESSON))

    def put(self, id_: str, vector: Vectors, content: str = "") -> None:
        """Write one row as that program does."""
        quoted = id_.replace("'", "''")
        self.table.delete(f"id = '{quoted}'")
        self.table.add(self._rows([id_], vector.reshape(1, -1), PATTERN, [content or id_]))

    def search(self, vector: Vectors, limit: int) -> list[dict[str, Any]]:
        """The nearest pattern rows: id, content and `_distance`."""
        found: list[dict[str, Any]] = (
            self.table.search(vector, vector_column_name="vector", query_type="vector")
            .where(PATTERN_ROWS, prefilter=True)
            .limit(limit)
            .to_list()
        )
        return found

    def _rows(
        self, ids: Sequence[str], vectors: Vectors, metadata: str, contents: Sequence[str] | None = None
    ) -> Any:
        import pyarrow as pa  # noqa: PLC0415

        flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
        columns = [
            pa.array(ids, pa.utf8()),
            pa.FixedSizeListArray.from_arrays(flat, self.dimension),
            pa.array(contents or ids, pa.utf8()),
            pa.array([metadata] * len(ids), pa.utf8()),
            pa.array([CREATED] * len(ids), pa.utf8()),
        ]
        return pa.table(columns, schema=self.schema)
