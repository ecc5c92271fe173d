"""Signals are reinforced, weaken, fade, and survive other processes and damaged files."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import assume, given
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError, StoreUnavailableError
from agenthood.memory.residual import ResidualMemory, Signal

if TYPE_CHECKING:
    from collections.abc import Callable

START = datetime(2026, 11, 30, tzinfo=UTC)


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """The time it was set to."""
        return self.now

    def pass_days(self, days: float) -> None:
        """Move on."""
        self.now += timedelta(days=days)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "residual.json"


@pytest.fixture
def memory(path: Path, clock: Clock) -> ResidualMemory:
    return ResidualMemory(path, clock=clock)


def test_scores_add_up_to_at_most_one(memory: ResidualMemory) -> None:
    """Positive scores reinforce, negative ones weaken, 1 is the ceiling."""
    assert memory.record("a", 0.4) == pytest.approx(0.4)
    assert memory.record("a", 0.3) == pytest.approx(0.7)
    assert memory.record("a", 0.9) == 1
    assert memory.record("a", -0.25) == pytest.approx(0.75)
    assert memory.get_active() == [Signal("a", pytest.approx(0.75))]


@pytest.mark.parametrize(("first", "second"), [(0.3, -0.2), (0.4, -0.3), (0.5, -1), (0.1, 0), (-0.5, 0)])
def test_a_signal_at_the_prune_line_is_dropped(memory: ResidualMemory, first: float, second: float) -> None:
    """A weight of 0.1 or less is no signal."""
    memory.record("a", first)
    assert memory.record("a", second) == 0
    assert memory.get_active() == []


def test_signals_fade_by_a_tenth_a_day(memory: ResidualMemory, clock: Clock) -> None:
    """A weight is multiplied by 0.9 per day, fractions of days included, from its last reinforcement."""
    memory.record("a", 0.8)
    clock.pass_days(1.5)
    assert memory.get_active()[0].weight == pytest.approx(0.8 * 0.9**1.5)
    memory.record("a", 0.1)
    clock.pass_days(1)
    assert memory.get_active()[0].weight == pytest.approx((0.8 * 0.9**1.5 + 0.1) * 0.9)


def test_decay_prunes_and_never_counts_twice(memory: ResidualMemory, clock: Clock, path: Path) -> None:
    """However often decay is called, the weights are those of the elapsed time; what faded is removed."""
    memory.record_many([("strong", 1.0), ("weak", 0.15)])
    for _ in range(8):
        clock.pass_days(0.5)
        memory.decay()
        memory.decay()
    assert memory.get_active() == [Signal("strong", pytest.approx(0.9**4))]
    assert b"weak" not in path.read_bytes()
    assert memory.decay() == 0
    assert memory.decay(clock.now + timedelta(days=100)) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(0, 0.3), st.floats(0, 3), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_when_decay_runs_makes_no_difference(events: list[tuple[str, float, float, bool]]) -> None:
    """The same records with and without calls of decay between them end the same."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        decayed, plain = (ResidualMemory(Path(folder) / name, clock=clock) for name in ("x", "y"))
        for signal, score, days, decay in events:
            clock.pass_days(days)
            if decay:
                decayed.decay()
            decayed.record(signal, score)
            plain.record(signal, score)
        assert decayed.get_active() == plain.get_active()


@given(st.floats(0.2, 0.4), st.floats(0.2, 0.4), st.floats(0, 3))
def test_the_order_of_arrival_makes_no_difference(first: float, second: float, days: float) -> None:
    """A record that comes in late counts as if it had come in time."""
    assume(first * 0.9**days > 0.11)
    late = START + timedelta(days=days)
    with tempfile.TemporaryDirectory() as folder:
        ordered, swapped = (ResidualMemory(Path(folder) / name, clock=lambda: late) for name in ("x", "y"))
        ordered.record("a", first, at=START)
        ordered.record("a", second, at=late)
        swapped.record("a", second, at=late)
        swapped.record("a", first, at=START)
        expected = first * 0.9**days + second
        assert ordered.get_active()[0].weight == pytest.approx(expected)
        assert swapped.get_active()[0].weight == pytest.approx(expected)


def test_strongest_first_ties_by_text(memory: ResidualMemory) -> None:
    """The order is fixed, and a limit cuts it."""
    memory.record_many([("b", 0.5), ("a", 0.5), ("c", 0.9)])
    assert [signal.text for signal in memory.get_active()] == ["c", "a", "b"]
    assert [signal.text for signal in memory.get_active(limit=2)] == ["c", "a"]
    assert memory.get_active(limit=0) == memory.get_active(limit=-1) == []


def test_a_thousand_strongest_are_kept(memory: ResidualMemory) -> None:
    """The file is bounded; the weakest go."""
    memory.record_many((f"s{n:04}", 0.2 + n / 2_000) for n in range(1_200))
    kept = memory.get_active()
    assert [kept[0].text, kept[-1].text, len(kept)] == ["s1199", "s0200", 1_000]


def test_what_is_dated_later_counts_as_it_is_now(memory: ResidualMemory, clock: Clock) -> None:
    """A thousand weak signals dated a year ahead do not push out a strong one of today."""
    later = clock() + timedelta(days=400)
    memory.record_many([(f"weak {number}", 0.2) for number in range(1_000)], at=later)
    memory.record("strong", 1.0)
    active = memory.get_active()
    assert (active[0].text, len(active)) == ("strong", 1_000)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1.01, -1.01, True, "0.5", None])
def test_other_scores_are_refused(memory: ResidualMemory, path: Path, score: float) -> None:
    """A score that is no finite number in [-1, 1] is refused, and with it the whole batch."""
    with pytest.raises(InvalidInputError, match="from -1 to 1"):
        memory.record_many([("good", 0.5), ("bad", score)])
    assert not path.exists()


@pytest.mark.parametrize("signal", ["", " \n", "a\0b", "\ud800", "x" * 4_001])
def test_other_signals_are_refused(memory: ResidualMemory, signal: str) -> None:
    """Blank, endless or unstorable text is no signal."""
    with pytest.raises(InvalidInputError, match="signal"):
        memory.record(signal, 0.5)


def test_a_time_needs_a_zone(memory: ResidualMemory) -> None:
    """A naive time could be hours off, so it is refused."""
    with pytest.raises(InvalidInputError, match="time zone"):
        memory.record("a", 0.5, at=datetime(2026, 11, 30))  # noqa: DTZ001 - that is the point


def test_secrets_are_not_stored(memory: ResidualMemory, path: Path) -> None:
    """A signal with a key in it is stored, and found again, without the key."""
    key = "gsk_" + "a1B2" * 10
    memory.record(f"use {key}", 0.5)
    assert memory.record(f"use {key}", 0.1) == pytest.approx(0.6)
    assert key not in path.read_text()
    assert memory.forget(f"use {key}") == 1


def test_hints_are_bounded_whole_lines(memory: ResidualMemory) -> None:
    """At most 10 lines, one for each of the strongest signals."""
    memory.record_many((f"signal {n:02}\nsecond\u2028third", 1 - n / 50) for n in range(15))
    lines = memory.to_prompt_hints().splitlines()
    assert lines == [f"- signal {n:02} second third" for n in range(10)]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=300), st.floats(0.2, 1)), max_size=14))
def test_hints_never_exceed_their_room(scored: list[tuple[str, float]]) -> None:
    """10 lines, 500 characters, no line cut, for any signals."""
    scored = [(text, score) for text, score in scored if text.strip() and "\0" not in text]
    with tempfile.TemporaryDirectory() as folder:
        memory = ResidualMemory(Path(folder) / "x", clock=Clock())
        memory.record_many(scored)
        hints = memory.to_prompt_hints()
        assert len(hints) <= 500
        assert len(hints.splitlines()) <= 10
        assert all(line.startswith("- ") for line in hints.splitlines())


def test_a_long_signal_gives_way_to_shorter_ones(memory: ResidualMemory) -> None:
    """A signal that does not fit is left out whole, and does not silence the others."""
    memory.record_many([("x" * 600, 1.0), ("short", 0.5)])
    assert memory.to_prompt_hints() == "- short"


def test_no_signals_no_hints(memory: ResidualMemory, path: Path) -> None:
    """Looking at an empty memory makes no file."""
    assert memory.to_prompt_hints() == ""
    assert memory.decay() == 0
    assert memory.forget("a") == 0
    assert memory.record_many([]) == {}
    assert not path.parent.exists()


def test_forget_by_text_or_by_rule(memory: ResidualMemory) -> None:
    """A text removes one signal, a rule all that it fits."""
    memory.record_many([("keep", 0.5), ("drop me", 0.5), ("drop too", 0.5), ("one", 0.5)])
    assert memory.forget("one") == 1
    assert memory.forget("absent") == 0
    assert memory.forget(lambda text: text.startswith("drop")) == 2
    assert memory.get_active() == [Signal("keep", 0.5)]


def test_many_are_forgotten_at_once(memory: ResidualMemory) -> None:
    """A collection of texts, of which some need not be there."""
    memory.record_many([("keep", 0.5), ("one", 0.5), ("two", 0.5)])
    assert memory.forget({"one", "two", "absent"}) == 2
    assert memory.forget([]) == 0
    assert memory.get_active() == [Signal("keep", 0.5)]


def test_a_wait_for_the_lock_is_as_short_as_wanted(memory: ResidualMemory, path: Path) -> None:
    """Every change takes a timeout; another holder keeps it waiting no longer."""
    memory.record("keep", 0.5)
    changes: list[Callable[[], object]] = [
        lambda: memory.record_many([("a", 0.5)], timeout=0.05),
        lambda: memory.forget("a", timeout=0.05),
        lambda: memory.decay(timeout=0.05),
    ]
    with FileLock(f"{path}.lock"):
        for change in changes:
            start = time.monotonic()
            with pytest.raises(StoreUnavailableError, match=r"0\.05 s"):
                change()
            assert time.monotonic() - start < 2
    assert memory.get_active() == [Signal("keep", 0.5)]


def test_forgotten_means_gone_from_the_disk(memory: ResidualMemory, path: Path) -> None:
    """A search of the folder finds nothing, not even in damaged or half-written files."""
    text = 'caf\u00e9 "secret plan"'
    memory.record(text, 0.5)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    memory.record(text, 0.5)
    path.with_name("residual.json.0123456789ab.tmp").write_bytes(whole)
    path.with_name("residual.json.corrupt-7").write_bytes(b"another's")
    assert memory.forget(text) == 1
    assert not [entry for entry in path.parent.iterdir() if b"secret plan" in entry.read_bytes()]
    assert path.with_name("residual.json.corrupt-7").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\xfa",
        b"[]",
        b"null",
        b'{"version": 2, "signals": {}}',
        b'{"version": 1, "signals": []}',
        b'{"version": 1, "signals": {"a": 0.5}}',
        b'{"version": 1, "signals": {"a": {"weight": NaN, "at": "2026-11-30T00:00:00Z"}}}',
        b'{"version": 1, "signals": {"a": {"weight": 7, "at": "2026-11-30T00:00:00Z"}}}',
        b'{"version": 1, "signals": {"a": {"weight": "x", "at": "2026-11-30T00:00:00Z"}}}',
        b'{"version": 1, "signals": {"a": {"weight": 0.5, "at": "yesterday"}}}',
        b'{"version": 1, "signals": {"a": {"weight": 0.5, "at": "2026-11-30T00:00:00"}}}',
        b'{"version": 1, "signals": {"a": {"weight": 1' + b"0" * 400 + b', "at": "2026-11-30T00:00:00Z"}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_moved_aside(
    memory: ResidualMemory, path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be read is kept under another name, with a warning, and memory goes on."""
    path.parent.mkdir()
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="agenthood"):
        assert memory.get_active() == []
    assert path.with_name("residual.json.corrupt-1").read_bytes() == content
    assert "residual.json.corrupt-1" in caplog.text
    assert memory.record("a", 0.5) == 0.5
    path.write_bytes(content)
    assert memory.record("b", 0.5) == 0.5
    assert path.with_name("residual.json.corrupt-2").read_bytes() == content


def test_a_file_that_cannot_be_read_is_an_error(memory: ResidualMemory, path: Path) -> None:
    """A folder in the file's place is named, not overwritten."""
    path.mkdir(parents=True)
    with pytest.raises(StoreUnavailableError, match="cannot read"):
        memory.get_active()
    with pytest.raises(StoreUnavailableError, match="cannot read"):
        memory.record("a", 0.5)


def test_the_file_is_plain_json(memory: ResidualMemory, path: Path) -> None:
    """The file can be read by a person and by other programs."""
    memory.record("caf\u00e9", 0.5)
    assert json.loads(path.read_text()) == {
        "version": 1,
        "signals": {"caf\u00e9": {"weight": 0.5, "at": "2026-11-30T00:00:00Z"}},
    }


def test_what_others_write_is_seen(memory: ResidualMemory, path: Path, clock: Clock) -> None:
    """Of two objects on one file each sees what the other wrote, also a file put there by hand or taken away."""
    other = ResidualMemory(path, clock=clock)
    for number in range(4):
        (memory, other)[number % 2].record(f"signal {number}", 0.5)
    assert memory.get_active() == other.get_active()
    assert len(memory.get_active()) == 4
    text = path.read_text()
    path.write_text(text.replace("signal 3", "signal 9"))
    assert "signal 9" in {signal.text for signal in memory.get_active()}
    memory.record("signal 4", 0.5)
    assert {signal.text for signal in other.get_active()} == {f"signal {n}" for n in (0, 1, 2, 4, 9)}
    path.unlink()
    assert memory.get_active() == []
    memory.record("anew", 0.5)
    assert [signal.text for signal in other.get_active()] == ["anew"]


RECORD = """
import sys
from datetime import UTC, datetime
from agenthood.memory.residual import ResidualMemory
memory = ResidualMemory(sys.argv[1], clock=lambda: datetime(2026, 11, 30, tzinfo=UTC))
for n in range(25):
    memory.record("shared", 0.005)
    memory.record(f"own {sys.argv[2]} {n}", 0.5)
"""


def test_processes_recording_at_once_lose_nothing(path: Path, memory: ResidualMemory) -> None:
    """Four processes add to one signal and to their own; every addition is there in the end."""
    memory.record("shared", 0.2)
    writers = [subprocess.Popen([sys.executable, "-c", RECORD, str(path), str(n)]) for n in range(4)]
    assert [writer.wait(timeout=100) for writer in writers] == [0] * 4
    active = {signal.text: signal.weight for signal in memory.get_active()}
    assert len(active) == 101
    assert active["shared"] == pytest.approx(0.2 + 100 * 0.005)
