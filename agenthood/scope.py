"""Scopes: whose memory it is. A record belongs to a tenant, a project, and perhaps to one agent of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from agenthood.errors import ConfigError
from agenthood.formats import unstorable_reason

LOCAL = "local"
"""The tenant of who names none."""
_LONGEST = 200
"""In bytes of UTF-8: the name of a directory, from which a project has its own, may have 255."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory it is.

    Attributes:
        tenant: who pays, or whose machine it is; nothing ever passes from one tenant to another.
        project: what is worked on; empty for the project of the directory the store is in.
        agent: the one agent that sees it; empty for what all agents of the project share.

    Raises:
        ConfigError: a name that cannot be used, or no tenant.
    """

    tenant: str = LOCAL
    project: str = ""
    agent: str = ""

    def __post_init__(self) -> None:
        if self.tenant == "":
            raise ConfigError(
                f"a scope without a tenant sees nothing: name one, or leave it out for {LOCAL!r}"
            )
        for name in ("tenant", "project", "agent"):
            value = getattr(self, name)
            if not isinstance(value, str):
                raise ConfigError(f"{name} {value!r:.80} cannot be used: give it as text")
            reason = unstorable_reason(value)
            if reason is None and (size := len(value.encode())) > _LONGEST:
                reason = f"it has {size} bytes of UTF-8, more than {_LONGEST}: give a shorter one"
            if reason is not None:
                raise ConfigError(f"{name} {value!r:.80} cannot be used: {reason}")

    @property
    def prefix(self) -> str:
        """What the ids of its records begin with where records of many scopes share a table."""
        return "".join(f"{quote(part, safe='')}/" for part in (self.tenant, self.project, self.agent))

    @property
    def fields(self) -> dict[str, str]:
        """The metadata of its records."""
        return {"tenant_id": self.tenant, "project": self.project, "agent_id": self.agent}

    @property
    def shared(self) -> Scope:
        """The layer that all agents of the project share."""
        return Scope(self.tenant, self.project)

    def __str__(self) -> str:
        return " ".join(
            f"{name} {value!r}"
            for name, value in (("tenant", self.tenant), ("project", self.project), ("agent", self.agent))
            if value
        )
