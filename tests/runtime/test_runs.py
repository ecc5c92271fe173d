"""The file of a run: there from the start, whole at any time, found again by the start of its id."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest

from agenthood.errors import InvalidInputError
from agenthood.runtime.runs import FOLDER, Run, load_run, new_run_id, recorded, save_run, save_softly
from agents import KEY, the_file


def run(id_: str = "20261130T120000-aaaaaa", **fields: object) -> Run:
    """A run of `dev`."""
    return Run(id_, "dev", "test", "fix it", **fields)  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    """What is saved is loaded, also with text in any script and with numbers under names like `tokens`."""
    saved = run(answer="已修复 👍", input_tokens=1_234_567, tools={"read_file": 2}, cost=0.5)
    save_run(tmp_path, saved)
    assert load_run(tmp_path, saved.id) == saved


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    """Keys are redacted wherever they are: answer, scores, notes, names of tools."""
    save_run(
        tmp_path,
        run(answer=KEY, scores=[{"name": KEY, "detail": KEY}], notes=[KEY], tools={KEY: 1}, reason=KEY),
    )
    (path,) = (tmp_path / FOLDER).iterdir()
    assert KEY[:20] not in path.read_text(encoding="utf-8")


def test_ids_sort_by_time_and_differ() -> None:
    """An id is the second of the start and a random end."""
    ids = {new_run_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"\d{8}T\d{6}-[0-9a-z]{6}", id_) for id_ in ids)


def test_the_start_of_an_id_is_enough(tmp_path: Path) -> None:
    """A prefix that one run has finds it; a whole id wins over a longer one that begins with it."""
    for id_ in ("20261130T12-a", "20261130T12-ab", "20261201T12-c"):
        save_run(tmp_path, run(id_))
    assert load_run(tmp_path, "202612").id == "20261201T12-c"
    assert load_run(tmp_path, "20261130T12-a").id == "20261130T12-a"
    with pytest.raises(InvalidInputError, match=r"2 runs have .*20261130T12-a, 20261130T12-ab"):
        load_run(tmp_path, "20261130")


@pytest.mark.parametrize("id_", ["", "x", "*", "../config", "[a-z]"])
def test_an_id_that_no_run_has_is_refused(id_: str, tmp_path: Path) -> None:
    """Neither a pattern nor a path gets anywhere."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    save_run(tmp_path, run())
    with pytest.raises(InvalidInputError, match="no run has an id that starts with"):
        load_run(tmp_path, id_)


def test_without_runs_the_folder_is_named(tmp_path: Path) -> None:
    """Before the first run the error says where runs would be."""
    with pytest.raises(InvalidInputError, match=f"none in '{tmp_path / FOLDER}'"):
        load_run(tmp_path, "2026")


@pytest.mark.parametrize(
    "body",
    ["", "{", "[]", "{}", "[" * 100_000, '{"id": 1, "member": "a", "skill": "b", "task": "c"}'],
    ids=["empty", "cut", "list", "bare", "deep", "number"],
)
def test_a_damaged_file_is_an_error_in_a_line(body: str, tmp_path: Path) -> None:
    """Whatever a file holds, the error names it."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "2026.json").write_text(body, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"run file .*2026\.json.* cannot be read"):
        load_run(tmp_path, "2026")


def test_a_file_of_a_later_version_is_read(tmp_path: Path) -> None:
    """A key that is not known is passed over."""
    path = save_run(tmp_path, run())
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"later": 1}), encoding="utf-8")
    assert load_run(tmp_path, "2026") == run()


def test_the_file_is_there_before_anything_else(tmp_path: Path) -> None:
    """Within the block the file says `running`; what ends the block without a word stays the block's to say."""
    home = tmp_path / ".agenthood"
    with recorded(home, run()) as kept:
        assert the_file(tmp_path)["status"] == "running"
        kept.status = "done"
        save_softly(home, kept)
    assert the_file(tmp_path)["status"] == "done"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (asyncio.CancelledError(), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (ValueError("what?"), "failed"),
        (SystemExit(3), "failed"),
    ],
)
def test_no_exception_leaves_a_run_as_running(error: BaseException, status: str, tmp_path: Path) -> None:
    """Whatever ends the block is in the file, and passes through."""
    with pytest.raises(type(error)), recorded(tmp_path / ".agenthood", run()):
        raise error
    assert the_file(tmp_path)["status"] == status
    assert the_file(tmp_path)["reason"]


def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file where the folder should be does not end the run; it is said once in its notes."""
    (tmp_path / FOLDER).touch()
    with caplog.at_level(logging.WARNING, "agenthood"), recorded(tmp_path, run()) as kept:
        save_softly(tmp_path, kept)
    (note,) = kept.notes
    assert note.startswith(f"cannot write '{tmp_path / FOLDER / kept.id}.json': ")
    assert "; check that its folder is there and can be written to" in note
    assert "not recorded in a file" in caplog.text
