"""How pgvector's `vector` travels between the server and NumPy: in binary, exactly as float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_HEADER = 4
"""Bytes before the numbers: the dimension and an unused field, two each."""

_WHERE_INSTALLED = (
    b"select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace "
    b"where e.extname = 'vector'"
)


async def register_vectors(connection: AsyncConnection[Any]) -> str:
    """Teach the connection to take and give `vector` as float32 arrays.

    Returns:
        The quoted schema of the extension; empty if it is not installed, and there is nothing to teach yet.
    """
    from pgvector.psycopg.vector import register_vector_info  # noqa: PLC0415
    from psycopg.adapt import Loader  # noqa: PLC0415
    from psycopg.pq import Format  # noqa: PLC0415
    from psycopg.types import TypeInfo  # noqa: PLC0415

    class ArrayLoader(Loader):
        """Reads straight into NumPy: pgvector's own makes an object first, at several times the cost."""

        format = Format.BINARY

        def load(self, data: Any) -> np.ndarray[Any, np.dtype[np.float32]]:  # noqa: ANN401  bytes of some kind
            return np.frombuffer(data, dtype=">f4", offset=_HEADER).astype(np.float32)

    found = await (await connection.execute(_WHERE_INSTALLED)).fetchone()
    if found is None:
        return ""
    info = await TypeInfo.fetch(connection, f"{found[0]}.vector")
    register_vector_info(connection, info)
    if info is not None:
        connection.adapters.register_loader(info.oid, ArrayLoader)
    schema: str = found[0]
    return schema
