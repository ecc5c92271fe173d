"""JSON lines in: bytes become numbered lines, and each line an episode or the reason it is none.

Nothing here does I/O beyond reading the file handed in, and nothing raises for what a line holds: a bad line
is a value, so that the lines around it are learned and it can be written out again byte for byte.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agenthood.errors import InvalidInputError
from agenthood.formats import parse_time
from agenthood.records import UNKNOWN, EvalResult

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

KEYS = ("episode", "outcome", "scores", "score", "member", "skill", "timestamp")
MAX_LINE = 16 * 2**20
"""Bytes; a longer line is refused and passed on in pieces, so that no line needs more memory than this."""

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_UNKNOWN_KEPT = 100


class ByteSource(Protocol):
    """What lines are read from: a binary file, or standard input's buffer."""

    def readline(self, limit: int, /) -> bytes:
        """Return the next line with its newline, at most `limit` bytes of it; empty at the end."""
        ...


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line, or one piece of a line longer than `MAX_LINE`.

    Attributes:
        number: counts from 1.
        data: the bytes as they are, with the newline.
        too_long: True for every piece of a line longer than `MAX_LINE`.
        first: False for the later pieces of such a line.
    """

    number: int
    data: bytes
    too_long: bool = False
    first: bool = True

    @property
    def blank(self) -> bool:
        """True if the line holds nothing but white space (or the mark at the start of a UTF-8 file)."""
        return not self.too_long and not self.body.strip()

    @property
    def body(self) -> bytes:
        """The bytes without the byte-order mark that a UTF-8 file may start with."""
        return self.data.removeprefix(_BOM) if self.number == 1 else self.data


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """What a line says: an episode, or the reason why not.

    Attributes:
        raw: the line.
        result: the episode, or None.
        reason: why the line was refused; empty if it was not.
    """

    raw: RawLine
    result: EvalResult | None = None
    reason: str = ""


def raw_lines(source: ByteSource, *, limit: int = MAX_LINE) -> Iterator[RawLine]:
    """Read `source` line by line; only a newline ends a line.

    Args:
        source: where the bytes come from.
        limit: the longest line in bytes that is kept whole.
    """
    number = 0
    while data := source.readline(limit + 1):
        number += 1
        if len(data) <= limit:
            yield RawLine(number, data)
            continue
        yield RawLine(number, data, too_long=True)
        while not data.endswith(b"\n") and (data := source.readline(limit)):
            yield RawLine(number, data, too_long=True, first=False)


class EpisodeParser:
    """Turns lines into episodes and remembers which keys it did not know.

    Attributes:
        unknown: key -> how many lines had it; at most 100 different ones are kept.
        first: key -> number of the first line that had it.
        hints: key -> what it may have been meant to be in that line, as `; did you mean 'x'?`; else empty.
    """

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.hints: dict[str, str] = {}

    def parse(self, raw: RawLine) -> ParsedLine:
        """Read one line. Never raises: a line that is no episode comes back with its reason."""
        if raw.too_long:
            reason = f"longer than {MAX_LINE // 2**20} MiB: shorten the episode" if raw.first else ""
            return ParsedLine(raw, reason=reason)
        try:
            fields = parse_object(raw.body)
            result = episode_of(fields)
            _refuse_typos(fields, result)
        except InvalidInputError as error:
            return ParsedLine(raw, reason=str(error))
        self._count_unknown(fields, raw.number)
        return ParsedLine(raw, result)

    def _count_unknown(self, fields: Collection[str], number: int) -> None:
        for key in fields:
            if key not in KEYS and (key in self.unknown or len(self.unknown) < _UNKNOWN_KEPT):
                self.unknown[key] += 1
                if key not in self.first:
                    self.first[key], self.hints[key] = number, _meant(key, fields)


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object that is all of `data`.

    Raises:
        InvalidInputError: not UTF-8, not JSON (NaN and Infinity are not), not an object, or a key twice.
    """
    if data.startswith(_UTF16_BOMS):
        raise InvalidInputError("looks like UTF-16: save the file as UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not UTF-8: byte {data[error.start]:#04x} at position {error.start}"
        ) from error
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}{_hint(text)}"
        ) from error
    except RecursionError as error:
        raise InvalidInputError("not usable JSON: nested too deeply") from error
    except InvalidInputError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidInputError(f"not usable JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"expected a JSON object, got {_name(value)}{_hint(text)}")
    return value


def episode_of(fields: dict[str, Any]) -> EvalResult:
    """The episode that the fields of one line describe; a field that is null counts as absent.

    Types and scores are settled here; whether a text can be stored is the learner's to say.

    Raises:
        InvalidInputError: no `episode`, a field of the wrong type, a score outside [0, 1], or both score and scores.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    if "episode" not in given:
        hint = _exported_hint(given) or f"{_closest_of('episode', given)}: say what was done"
        raise InvalidInputError(f"no 'episode'{hint}")
    return EvalResult(
        episode=_text(given, "episode", ""),
        scores=_scores(given),
        outcome=_text(given, "outcome", ""),
        member=_text(given, "member", UNKNOWN),
        skill=_text(given, "skill", UNKNOWN),
        timestamp=_time(given),
    )


def _refuse_typos(fields: dict[str, Any], result: EvalResult) -> None:
    """Refuse a line without scores that has a key nobody knows: passed over as having none, it would be lost.

    Raises:
        InvalidInputError: names the key, and what it may have meant.
    """
    unknown = [key for key in fields if key not in KEYS]
    if result.scores or not unknown:
        return
    from agenthood.suggest import closest  # noqa: PLC0415  only needed when something is wrong

    if hint := _exported_hint(fields):
        raise InvalidInputError(f"no score{hint}")
    meant = closest("score", unknown) or closest("scores", unknown) or unknown[0]
    hint = _meant(meant, fields) or ": give a 'score', or leave the key out"
    raise InvalidInputError(f"no score, and unknown key {meant[:80]!r}{hint}")


def _text(given: dict[str, Any], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str):
        raise InvalidInputError(f"{key!r} must be text, not {_name(value)}")
    return value


def _time(given: dict[str, Any]) -> datetime | None:
    return parse_time(given["timestamp"]) if "timestamp" in given else None


def _scores(given: dict[str, Any]) -> dict[str, float]:
    if "score" in given and "scores" in given:
        raise InvalidInputError("both 'score' and 'scores': give one of them")
    if "score" in given:
        return {"score": _number("'score'", given["score"])}
    scores = given.get("scores", {})
    if not isinstance(scores, dict):
        raise InvalidInputError(f"'scores' must be an object of numbers, not {_name(scores)}: or use 'score'")
    return {name: _number(f"score {name[:80]!r}", value) for name, value in scores.items()}


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError(f"{what} must be a number in [0, 1], not {_name(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):  # 1e999 is valid JSON
        raise InvalidInputError(f"{what} must be a number in [0, 1]: it is too large")
    if not 0 <= number <= 1:
        raise InvalidInputError(f"{what} must be a number in [0, 1], not {value!r:.40}")
    return number


def _no_constant(name: str) -> float:
    raise InvalidInputError(f"{name} is not a JSON number: a score is a number in [0, 1]")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise InvalidInputError(f"key {repeated[:80]!r} appears twice: keep one of them")
    return found


def _hint(text: str) -> str:
    start = text.lstrip()[:1]
    return "; one JSON object per line is expected (jq -c '.[]' splits an array)" if start == "[" else ""


def _exported_hint(fields: dict[str, Any]) -> str:
    """What to do with the lines of an export, which say what each of them is."""
    exported = any(fields.get("type") == kind for kind in ("lesson", "episode", "memory"))
    return "; this is a line of an export: agenthood import reads those" if exported else ""


def _closest_of(wanted: str, given: Iterable[str]) -> str:
    from agenthood.suggest import closest  # noqa: PLC0415  only needed when something is wrong

    found = closest(wanted, given)
    return f" (is {found!r} meant?)" if found else ""


def _meant(key: str, fields: Collection[str]) -> str:
    """`; did you mean 'x'?`, where `x` is not among the fields; one that is there was not mistyped."""
    from agenthood.suggest import did_you_mean  # noqa: PLC0415  only needed when something is wrong

    either = {"score", "scores"}
    given = {*fields, *either} if either & {*fields} else {*fields}
    return did_you_mean(key, [name for name in KEYS if name not in given])


def _name(value: object) -> str:
    """What JSON calls the type of `value`, with a glimpse of it."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return f"the number {value!r:.40}"
