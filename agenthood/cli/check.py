"""What a check of `agenthood doctor` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Result: TypeAlias = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at.

    Attributes:
        name: what was looked at.
        result: `failed` is what makes the exit code 1.
        found: what was found; for anything but `ok` also what to do.
        detail: the figures behind it, JSON-ready; empty if there are none.
    """

    name: str
    result: Result
    found: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The check as a JSON-ready mapping, without an empty `detail`."""
        told = {"name": self.name, "result": self.result, "found": self.found}
        return told | ({"detail": dict(self.detail)} if self.detail else {})
