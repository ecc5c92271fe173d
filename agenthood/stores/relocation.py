"""Where the records of one store belong in another: only an embedded store has records without a scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from agenthood.errors import StoreError
from agenthood.scope import LOCAL, Scope
from agenthood.stores.scoped import into_scope, out_of_scope, scoped, unscoped

if TYPE_CHECKING:
    from agenthood.stores.base import Collection, Record
    from agenthood.stores.scoped import Labels

Direction: TypeAlias = Literal["as it is", "to a server", "from a server"]


@dataclass(frozen=True, slots=True)
class Layer:
    """Whose records in which collection of a store.

    Attributes:
        collection: the collection as the store has it.
        scope: whose; None for a directory's own, and for what says nobody's.
    """

    collection: Collection
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Relocation:
    """What becomes of a record's place.

    A directory's own records have no scope, and those of its agents and of other tenants may have no project. A server
    serves many directories, so there they belong to the project of `home`, and what belongs to that project comes back
    without one. Everything else stays where it is.

    Attributes:
        direction: from an embedded store to a server, back, or between two of a kind.
        home: the scope that a directory's own records have on a server.
        labels: what more the metadata of records say there, as `ScopedStore` takes it.
    """

    direction: Direction = "as it is"
    home: Scope | None = None
    labels: Labels | None = None

    def __call__(self, collection: Collection, record: Record) -> tuple[Layer, Record]:
        """Where `record` of `collection` belongs, and the record as it lies there.

        Raises:
            StoreError: a server holds it outside of every scope.
        """
        scope = scope_in(record) if collection.scoped else None
        if self.home is None or self.direction == "as it is":
            return Layer(collection, scope), record
        if self.direction == "from a server":
            return self._from_server(collection, record, scope, self.home)
        if not collection.scoped:
            return Layer(scoped(collection), self.home), into_scope(record, self.home, self.labels)
        if scope is None or scope.project:
            return Layer(collection, scope), record
        tenant = self.home.tenant if scope.tenant == LOCAL else scope.tenant
        moved = Scope(tenant, self.home.project, scope.agent)
        return Layer(collection, moved), into_scope(out_of_scope(record, scope), moved, self.labels)

    def _from_server(
        self, collection: Collection, record: Record, scope: Scope | None, home: Scope
    ) -> tuple[Layer, Record]:
        if not collection.scoped:
            raise StoreError(
                f"record {record.id!r:.120} of collection {collection.name!r} on the server belongs to no scope, "
                "so it has no place in a directory: copy to another server, or remove it"
            )
        # Without a project, `local` means the directory's own: as another tenant's it has to keep its name.
        if scope is None or scope.project != home.project or (scope.tenant == LOCAL != home.tenant):
            return Layer(collection, scope), record
        own = out_of_scope(record, scope)
        if scope == home:
            return Layer(unscoped(collection)), own
        moved = Scope(LOCAL if scope.tenant == home.tenant else scope.tenant, "", scope.agent)
        return Layer(collection, moved), into_scope(own, moved, self.labels)


class Origins:
    """Sees to it that no two scopes become one, which would mix what they know."""

    def __init__(self) -> None:
        self._known: dict[tuple[bool, Scope | None], Scope | None] = {}

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Of which tenants and projects the records were, without the agents."""
        found = {scope.shared for scope in self._known.values() if scope is not None}
        return tuple(sorted(found, key=lambda scope: (scope.tenant, scope.project)))

    def note(self, layer: Layer, scope: Scope | None) -> None:
        """Records of `scope` come to `layer`.

        Raises:
            StoreError: records of another scope do already.
        """
        before = self._known.setdefault((layer.collection.scoped, layer.scope), scope)
        if before != scope:
            names = " and ".join(str(one) if one else "the directory's own" for one in (before, scope))
            raise StoreError(
                f"the records of {names} would both come to {layer}: name another with --project"
            )


def scope_in(record: Record) -> Scope | None:
    """The scope that a record of a scoped collection says it belongs to; None if it names no tenant."""
    names = [
        value if isinstance(value := record.metadata.get(name), str) else ""
        for name in ("tenant_id", "project", "agent_id")
    ]
    return Scope(*names) if names[0] else None
