"""The versions of tables as `VectorStore.version` tells them: those that only moved rows do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agenthood.stores.base import Collection


class Versions:
    """What LanceDB's own numbers mean to the users of one store.

    Upkeep commits too and changes no record. Who keeps vectors in memory at one version would read them all again.
    """

    def __init__(self) -> None:
        self._shifts: dict[str, int] = {}
        self._latest: dict[str, int] = {}

    def told(self, collection: Collection, version: int) -> int:
        """The number to tell for LanceDB's `version` of the table."""
        number = version + self._shifts.get(collection.name, 0)
        self._latest[collection.name] = max(number, self._latest.get(collection.name, 0))
        return number

    def rewritten(self, collection: Collection, before: int, after: int) -> None:
        """Upkeep under the write lock led from LanceDB's version `before` to `after`, and nobody else wrote."""
        self._shifts[collection.name] = self._shifts.get(collection.name, 0) - (after - before)

    def dropped(self, name: str) -> None:
        """The table is gone, and LanceDB numbers the next one of that name from 1 again."""
        self._shifts[name] = self._latest.get(name, 0)
