"""OpenTelemetry: a span and a duration for whatever is asked of the memory, what came of it, and none of its text.

Only `opentelemetry-api` is used, and only where the program has loaded it. Without an SDK nothing is measured, and
without the API nothing is even imported. Names are those of the conventions for generative AI; what these have no
name for begins with `agenthood.`. docs/operations.md lists them all.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter as Counted
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from agenthood.telemetry_facts import content_of, content_wanted, place_of

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.trace import Span, Tracer

    from agenthood.opening import OpenStore
    from agenthood.telemetry_facts import Facts

P = ParamSpec("P")
T = TypeVar("T")

SCOPE: Final = "agenthood"
"""The name under which everything is reported, which views and samplers may select by."""
SECONDS: Final = (
    *(0.001, 0.002, 0.005),
    *(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
)
"""The buckets of durations: those that the conventions recommend, and three below for embedded stores."""
_API: Final = "opentelemetry.trace"
_log = logging.getLogger("agenthood")


@dataclass(frozen=True, slots=True)
class _Instruments:
    """What is measured with; they do nothing until the program sets up an SDK, which may be later."""

    tracer: Tracer
    duration: Histogram
    embeddings: Histogram
    receipts: Counter
    degraded: Counter


class _Switch:
    """Whether the program collects what is measured; once it does, it goes on."""

    def __init__(self) -> None:
        self.spans = False
        self._metrics = False

    def __bool__(self) -> bool:
        if _API not in sys.modules:
            return False
        if not self.spans or not self._metrics:
            self._look()
        return self.spans or self._metrics

    def _look(self) -> None:
        (tracers, no_tracers), (meters, no_meters) = _providers()
        self.spans = self.spans or not isinstance(tracers(), no_tracers)
        self._metrics = self._metrics or not isinstance(meters(), no_meters)


_on = _Switch()


@cache
def _providers() -> tuple[tuple[Callable[[], object], type], ...]:
    """For spans and metrics: what gives their provider, and what that is while there is no SDK."""
    from opentelemetry import metrics, trace  # noqa: PLC0415  loaded, or nobody would ask

    kind = type(metrics.get_meter_provider())
    absent = kind if kind.__name__ == "_ProxyMeterProvider" else _Never
    return (trace.get_tracer_provider, trace.ProxyTracerProvider), (metrics.get_meter_provider, absent)


class _Never:
    """What nothing is an instance of."""


@cache
def _instruments() -> _Instruments:
    from opentelemetry import metrics, trace  # noqa: PLC0415

    from agenthood import __version__, telemetry_queue  # noqa: PLC0415

    meter = metrics.get_meter(SCOPE, __version__)

    def seconds(name: str, description: str) -> Histogram:
        return meter.create_histogram(
            name, unit="s", description=description, explicit_bucket_boundaries_advisory=SECONDS
        )

    telemetry_queue.report(meter)
    return _Instruments(
        trace.get_tracer(SCOPE, __version__),
        seconds("gen_ai.client.operation.duration", "Duration of operations on the memory."),
        seconds("gen_ai.client.embeddings.duration", "Duration of requests to an embedding endpoint."),
        meter.create_counter(
            "agenthood.receipts", unit="{receipt}", description="What became of the episodes handed in."
        ),
        meter.create_counter(
            "agenthood.recalls.degraded", unit="{recall}", description="Recalls that may be incomplete."
        ),
    )


def traced(
    operation: str, told: Callable[..., Facts], *, softly: bool = False
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Decorate a coroutine method of an `OpenStore`, or of what has one as `_hood`, as an operation on the memory.

    Args:
        operation: the name of the operation, which is that of its span.
        told: what to tell of an answer, given it and the arguments of the call, the first of which is the object.
        softly: whether an error makes a recall degraded, since the caller catches it.
    """

    def decorate(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(method)
        async def measured(*args: P.args, **options: P.kwargs) -> T:
            if not _on:
                return await method(*args, **options)
            owner: Any = args[0]
            with _Operation(operation, getattr(owner, "_hood", owner), softly=softly) as running:
                answer = await method(*args, **options)
                running.tell(told, answer, *args, **options)
            return answer

        return measured

    return decorate


def embedding(labels: Mapping[str, Any], dimension: int | None) -> AbstractContextManager[object]:
    """A request to an embedding endpoint, for `with`.

    Args:
        labels: the attributes of its span and of its duration; among them `gen_ai.request.model`.
        dimension: of the vectors, if it is known.
    """
    return _Embedding(labels, dimension) if _on else nullcontext()


class _Measured:
    """A block of which a span and a duration are kept."""

    def __init__(self, name: str, kind: str, attributes: Mapping[str, Any]) -> None:
        self._opening = name, kind, attributes
        self.instruments = _instruments()
        self.span: Span | None = None
        self.labels: dict[str, Any] = {}
        self._token: Any = None
        self._started = 0.0

    def __enter__(self) -> Self:
        from opentelemetry import context, trace  # noqa: PLC0415

        self._started = time.perf_counter()
        if _on.spans:
            name, kind, attributes = self._opening
            self.span = self.instruments.tracer.start_span(
                name, kind=trace.SpanKind[kind], attributes=attributes
            )
            self._token = context.attach(trace.set_span_in_context(self.span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.perf_counter() - self._started
        if kind is not None:
            self._failed(kind)
        self._measure(seconds)
        if self.span is not None:
            from opentelemetry import context  # noqa: PLC0415

            context.detach(self._token)
            self.span.end()

    def _failed(self, kind: type[BaseException]) -> None:
        """Say what kind of error it was; its text may hold anything, and is left out."""
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        self.labels["error.type"] = kind.__qualname__
        if self.span is not None:
            self.span.set_attribute("error.type", kind.__qualname__)
            self.span.set_status(StatusCode.ERROR)

    def _measure(self, seconds: float) -> None:
        raise NotImplementedError


class _Embedding(_Measured):
    """A request to an embedding endpoint."""

    def __init__(self, labels: Mapping[str, Any], dimension: int | None) -> None:
        attributes = {**labels, "gen_ai.request.encoding_formats": ("float",)}
        if dimension is not None:
            attributes["gen_ai.embeddings.dimension.count"] = dimension
        super().__init__(f"embeddings {labels['gen_ai.request.model']}", "CLIENT", attributes)
        self.labels = dict(labels)

    def _measure(self, seconds: float) -> None:
        self.instruments.embeddings.record(seconds, self.labels)


class _Operation(_Measured):
    """An operation on the memory."""

    def __init__(self, operation: str, hood: OpenStore, *, softly: bool) -> None:
        place = place_of(hood)
        super().__init__(operation, place.kind, {"gen_ai.operation.name": operation, **place.attributes})
        self._operation = operation
        self._softly = softly
        self._backend = {"agenthood.backend": place.backend}
        self.labels = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": SCOPE,
            **self._backend,
        }

    def tell(self, told: Callable[..., Facts], *call: Any, **options: Any) -> None:  # noqa: ANN401
        """Add what came of it; that this fails must not fail the operation."""
        try:
            self._tell(told(*call, **options))
        except Exception:  # noqa: BLE001
            _log.debug("what came of %s could not be told", self._operation, exc_info=True)

    def _tell(self, facts: Facts) -> None:
        statuses = Counted(receipt.status for receipt in facts.receipts)
        for status, count in statuses.items():
            self.instruments.receipts.add(count, {"agenthood.receipt.status": status, **self._backend})
        if facts.degraded and self._operation == "search_memory":
            self.instruments.degraded.add(1, self._backend)
        if self.span is None or not self.span.is_recording():
            return
        self.span.set_attributes(facts.attributes)
        self.span.set_attributes({f"agenthood.receipts.{status}": n for status, n in statuses.items()})
        if content_wanted():
            self.span.set_attributes(content_of(facts))

    def _failed(self, kind: type[BaseException]) -> None:
        super()._failed(kind)
        if self._softly:
            self.instruments.degraded.add(1, self._backend)
            if self.span is not None:
                self.span.set_attribute("agenthood.degraded", value=True)

    def _measure(self, seconds: float) -> None:
        self.instruments.duration.record(seconds, self.labels)
