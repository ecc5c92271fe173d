"""The benchmarks still run, on a handful of pairs or rows; their numbers are for people to read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


def run(*arguments: str, program: str = "quality.py") -> subprocess.CompletedProcess[str]:
    """Run a benchmark program."""
    command = [sys.executable, str(BENCHMARKS / program), *arguments]
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


@pytest.fixture
def speed(shared: Path, tmp_path: Path):
    """A function: runs the benchmark of speed at its smallest with a file of results; what that file holds."""
    file = tmp_path / "speed.json"

    def measure(*parts: str) -> dict[str, dict]:
        options = ("--scale", "tiny", "--json", str(file), "--data", str(shared / "data"))
        result = run(*parts, *options, program="speed.py")
        assert result.returncode == 0, result.stderr
        return json.loads(file.read_text(encoding="utf-8"))

    return measure


def test_speed_measures_look_ups_against_the_truth(speed) -> None:
    """At any size a look-up finds what brute force finds, and is shown beside raw LanceDB and NumPy."""
    (result,) = speed("lookup-100k")["lookup-100k"]["results"]
    for way in ("find_similar", "query", "selective", "batch"):
        assert result["figures"][f"{way}.recall"] == 1
    assert {"raw.p50", "numpy.p50", "disk", "memory", "fill.rate"} <= result["figures"].keys()
    assert all(value > 0 for name, value in result["figures"].items() if name != "memory")


def test_speed_adds_parts_to_its_file_and_reports_them(speed, tmp_path: Path) -> None:
    """Parts measured in two runs stand in one report, with what must hold and why the figures say little."""
    speed("upserts")
    parts = speed("learn-many", "migrate")
    assert set(parts) == {"upserts", "learn-many", "migrate"}
    assert parts["learn-many"]["results"][0]["figures"]["different"] == 0
    report = run("report", "--json", str(tmp_path / "speed.json"), program="speed.py").stdout
    for expected in ("What must hold", "single upserts", "`learn_many` of", "Migration of", "scale 'tiny'"):
        assert expected in report


def test_speed_names_an_unknown_part() -> None:
    """A misspelt part is refused with the ones there are, and a report needs a file."""
    for arguments, expected in ((("lookup",), "lookup-100k"), (("report",), "--json")):
        result = run(*arguments, program="speed.py")
        assert result.returncode == 2
        assert expected in result.stderr


@pytest.mark.parametrize("system", ["numpy", "raw"])
def test_a_peer_is_fed_and_searched(system: str, tmp_path: Path) -> None:
    """The process for one peer adds every text, and finds for each question what is nearest."""
    texts = [f"text {n}" for n in range(40)]
    vectors = np.random.default_rng(1).standard_normal((40, 512)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.savez(tmp_path / "peers.npz", texts=np.array(texts[:30]), asked=np.array(texts[30:]))
    np.savez(tmp_path / "vectors.npz", texts=np.array(texts), vectors=vectors)
    result = run(system, "given", "30", str(tmp_path), "60", program="peer_process.py")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert (answer["added"], len(answer["search"]), answer["recall"]) == (30, 10, 1.0)


def test_backends_are_measured_alike() -> None:
    """On a few hundred rows the table has a line for each filter, and everything that is near is found."""
    result = run("lancedb", "--sizes", "300", "--queries", "3", "--dimension", "16", program="backends.py")
    assert result.returncode == 0, result.stderr
    lines = [line.split(" | ") for line in result.stdout.splitlines() if line.startswith("| lancedb")]
    assert [line[2] for line in lines] == ["no filter", "kind", "tenant", "tenant, kind"]
    assert {line[5] for line in lines} == {"1.000"}
