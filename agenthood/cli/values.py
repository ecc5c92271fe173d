"""Types of option values."""

from __future__ import annotations

import click


class Number(click.ParamType[float]):
    """A number from `least` to `most`; unlike click's own ranges it refuses `nan`."""

    name = "number"

    def __init__(self, least: float, most: float) -> None:
        """Args: the range, both ends included."""
        self._least = least
        self._most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number and check it."""
        try:
            number = float(str(value))
        except ValueError:
            number = float("nan")
        if not self._least <= number <= self._most:
            self.fail(f"{value!r} is no number from {self._least:g} to {self._most:g}.", param, ctx)
        return number
