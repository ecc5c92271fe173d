"""What waits to be learned, reported whenever metrics are collected: also where nothing else is asked any more."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from weakref import WeakSet

from agenthood.errors import AgenthoodError
from agenthood.formats import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from agenthood.learning.queue_file import Waiting
    from agenthood.opening import OpenStore
    from agenthood.parts import Parts

_hoods: WeakSet[OpenStore] = WeakSet()
_log = logging.getLogger("agenthood")


def watch(hood: OpenStore) -> None:
    """Report what waits in an open store, until it is closed or gone."""
    _hoods.add(hood)


def report(meter: Meter) -> None:
    """Make the gauges."""
    meter.create_observable_gauge(
        "agenthood.queue.episodes",
        [_episodes],
        unit="{episode}",
        description="Episodes that wait to be learned until the store can take them.",
    )
    meter.create_observable_gauge(
        "agenthood.queue.oldest.age",
        [_age],
        unit="s",
        description="How long the oldest of them has been waiting.",
    )


def _episodes(_: CallbackOptions) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    counts: dict[str, int] = {}
    for backend, waiting in _waiting():
        counts[backend] = counts.get(backend, 0) + len(waiting.entries)
    return [Observation(count, {"agenthood.backend": name}) for name, count in counts.items()]


def _age(_: CallbackOptions) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415

    ages: dict[str, float] = {}
    for backend, waiting in _waiting():
        ages[backend] = max(ages.get(backend, 0.0), _seconds_since(waiting.since))
    return [Observation(age, {"agenthood.backend": name}) for name, age in ages.items()]


def _waiting() -> Iterable[tuple[str, Waiting]]:
    """The backend and the queue of each open store; a file that several have open counts once."""
    layers: dict[Path, Parts] = {}
    for hood in list(_hoods):
        if (parts := hood._parts) is not None:  # noqa: SLF001  None once it is closed
            layers |= {layer.learner.queue.path: layer for layer in parts.layers}
    for layer in layers.values():
        try:
            yield str(layer.settings.store.backend), layer.learner.queue.read()
        except AgenthoodError as exc:
            _log.debug("what waits could not be told: %s", exc)


def _seconds_since(time: str | None) -> float:
    if time is None:
        return 0.0
    try:
        return max(0.0, (datetime.now(UTC) - parse_time(time)).total_seconds())
    except AgenthoodError:
        return 0.0
