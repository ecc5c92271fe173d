"""The stored format shared with the TypeScript program: keys, ids, times and compact JSON.

Everything here is a pure function; `docs/stored-format.md` describes what they produce.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.records import KINDS, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

INDEX_VERSION_KEY = "__index_version__"
INDEX_CURRENT_VERSION = 2

LTM = "ltm:"
PATTERN = "pattern:"
EPISODE = "ep:"
FOLDERS: Mapping[Kind, str] = {"learned": "learnings/", "antipattern": "antipatterns/"}
"""Where the lessons of a kind live among the keys of long-term memory."""

_EPISODE_ID = re.compile(r"ep:-?[0-9]{1,16}-[0-9a-z]{1,16}")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_AT_ONCE = 4_096  # units that are hashed in one product
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
# NUL, which JSON escapes within texts, in the place of commas.
_MARKING_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=("\x00", ":"), allow_nan=False)


def base36(number: int) -> str:
    """`number` >= 0 in base 36, lower case, as JavaScript's `toString(36)` writes it."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


@lru_cache(maxsize=8_192)  # a batch asks for each of its patterns several times
def hash_pattern(pattern: str) -> str:
    """The key of a pattern text, such as `v1:fn6jbb`.

    h = 31 * h + unit over the UTF-16 code units in wrapping signed 32-bit arithmetic, then |h| in base 36
    (|-2^31| is 2^31). Lone surrogates count as the units they are. Two patterns can share a key: the hash
    has 31 bits and is linear.
    """
    import numpy as np  # noqa: PLC0415  only keys need it, and not every command needs a key

    units = np.frombuffer(pattern.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    h = 0
    for start in range(0, len(units), _AT_ONCE):
        part = units[start : start + _AT_ONCE]
        h = (h * pow(31, len(part), 1 << 32) + int(part @ _powers_of_31()[-len(part) :])) & 0xFFFFFFFF
    return "v1:" + base36(0x100000000 - h if h & 0x80000000 else h)


@lru_cache(maxsize=1)
def _powers_of_31() -> npt.NDArray[np.uint32]:
    """..., 31 * 31, 31, 1 in arithmetic that wraps at 32 bits, as NumPy's does."""
    import numpy as np  # noqa: PLC0415

    rising = np.full(_AT_ONCE, 31, dtype=np.uint32)
    rising[0] = 1
    return np.cumprod(rising, dtype=np.uint32)[::-1].copy()


def pattern_text(kind: Kind, member: str, skill: str, episode: str) -> str:
    """`{kind}:{member}:{skill}:{episode}`."""
    return f"{kind}:{member}:{skill}:{episode}"


def split_pattern(
    pattern: str, member: str | None = None, skill: str | None = None
) -> tuple[Kind, str, str, str]:
    """The (kind, member, skill, episode) of a pattern text.

    Args:
        pattern: a pattern text.
        member: the member if known from elsewhere; a member may itself contain a colon.
        skill: the skill if known from elsewhere.

    Raises:
        InvalidInputError: the text is no pattern.
    """
    kind, _, rest = pattern.partition(":")
    if kind not in KINDS or rest.count(":") < 2:  # noqa: PLR2004  member:skill:episode
        raise InvalidInputError(f"{pattern[:120]!r} is not of the form kind:member:skill:episode")
    if member is not None and skill is not None:
        prefix = f"{member}:{skill}:"
        if rest.startswith(prefix):
            return kind, member, skill, rest[len(prefix) :]
    found_member, found_skill, episode = rest.split(":", 2)
    return kind, found_member, found_skill, episode


def storable(text: str) -> str:
    """`text` with NUL and lone surrogates, which backends fail on, replaced by U+FFFD."""
    return text if _is_plain(text) else _UNSTORABLE.sub("\ufffd", text)


def _is_plain(text: str) -> bool:
    """Whether `text` is ASCII without NUL, as nearly every one is: Python knows that almost without reading it."""
    return text.isascii() and "\x00" not in text


def unstorable_reason(text: str) -> str | None:
    """Why no backend may see `text`, or None if it may."""
    found = None if _is_plain(text) else _UNSTORABLE.search(text)
    if found is None:
        return None
    what = "a NUL character" if found.group() == "\x00" else f"the lone surrogate {found.group()!r}"
    return f"it holds {what} at position {found.start()}: remove it"


def dumps(value: object) -> str:
    """Compact JSON as JavaScript's `JSON.stringify` writes it: no spaces, lone surrogates escaped.

    Numbers alone may be spelt in another way, such as 1.0 for 1; every reader takes them for the same.

    Raises:
        InvalidInputError: NaN, infinity, or a value JSON has no form for.
    """
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{shown(value)} cannot be stored as JSON: {exc}") from exc
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", paired)


def dumps_each(objects: Sequence[Mapping[str, object]]) -> list[str]:
    """As `dumps` of each object, but most of its cost comes once for all of them.

    Raises:
        InvalidInputError: as `dumps`.
    """
    plain: list[dict[str, object]] = list(map(dict, objects))
    lines: list[str] = []
    with suppress(TypeError, ValueError, RecursionError):
        text = _MARKING_ENCODER.encode(plain)[1:-1]
        if text.isascii() or _SURROGATE.search(text) is None:
            lines = text.replace("}\x00{", "}\n{").replace("\x00", ",").split("\n")
    # There are none where that failed. An object that holds a list of others only adds lines, so that there are never
    # just as many by accident.
    return lines if len(lines) == len(plain) else [dumps(one) for one in plain]


def shown(value: object, limit: int = 120) -> str:
    """The first `limit` characters of `repr(value)`, also of what has none, being too deep or too long for it."""
    try:
        return repr(value)[:limit]
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"


def loads_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`; an empty one if `text` holds anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """`moment` in UTC with milliseconds and `Z`, as JavaScript's `toISOString` writes it. Naive counts as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _iso_utc(aware.astimezone(UTC))


@lru_cache(maxsize=1_024)  # a batch writes its own time into every record
def _iso_utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(value: object) -> datetime:
    """A time given as ISO 8601 text, or as epoch seconds or milliseconds (numbers above 1e11).

    Raises:
        InvalidInputError: `value` is neither.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)  # noqa: PLR2004
        else:
            raise ValueError("neither ISO 8601 text nor epoch seconds")  # noqa: TRY301, TRY004
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise InvalidInputError(
            f"timestamp {shown(value)} is not a time: give ISO 8601, such as '2026-06-01T12:00:00Z' ({exc})"
        ) from exc


def is_episode_id(value: object) -> bool:
    """Whether `value` has the shape of an episode's id; the TypeScript program may end it in fewer characters."""
    return isinstance(value, str) and _EPISODE_ID.fullmatch(value) is not None


def new_episode_id(moment: datetime) -> str:
    """A fresh id for an episode at `moment`: `ep:{epoch milliseconds}-{6 base-36 characters}`. Naive counts as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = (aware - _EPOCH) // _MILLISECOND
    # Of 64 bits the rest is even enough, and takes one draw, where `randbelow` takes two on average.
    return f"{EPISODE}{milliseconds}-{base36(secrets.randbits(64) % 36**6):0>6}"
