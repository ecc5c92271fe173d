"""Run the program in this process, on a store of the test's own."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from agenthood.cli import main
from cli_support import Done, Run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store of this test is to be; nothing is there yet."""
    return tmp_path / ".agenthood"


@pytest.fixture(autouse=True)
def _lexical(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embed by wording alone, which needs no second of loading."""
    monkeypatch.setenv("AGENTHOOD_EMBEDDER", "lexical")


@pytest.fixture
def run(store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function: runs the program on this test's store with these arguments and this standard input."""

    def run_program(*arguments: object, stdin: str | bytes = b"", directory: Path | None = None) -> Done:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            capfd.readouterr()
            code = main(["--dir", str(directory or store), *map(str, arguments)])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return run_program
