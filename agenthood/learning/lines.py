"""The lines of an export: checked, redacted, and turned into lessons and rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agenthood.errors import InvalidInputError
from agenthood.formats import (
    FOLDERS,
    dumps,
    is_episode_id,
    iso,
    parse_time,
    pattern_text,
    shown,
    unstorable_reason,
    utc_now,
)
from agenthood.learning import rules
from agenthood.learning.forgetting import UNFINISHED_KEY
from agenthood.learning.tally import STATUS_KEY
from agenthood.learning.tending import UPKEEP_KEY
from agenthood.memory.long_term import long_term_record
from agenthood.records import KINDS, TIERS, UNKNOWN, Lesson
from agenthood.redaction import redact, redact_json
from agenthood.stores.base import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_KEYS = (STATUS_KEY, UNFINISHED_KEY, UPKEEP_KEY, "spaces/")
"""Keys of long-term memory, or how they start, that say something about one store only: they are not moved."""


def parse(line: str) -> Lesson | Record:
    """The lesson, without its id, or the row that a line stands for.

    Raises:
        InvalidInputError: it is no line of an export, or holds what cannot be stored.
    """
    try:
        body = json.loads(line)
    except json.JSONDecodeError as exc:
        raise InvalidInputError(
            f"it is no JSON: {exc.msg.removesuffix(' at')} at column {exc.colno}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"it is no JSON: {exc}") from exc
    if not isinstance(body, dict):
        raise InvalidInputError(f"it is {shown(body, 80)}: give a JSON object with a type")
    match body.get("type"):
        case "lesson":
            return _lesson(body)
        case "episode":
            return _episode(body)
        case "memory":
            return _memory(body)
        case other:
            raise InvalidInputError(f"type {shown(other, 80)} is none of 'lesson', 'episode', 'memory'")


def _text(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise InvalidInputError(f"{name} is {shown(value, 80)}: give text")
    return value


def _id(body: Mapping[str, Any], name: str) -> str:
    """As `_text`, for what becomes part of an id; in contents JSON escapes what no backend can store."""
    value = _text(body, name)
    if reason := unstorable_reason(value):
        raise InvalidInputError(f"{name} cannot be stored: {reason}")
    return value


def _memory(body: Mapping[str, Any]) -> Record:
    key = _id(body, "key")
    if key.startswith((*OWN_KEYS, *FOLDERS.values())):
        raise InvalidInputError(
            f"key {shown(key, 80)} is the engine's own: give lessons as lines of type 'lesson'"
        )
    return long_term_record(redact(key), redact_json(body.get("value")), at=utc_now())


def _lesson(body: Mapping[str, Any]) -> Lesson:
    kind = body.get("kind")
    if kind not in KINDS:
        raise InvalidInputError(f"kind {shown(kind, 80)} is none of {', '.join(map(repr, KINDS))}")
    member, skill = (redact(_text(body, name, UNKNOWN)) for name in ("member", "skill"))
    text = redact(_lesson_text(body, pattern_text(kind, member, skill, "")))
    mean = rules.mean_score({"mean": body.get("mean", 1.0 if kind == "learned" else 0.0)})
    evidence = body.get("evidence", 1)
    if not isinstance(evidence, int) or isinstance(evidence, bool) or evidence < 1:
        raise InvalidInputError(f"evidence {shown(evidence, 80)} is no whole number from 1 up")
    episodes = body.get("episodes", [])
    if not isinstance(episodes, list) or not all(isinstance(e, str) for e in episodes):
        raise InvalidInputError(f"episodes {shown(episodes, 80)} is no list of ids")
    first, last = (body.get(name) or utc_now() for name in ("first_seen", "last_seen"))
    tier = body.get("tier", "working")
    if tier not in TIERS:
        raise InvalidInputError(f"tier {shown(tier, 80)} is none of {', '.join(map(repr, TIERS))}")
    pinned, used = body.get("pinned", False), body.get("last_used")
    if not isinstance(pinned, bool):
        raise InvalidInputError(f"pinned {shown(pinned, 80)} is neither true nor false")
    assert mean is not None  # noqa: S101  one score was given
    return Lesson(
        "", kind, text, pattern_text(kind, member, skill, text), member, skill, mean, min(evidence, rules.MAX_COUNT),
        tuple(map(redact, episodes[-rules.MAX_CITED :])), iso(parse_time(first)), iso(parse_time(last)),
        redact(_text(body, "outcome", "")), tier, pinned, rules.read_count(body.get("uses")),
        iso(parse_time(used)) if used else "",
    )  # fmt: skip


def _lesson_text(body: Mapping[str, Any], blank_pattern: str) -> str:
    """The text of a lesson; blank only in an export of a store where an older program learned from a blank one."""
    text = body.get("text")
    exported = isinstance(text, str) and body.get("pattern") == blank_pattern + text
    return _text(body, "text", "" if exported else None)


def _episode(body: Mapping[str, Any]) -> Record:
    id_ = _id(body, "id")
    if not is_episode_id(id_):
        # Not shown: whatever else it is may be a secret.
        raise InvalidInputError("id is no episode's: it looks like 'ep:1780272000000-a1b2c3'")
    at = iso(parse_time(_text(body, "timestamp")))
    details = body.get("details", {})
    if not isinstance(details, dict):
        raise InvalidInputError(f"details {shown(details, 80)} is no JSON object")
    texts = {"episode": redact(_text(body, "episode", "")), "outcome": redact(_text(body, "outcome", ""))}
    content = dumps(texts | {"timestamp": at} | redact_json(details))
    return Record(id_, content, {"type": "episodic", "recordedAt": iso(utc_now())}, at)
