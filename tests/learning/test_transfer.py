"""Export and import: everything there again, nothing counted twice, every bad line told."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import agenthood
from agenthood.learning.forgetting import UNFINISHED_KEY
from agenthood.learning.rules import MAX_CITED, MAX_COUNT
from hoods import bad, bodies, files_with, good, opened, small

if TYPE_CHECKING:
    from pathlib import Path

    from agenthood.engine import AsyncHood
    from conftest import GoldenStore


async def _exported(hood: AsyncHood) -> list[str]:
    file = io.StringIO()
    count = await hood.export(file)
    lines = file.getvalue().splitlines(keepends=True)
    assert len(lines) == count
    return lines


async def _everything(hood: AsyncHood) -> list[Any]:
    lessons = sorted(await hood.lessons(), key=lambda one: one.pattern)
    return [
        [replace(lesson, id="") for lesson in lessons],
        await bodies(hood, "ep:"),
        {
            key: await hood.long_term.retrieve(key)
            for key in await hood.long_term.keys()
            if key.startswith("notes/")
        },
    ]


async def _fill(hood: AsyncHood) -> None:
    await hood.learn_many(
        [good("fixed the login", member="qa"), bad("fixed the login"), good("重试上传 🎉\n'\"\\")]
    )
    await hood.learn_many([good("fixed the login", 1.0, member="qa"), good("half done", 0.5)])
    await hood.learn("fixed Aa", score=0.9, member="developer", skill="test", outcome="it passes")
    await hood.learn("fixed BB", score=0.9, member="developer", skill="test")
    await hood.long_term.store("notes/plan", {"steps": [1, 2.5, None, "three"]})


async def test_a_round_trip_brings_everything_back(tmp_path: Path) -> None:
    """Lessons, episodes and other memory are equal in a new directory, and are found there by meaning."""
    async with opened(tmp_path / "one", small()) as hood:
        await _fill(hood)
        lines = await _exported(hood)
        expected = await _everything(hood)
    async with opened(tmp_path / "two", small()) as hood:
        done = await hood.import_(lines)
        assert (done.stored, done.merged, done.skipped, done.rejected) == (len(lines), 0, 0, ())
    async with opened(tmp_path / "two", small()) as hood:
        assert await _everything(hood) == expected
        assert await _exported(hood) == lines
        assert (await hood.status()).pending == 0
        assert (await hood.recall("重试上传"))[0].semantic
        again = await hood.import_(lines)
        assert (again.stored, again.merged, again.skipped) == (0, 0, len(lines))
        assert await _everything(hood) == expected


@pytest.mark.parametrize("name", ["a", "b"])
async def test_a_typescript_store_can_be_moved(golden_store: GoldenStore, tmp_path: Path, name: str) -> None:
    """Every line of its export is taken by an empty store, oddities and all."""
    async with agenthood.open_async(golden_store(name), embedder="lexical") as hood:
        lines = await _exported(hood)
        patterns = sorted(lesson.pattern for lesson in await hood.lessons())
    async with opened(tmp_path / "two") as hood:
        done = await hood.import_(lines)
        assert done.rejected == ()
        assert done.stored == len(lines)
        assert sorted(lesson.pattern for lesson in await hood.lessons()) == patterns
        assert (await hood.import_(lines)).skipped == len(lines)


async def test_bad_lines_are_told_by_number(tmp_path: Path) -> None:
    """Every one with its reason; blank ones are none; the rest is imported."""
    lesson = {"type": "lesson", "kind": "learned", "text": "fixed the login"}
    wrong: list[tuple[str, str]] = [
        ("{", "no JSON"), ("[]", "JSON object"), ('{"type":"other"}', "'other'"), ('{"a":1}', "None"),
        (json.dumps(lesson | {"kind": "good"}), "kind"), (json.dumps(lesson | {"text": " "}), "text"),
        (json.dumps(lesson | {"mean": 2}), "mean"), (json.dumps(lesson | {"evidence": 0}), "evidence"),
        (json.dumps(lesson | {"evidence": True}), "evidence"), (json.dumps(lesson | {"episodes": [1]}), "episodes"),
        (json.dumps(lesson | {"first_seen": "soon"}), "timestamp"), (json.dumps(lesson | {"member": 5}), "member"),
        ('{"type":"episode","id":"x","timestamp":"2026-01-01"}', "'ep:"),
        ('{"type":"episode","id":"ep:1-a","timestamp":"soon"}', "timestamp"),
        ('{"type":"episode","id":"ep:1-a\\u0000","timestamp":"2026-01-01"}', "NUL"),
        ('{"type":"episode","id":"ep:1-a","timestamp":"2026-01-01","details":[]}', "details"),
        ('{"type":"memory","key":"","value":1}', "key"), ('{"type":"memory","key":"a","value":NaN}', "JSON"),
        ('{"type":"memory","key":"\\ud800","value":1}', "surrogate"),
        ('{"type":"memory","key":"learnings/v1:a","value":1}', "own"),
        ('{"type":"memory","key":"learner/status","value":1}', "own"),
        ("[" * 100_000, "no JSON"),
    ]  # fmt: skip
    lines = [
        json.dumps(lesson),
        "",
        "  ",
        *(line for line, _ in wrong),
        json.dumps(lesson | {"text": "another"}),
    ]
    async with opened(tmp_path) as hood:
        done = await hood.import_(line + "\n" for line in lines)
        assert done.stored == 2
        assert [number for number, _ in done.rejected] == list(range(4, 4 + len(wrong)))
        for (_, reason), (line, part) in zip(done.rejected, wrong, strict=True):
            assert part in reason, line[:80]
        assert {one.text for one in await hood.lessons()} == {"fixed the login", "another"}


async def test_evidence_of_two_stores_adds_up(tmp_path: Path) -> None:
    """What each saw on its own counts; what both saw counts once."""
    async with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        await one.learn_many([good("fixed the login", 1.0)] * 3)
        await two.import_(await _exported(one))
        await one.learn_many([good("fixed the login", 1.0)] * 2)
        await two.learn_many([good("fixed the login", 0.8)] * 4)
        done = await two.import_(await _exported(one))
        assert (done.merged, done.stored) == (1, 2)
        (lesson,) = await two.lessons()
        assert lesson.evidence == 9
        assert len(lesson.episodes) == len(await bodies(two, "ep:")) == 9
        assert lesson.mean == pytest.approx((5 * 1.0 + 4 * 0.8) / 9)
        assert (await two.import_(await _exported(one))).merged == 0


async def test_an_old_state_of_a_grown_lesson_adds_nothing(tmp_path: Path) -> None:
    """Where so much came since that no cited episode is left in common, it is still known for the same lesson."""
    async with opened(tmp_path) as hood:
        await hood.learn_many([good("fixed the login")] * 5)
        old = [line for line in await _exported(hood) if line.startswith('{"type":"lesson"')]
        await hood.learn_many([good("fixed the login")] * MAX_CITED)
        done = await hood.import_(old)
        assert (done.merged, done.skipped) == (0, 1)
        assert [lesson.evidence for lesson in await hood.lessons()] == [105]


async def test_a_handwritten_lesson_is_enough(tmp_path: Path) -> None:
    """Kind and text suffice; the rest has defaults; secrets are redacted here, too."""
    key = "sk-proj-" + "Ab1" * 16
    lines = ['{"type":"lesson","kind":"antipattern","text":"never deploy on friday"}']
    lines.append(json.dumps({"type": "lesson", "kind": "learned", "text": f"use {key}"}))
    async with opened(tmp_path, small()) as hood:
        assert (await hood.import_(lines)).stored == 2
        lesson = next(one for one in await hood.lessons() if one.kind == "antipattern")
        assert (lesson.mean, lesson.evidence, lesson.member, lesson.skill) == (0.0, 1, "unknown", "unknown")
        assert (await hood.learn("never deploy on friday", score=0)).evidence == 2
        assert files_with(tmp_path, key) == []


async def test_without_an_embedder_imports_wait(tmp_path: Path) -> None:
    """They are stored, found by wording, and indexed at the next start."""
    lines = ['{"type":"lesson","kind":"learned","text":"fixed the login"}']
    async with opened(tmp_path, small(fail_after=0)) as hood:
        done = await hood.import_(lines)
        assert (done.stored, done.pending) == (1, 1)
        assert "fail_after" in done.reason
        assert (await hood.status()).pending == 1
        assert len(await hood.recall("fixed the login")) == 1
        again = await hood.import_(lines)
        assert (again.skipped, again.pending, again.reason) == (1, 0, "")
    async with opened(tmp_path, small()) as hood:
        assert (await hood.status()).pending == 0


async def test_a_model_that_answers_differently_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is imported waits for another model, and the report says why."""
    async with opened(tmp_path, small()) as hood:
        await hood.learn("fixed the login", score=0.9)
    changed = small(fail_after=0, salt="other")
    async with opened(tmp_path, changed, start_migration=False) as hood:
        changed.fail_after = None
        done = await hood.import_(['{"type":"lesson","kind":"learned","text":"fixed the logout"}'])
        assert (done.stored, done.pending) == (1, 1)
        assert "differently" in done.reason
        assert done.reason in caplog.text


async def test_stores_that_began_at_the_same_time_add_up(tmp_path: Path) -> None:
    """Times given as dates are equal in many stores; that alone does not make two histories one."""
    for name in ("one", "two"):
        async with opened(tmp_path / name) as hood:
            for day in ("2026-06-01", "2026-06-02"):
                await hood.learn("fixed the login", score=0.9, timestamp=day)
    async with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        lines = await _exported(one)
        assert (await two.import_(lines)).merged == 1
        assert [lesson.evidence for lesson in await two.lessons()] == [4]
        assert (await two.import_(lines)).merged == 0
        assert [lesson.evidence for lesson in await two.lessons()] == [4]


async def test_names_with_a_colon_that_write_the_same_are_refused(tmp_path: Path) -> None:
    """By line number, also of two lines in one file; the evidence goes to nobody else."""
    line = {"type": "lesson", "kind": "learned", "text": "fixed the login", "episodes": ["ep:1-a"]}
    lines = [
        json.dumps(line | {"member": "a", "skill": "b:c"}),
        json.dumps(line | {"member": "a:b", "skill": "c", "episodes": ["ep:2-b"]}),
    ]
    async with opened(tmp_path) as hood:
        done = await hood.import_(lines)
        assert (done.stored, done.merged, [number for number, _ in done.rejected]) == (1, 0, [2])
        assert "without a colon" in done.rejected[0][1]
        assert [number for number, _ in (await hood.import_(lines)).rejected] == [2]
        (lesson,) = await hood.lessons()
        assert (lesson.member, lesson.skill, lesson.evidence) == ("a", "b:c", 1)


async def test_no_field_of_a_line_keeps_a_secret(tmp_path: Path) -> None:
    """Ids, keys and cited episodes are redacted or refused as texts are; no reason shows them."""
    key = "sk-proj-" + "Ab1" * 16
    lines = [
        json.dumps({"type": "episode", "id": f"ep:{key}", "timestamp": "2026-06-01"}),
        json.dumps({"type": "memory", "key": f"notes/{key}", "value": 1}),
        json.dumps({"type": "lesson", "kind": "learned", "text": "fixed it", "episodes": [f"ep:{key}"]}),
    ]
    async with opened(tmp_path) as hood:
        done = await hood.import_(lines)
        assert (done.stored, [number for number, _ in done.rejected]) == (2, [1])
        assert key not in str(done)
        assert await hood.long_term.keys("notes/") == ["notes/[redacted:openai]"]
        assert (await hood.import_(lines)).skipped == 2
    assert files_with(tmp_path, key) == []


async def test_evidence_beyond_measure_is_cut(tmp_path: Path) -> None:
    """A count of thousands of digits is read as the highest one, and goes on."""
    line = f'{{"type":"lesson","kind":"learned","text":"fixed it","evidence":{"9" * 4299}}}'
    async with opened(tmp_path) as hood:
        assert (await hood.import_([line])).stored == 1
        assert (await hood.lessons())[0].evidence == MAX_COUNT
        assert (await hood.learn("fixed it", score=1.0)).status == "merged"


async def test_a_forgetting_under_way_stays_where_it_is(tmp_path: Path) -> None:
    """What says something about one store only is neither exported nor imported."""
    async with opened(tmp_path) as hood:
        await hood.long_term.store(UNFINISHED_KEY, {"rows": ["ltm:notes/plan"]})
        assert await _exported(hood) == []
        done = await hood.import_([json.dumps({"type": "memory", "key": UNFINISHED_KEY, "value": {}})])
        assert "own" in done.rejected[0][1]


async def test_progress_counts_lines(tmp_path: Path) -> None:
    """After every batch; the total is not known beforehand."""
    told: list[tuple[int, int]] = []
    lines = [json.dumps({"type": "memory", "key": f"notes/{n}", "value": n}) for n in range(501)]
    async with opened(tmp_path) as hood:
        await hood.import_(iter(lines), on_progress=lambda *args: told.append(args))
    assert told == [(500, 0), (501, 0)]
