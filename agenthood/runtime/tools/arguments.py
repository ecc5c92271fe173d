"""Checks what a model calls a tool with against the tool's own schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenthood.runtime.tools.base import ToolError
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenthood.runtime.chat.base import ToolSpec
    from agenthood.runtime.tools.base import Arguments

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
}
_ARTICLES = {
    "string": "a string",
    "integer": "a whole number",
    "boolean": "true or false",
    "number": "a number",
}


def checked(spec: ToolSpec, given: Mapping[str, Any]) -> Arguments:
    """The arguments with defaults filled in; null counts as not given where there is a default.

    Raises:
        ToolError: a name is unknown or missing, or a value has another type or is out of range.
    """
    properties: Mapping[str, Mapping[str, Any]] = spec.parameters["properties"]
    for name in given:
        if name not in properties:
            raise ToolError(
                f"{spec.name} has no argument {name!r:.80}{did_you_mean(name, properties)} "
                f"It takes: {', '.join(properties) or 'none'}"
            )
    return {name: _value(spec.name, name, schema, given.get(name)) for name, schema in properties.items()}


def _value(tool: str, name: str, schema: Mapping[str, Any], value: object) -> object:
    if value is None:
        if "default" in schema:
            return schema["default"]
        raise ToolError(f"{tool} needs the argument {name!r}: {schema['description']}")
    kind = schema["type"]
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON does not tell 3.0 from 3
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise ToolError(f"{name} of {tool} must be {_ARTICLES[kind]}, not {value!r:.80}")
    _check_range(tool, name, schema, value)
    return value


def _check_range(tool: str, name: str, schema: Mapping[str, Any], value: Any) -> None:  # noqa: ANN401
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            raise ToolError(
                f"{name} of {tool} has {len(value)} characters; at most {schema['maxLength']} work: shorten it"
            )
        return
    least, most = schema.get("minimum", value), schema.get("maximum", value)
    if not least <= value <= most:  # false for NaN as well
        raise ToolError(f"{name} of {tool} must be from {least} to {most}, not {value!r:.80}")
