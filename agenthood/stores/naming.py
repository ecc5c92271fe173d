"""Names of the collections that `agenthood store check` makes for a moment, and that a killed one may leave."""

from __future__ import annotations

import secrets
import time

_PREFIX = "check_"
_TOO_OLD = 3_600.0


def scratch_name() -> str:
    """A new name, such as `check_692c3d1f_8b3f09`; it says when it was made."""
    return f"{_PREFIX}{int(time.time()):x}_{secrets.token_hex(3)}"


def is_scratch(name: str) -> bool:
    """Whether a collection is one of those."""
    return _made_at(name) is not None


def is_leftover(name: str) -> bool:
    """Whether it was made so long ago that nobody is using it any more."""
    made = _made_at(name)
    return made is not None and time.time() - made > _TOO_OLD


def _made_at(name: str) -> float | None:
    begin, _, rest = name.removeprefix("scoped_").partition("_")
    try:
        return float(int(rest.partition("_")[0], 16)) if begin + "_" == _PREFIX else None
    except ValueError:
        return None
