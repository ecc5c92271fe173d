"""What goes wrong below: each is an error of ours in one line with the next step, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreError, StoreUnavailableError
from agenthood.stores.lance.store import LanceStore
from stores.backends import SHARED, TYPED, everything, fields, full
from stores.failing import large

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

SCRIPT = Path(__file__).with_name("failing.py")


def run(command: str, folder: Path) -> list[str]:
    """What `failing.py` prints."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT), command, str(folder)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


async def fails(step: Callable[[], Awaitable[object]], error: type[StoreError], *words: str) -> None:
    """`step` raises `error`, in one line that holds `words`."""
    with pytest.raises(error) as caught:
        await step()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 900
    for word in words:
        assert word in message


async def test_a_file_where_the_directory_should_be(tmp_path: Path):
    """Reading, writing and locking say that the path is no directory; health reports it."""
    path = tmp_path / "file"
    path.write_text("mine", encoding="utf-8")
    for folder in (path, path / "below"):
        store = LanceStore(folder)
        for step in (
            lambda store=store: store.count(TYPED),
            lambda store=store: store.upsert(TYPED, [full(1)]),
            lambda store=store: store.collections(),
            lambda store=store: store.exclusive().__aenter__(),
            lambda store=store: everything(store, TYPED),
        ):
            await fails(step, StoreUnavailableError, repr(str(folder)), "not a directory")
        health = await store.health()
        assert not health.ok
        assert "not a directory" in health.problem
    assert path.read_text(encoding="utf-8") == "mine"


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write below `folder`: by its mode, or for root, who may do all, by a mount."""
    if os.geteuid():
        modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
        for path, mode in modes.items():
            path.chmod(mode & 0o555)
        yield
        for path, mode in modes.items():
            path.chmod(mode)
        return
    mount("--bind", folder, folder)
    try:
        mount("-o", "remount,bind,ro", folder)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def mount(*arguments: object) -> None:
    """Mount, or skip the test."""
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    command = ["mount", *map(str, arguments)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"not allowed to {' '.join(command[:3])}")


async def test_a_directory_one_may_not_write_to(tmp_path: Path):
    """Records can be read; writing and locking are unavailable, with the reason; nothing changes."""
    store = LanceStore(tmp_path / "memory")
    await store.upsert(TYPED, [full(7)])
    await store.close()
    new, store = LanceStore(tmp_path / "new"), LanceStore(tmp_path / "memory")
    with read_only(tmp_path):
        assert await store.ids(TYPED) == {full(7).id}
        for step in (
            lambda: store.upsert(TYPED, [full(1)]),
            lambda: store.delete(TYPED, [full(7).id]),
            lambda: store.purge(TYPED, [full(7).id]),
            lambda: store.maintain(TYPED),
            lambda: store.ensure_collection(SHARED),
            lambda: new.upsert(TYPED, [full(1)]),
        ):
            await fails(
                step, StoreUnavailableError, str(tmp_path), "ermission" if os.geteuid() else "ead-only"
            )
        assert not (await store.health()).ok
        assert not (await new.health()).ok
        assert await store.ids(TYPED) == {full(7).id}
        assert await new.count(TYPED) == 0  # nothing is there, and nothing is made
    await store.upsert(TYPED, [full(1)])
    assert await store.ids(TYPED) == {full(1).id, full(7).id}
    await store.close()


@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "cut"])
async def test_a_damaged_manifest(tmp_path: Path, content: bytes | None):
    """The error says how to go back to the version before, and that works."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.upsert(TYPED, [full(2)])
    await store.close()
    newest = min((tmp_path / f"{TYPED.name}.lance" / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:300] if content is None else content)

    again = LanceStore(tmp_path)
    for step in (lambda: again.count(TYPED), lambda: again.upsert(TYPED, [full(3)]), again.collections):
        await fails(step, StoreUnavailableError, "its newest manifest", "smallest-numbered file")
    health = await again.health()
    assert not health.ok
    assert "its newest manifest" in health.problem
    await again.close()

    shutil.move(newest, tmp_path / "aside")
    repaired = LanceStore(tmp_path)
    assert await repaired.ids(TYPED) == {full(1).id}
    await repaired.upsert(TYPED, [full(3)])
    assert await repaired.ids(TYPED) == {full(1).id, full(3).id}
    await repaired.close()


async def test_a_missing_data_file(tmp_path: Path):
    """A table whose data was taken away is unavailable, for every way of reading, and health tells."""
    store = LanceStore(tmp_path)
    await store.upsert(TYPED, [full(1)])
    await store.close()
    for file in (tmp_path / f"{TYPED.name}.lance" / "data").iterdir():
        file.unlink()
    again = LanceStore(tmp_path)
    query = full(1).vector[None]
    for step in (
        lambda: again.get(TYPED, ["a"]),
        lambda: everything(again, TYPED),
        lambda: again.query(TYPED, query),
    ):
        await fails(step, StoreUnavailableError, "a file of the table is missing")
    await again.close()


def _checked(lines: list[str], *signs: str) -> int:
    """How many writes were acknowledged before one failed for want of room."""
    failed = [line for line in lines if ": unavailable: " in line]
    assert len(failed) == 1, lines[-3:]
    assert any(sign in failed[0] for sign in signs)
    acknowledged = [line for line in lines if line.startswith("acknowledged")]
    assert acknowledged
    return len(acknowledged)


async def _nothing_lost(folder: Path, acknowledged: int) -> None:
    store = LanceStore(folder)
    found = {row.id: row for row in await everything(store, TYPED)}
    for number in range(acknowledged):
        assert fields(found[full(number).id]) == fields(full(number))
    assert found["large"].content == large(acknowledged - 1).content
    assert len(found) == acknowledged + 1
    await store.upsert(TYPED, [full(999)])
    await store.close()


async def test_a_limit_on_the_size_of_files(tmp_path: Path):
    """A write that meets the limit fails as a whole; what was acknowledged stays, and writing goes on after."""
    lines = run("limit", tmp_path)
    await _nothing_lost(tmp_path, _checked(lines, "size limit"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB; skips where one may not be made."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_full_disk(small_disk: Path):
    """A write that finds the disk full fails as a whole; once there is room again, all is there and works."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    lines = run("fill", small_disk / "memory")
    acknowledged = _checked(lines, "the disk is full")
    ballast.unlink()
    await _nothing_lost(small_disk / "memory", acknowledged)
