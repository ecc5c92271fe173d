"""Files that are replaced whole or not at all."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from agenthood.errors import InvalidInputError, StoreUnavailableError
from agenthood.files import locked, sweep_temporaries, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def run(code: str, *arguments: object, shell_before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    if shell_before:
        command = ["unshare", "-m", "sh", "-c", f'{shell_before}; exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_writes_text_and_bytes_and_makes_folders(tmp_path: Path) -> None:
    """A new file appears with its folders, and nothing beside it."""
    target = tmp_path / "a" / "b.json"
    write_atomically(target, "é")
    assert target.read_bytes() == b"\xc3\xa9"
    write_atomically(str(target), b"\0\xff")
    assert target.read_bytes() == b"\0\xff"
    assert names(target.parent) == ["b.json"]


def test_keeps_the_mode_and_honours_the_umask(tmp_path: Path) -> None:
    """A replaced file keeps its mode; a new one gets what the umask leaves."""
    target = tmp_path / "x"
    plain = tmp_path / "plain"
    plain.write_text("")
    write_atomically(target, "1")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    target.chmod(0o640)
    write_atomically(target, "2")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """What a link points to is replaced, not the link."""
    real = tmp_path / "real"
    real.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_lone_surrogates_are_refused(tmp_path: Path) -> None:
    """Text that UTF-8 cannot hold is refused before anything is written."""
    with pytest.raises(InvalidInputError, match="character 1"):
        write_atomically(tmp_path / "x", "a\ud800")
    assert names(tmp_path) == []


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    """What stands in the way is an error that names the path, and leaves no temporary file."""
    target = tmp_path / "x"
    target.mkdir()
    with pytest.raises(StoreUnavailableError, match=r"cannot write .*x'.*; check"):
        write_atomically(target, "1")
    assert names(tmp_path) == ["x"]


WRITE_TOO_MUCH = """
import sys
from agenthood.errors import StoreUnavailableError
from agenthood.files import write_atomically
path = sys.argv[1] + "/file"
write_atomically(path, "old")
{limit}
try:
    write_atomically(path, "x" * 1_000_000)
except StoreUnavailableError as error:
    import os
    print(error, os.listdir(sys.argv[1]), open(path).read(), sep="|")
"""


def test_a_size_limit_leaves_the_old_content(tmp_path: Path) -> None:
    """A write that is stopped half-way leaves the old file and no other."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    result = run(WRITE_TOO_MUCH.format(limit=limit), tmp_path)
    message, listing, content = result.stdout.strip().split("|")
    assert str(tmp_path / "file") in message
    assert "file size limit" in message
    assert (listing, content) == ("['file']", "old")


def test_a_full_disk_leaves_the_old_content(tmp_path: Path) -> None:
    """On a disk that is really full the error says so and the old file is intact."""
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    if not shutil.which("unshare") or run("", shell_before=f"set -e; {mount}").returncode:
        pytest.skip("needs the right to mount a small disk")
    result = run(WRITE_TOO_MUCH.format(limit=""), tmp_path, shell_before=mount)
    message, listing, content = result.stdout.strip().split("|")
    assert "free some disk space" in message
    assert (listing, content) == ("['file']", "old")


def test_leftovers_of_killed_writers_are_swept(tmp_path: Path) -> None:
    """Temporary files of this path go; other files stay."""
    target = tmp_path / "x[1].json"
    write_atomically(target, "1")
    (tmp_path / "x[1].json.0123456789ab.tmp").write_text("half")
    (tmp_path / "y.json.0123456789ab.tmp").write_text("another's")
    assert sweep_temporaries(target) == 1
    assert names(tmp_path) == ["x[1].json", "y.json.0123456789ab.tmp"]


def test_readers_never_see_a_part(tmp_path: Path) -> None:
    """While one thread rewrites the file, every read finds one whole content."""
    target = tmp_path / "x"
    contents = {letter * 50_000 for letter in "ab"}
    write_atomically(target, "a" * 50_000)
    done = threading.Event()

    def write() -> None:
        for n in range(60):
            write_atomically(target, "ab"[n % 2] * 50_000)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert target.read_text() in contents
    writer.join()


def test_the_lock_shuts_out_other_threads(tmp_path: Path) -> None:
    """A second holder waits, and gives up with an error that names the file."""
    target = tmp_path / "new" / "x"
    errors: list[StoreUnavailableError] = []

    def wait() -> None:
        try:
            with locked(target, timeout=0.1):
                pass
        except StoreUnavailableError as error:
            errors.append(error)

    with locked(target):
        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join()
    assert len(errors) == 1
    assert repr(str(target)) in str(errors[0])
    with locked(target, timeout=0.1):
        pass


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    """The lock of a process that dies holding it can be had at once."""
    target = tmp_path / "x"
    code = "import os, sys\nfrom agenthood.files import locked\nwith locked(sys.argv[1]): os._exit(9)"
    assert run(code, target).returncode == 9
    began = time.monotonic()
    with locked(target, timeout=5):
        assert time.monotonic() - began < 2
