"""The benchmark still runs, on a handful of pairs; its numbers are for people to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "benchmarks" / "quality.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmark program."""
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
        env=os.environ | {"PYTHONUTF8": "1"},
    )


@pytest.mark.parametrize("part", ["half", "merging", "languages"])
def test_each_part_prints_a_table(part: str, shared: Path) -> None:
    """On a few pairs every part ends with a table whose rows are as wide as its heading."""
    result = run(part, "--limit", "8", "--data", str(shared / "data"))
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if line.startswith("|")]
    assert len(lines) >= 4
    assert len({line.count("|") for line in lines}) == 1


def test_an_unknown_part_is_named() -> None:
    """A misspelt part is refused with the ones there are."""
    result = run("mergin")
    assert result.returncode == 2
    assert "'mergin'" in result.stderr
    assert "merging" in result.stderr


def test_missing_data_are_named(tmp_path: Path) -> None:
    """Without the data it says where it looked and how to name another folder."""
    result = run("merging", "--data", str(tmp_path / "nowhere"))
    assert result.returncode == 1
    assert "nowhere" in result.stderr
    assert "--data" in result.stderr
