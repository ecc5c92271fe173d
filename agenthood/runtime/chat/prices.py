"""What tokens cost at the models that are defaults here, and at their siblings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agenthood.runtime.chat.base import Usage

PRICES_AS_OF: Final = "2026-11-30"

# USD for a million tokens, in and out, at the provider's own address. Models whose price depends on the
# length of the prompt from the start are left out.
_PRICES: Final[dict[str, tuple[float, float]]] = {
    "claude-fable-5-1": (10.0, 50.0),
    "claude-opus-5-5": (4.0, 20.0),
    "claude-opus-5": (5.0, 25.0),
    "claude-sonnet-5-5": (2.0, 10.0),
    "claude-sonnet-5": (2.0, 10.0),
    "claude-sonnet-4-6": (3.0, 15.0),
    "claude-haiku-4-5": (1.0, 5.0),
    "gpt-6-astra": (10.0, 50.0),
    "gpt-6.1-sol": (2.0, 10.0),
    "gpt-6-sol": (2.0, 10.0),
    "gpt-6.1-terra": (1.0, 5.0),
    "gpt-6-luna": (0.1, 0.5),
}
_DATE: Final = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


def cost(model: str, usage: Usage) -> float | None:
    """The list price in USD, as of `PRICES_AS_OF`.

    Discounts for cached prompts and surcharges for very long ones are not in it.

    Args:
        model: the model's name; a date at its end does not matter.
        usage: tokens of one reply, or of several by the same model.

    Returns:
        At least 0; None for a model that is not listed.
    """
    prices = _PRICES.get(_DATE.sub("", model))
    if prices is None:
        return None
    return (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / 1_000_000
