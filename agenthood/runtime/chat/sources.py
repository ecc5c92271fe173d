"""Where chat settings come from: the environment and a project's `.env`, and the rule for whose key goes where."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agenthood.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ARGUMENT, ENVIRONMENT, DOTENV, CONFIG, DEFAULT = range(5)
"""Sources by precedence, the strongest first."""

_REFERENCE: Final = re.compile(r"(?:\$\{(?P<braced>[A-Za-z_]\w*)\}|env:(?P<named>[A-Za-z_]\w*))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Found:
    """A value, from which source, and what to call that in a message."""

    value: str = field(repr=False)
    source: int
    where: str


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of the environment and of `.env`; blank ones count as unset."""

    environ: Mapping[str, str] = field(repr=False)
    dotenv: Mapping[str, str] = field(repr=False)

    def find(self, name: str | None) -> list[Found]:
        """Every value of the variable `name`, the strongest first."""
        if name is None:
            return []
        layers = ((self.environ, ENVIRONMENT, name), (self.dotenv, DOTENV, f"{name} in .env"))
        return [
            Found(value, source, where)
            for layer, source, where in layers
            if (value := layer.get(name, "").strip())
        ]

    def first(self, name: str | None) -> Found | None:
        """The strongest value of the variable `name`."""
        return next(iter(self.find(name)), None)

    def resolved(self, text: str, where: str) -> tuple[str | None, str | None]:
        """What `text` stands for, and the variable it refers to, if it is `${NAME}` or `env:NAME`.

        Args:
            text: a value of the configuration.
            where: what to call it in a message.

        Returns:
            The value (None if the variable is not set) and the variable's name (None for plain text).
        """
        match = _REFERENCE.fullmatch(text.strip())
        if match is None:
            if text.strip().startswith("${"):
                raise ConfigError(f"{where} begins like a reference and is none: write it as ${{NAME}}")
            return text.strip(), None
        name = match["braced"] or match["named"]
        found = self.first(name)
        return (found.value if found else None), name


def read_dotenv(file: Path) -> dict[str, str]:
    """The variables in `file`, none if there is no file; the environment is not touched.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    if not file.is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  keeps this import light

    try:
        # Without interpolation: a `$` in a key is part of it.
        values = dotenv_values(file, interpolate=False, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(file)!r} is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(file)!r}: {error.strerror or error}; check its permissions"
        ) from error
    return {name: value for name, value in values.items() if value is not None}
