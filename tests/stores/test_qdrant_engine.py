"""Qdrant's own engine under the store: filters, conditional writes, tenants and quantization as a server has them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("qdrant_engine_worker.py")


def found(command: str) -> dict[str, Any]:
    """What a worker found out; a process of its own, since the engine holds the GIL."""
    done = subprocess.run(
        [sys.executable, str(WORKER), command],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_filters_mean_there_what_they_mean_here():
    """For random records and filters every reader gives what `filters.matches` says, over real indices."""
    answer = found("filters")
    assert answer["wrong"] == []
    assert answer["asked"] > 100
    assert answer["found"] > 300, "the filters match hardly anything: they would prove nothing"


def test_a_lease_is_taken_by_a_conditional_write():
    """One holder at a time, and a dead holder's lease is had once it ran out, not before; nothing is left."""
    answer = found("lease")
    assert answer["most"] == 1
    assert 0.6 <= answer["waited"] < 5
    assert answer["left"] is None


def test_a_tenant_is_found_among_fifty_thousand():
    """With int8 and exact distances a tenant's search finds what brute force does, and nothing of the others'."""
    answer = found("recall")
    assert answer["indexed"] >= 50_000, "the optimizer did not run: this would be a plain scan"
    assert answer["is_tenant"] is True
    for tenant, rows in (("one percent", 500), ("large", 9_000)):
        assert answer[tenant]["rows"] >= rows
        assert answer[tenant]["recall"] >= 0.95, answer
        assert answer[tenant]["foreign"] == 0
    assert answer["filtered"] == answer["expected"] > 0
    assert answer["without"] == 0
    assert answer["health"] == answer["one percent"]["rows"]
