"""What a copy did, layer by layer, and whether it is complete."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agenthood.stores.checksum import Checksum

if TYPE_CHECKING:
    from agenthood.stores.base import Rejection


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of the records of one layer.

    Attributes:
        collection: the target's collection.
        scope: whose records; empty for a directory's own.
        records: how many the source has.
        written: of them, how many were missing and were written.
        replaced: how many were there, differed, and were overwritten.
        unchanged: how many were there already and identical.
        extra: how many records only the target has.
        source: checksum of the source's records, 64 hexadecimal digits.
        target: checksum of the same records, read from the target again.
        problem: what is wrong with the copy; empty if nothing is.
    """

    collection: str
    scope: str
    records: int
    written: int
    replaced: int
    unchanged: int
    extra: int
    source: str
    target: str
    problem: str


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied.

    Attributes:
        layers: one for each collection and scope.
        refused: how many records the target refused.
        rejected: the first of those, with the reason.
        changed: whether the source was written to meanwhile; what came after the last look may be missing.
        scopes: the tenants and projects whose records the source has, such as `tenant 'acme' project 'shop'`.
    """

    layers: tuple[Copied, ...]
    refused: int
    rejected: tuple[Rejection, ...]
    changed: bool
    scopes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the target holds every record of the source, identical."""
        return not self.refused and not any(layer.problem for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """JSON values, with `ok`."""
        return {"ok": self.ok, **asdict(self)}


@dataclass(slots=True)
class Tally:
    """What is known of one layer while it is copied and compared.

    Attributes:
        written: as in `Copied`, as are `replaced` and `unchanged`.
        found: how many of its records the target has.
        differing: how many of those are not identical.
        first: the id of the first that is missing or differs.
        copied: checksum of the source's records as they were copied.
        source: the same when they were compared.
        target: checksum of what the target gave for them.
    """

    written: int = 0
    replaced: int = 0
    unchanged: int = 0
    found: int = 0
    differing: int = 0
    first: str = ""
    copied: Checksum = field(default_factory=Checksum)
    source: Checksum = field(default_factory=Checksum)
    target: Checksum = field(default_factory=Checksum)

    def problem(self, extra: int) -> str:
        """What is wrong with the copy; empty if nothing is."""
        parts = []
        if missing := self.source.count - self.found:
            parts.append(f"{missing:,} of {self.source.count:,} records are missing in the target")
        if self.differing:
            parts.append(f"{self.differing:,} of {self.source.count:,} records differ in the target")
        if parts:
            parts.append(f"the first is {self.first!r:.120}")
        if extra < 0:
            parts.append(f"the target counts {-extra:,} records fewer than it has")
        return ", ".join(parts)
