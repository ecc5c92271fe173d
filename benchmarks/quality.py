"""Measures agenthood on real texts and prints what README.md quotes, as Markdown. See benchmarks/README.md.

.venv/bin/python benchmarks/quality.py              everything
.venv/bin/python benchmarks/quality.py merging      one part
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import changelog
import common
import half
import languages
import merging

PARTS = {"changelog": changelog, "half": half, "merging": merging, "languages": languages}


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
    print(common.machine(), flush=True)
    for name in options.parts or PARTS:
        started = time.perf_counter()
        result = PARTS[name].run(folder, options.limit)
        print(f"\n### {PARTS[name].TITLE}\n\n{PARTS[name].NOTE}\n\n{result}", flush=True)
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
