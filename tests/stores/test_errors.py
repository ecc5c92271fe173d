"""What goes wrong below: each is an error of ours in one line with the next step, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import StoreUnavailableError
from stores.backends import SHARED, TYPED, everything, fields, full
from stores.failing import fails, large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.backends import Backend

SCRIPT = Path(__file__).with_name("failing.py")


def run(command: str, backend: Backend) -> list[str]:
    """What `failing.py` prints."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT), command, backend.name, str(backend.folder)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.usefixtures("on_disk")
async def test_a_file_where_the_directory_should_be(backend: Backend):
    """Reading, writing and locking say that the path is no directory; health reports it."""
    path = backend.folder / "file"
    path.write_text("mine", encoding="utf-8")
    for folder in (path, path / "below"):
        store = replace(backend, folder=folder).open()
        for step in (
            lambda store=store: store.count(TYPED),
            lambda store=store: store.upsert(TYPED, [full(1)]),
            lambda store=store: store.collections(),
            lambda store=store: store.exclusive().__aenter__(),
            lambda store=store: everything(store, TYPED),
        ):
            await fails(step, StoreUnavailableError, str(folder), "not a directory")
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


@pytest.mark.usefixtures("on_disk")
async def test_a_directory_one_may_not_write_to(backend: Backend):
    """Records can be read; writing and locking are unavailable, with the reason; nothing changes."""
    tmp_path = backend.folder
    old = replace(backend, folder=tmp_path / "old")
    old.folder.mkdir()
    store = old.open()
    await store.upsert(TYPED, [full(7)])
    await store.close()
    new, store = replace(backend, folder=tmp_path / "new").open(), old.open()
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


def _checked(lines: list[str], *signs: str) -> int:
    """How many writes were acknowledged before one failed for want of room."""
    failed = [line for line in lines if ": unavailable: " in line]
    assert len(failed) == 1, lines[-3:]
    assert any(sign in failed[0] for sign in signs)
    acknowledged = [line for line in lines if line.startswith("acknowledged")]
    assert acknowledged
    return len(acknowledged)


async def _nothing_lost(backend: Backend, acknowledged: int) -> None:
    store = backend.open()
    found = {row.id: row for row in await everything(store, TYPED)}
    for number in range(acknowledged):
        assert fields(found[full(number).id]) == fields(full(number))
    assert found["large"].content == large(acknowledged - 1).content
    assert len(found) == acknowledged + 1
    await store.upsert(TYPED, [full(999)])
    await store.close()


@pytest.mark.usefixtures("on_disk")
async def test_a_limit_on_the_size_of_files(backend: Backend):
    """A write that meets the limit fails as a whole; what was acknowledged stays, and writing goes on after."""
    lines = run("limit", backend)
    await _nothing_lost(backend, _checked(lines, "size limit"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB; skips where one may not be made."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.usefixtures("on_disk")
async def test_a_full_disk(backend: Backend, small_disk: Path):
    """A write that finds the disk full fails as a whole; once there is room again, all is there and works."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    filled = replace(backend, folder=small_disk / "store")
    filled.folder.mkdir()
    lines = run("fill", filled)
    acknowledged = _checked(lines, "the disk is full")
    ballast.unlink()
    await _nothing_lost(filled, acknowledged)


@pytest.mark.parametrize(
    ("backend", "package"),
    [
        ("sqlite", "apsw"),
        ("sqlite", "sqlite_vec"),
        ("postgres", "psycopg"),
        ("postgres", "pgvector"),
        ("qdrant", "qdrant_client"),
    ],
)
def test_a_missing_package_is_noticed_before_anything_is_made(
    tmp_path: Path, backend: str, package: str
) -> None:
    """Opening says what to install, and leaves no half of a store."""
    code = (
        "import sys; sys.modules[sys.argv[1]] = None\n"
        "import agenthood\n"
        "from agenthood.stores.settings import StoreSettings\n"
        "url = {'postgres': 'postgresql://127.0.0.1:1/x', 'qdrant': 'http://127.0.0.1:1'}.get(sys.argv[2])\n"
        "embedder, store = agenthood.EmbedderSettings(kind='lexical'), StoreSettings(backend=sys.argv[2], url=url)\n"
        "settings = agenthood.Settings(embedder, store=store)\n"
        "try: agenthood.open(sys.argv[3], settings=settings)\n"
        "except agenthood.ConfigError as error: print(error)"
    )
    folder = tmp_path / ".agenthood"
    done = subprocess.run(
        [sys.executable, "-c", code, package, backend, folder], capture_output=True, text=True, check=True
    )
    name = package.replace("_", "-")
    assert done.stdout == f"{name} is not installed: pip install 'agenthood-learning[{backend}]'\n"
    assert not folder.exists()
