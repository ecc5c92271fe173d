"""Run the program in a fresh process or at a terminal, and hold what it left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Done:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines of standard output, split at tabs."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def facts(self) -> dict[str, str]:
        """Lines of name and value as a mapping."""
        return dict(self.rows)


Run = Callable[..., Done]


def spawn(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start the program in a process of its own; output and errors are pipes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "agenthood", *map(str, arguments)], cwd=ROOT, **(pipes | options)
    )


@contextmanager
def at_terminal(*arguments: object, columns: int = 100) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program at a terminal of its own, and the other end of that terminal."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
    process = spawn(
        *arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_terminal(ours: int, until: str = "") -> str:
    """What the program shows, to its end or until it has shown `until`."""
    shown = b""
    while not until or until.encode() not in shown:
        try:
            data = os.read(ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break  # the program has closed its end
        if not data:
            break
        shown += data
    return shown.decode()
