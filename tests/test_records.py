"""The values that go in: an episode with its scores."""

from __future__ import annotations

import pickle
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from agenthood import EvalResult, InvalidInputError
from hoods import opened

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "fixed the flaky login test"


async def test_one_score_is_short_for_scores(tmp_path: Path) -> None:
    """`EvalResult` takes it as `learn` does, and becomes the same."""
    short, long = EvalResult(TEXT, score=0.9, member="dev"), EvalResult(TEXT, {"score": 0.9}, member="dev")
    assert short == long
    assert asdict(short) == asdict(long)
    assert pickle.loads(pickle.dumps(short)) == long
    assert EvalResult(TEXT, score=0.0).scores == {"score": 0.0}
    async with opened(tmp_path) as hood:
        alone = await hood.learn(TEXT, score=0.9, member="dev")
        (together,) = await hood.learn_many([short])
    assert (alone.status, together.status, together.evidence) == ("stored", "merged", 2)
    assert together.score == alone.score == 0.9


def test_a_changed_copy_keeps_its_score_or_gets_other_ones() -> None:
    """As after `scores=`."""
    result = EvalResult(TEXT, score=0.9)
    assert replace(result, member="dev").scores == {"score": 0.9}
    assert replace(result, scores={"tests": 0.1}).scores == {"tests": 0.1}


def test_two_forms_at_once_are_refused() -> None:
    """Nobody could say which one counts."""
    with pytest.raises(InvalidInputError, match=r"score=0.9 and scores={'tests': 1} .*: give one of them"):
        EvalResult(TEXT, {"tests": 1}, score=0.9)
