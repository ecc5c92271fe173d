"""Whether a collection that exists can serve as the one that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import StoreError

if TYPE_CHECKING:
    from agenthood.stores.base import Collection


def fitting(wanted: Collection, found: Collection | None) -> Collection:
    """The collection as it is, if it can serve as `wanted`; the shared table may have any dimension.

    Args:
        wanted: what is asked for.
        found: what is there under that name; None if it is none of ours.

    Raises:
        StoreError: it cannot serve.
    """
    if found is None or wanted.typed != found.typed:
        raise StoreError(
            f"table {wanted.name!r} has other columns: it was not made for this, choose another name"
        )
    if wanted.typed and wanted.dimension != found.dimension:
        raise StoreError(
            f"collection {wanted.name!r} holds vectors of {found.dimension} dimensions, not {wanted.dimension}: "
            "give the changed model a new revision, so that it gets a collection of its own"
        )
    return found
