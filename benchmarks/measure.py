"""Times, sizes and bars, and how they are written down."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import common
import numpy as np

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Times:
    """How long each of several calls took, in seconds."""

    seconds: Sequence[float]

    @property
    def p50(self) -> float:
        """The median."""
        return float(np.median(self.seconds))

    @property
    def p95(self) -> float:
        """Nineteen in twenty are faster."""
        return float(np.percentile(self.seconds, 95))

    def part(self, start: int | None, stop: int | None) -> Times:
        """Some of them, in order."""
        return Times(self.seconds[start:stop])


async def each(call: Callable[[T], Awaitable[R]], items: Iterable[T]) -> tuple[list[R], Times]:
    """`call` of each item, one after the other: the answers, and how long each took."""
    answers, seconds = [], []
    for item in items:
        started = time.perf_counter()
        answers.append(await call(item))
        seconds.append(time.perf_counter() - started)
    return answers, Times(seconds)


def each_sync(
    call: Callable[[T], R], items: Iterable[T], limit: float = float("inf")
) -> tuple[list[R], Times]:
    """Same as `each` for a plain function; stops after `limit` seconds."""
    answers, seconds = [], []
    end = time.perf_counter() + limit
    for item in items:
        started = time.perf_counter()
        if started > end:
            break
        answers.append(call(item))
        seconds.append(time.perf_counter() - started)
    return answers, Times(seconds)


class Stopwatch:
    """`with Stopwatch() as watch`: `watch.seconds` of wall time afterwards."""

    seconds = 0.0

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.seconds = time.perf_counter() - self._started


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing that must hold.

    Attributes:
        what: in words.
        measured: the figure.
        limit: what it is held against.
        unit: of both.
        least: True if `limit` is the least that is allowed, False if it is the most.
    """

    what: str
    measured: float
    limit: float
    unit: str
    least: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is kept."""
        return self.measured >= self.limit if self.least else self.measured <= self.limit

    def row(self, *, counts: bool = True) -> tuple[str, str, str, str]:
        """Cells of a table; whether the bar is kept is left open where the figure does not count."""
        sign = ">=" if self.least else "<="
        return (
            self.what,
            figure(self.measured, self.unit),
            f"{sign} {figure(self.limit, self.unit)}",
            ("yes" if self.holds else "**no**") if counts else "",
        )


@dataclass(slots=True)
class Result:
    """What a part of the benchmark found.

    Attributes:
        title: of its table.
        heading: of the columns.
        rows: cells.
        bars: what must hold.
        notes: sentences under the table.
        figures: name -> number, for programs; times in seconds, sizes in bytes.
    """

    title: str
    heading: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def markdown(self) -> str:
        """The table with its notes."""
        notes = "".join(f"\n- {note}" for note in self.notes)
        return f"### {self.title}\n\n{common.table(self.heading, self.rows)}\n{notes}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Result:
        """The result that `as_json` gave."""
        return cls(**{**values, "bars": [Bar(**bar) for bar in values["bars"]]})


BARS = ("what must hold", "measured", "bar", "kept")


def figure(value: float, unit: str) -> str:
    """A number with its unit, in as many digits as say something."""
    return f"{number(value)}{'' if unit in {'', 'x'} else ' '}{unit}"


def number(value: float) -> str:
    """A number in three digits, with thousands separated."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def ms(seconds: float) -> str:
    """Seconds in milliseconds."""
    return number(1_000 * seconds)


def ratio(value: float) -> str:
    """How many times, such as `3.4x`."""
    return f"{number(value)}x"


def size(count: float) -> str:
    """Bytes in MB."""
    return f"{count / 1e6:,.0f} MB" if count >= 1e7 else f"{count / 1e6:.2g} MB"


def folder_size(folder: Path) -> int:
    """Bytes in the files below `folder`; those that vanish meanwhile count as none."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def peak_memory() -> int:
    """The most memory this process ever had resident, in bytes; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says a new process inherits from the one that started it
        lines = status.read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    try:
        import resource  # noqa: PLC0415
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def progress(text: str) -> None:
    """Say on standard error what is going on."""
    print(text, file=sys.stderr, flush=True)
