"""Starting and steering `worker.py`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stores.backends import ONE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.backends import Backend

WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """One process of ours on the store of `backend`; it waits for `go`."""

    def __init__(self, backend: Backend, command: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), command, backend.name, str(backend.folder), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def line(self) -> str:
        """The next line it prints; empty at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ready(self) -> None:
        """Wait until it has opened the store."""
        assert self.line() == "ready"

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finished(self) -> list[str]:
        """Wait for its end, which must be a good one; the lines it printed."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().split()
        assert self.process.wait() == 0
        return lines

    def kill(self) -> list[str]:
        """Kill it with signal 9; the lines it had printed."""
        self.process.kill()
        assert self.process.stdout is not None
        lines = self.process.stdout.read().split()
        self.process.wait()
        return lines


@contextmanager
def workers(backend: Backend, *commands: tuple[object, ...]) -> Iterator[list[Worker]]:
    """Start one process per command at the same time; none outlives the block.

    Skips the test where the backend lives in one process.
    """
    if backend.name in ONE_PROCESS:
        pytest.skip(f"the {backend.name} backend of these tests lives in one process")
    started = [Worker(backend, str(command), *arguments) for command, *arguments in commands]
    try:
        for worker in started:
            worker.ready()
        yield started
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()
            for pipe in (worker.process.stdin, worker.process.stdout):
                assert pipe is not None
                pipe.close()
