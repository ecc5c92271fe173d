"""`agenthood status`, `forget`, `migrate` and `maintain`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import agenthood
from agenthood.stores.base import Collection
from cli_support import Run, at_terminal, read_terminal

EPISODES = ["fixed the flaky login test by mocking the clock", "rewrote the parser in small steps"]


@pytest.fixture
def ids(run: Run) -> list[str]:
    """The ids of two lessons in the store."""
    lines = "\n".join(json.dumps({"episode": text, "score": 0.9, "member": "dev"}) for text in EPISODES)
    done = run("--json", "learn", "-", stdin=lines)
    return [json.loads(line)["id"] for line in done.out.splitlines()]


def test_status_counts(run: Run, ids: list[str], store: Path) -> None:
    """Both forms say what the store holds."""
    facts = run("status").facts
    assert facts["lessons that worked"] == facts["episodes"] == facts["findable"] == "2"
    assert facts["compares"].startswith("by wording only")
    assert facts["members"] == "dev 2"
    assert (facts["backend"], facts["scope"]) == ("lancedb", "the directory's own")
    status = run("status", "--json").json
    assert status["path"] == str(store)
    assert status["lessons"] == {"learned": 2, "antipattern": 0}
    assert status["pending"] == 0


def test_forget_removes_for_good_and_names_what_is_missing(run: Run, ids: list[str], store: Path) -> None:
    """The lesson is gone from every file of the store, the other stays, and an unknown id is exit code 1."""
    done = run("forget", ids[0], "ltm:learnings/v1:nope", "--yes", "--episodes")
    assert done.code == 1
    assert done.out == "forgot 1 lesson, 1 episode, 1 signal\n"
    assert "no lesson has the id 'ltm:learnings/v1:nope'" in done.err
    with agenthood.open(store) as hood:
        assert [lesson.id for lesson in hood.lessons()] == [ids[1]]
    files = [path for path in store.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"mocking the clock" in path.read_bytes()]
    assert run("forget", ids[1], "--yes", "--json").json["lessons"] == [ids[1]]


def test_forget_does_nothing_unasked(run: Run, ids: list[str], store: Path) -> None:
    """Where there is no terminal to ask at, only --yes will do."""
    done = run("forget", ids[0], stdin="y\n")
    assert (done.code, done.out) == (1, "")
    assert "add --yes" in done.err
    with agenthood.open(store) as hood:
        assert len(hood.lessons()) == 2


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 1), ("n\n", 130, 2), ("\n", 130, 2)])
def test_forget_asks_at_a_terminal(ids: list[str], store: Path, answer: str, code: int, left: int) -> None:
    """The lesson is shown, and only a yes removes it."""
    with at_terminal("--dir", store, "forget", ids[0]) as (process, ours):
        question = read_terminal(ours, until="[y/N]")
        assert EPISODES[0] in question
        assert "Forget 1 lesson for good?" in question
        os.write(ours, answer.encode())
        read_terminal(ours)
        assert process.wait(60) == code
    with agenthood.open(store) as hood:
        assert len(hood.lessons()) == left


def test_forget_asks_nothing_about_what_is_not_there(run: Run, ids: list[str], store: Path) -> None:
    """An id that no lesson has is named before anything is asked, and alone is exit code 1 at once."""
    with at_terminal("--dir", store, "forget", "nosuch") as (process, ours):
        said = read_terminal(ours)
        assert process.wait(60) == 1
    assert "no lesson has the id 'nosuch'" in said
    assert "Forget" not in said
    assert "--yes" not in run("forget", "nosuch").err
    with at_terminal("--dir", store, "forget", "nosuch", ids[0]) as (process, ours):
        asked = read_terminal(ours, until="[y/N]")
        assert asked.index("no lesson has the id 'nosuch'") < asked.index("Forget 1 lesson for good?")
        os.write(ours, b"y\n")
        assert "no lesson has" not in read_terminal(ours)
        assert process.wait(60) == 1
    with agenthood.open(store) as hood:
        assert len(hood.lessons()) == 1


def test_migrate_embeds_what_is_missing_and_then_nothing(run: Run, golden_store, monkeypatch) -> None:
    """All lessons of a real TypeScript store become findable; a second run has nothing to do."""
    folder = golden_store("a")
    first = run("migrate", "--json", directory=folder).json
    assert (first["lessons"], first["remaining"], first["complete"]) == (124, 0, True)
    second = run("migrate", directory=folder)
    assert second.code == 0
    assert second.facts["already findable"] == "124"
    assert second.facts["embedded now"] == "0"


def test_drop_old_removes_what_another_embedder_left(
    run: Run, ids: list[str], store: Path, monkeypatch
) -> None:
    """Tables of spaces no longer used go on request only."""
    before = set((store / "memory").iterdir())
    extra = store / "memory" / "patterns_other_space_8_0123456789.lance"
    with agenthood.open(store) as hood:
        hood._background.call(_make_typed_table(hood.hood.store, extra.stem))
    assert extra.exists()
    assert run("migrate").code == 0
    assert extra.exists()
    assert run("migrate", "--drop-old").code == 0
    assert set((store / "memory").iterdir()) == before


async def _make_typed_table(store, name: str) -> None:
    await store.ensure_collection(Collection(name, 8, typed=True))


def test_maintain_reports_every_collection(run: Run, ids: list[str]) -> None:
    """One line per collection, and all of it as JSON."""
    done = run("maintain")
    assert done.code == 0
    assert [row[-1] for row in done.rows][-1] == "vectors"
    for row in done.rows:
        assert [cell.lstrip("0123456789.").strip() for cell in row[:-2]] == [
            "rows",
            "fragments before",
            "after",
            "old versions removed",
        ]
        assert row[-2].endswith("B freed")
    assert "vectors" in run("maintain", "--json").json["collections"]


def test_maintain_says_nothing_of_an_index_that_is_complete(run: Run, store: Path) -> None:
    """Also where so much was learned since the last check that all of it has to be looked through."""
    lines = [json.dumps({"episode": EPISODES[0], "score": 0.9, "member": f"m{n}"}) for n in range(1_001)]
    assert run("learn", "-", stdin="\n".join(lines)).code == 0
    done = run("maintain")
    assert (done.code, "embedded now" in done.out) == (0, False)
    (store / "memory").rename(store / "elsewhere")
    assert run("learn", "-", stdin="\n".join(lines)).code == 0
    assert run("maintain", "--json").json["migration"] is None


def test_maintain_prints_what_the_backend_tells(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No empty columns where it has no fragments, and every number with its word."""
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", "sqlite")
    assert run("learn", "--episode", EPISODES[0], "--score", 0.9).code == 0
    done = run("maintain")
    assert done.rows[-1][-1] == "vectors"
    for row in done.rows:
        assert all(row)
        assert row[0].endswith(" rows")
        assert "fragments" not in " ".join(row)


def test_pending_lessons_are_mentioned(run: Run, ids: list[str], store: Path, monkeypatch) -> None:
    """With an embedder that cannot be reached the commands go on and say what does not work."""
    monkeypatch.delenv("AGENTHOOD_EMBEDDER")
    embedder = {
        "kind": "http",
        "model": "m",
        "baseUrl": "http://127.0.0.1:9/v1",
        "dimension": 8,
        "maxRetries": 0,
    }
    (store / "config.json").write_text(json.dumps({"embedder": embedder}))
    learned = run("learn", "--episode", "learned while the model was down", "--score", 1)
    assert learned.code == 0
    assert learned.rows[0][0] == "pending"
    migrated = run("migrate")
    assert migrated.code == 1
    assert migrated.facts["remaining"] == "3"
    recalled = run("recall", "flaky login test")
    assert recalled.code == 0
    assert "agenthood: warning: " in recalled.err
