"""What every tool is made of: its description, its function, and the error that tells the model what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from agenthood.runtime.chat.base import ToolSpec

Arguments: TypeAlias = Mapping[str, Any]
"""Checked against the tool's parameters; what was not given is there with its default."""


class ToolError(Exception):
    """A call cannot be answered through the model's own doing; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back.

    Attributes:
        text: for the model: redacted, at most `max_output` bytes with a note of what was cut.
        is_error: the call failed; `text` says how and what to do.
    """

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the toolbox.

    Attributes:
        spec: what the model is told.
        function: does it; raises ToolError for the model's mistakes.
    """

    spec: ToolSpec
    function: Callable[[Arguments], Awaitable[ToolResult]]

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.spec.name


def tool_spec(name: str, description: str, **parameters: dict[str, Any]) -> ToolSpec:
    """A description of a tool; a parameter without a `default` is required."""
    required = [key for key, schema in parameters.items() if "default" not in schema]
    schema = {
        "type": "object",
        "properties": parameters,
        "required": required,
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema)


def text(description: str, *, longest: int = 4_096, **more: Any) -> dict[str, Any]:  # noqa: ANN401  JSON schema
    """The schema of a text of at most `longest` characters."""
    return {"type": "string", "description": description, "maxLength": longest, **more}


def number(description: str, *, default: int, most: int) -> dict[str, Any]:
    """The schema of a whole number from 1 to `most`."""
    return {
        "type": "integer",
        "description": description,
        "default": default,
        "minimum": 1,
        "maximum": most,
    }


def switch(description: str) -> dict[str, Any]:
    """The schema of a flag that is off by default."""
    return {"type": "boolean", "description": description, "default": False}
