"""Whether a collection as it is can serve as the one that is wanted: the same rule in every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenthood.errors import StoreError

if TYPE_CHECKING:
    from agenthood.stores.base import Collection


def fitting(wanted: Collection, found: Collection | None) -> Collection:
    """The collection as it is, if it can serve as `wanted`; the shared table may have any dimension.

    Args:
        wanted: what the caller asks for.
        found: what the table of that name is; None if it is none of ours.

    Raises:
        StoreError: it has other columns, or is typed and of another dimension.
    """
    if found is None or (wanted.typed, wanted.scoped) != (found.typed, found.scoped):
        raise StoreError(
            f"table {wanted.name!r} has other columns: it was not made for this, choose another name"
        )
    if wanted.typed and wanted.dimension != found.dimension:
        raise StoreError(
            f"collection {wanted.name!r} holds vectors of {found.dimension} dimensions, not {wanted.dimension}: "
            "give the changed model a new revision, so that it gets a collection of its own"
        )
    return found
