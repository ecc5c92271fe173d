"""The synchronous front door: the same answers from any thread, and a clear word once it is closed."""

from __future__ import annotations

import asyncio
import inspect
import io
import pydoc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import agenthood
from agenthood.engine import AsyncHood
from agenthood.errors import EmbeddingSpaceError, InvalidInputError
from agenthood.sync import Hood
from hoods import bad, good, small

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "fixed the flaky login test by mocking the clock"
# What only makes sense with an event loop.
ONLY_ASYNC = {"start"}


def _methods(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def test_both_front_doors_have_the_same_methods() -> None:
    """Every public method of the asynchronous one is there, with the same parameters and defaults."""
    asynchronous, synchronous = _methods(AsyncHood), _methods(Hood)
    assert set(asynchronous) - ONLY_ASYNC == set(synchronous)
    for name, signature in synchronous.items():
        assert signature.parameters == asynchronous[name].parameters, name


def test_help_describes_every_method() -> None:
    """`help(agenthood.Hood)` says what `help(agenthood.AsyncHood)` says, without sending anybody there."""
    for name in set(_methods(Hood)) - {"close"}:
        assert getattr(Hood, name).__doc__ == getattr(AsyncHood, name).__doc__, name
    assert "on_progress: called with" in pydoc.render_doc(agenthood.Hood.learn_many)
    assert "Release the store" in (Hood.close.__doc__ or "")


def test_one_episode_is_no_list_of_many(tmp_path: Path) -> None:
    """It is refused as by the asynchronous door."""
    with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as hood:
        for wrong in (good(TEXT), TEXT, None):
            with pytest.raises(InvalidInputError, match="give a list of EvalResult"):
                hood.learn_many(wrong)  # type: ignore[arg-type]


def test_both_ways_to_open_have_the_same_options() -> None:
    """`open` and `open_async` differ in nothing but their result."""
    assert inspect.signature(agenthood.open).parameters == inspect.signature(agenthood.open_async).parameters


def test_everything_works_without_an_event_loop(tmp_path: Path) -> None:
    """Learn, recall, look, move, forget: one pass through every method."""
    with agenthood.open(tmp_path / ".agenthood", embedder=small()) as hood:
        assert hood.path == tmp_path / ".agenthood"
        assert hood.migration is not None
        receipt = hood.learn(TEXT, score=0.95, member="dev", skill="test")
        assert [one.status for one in hood.learn_many(iter([good(TEXT), bad(TEXT)]))] == ["merged", "stored"]
        assert [one.kind for one in hood.recall(TEXT, limit=3)] == ["learned", "antipattern"]
        assert len(hood.lessons(kind="learned")) == 1
        assert hood.status().lessons == {"learned": 1, "antipattern": 1}
        assert hood.health().ok
        assert hood.migrate().complete
        assert hood.maintain().collections
        file = io.StringIO()
        assert hood.export(file) == 5
        assert hood.import_(file.getvalue().splitlines()).skipped == 5
        assert hood.forget(receipt.id or "", episodes=True).lessons == (receipt.id,)


def test_any_thread_may_call(tmp_path: Path) -> None:
    """Many threads on one store lose nothing."""
    with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as hood:
        with ThreadPoolExecutor(8) as pool:
            receipts = list(
                pool.map(lambda n: hood.learn(TEXT, score=0.9) if n % 2 else hood.recall(TEXT), range(16))
            )
        assert len(receipts) == 16
        assert [lesson.evidence for lesson in hood.lessons()] == [8]


async def test_it_may_be_used_beside_a_running_loop(tmp_path: Path) -> None:
    """From a worker thread of an asynchronous program; its loop is another one."""

    def work() -> int:
        with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as hood:
            hood.learn(TEXT, score=0.9)
            return len(hood.recall(TEXT))

    assert await asyncio.to_thread(work) == 1


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Every call afterwards is a clear error; closing twice is fine; it can be opened again."""
    hood = agenthood.open(tmp_path / ".agenthood", embedder="lexical")
    hood.learn(TEXT, score=0.9)
    hood.close()
    hood.close()
    calls: list[tuple[Any, ...]] = [
        (hood.learn, TEXT),
        (hood.recall, TEXT),
        (hood.lessons,),
        (hood.status,),
        (hood.forget, "x"),
    ]
    for method, *arguments in calls:
        with pytest.raises(RuntimeError, match=r"closed: open it again with agenthood\.open"):
            method(*arguments)
    with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as again:
        assert len(again.lessons()) == 1


def test_errors_keep_their_kind(tmp_path: Path) -> None:
    """What the asynchronous side raises arrives as it is, also from opening, and leaves no thread behind."""
    with agenthood.open(tmp_path / ".agenthood", embedder=small()) as hood:
        hood.learn(TEXT, score=0.9)
        with pytest.raises(InvalidInputError):
            hood.recall("")
    with pytest.raises(EmbeddingSpaceError):
        agenthood.open(tmp_path / ".agenthood", embedder=small(salt="other"))
    with agenthood.open(tmp_path / ".agenthood", embedder=small()) as hood:
        assert len(hood.recall(TEXT)) == 1


NEVER_CLOSED = """
import sys, threading, agenthood
hood = agenthood.open(sys.argv[1], embedder="lexical")
print(hood.learn("fixed the login", score=0.9).status, flush=True)
raise ValueError("the script died")
"""


def test_a_process_that_never_closes_ends(tmp_path: Path) -> None:
    """Also after an error, with what it learned stored, and with its own exit code and traceback only."""
    run = subprocess.run(
        [sys.executable, "-c", NEVER_CLOSED, str(tmp_path / ".agenthood")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, "stored\n")
    assert run.stderr.rstrip().endswith("ValueError: the script died")
    assert run.stderr.count("Traceback") == 1
    with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as hood:
        assert len(hood.lessons()) == 1


def test_a_store_that_is_dropped_leaves_no_thread(tmp_path: Path) -> None:
    """As a store that is closed leaves none."""
    before = threading.active_count()
    hood = agenthood.open(tmp_path / ".agenthood", embedder="lexical")
    (thread,) = (one for one in threading.enumerate() if one.name == "agenthood")
    del hood
    thread.join(5)
    assert not thread.is_alive()
    assert threading.active_count() <= before + 1  # LanceDB keeps one


def test_closing_waits_for_the_calls_of_other_threads(tmp_path: Path) -> None:
    """What they asked for is done, and they get their answer."""
    hood = agenthood.open(tmp_path / ".agenthood", embedder="lexical")
    with ThreadPoolExecutor(1) as pool:
        many = pool.submit(hood.learn_many, [good(f"word{n} note{n * 7919}") for n in range(300)])
        time.sleep(0.05)
        hood.close()
        assert {receipt.status for receipt in many.result(10)} <= {"stored", "merged"}


def test_a_callback_cannot_wait_for_its_own_store(tmp_path: Path) -> None:
    """It is told so instead of waiting for ever."""
    with agenthood.open(tmp_path / ".agenthood", embedder="lexical") as hood:

        def look(_done: int, _total: int) -> None:
            hood.status()

        with pytest.raises(RuntimeError, match="call it afterwards"):
            hood.learn_many([good(TEXT)], on_progress=look)
