"""A program that collects spans and metrics with the real SDK while it uses agenthood; prints them as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

sys.path.insert(0, str(Path(__file__).parent))

import agenthood
from agenthood.config import Settings
from agenthood.embedding.http import HttpEmbedder
from agenthood.embedding.settings import EmbedderSettings
from agenthood.errors import AgenthoodError
from agenthood.records import EvalResult
from agenthood.stores.settings import StoreSettings
from embedding.fake_endpoint import DIMENSION, serve, status

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "fixed the flaky login test by mocking the clock"
SECRET = "sk-hush0123456789abcdefhush0123456789"
NOWHERE = f"postgresql://me:{SECRET}@127.0.0.1:1/memory"

EXPORTER = InMemorySpanExporter()
READER = InMemoryMetricReader()


def settings(**store: Any) -> Settings:
    store = {"backend": "sqlite"} | store
    return Settings(EmbedderSettings(kind="lexical"), store=StoreSettings(**store), deadline=5.0)


def opened(folder: Path, **options: Any) -> agenthood.Hood:
    return agenthood.open(folder / ".agenthood", **{"settings": settings(), "embedder": "lexical"} | options)


def verbs(folder: Path) -> None:
    with opened(folder, tenant="acme", project="shop", agent="agent 7") as hood:
        first = hood.learn(TEXT, score=0.95, member="dev", skill="test")
        hood.learn_many(
            [EvalResult(TEXT, {"score": 0.9}, member="dev", skill="test"), EvalResult("", {"score": 1})]
        )
        hood.recall(text="the login test is flaky")
        hood.pin(first.id)
        hood.pin(first.id)
        hood.forget(first.id, "no such lesson " + SECRET)


def session(folder: Path) -> None:
    tracer = trace.get_tracer("the program's own")
    with opened(folder) as hood:
        hood.learn(TEXT, score=0.95, skill="test")
        EXPORTER.clear()
        with tracer.start_as_current_span("the run"), hood.session(TEXT, skill="test") as run:
            run.score("score", 0.9)
            run.end("it passes")


def embeddings(folder: Path) -> None:
    with serve() as server:
        embedder = HttpEmbedder(
            "m", base_url=server.base_url, api_key=SECRET, dimension=DIMENSION, max_retries=0
        )
        with opened(folder, embedder=embedder) as hood:
            hood.learn(TEXT, score=0.95)
            EXPORTER.clear()
            hood.recall("the login test is flaky")
            server.faults.append(status(400, f"bad key {SECRET}".encode()))
            hood.recall("another question entirely")


def outage(folder: Path) -> None:
    with opened(folder, settings=settings(backend="postgres", url=NOWHERE)) as hood:
        EXPORTER.clear()
        hood.recall(TEXT)
        hood.learn(TEXT, score=1)
        with hood.session(TEXT) as run:
            run.end("it passes")
        FOUND["metrics of the outage"] = measured()


def errors(folder: Path) -> None:
    with opened(folder) as hood:
        for wrong in (lambda: hood.recall(SECRET, kind="good"), lambda: hood.pin(SECRET, 7)):
            with suppress(AgenthoodError):
                wrong()


def content(folder: Path) -> None:
    with opened(folder) as hood:
        hood.learn(f"{TEXT} with {SECRET}", score=0.95)
        hood.recall(f"{TEXT} with {SECRET}")
        with hood.session(TEXT + " again" * 9_000) as run:
            run.score("score", 0.9)


FOUND: dict[str, Any] = {}


def spans() -> list[dict[str, Any]]:
    ids = {one.context.span_id: one.name for one in EXPORTER.get_finished_spans()}
    return [
        {
            "name": one.name,
            "kind": one.kind.name,
            "attributes": dict(one.attributes or {}),
            "parent": ids.get(one.parent.span_id) if one.parent else None,
            "status": one.status.status_code.name,
            "described": one.status.description,
            "events": [event.name for event in one.events],
            "scope": one.instrumentation_scope.name,
        }
        for one in EXPORTER.get_finished_spans()
    ]


def measured() -> dict[str, Any]:
    data = json.loads(READER.get_metrics_data().to_json())
    found = (one for scope in data["resource_metrics"][0]["scope_metrics"] for one in scope["metrics"])
    return {one["name"]: {"unit": one["unit"], "points": one["data"]["data_points"]} for one in found}


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))
    for name in sys.argv[1:]:
        scenario: Callable[[Path], None] = globals()[name]
        EXPORTER.clear()
        with tempfile.TemporaryDirectory() as folder:
            scenario(Path(folder))
        FOUND[name] = spans()
    FOUND["metrics"] = measured()
    sys.stdout.write(json.dumps(FOUND))


main()
