"""What both wire formats share: text that can be sent, and arguments as models write them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agenthood.runtime.chat.base import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agenthood.runtime.chat.base import Message, Stop

_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTED = 120


def clean(text: str) -> str:
    """`text` with lone surrogates replaced, which UTF-8 cannot hold and no provider takes."""
    return _SURROGATE.sub("\ufffd", text)


def clean_json(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """`value` with every text in it passed through `clean`."""
    return json.loads(clean(json.dumps(value, ensure_ascii=False)))


def read_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A tool call as the model wrote it.

    Args:
        call_id: pairs the call with its result.
        name: the tool; anything but text counts as no name.
        arguments: a JSON object, or its text. Blank text is an empty object, which is how several models
            call a tool without parameters.

    Returns:
        The call; with `error` set and no arguments if they are no JSON object.
    """
    identity, tool = str(call_id), clean(name) if isinstance(name, str) else ""
    try:
        value = _loaded(arguments)
    except (ValueError, RecursionError) as error:
        return ToolCall(identity, tool, error=f"the arguments are not JSON ({error}): {_excerpt(arguments)}")
    if not isinstance(value, dict):
        return ToolCall(identity, tool, error=f"the arguments are no JSON object: {_excerpt(arguments)}")
    return ToolCall(identity, tool, value)


def _loaded(arguments: object) -> Any:  # noqa: ANN401  (any JSON value)
    if isinstance(arguments, str):
        arguments = json.loads(arguments, parse_constant=_no_constant) if arguments.strip() else {}
    return clean_json(arguments)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _excerpt(arguments: object) -> str:
    text = arguments if isinstance(arguments, str) else repr(arguments)
    return repr(clean(text[:_QUOTED]))


def stop_for(reason: object, calls: Sequence[ToolCall], meanings: Mapping[str, Stop]) -> Stop:
    """What a provider's reason to stop means, given the calls: servers are not strict about it."""
    stop = meanings.get(reason, "end") if isinstance(reason, str) else "end"
    if stop in ("length", "refused"):
        return stop
    return "tools" if calls else "end"


def tokens(usage: object, *names: str) -> int:
    """The sum of those counts in `usage`; what is missing or no count is 0."""
    if not isinstance(usage, dict):
        return 0
    return sum(count for name in names if type(count := usage.get(name)) is int and count > 0)


def result_text(message: Message) -> str:
    """The text of a tool's result; never empty, which some servers refuse."""
    return clean(message.text) or "(no output)"
