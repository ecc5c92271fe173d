"""No path, link or race leads out of the project."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.runtime.tools import Toolbox
from agenthood.runtime.tools.base import ToolError
from agenthood.runtime.tools.files import _READ
from agenthood.runtime.tools.listing import files_below
from agenthood.runtime.tools.paths import _FOLDER, Project
from agenthood.runtime.tools.search_worker import _lines
from toolboxes import SECRET, call, error, text

NAMES = ["a", "b", "sub", "link", "outside", "secret.txt", "..", ".", "", "project"]
SEGMENTS = st.sampled_from(NAMES) | st.text(st.characters(codec=None), max_size=8)
PATHS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "/", "./", "//", "ROOT/", "ROOT/../", "~/", "\\", "file://"]),
    st.lists(SEGMENTS, max_size=6),
)
TARGETS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "../", "../../", "ROOT/", "ROOT/../", "/", "./"]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
)
LINKS = st.dictionaries(st.sampled_from(["link", "a", "b", "sub/link", "sub/a"]), TARGETS, max_size=4)


def _layout(base: Path, links: dict[str, str]) -> Path:
    """A project beside a folder with a secret, and links in the project that lead anywhere."""
    project = base / "project"
    for folder in (project / "sub", base / "outside"):
        folder.mkdir(parents=True)
    for path in (base / "secret.txt", base / "outside" / "secret.txt", base / "outside" / "a"):
        path.write_text(SECRET, encoding="utf-8")
    for name in ("secret.txt", "sub/b"):
        (project / name).write_text("inside", encoding="utf-8")
    for name, target in links.items():
        (project / name).unlink(missing_ok=True)
        (project / name).symlink_to(target.replace("ROOT", str(project)) or ".")
    return project


def _outside(base: Path) -> dict[str, bytes | None]:
    """Everything beside the project, with its content."""
    found: dict[str, bytes | None] = {}
    for folder, folders, files in os.walk(base):
        folders[:] = [name for name in folders if Path(folder, name) != base / "project"]
        found |= {str(Path(folder, name)): Path(folder, name).read_bytes() for name in files}
        found |= {str(Path(folder, name)): None for name in folders}
    return found


@given(path=PATHS, links=LINKS)
def test_nothing_outside_is_read(path: str, links: dict[str, str]) -> None:
    """For any path and any links no tool shows what is beside the project."""
    with tempfile.TemporaryDirectory() as folder:
        project = _layout(Path(folder), links)
        tools = Toolbox(project)
        path = path.replace("ROOT", str(project))
        for name in ("read_file", "list_files"):
            assert SECRET not in asyncio.run(call(tools, name, path=path)).text


@given(path=PATHS, links=LINKS)
def test_nothing_outside_is_written(path: str, links: dict[str, str]) -> None:
    """For any path and any links writing changes nothing beside the project, and what it made can be read."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        project = _layout(base, links)
        tools = Toolbox(project, allow_write=True)
        path = path.replace("ROOT", str(project))
        before = _outside(base)
        asyncio.run(call(tools, "replace_in_file", path=path, old=SECRET, new="broken"))
        written = asyncio.run(call(tools, "write_file", path=path, content="fresh"))
        assert _outside(base) == before
        if not written.is_error:
            assert asyncio.run(text(tools, "read_file", path=path)).endswith("\nfresh")


@given(links=LINKS)
def test_a_search_reads_nothing_outside(links: dict[str, str]) -> None:
    """Links in the project lead a search nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(_layout(Path(folder), links))
        for name in files_below(project, ".")[0]:
            with suppress(ToolError, OSError):  # refused, which is what should happen
                assert SECRET not in "".join(_lines(project, name))


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link/secret.txt", "sub/../../secret.txt", "abs", "up"]
)
async def test_ways_out_are_refused(tmp_path: Path, path: str) -> None:
    """Parents, absolute paths and links out of the project are refused with the same words."""
    project = _layout(tmp_path, {"link": "../outside", "abs": "/etc/passwd", "up": ".."})
    tools = Toolbox(project, allow_write=True)
    assert "outside the project" in await error(tools, "read_file", path=path)
    assert "outside the project" in await error(tools, "write_file", path=path, content="x")


@pytest.mark.parametrize(
    "path", ["sub/b", "sub/../sub/b", "./sub//b", "link/b", "link/../secret.txt", "abs", "ROOT/sub/b", "up/b"]
)
async def test_ways_inside_work(tmp_path: Path, path: str) -> None:
    """Whatever stays inside is read: `..`, links, and absolute paths below the project."""
    project = tmp_path / "project"
    _layout(tmp_path, {"link": "sub", "abs": str(project / "sub" / "b"), "up": "sub/../sub"})
    assert "inside" in await text(Toolbox(project), "read_file", path=path.replace("ROOT", str(project)))


async def test_a_project_may_be_named_by_a_link(tmp_path: Path) -> None:
    """Absolute paths count as inside in the user's spelling as well as in the resolved one."""
    project = _layout(tmp_path, {})
    (tmp_path / "alias").symlink_to(project)
    tools = Toolbox(tmp_path / "alias")
    for root in (project, tmp_path / "alias"):
        assert "inside" in await text(tools, "read_file", path=str(root / "sub" / "b"))


async def test_links_in_circles_end(tmp_path: Path) -> None:
    """A link to itself, or two to each other, are an error."""
    tools = Toolbox(_layout(tmp_path, {"link": "link", "a": "b", "b": "a"}))
    for path in ("link", "a", "a/x"):
        assert "too many links" in await error(tools, "read_file", path=path)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_long_walks_keep_no_folder_open(tmp_path: Path) -> None:
    """A path of many turns neither fails nor uses up the descriptors of the process."""
    tools = Toolbox(_layout(tmp_path, {}))
    before = _descriptors()
    assert "inside" in await text(tools, "read_file", path="sub/../" * 580 + "secret.txt")
    await error(tools, "read_file", path="sub/" + "../sub/" * 500 + "none")
    assert _descriptors() == before


@pytest.mark.parametrize("flags", [_FOLDER, _READ])
def test_a_link_is_never_opened(tmp_path: Path, flags: int) -> None:
    """What became a link after it was looked at cannot be opened, be it a folder or a file."""
    project = _layout(tmp_path, {"link": "../outside", "a": "../secret.txt"})
    folder = os.open(project, os.O_RDONLY)
    try:
        for name in ("link", "a"):
            with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
                os.close(os.open(name, flags, dir_fd=folder))
    finally:
        os.close(folder)


async def test_a_folder_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    """While a folder turns into a link and back, reading and writing never reach where the link leads."""
    project = _layout(tmp_path, {})
    (project / "sub" / "a").write_text("inside", encoding="utf-8")
    before = _outside(tmp_path)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (project / "sub").rename(project / "kept")
            (project / "sub").symlink_to("../outside")
            (project / "sub").unlink()
            (project / "kept").rename(project / "sub")

    swapper = threading.Thread(target=swap)
    swapper.start()
    tools = Toolbox(project, allow_write=True)
    try:
        for old, new in [("inside", "INSIDE"), ("INSIDE", "inside"), (SECRET, "broken")] * 100:
            assert SECRET not in (await call(tools, "read_file", path="sub/a")).text
            await call(tools, "replace_in_file", path="sub/a", old=old, new=new)
    finally:
        stop.set()
        swapper.join()
    assert _outside(tmp_path) == before
