"""Telemetry: what the real SDK collects from a program of its own, that it holds no text, what it costs when off."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agenthood.telemetry import SECONDS, traced
from agenthood.telemetry_facts import changed

pytest.importorskip("opentelemetry.sdk")

PROGRAM = Path(__file__).with_name("telemetry_program.py")
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TEXT = "fixed the flaky login test by mocking the clock"
SCENARIOS = ("verbs", "session", "embeddings", "outage", "errors", "content")

Span = dict[str, Any]


def collected(*scenarios: str, **environment: str) -> dict[str, Any]:
    """What the program collects; no secret is ever in it."""
    done = subprocess.run(
        [sys.executable, PROGRAM, *scenarios],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "hush" not in done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """All scenarios with nothing opted in."""
    return collected(*SCENARIOS)


@pytest.fixture(scope="module")
def opted_in() -> list[Span]:
    """The scenario of texts with the variable set."""
    spans: list[Span] = collected("content", **{CAPTURE: "True"})["content"]
    return spans


def names(spans: list[Span]) -> list[str]:
    return [span["name"] for span in spans]


def points(metrics: dict[str, Any], name: str) -> dict[tuple[Any, ...], Any]:
    """Values of the attributes, by name -> the value of a point, or its count."""
    return {
        tuple(value for _, value in sorted(one["attributes"].items())): one.get("value", one.get("count"))
        for one in metrics[name]["points"]
    }


def test_each_verb_is_one_span_with_the_names_of_the_conventions(found: dict[str, Any]) -> None:
    """Its name is the operation; it says where, whose, how many and which records."""
    spans = found["verbs"]
    operations = [
        "upsert_memory",
        "upsert_memory",
        "search_memory",
        "update_memory",
        "update_memory",
        "delete_memory",
    ]
    assert names(spans) == operations
    for span in spans:
        told = span["attributes"]
        assert told["gen_ai.operation.name"] == span["name"]
        assert told["gen_ai.provider.name"] == span["scope"] == "agenthood"
        assert told["agenthood.backend"] == "sqlite"
        assert told["gen_ai.memory.store.id"].endswith(".agenthood")
        scope = [told[f"agenthood.scope.{name}"] for name in ("tenant", "project", "agent")]
        assert scope == ["acme", "shop", "agent 7"]
        assert (span["kind"], span["status"], "server.address" in told) == ("INTERNAL", "UNSET", False)
    told = [span["attributes"] for span in spans]
    assert [one["gen_ai.memory.record.count"] for one in told] == [1, 1, 1, 1, 0, 1]
    ids = {told[n]["gen_ai.memory.record.id"] for n in (0, 1, 3, 5)}
    assert len(ids) == 1
    assert told[0]["agenthood.receipts.stored"] == 1
    assert told[1]["agenthood.receipts.merged"] == told[1]["agenthood.receipts.rejected"] == 1
    assert told[2]["agenthood.degraded"] is False


def test_a_session_is_two_spans_below_the_run(found: dict[str, Any]) -> None:
    """One for what it looks up and one for what it learns, also over the loop of the synchronous form."""
    spans = found["session"]
    assert [(span["name"], span["parent"]) for span in spans] == [
        ("search_memory", "the run"),
        ("upsert_memory", "the run"),
        ("the run", None),
    ]
    assert spans[1]["attributes"]["agenthood.receipts.merged"] == 1


def test_a_request_to_the_embedding_endpoint_is_a_span_below(found: dict[str, Any]) -> None:
    """It names model and server; a refusal says of what kind it was, not what the server said."""
    good, recall, bad, degraded = found["embeddings"]
    assert good["name"] == "embeddings m"
    assert (good["kind"], good["parent"], good["status"]) == ("CLIENT", "search_memory", "UNSET")
    told = good["attributes"]
    assert told["gen_ai.operation.name"] == "embeddings"
    assert told["gen_ai.provider.name"] == "http"
    assert told["gen_ai.request.model"] == "m"
    assert told["gen_ai.embeddings.dimension.count"] == 32
    assert told["server.address"] == "127.0.0.1"
    assert told["server.port"] > 0
    assert (bad["status"], bad["described"], bad["events"]) == ("ERROR", None, [])
    assert bad["attributes"]["error.type"] == "EmbeddingResponseError"
    assert [one["attributes"]["agenthood.degraded"] for one in (recall, degraded)] == [False, True]
    measured = points(found["metrics"], "gen_ai.client.embeddings.duration")
    assert any("EmbeddingResponseError" in attributes for attributes in measured)


def test_a_server_that_is_down_is_told(found: dict[str, Any]) -> None:
    """Spans are a client's, with host and port; a recall is degraded, learning pending, and both are counted."""
    recall, learn, look_up, *_, record = found["outage"]
    for span in (recall, learn, look_up, record):
        assert span["kind"] == "CLIENT"
        assert span["attributes"]["server.address"] == "127.0.0.1"
        assert span["attributes"]["server.port"] == 1
        assert span["attributes"]["gen_ai.memory.store.id"] == "agenthood"
    assert recall["attributes"]["agenthood.degraded"] is True
    assert learn["attributes"]["agenthood.degraded"] is True
    assert learn["attributes"]["agenthood.receipts.pending"] == 1
    assert look_up["attributes"]["error.type"] == "StoreUnavailableError"
    assert look_up["attributes"]["agenthood.degraded"] is True
    assert record["name"] == "create_memory"
    assert record["attributes"]["gen_ai.memory.record.id"].startswith("ep:")
    measured = found["metrics of the outage"]
    assert points(measured, "agenthood.recalls.degraded")["postgres",] == 2
    assert points(measured, "agenthood.receipts")["postgres", "pending"] == 1
    assert points(measured, "agenthood.queue.episodes") == {("postgres",): 2}
    assert 0 <= points(measured, "agenthood.queue.oldest.age")["postgres",] < 60


def test_an_error_is_told_by_its_kind_alone(found: dict[str, Any]) -> None:
    """The span has failed and says with what; there is neither a description nor an event with its text."""
    assert names(found["errors"]) == ["search_memory", "update_memory"]
    for span in found["errors"]:
        assert span["status"] == "ERROR"
        assert span["attributes"]["error.type"] == "InvalidInputError"
        assert span["described"] is None
        assert span["events"] == []
    failed = points(found["metrics"], "gen_ai.client.operation.duration")
    assert failed["sqlite", "InvalidInputError", "update_memory", "agenthood"] == 1


def test_durations_have_the_buckets_of_the_page(found: dict[str, Any]) -> None:
    """In seconds, one count an operation."""
    metric = found["metrics"]["gen_ai.client.operation.duration"]
    assert metric["unit"] == "s"
    assert all(tuple(point["explicit_bounds"]) == SECONDS for point in metric["points"])
    counts = points(found["metrics"], "gen_ai.client.operation.duration")
    assert counts["sqlite", "delete_memory", "agenthood"] == 1


def test_no_text_is_told_unless_asked_for(found: dict[str, Any]) -> None:
    """Neither what was asked for nor what was found or learned."""
    assert len(found["content"]) == 4
    assert "flaky" not in json.dumps(found)


def test_texts_are_told_on_request_without_secrets(opted_in: list[Span]) -> None:
    """The query and the records, redacted, and cut where they are long."""
    learn, recall, *session = opted_in
    (learned,) = json.loads(learn["attributes"]["gen_ai.memory.records"])
    assert learned["content"].startswith(f"{TEXT} with [redacted:")
    assert recall["attributes"]["gen_ai.memory.query.text"] == learned["content"]
    (record,) = json.loads(recall["attributes"]["gen_ai.memory.records"])
    assert record["content"] == learned["content"]
    assert record["id"] == learn["attributes"]["gen_ai.memory.record.id"]
    assert record["metadata"] == {"kind": "learned"}
    assert 0 < record["score"] <= 1
    for span in session:
        assert "again again" in json.dumps(span)
        assert all(len(str(value)) < 20_000 for value in span["attributes"].values())


class Idle:
    """Something that has a traced verb and nothing to do."""

    @traced("update_memory", changed)
    async def verb(self) -> None:
        """Do nothing."""

    async def plain(self) -> None:
        """Do nothing either."""


async def cost() -> float:
    """Microseconds that tracing adds to a call, by the best of several rounds."""
    idle, rounds = Idle(), []
    for _ in range(12):
        seconds = []
        for call in (idle.plain, idle.verb):
            started = time.perf_counter()
            for _ in range(2_000):
                await call()
            seconds.append(time.perf_counter() - started)
        rounds.append((seconds[1] - seconds[0]) / 2_000 * 1e6)
    return min(rounds)


def test_without_an_sdk_it_is_off_and_costs_next_to_nothing() -> None:
    """With the API loaded but nobody to collect, a call takes at most 10 microseconds longer, and nothing is made."""
    code = (
        "import sys, opentelemetry.trace, asyncio, importlib.util as u\n"
        f"spec = u.spec_from_file_location('t', {str(Path(__file__))!r})\n"
        "t = u.module_from_spec(spec); sys.modules['t'] = t\n"
        "import agenthood.telemetry as a\n"
        "import pytest; pytest.importorskip = lambda name: None\n"
        "spec.loader.exec_module(t)\n"
        "print(asyncio.run(t.cost()), a._instruments.cache_info().currsize, 'opentelemetry.sdk' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    microseconds, made, sdk = done.stdout.split()
    assert float(microseconds) < 10
    assert (made, sdk) == ("0", "False")


def test_without_the_api_nothing_is_imported(tmp_path: Path) -> None:
    """A program that never loads OpenTelemetry uses agenthood without loading it."""
    code = (
        "import sys, agenthood\n"
        f"with agenthood.open({str(tmp_path / '.agenthood')!r}, embedder='lexical') as hood:\n"
        "    hood.learn('fixed it', score=1)\n"
        "    hood.recall('fixed it')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    environment = os.environ | {"AGENTHOOD_VECTOR_BACKEND": "sqlite"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"
    assert asyncio.run(cost()) < 10
