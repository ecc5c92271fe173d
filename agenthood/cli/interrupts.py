"""Commands that take long: Ctrl-C lets them record how far they came, and nothing that hangs holds up their end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

CLOSING_SECONDS = 5.0
INTERRUPTED = 130


def run_to_its_end(work: Coroutine[Any, Any, int]) -> int:
    """Run `work`; Ctrl-C cancels it, so that it can record itself, and a second Ctrl-C ends the process at once."""
    import asyncio  # noqa: PLC0415  keeps --help light
    import signal  # noqa: PLC0415
    import threading  # noqa: PLC0415

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)

    async def interruptible() -> int:
        if in_main_thread:
            signal.signal(signal.SIGINT, _interrupts())
        return await work

    runner = asyncio.Runner()
    code = INTERRUPTED
    try:
        code = runner.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _close(runner, code)
        if in_main_thread:
            signal.signal(signal.SIGINT, before)
    return code


def _interrupts() -> Callable[..., None]:
    """What to do at Ctrl-C: the first time cancel this task, then wait for nothing any more."""
    import asyncio  # noqa: PLC0415  keeps --help light
    import os  # noqa: PLC0415

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101  for the type checker
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if interrupted or task.done():
            os._exit(INTERRUPTED)
        interrupted = True
        loop.call_soon_threadsafe(task.cancel)

    return interrupt


def _close(runner: asyncio.Runner, code: int) -> None:
    """Close the loop; a worker thread that hangs would hold up the end for ever, so it is not waited for."""
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415
    from threading import Timer  # noqa: PLC0415

    sys.stdout.flush()
    patience = Timer(CLOSING_SECONDS, os._exit, (code,))
    patience.daemon = True
    patience.start()
    try:
        runner.close()
    finally:
        patience.cancel()


@contextmanager
def completed(last_words: Callable[[], str]) -> Iterator[None]:
    """Let the work of a `with` block end before Ctrl-C does: half of a batch would be neither done nor undone.

    A second Ctrl-C ends the process at once.

    Args:
        last_words: what to say then.

    Raises:
        KeyboardInterrupt: after the block, if Ctrl-C was pressed in it.
    """
    import signal  # noqa: PLC0415  keeps --help light
    import threading  # noqa: PLC0415

    before = signal.getsignal(signal.SIGINT)
    # Where Ctrl-C is ignored, as in a shell's background jobs, it stays so; only the main thread can be asked.
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def note(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            _end_at_once(last_words())
        _say("finishing the batch that runs; Ctrl-C again ends at once")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _end_at_once(text: str) -> None:
    import os  # noqa: PLC0415  keeps --help light
    import sys  # noqa: PLC0415

    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h")  # a progress bar hides the cursor
    _say(text)
    os._exit(INTERRUPTED)


def _say(text: str) -> None:
    """Write to standard error from a signal handler, where the stream itself may be in the middle of a write."""
    import os  # noqa: PLC0415  keeps --help light
    import sys  # noqa: PLC0415

    os.write(sys.stderr.fileno(), f"agenthood: {text}\n".encode())
