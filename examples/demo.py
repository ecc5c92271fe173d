"""Learns the example episodes into an empty store, asks it questions, and shows each step. Offline; takes seconds.

`scripts/demo` runs it. `--keep DIRECTORY` leaves the store there, to go on with `agenthood --dir DIRECTORY`.
"""
# ruff: noqa: INP001  a script to run, not a package

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import agenthood

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from agenthood import EvalResult, Hood, Recall, RecalledLesson, Receipt
    from agenthood.config import Settings

EPISODES = Path(__file__).parent / "episodes.jsonl"
WIDEST = 118

QUESTIONS = (
    ("reworded", "the login test fails now and then"),
    ("what failed", "is it safe to deploy on Friday afternoon?"),
    ("English, finds two languages", "migrating the database without a backup"),
    ("English, finds Chinese", "payment charged twice after double click"),
    ("Malay, finds English", "ujian log masuk kadang-kadang gagal"),
    ("Malay", "bolehkah kita simpan kata laluan tanpa hash dahulu"),
    ("Chinese", "审查太大的合并请求"),
    ("a symptom, finds the cause", "the order list page takes seconds to load"),
    ("a near miss", "invoices have wrong totals"),
    ("nothing to do with it", "book a table for dinner"),
)
NEXT_STEPS = """\
    .venv/bin/agenthood --dir /tmp/shop learn examples/episodes.jsonl
    .venv/bin/agenthood --dir /tmp/shop recall "login test fails now and then"
"""
NEXT_TASK = "convert prices and show them in the cart"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(description="Show agenthood at work on example episodes.")
    parser.add_argument("--keep", metavar="DIRECTORY", type=Path, help="keep the store in this directory")
    keep: Path | None = parser.parse_args(arguments).keep
    os.environ.setdefault("LANCEDB_LOG", "error")
    if keep is not None and keep.exists():
        print(f"{str(keep)!r} exists: name a directory that does not", file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as folder:
        show(_console(), keep or Path(folder) / ".agenthood")
    return 0


def show(console: Console, path: Path) -> None:
    """Take a store at `path` through learning, recalling, prompting and forgetting."""
    started = time.perf_counter()
    episodes = read_episodes()
    console.print(f"\n[bold]agenthood {agenthood.__version__}[/bold]: a new store, no key, no network.")
    # These settings, whatever the environment of the caller says.
    with agenthood.open(path, settings=_defaults()) as hood:
        learn(console, hood, episodes)
        recall(console, hood)
        prompt(console, hood)
        forget(console, hood)
    console.print(f"\nDone in {time.perf_counter() - started:.1f} s. To go on by hand:\n")
    console.print(NEXT_STEPS, markup=False, soft_wrap=True)


def read_episodes() -> list[EvalResult]:
    """The example episodes, one JSON object per line, as `agenthood learn FILE` reads them too."""
    rows = [json.loads(line) for line in EPISODES.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["timestamp"] = datetime.fromisoformat(row["timestamp"])
    return [agenthood.EvalResult(**row) for row in rows]


def learn(console: Console, hood: Hood, episodes: list[EvalResult]) -> None:
    """Learn all episodes at once, and show what became of those that were not simply stored."""
    _heading(console, f"1. Learn {len(episodes)} scored episodes in English, Malay and Chinese")
    started = time.perf_counter()
    receipts = hood.learn_many(episodes)
    seconds = time.perf_counter() - started
    counts = Counter(receipt.status for receipt in receipts)
    console.print(
        f"{counts['stored']} became lessons, {counts['merged']} said what a lesson said already, "
        f"{counts['skipped']} went neither well nor badly. ({seconds:.1f} s, loading the model included)\n"
    )
    console.print(_told(episodes, receipts))


def _told(episodes: list[EvalResult], receipts: list[Receipt]) -> Table:
    table = _table("receipt", "score", "evidence", "like", "episode")
    for episode, receipt in zip(episodes, receipts, strict=True):
        if receipt.status == "stored":
            continue
        table.add_row(
            receipt.status,
            _number(receipt.score),
            _number(receipt.evidence),
            _number(receipt.similarity),
            episode.episode,
        )
    return table


def recall(console: Console, hood: Hood) -> None:
    """Ask the questions."""
    from rich.markup import escape  # noqa: PLC0415

    _heading(console, "2. Recall by meaning")
    table = _table("asked", "like", "evidence", "", "lesson found")
    for label, question in QUESTIONS:
        asked = f"{escape(question)}\n[dim]{label}[/dim]"
        found = hood.recall(question, limit=2)
        for position, lesson in enumerate(found):
            like, evidence = _number(lesson.similarity), str(lesson.evidence)
            table.add_row("" if position else asked, like, evidence, _mark(lesson.kind), escape(lesson.text))
        if not found:
            table.add_row(asked, "", "", "", _nothing(found))
        table.add_section()
    console.print(table)


def _nothing(found: Recall) -> str:
    if found.nearest_miss is None:
        return "[dim]nothing[/dim]"
    return f"[dim]nothing from {found.threshold:.2f} up; the nearest reaches {found.nearest_miss:.3f}[/dim]"


def prompt(console: Console, hood: Hood) -> None:
    """Show what the next agent reads."""
    _heading(console, "3. What the next agent's prompt gets")
    console.print(f"Its task: [italic]{NEXT_TASK}[/italic]\n")
    block = hood.recall(NEXT_TASK).to_prompt()
    console.print(block, markup=False, soft_wrap=True)


def forget(console: Console, hood: Hood) -> None:
    """Forget one lesson for good."""
    _heading(console, "4. Forget")
    question = "may the API key be committed"
    lesson = hood.recall(question, limit=1)[0]
    console.print(f"found:        {_marked(lesson)}")
    gone = hood.forget(lesson.id, episodes=True)
    again = hood.recall(question, limit=1)
    console.print(
        f"forgotten:    {len(gone.lessons)} lesson, {len(gone.episodes)} episode, also in old versions on disk"
    )
    console.print(f"asked again:  {_nothing(again) if not again else _marked(again[0])}")
    counts = hood.status().lessons
    console.print(
        f"left:         {counts['learned']} lessons on what works, {counts['antipattern']} on what fails"
    )


def _defaults() -> Settings:
    from agenthood.config import Settings  # noqa: PLC0415
    from agenthood.embedding.settings import EmbedderSettings  # noqa: PLC0415

    return Settings(EmbedderSettings())


def _console() -> Console:
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    if not console.is_terminal:
        return Console(highlight=False, width=WIDEST)
    return Console(highlight=False, width=min(console.width, WIDEST))


def _heading(console: Console, text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/bold cyan]")


def _table(*columns: str) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        number = name in ("score", "evidence", "like")
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _mark(kind: str) -> str:
    return "[green]worked[/green]" if kind == "learned" else "[red]failed[/red]"


def _marked(lesson: RecalledLesson) -> str:
    from rich.markup import escape  # noqa: PLC0415

    return f"{_mark(lesson.kind)}  {escape(lesson.text)}"


if __name__ == "__main__":
    sys.exit(main())
