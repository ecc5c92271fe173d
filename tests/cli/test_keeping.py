"""`agenthood pin`, `unpin`, `archive` and `restore`, and what other commands say of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import agenthood
from cli_support import at_terminal, read_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from cli_support import Run

EPISODES = [
    "fixed the flaky login test by mocking the clock",
    "rewrote the parser in small steps",
    "sped up pages",
]


@pytest.fixture
def ids(run: Run) -> list[str]:
    """The ids of three lessons in the store."""
    lines = "\n".join(json.dumps({"episode": text, "score": 0.9, "member": "dev"}) for text in EPISODES)
    return [json.loads(line)["id"] for line in run("--json", "learn", "-", stdin=lines).out.splitlines()]


def test_archive_and_restore(run: Run, ids: list[str], store: Path) -> None:
    """An archived lesson is neither recalled nor listed, but by its tier; restored it is both again."""
    done = run("archive", ids[0], ids[1])
    assert (done.code, done.out) == (0, "archived 2 lessons\n")
    assert run("archive", ids[0]).out == "archived 0 lessons, 1 already\n"
    assert [row[0] for row in run("lessons").rows] == [ids[2]]
    assert {row[0] for row in run("lessons", "--tier", "archive").rows} == set(ids[:2])
    assert {one["tier"] for one in run("lessons", "--tier", "archive", "--json").json} == {"archive"}
    assert run("recall", EPISODES[0]).out == ""
    facts = run("status").facts
    assert (facts["lessons that worked"], facts["findable"], facts["archived"]) == ("1", "1", "2")
    assert run("restore", ids[0], "--json").json["lessons"] == [ids[0]]
    assert [row[5] for row in run("recall", EPISODES[0]).rows] == [ids[0]]
    done = run("forget", ids[1], "--yes")
    assert (done.code, done.out.split(",")[0]) == (0, "forgot 1 lesson")
    with agenthood.open(store) as hood:
        assert hood.status().archived == 0


def test_forget_asks_about_an_archived_lesson_too(run: Run, ids: list[str]) -> None:
    """It is there, so that forgetting it needs --yes where there is no terminal."""
    run("archive", ids[0])
    done = run("forget", ids[0])
    assert done.code == 1
    assert "add --yes" in done.err
    assert "no lesson has the id" not in done.err


def test_the_list_marks_how_a_lesson_is_kept(run: Run, ids: list[str], store: Path) -> None:
    """Pinned, and a tier other than the first, in pipes and at a terminal; else nothing is added."""
    run("pin", ids[0])
    run("archive", ids[1])
    assert {row[0]: row[1] for row in run("lessons").rows} == {ids[0]: "learned, pinned", ids[2]: "learned"}
    assert [row[1] for row in run("lessons", "--tier", "archive").rows] == ["learned, archive"]
    with at_terminal("--dir", store, "lessons", columns=160) as (process, ours):
        shown = read_terminal(ours)
        assert process.wait(60) == 0
    assert shown.count("pinned") == 1


def test_pin_and_unpin(run: Run, ids: list[str]) -> None:
    """What is unknown is named, the rest is done, and the exit code says so."""
    done = run("pin", ids[0], "ltm:learnings/v1:nope")
    assert (done.code, done.out) == (1, "pinned 1 lesson\n")
    assert "no lesson has the id 'ltm:learnings/v1:nope'" in done.err
    assert [one["id"] for one in run("lessons", "--json").json if one["pinned"]] == [ids[0]]
    assert run("unpin", ids[0], ids[1]).out == "unpinned 1 lesson, 1 already\n"
    assert not [one for one in run("lessons", "--json").json if one["pinned"]]


def test_maintain_keeps_the_bound_of_the_settings(
    run: Run, ids: list[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From config.json or the environment; what was done to the lessons is said beside the table, and in JSON."""
    run("pin", ids[2])
    (store / "config.json").write_text('{"maxLessons": 2}')
    run("recall", EPISODES[0])
    done = run("maintain")
    assert done.code == 0
    assert [row[-1] for row in done.rows][-1] == "vectors"
    assert "lessons: 0 promoted, 0 demoted, 1 archived, 0 restored, 1 uses counted" in done.err
    assert [row[0] for row in run("lessons", "--tier", "archive").rows] == [ids[1]]
    monkeypatch.setenv("AGENTHOOD_MAX_LESSONS", "1")
    assert run("maintain", "--json").json["lessons"]["archived"] == 1
    assert [row[0] for row in run("lessons").rows] == [ids[2]]
    monkeypatch.setenv("AGENTHOOD_MAX_LESSONS", "0")
    done = run("maintain")
    assert done.code == 1
    assert "AGENTHOOD_MAX_LESSONS must be a whole number from 1, not '0'" in done.err
