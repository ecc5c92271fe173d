"""What is handed to the learner, checked and cleaned before anything else happens to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from agenthood.block import contains_block
from agenthood.errors import InvalidInputError
from agenthood.formats import is_episode_id, parse_time, pattern_text, shown, unstorable_reason
from agenthood.learning.rules import band, mean_score
from agenthood.records import UNKNOWN, EvalResult, Kind, Receipt
from agenthood.redaction import redact

_log = logging.getLogger("agenthood")


@dataclass(slots=True)
class Intake:
    """A judged episode, ready to be learned from.

    Not frozen, since thousands are made at once: its time and id are filled in where they are known last.

    Attributes:
        episode: its text, redacted.
        outcome: how it ended, redacted.
        member: who did it.
        skill: in which skill.
        scores: the scores it was judged by.
        mean: their mean in [0, 1].
        kind: what is learned from it; None if it falls in between.
        at: when it happened; None for now.
        episode_id: the id it is recorded under already; None to record it.
        drawn: the id to record it under, drawn beforehand; None to draw one.
    """

    episode: str
    outcome: str
    member: str
    skill: str
    scores: Mapping[str, float]
    mean: float
    kind: Kind | None
    at: datetime | None
    episode_id: str | None = None
    drawn: str | None = None


@dataclass(slots=True)
class Lasting(Intake):
    """A judged episode that something is learned from.

    Attributes:
        kind: what is learned from it.
    """

    kind: Kind

    @property
    def pattern(self) -> str:
        """The pattern text."""
        return pattern_text(self.kind, self.member, self.skill, self.episode)

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """What a matching lesson must have in common: kind, member and skill."""
        return _fields(self.kind, self.member, self.skill)


@lru_cache(maxsize=1_024)  # thousands of episodes are of a few members and skills
def _fields(kind: Kind, member: str, skill: str) -> tuple[tuple[str, str], ...]:
    return (("kind", kind), ("member", member), ("skill", skill))


def take_in(result: EvalResult) -> Intake | Receipt:
    """`result` checked and redacted, or the receipt that says why it goes no further; never raises."""
    try:
        return _checked(result)
    except InvalidInputError as exc:
        return Receipt("rejected", reason=str(exc))
    except Exception as exc:  # noqa: BLE001  a caller's object may raise whatever it likes when it is looked at
        _log.debug("an episode could not be read", exc_info=True)
        return Receipt(
            "rejected", reason=f"it cannot be read ({type(exc).__name__}): give plain text and numbers"
        )


def _checked(result: EvalResult) -> Intake | Receipt:
    if reason := _invalid(result):
        return Receipt("rejected", reason=reason)
    mean = mean_score(result.scores)
    at = None if result.timestamp is None else parse_time(result.timestamp)
    if mean is None:
        return Receipt("skipped", reason="no scores, so there is nothing to learn from")
    if contains_block(result.episode) or contains_block(result.outcome):
        return Receipt("skipped", score=mean, reason="the text is itself a block of recalled lessons")
    kind = band(mean)
    fields: dict[str, Any] = {
        "episode": redact(result.episode),
        "outcome": redact(result.outcome),
        "member": redact(result.member.strip()) or UNKNOWN,
        "skill": redact(result.skill.strip()) or UNKNOWN,
        # Plain floats: whatever else counts as a number, such as a fraction or a NumPy scalar, has no JSON form.
        "scores": {redact(name): float(score) for name, score in result.scores.items()},
        "mean": mean,
        "at": at,
        "episode_id": result.episode_id,
    }
    return Intake(**fields, kind=None) if kind is None else Lasting(**fields, kind=kind)


def _invalid(result: object) -> str | None:
    if not isinstance(result, EvalResult):
        return f"it is {shown(result, 80)}: give an EvalResult"
    return _unusable_text(result) or _unusable_field(result)


def _unusable_text(result: EvalResult) -> str | None:
    for name in ("episode", "outcome", "member", "skill"):
        text: object = getattr(result, name)
        if not isinstance(text, str):
            return f"{name} is {shown(text, 80)}: give text"
        if reason := unstorable_reason(text):
            return f"{name} cannot be stored: {reason}"
    if not result.episode.strip():
        return "episode is empty: say what was done"
    return None


def _unusable_field(result: EvalResult) -> str | None:
    scores: object = result.scores
    if not isinstance(scores, Mapping) or not all(isinstance(name, str) for name in scores):
        return f"scores is {shown(scores, 80)}: give a mapping from name to number"
    at: object = result.timestamp
    if at is not None and not isinstance(at, datetime):
        return f"timestamp is {shown(at, 80)}: give a datetime"
    if result.episode_id is not None and not is_episode_id(result.episode_id):
        # Not repeated: whatever it is, it may hold a secret.
        return "episode_id is no id of an episode: give one that recording returned, such as 'ep:1780272000000-a1b2c3'"
    return None
