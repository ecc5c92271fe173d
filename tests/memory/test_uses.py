"""The file of uses: bounded, shared by many writers, given out once even if its reader dies."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from agenthood.formats import iso
from agenthood.memory.uses import UseLog

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def _log(folder: Path, **options: int) -> UseLog:
    moments = (NOW + timedelta(minutes=n) for n in range(10**6))
    return UseLog(folder / "uses.jsonl", clock=lambda: next(moments), **options)


def test_uses_come_out_once(tmp_path: Path) -> None:
    """By id, with their times in order; then the file is gone, and what is noted meanwhile comes next time."""
    log = _log(tmp_path)
    log.note(["a", "b"])
    log.note(["a"])
    claimed = log.claimed()
    assert next(claimed) == {"a": [iso(NOW), iso(NOW + timedelta(minutes=1))], "b": [iso(NOW)]}
    log.note(["c"])
    assert list(claimed) == []
    assert list(log.claimed()) == [{"c": [iso(NOW + timedelta(minutes=2))]}]
    assert list(tmp_path.iterdir()) == []
    assert list(log.claimed()) == []


def test_what_was_not_finished_is_given_again(tmp_path: Path) -> None:
    """A reader that died while counting leaves its file, and it comes before what is newer."""
    log = _log(tmp_path)
    log.note(["a"])
    next(log.claimed())
    log.note(["b"])
    assert [list(uses) for uses in log.claimed()] == [["a"], ["b"]]


def test_the_files_are_bounded_and_keep_the_latest(tmp_path: Path) -> None:
    """Never more than two files of the size given, whole lines only, none missing but the oldest."""
    log = _log(tmp_path, most_bytes=1_000)
    for n in range(500):
        log.note([f"id{n:03}"])
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1_000
    kept = [id_ for uses in log.claimed() for id_ in uses]
    assert kept == [f"id{n:03}" for n in range(500 - len(kept), 500)]
    assert len(kept) > 1_000 // len(f'{{"id":"id000","at":"{iso(NOW)}"}}\n')


def test_threads_may_note_at_once(tmp_path: Path) -> None:
    """No line is torn or lost."""
    log = UseLog(tmp_path / "uses.jsonl")

    def note(name: str) -> None:
        for _ in range(50):
            log.note([name, "shared"])

    threads = [threading.Thread(target=note, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (uses,) = log.claimed()
    assert {id_: len(times) for id_, times in uses.items()} == {f"t{n}": 50 for n in range(4)} | {
        "shared": 200
    }


def test_what_cannot_be_noted_only_shows_when_debugging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A recall must not fail for want of its use; without a folder none is made."""
    with caplog.at_level(logging.DEBUG, "agenthood"):
        UseLog(tmp_path / "none" / "uses.jsonl").note(["a"])
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert not (tmp_path / "none").exists()
    UseLog(tmp_path / "uses.jsonl").note([])
    assert list(tmp_path.iterdir()) == []


def test_lines_that_are_no_uses_are_left_out(tmp_path: Path) -> None:
    """Half a line, as a killed writer or a full disk leaves it, spoils none of the others."""
    good = f'{{"id":"a","at":"{iso(NOW)}"}}'
    lines = ["{", "[]", '{"id":1,"at":"2026-06-01"}', '{"id":"a","at":"never"}', "\udcff", good, good[:-4]]
    (tmp_path / "uses.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    assert list(_log(tmp_path).claimed()) == [{"a": [iso(NOW)]}]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Upkeep says so, with the next step."""
    (tmp_path / "uses.jsonl").mkdir()
    with pytest.raises(StoreUnavailableError, match="cannot count the uses in"):
        list(_log(tmp_path).claimed())


def test_the_first_use_makes_the_directory(tmp_path: Path):
    """If that is wanted, as for a scope whose records are on a server."""
    log = UseLog(tmp_path / "scopes" / "x" / "uses.jsonl", make_folder=True)
    log.note(["a"])
    assert [list(found) for found in log.claimed()] == [["a"]]
