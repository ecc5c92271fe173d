"""Commands under a deadline: their output bounded, and all they started ended with them."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

_MARK = "_AGENTHOOD_COMMAND"
_GRACE = 1.0  # seconds for what is left in the pipe once the command has ended
_SWEEPS = 5


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    Attributes:
        status: exit status, negative for a signal; None if it was stopped at the time limit.
        head: the first bytes of its output.
        tail: the last bytes of what came after `head`.
        dropped: how many bytes between the two were not kept.
    """

    status: int | None
    head: bytes
    tail: bytes
    dropped: int


async def run(  # noqa: PLR0913  what a command needs, each by name
    command: str | Sequence[str],
    *,
    cwd: Path,
    seconds: float,
    head: int,
    tail: int,
    environ: Mapping[str, str] = os.environ,
    errors: bool = True,
) -> Finished:
    """Run a command without input; when it ends, is stopped or is cancelled, all it started is killed.

    Args:
        command: a line for the shell, or a program with its arguments, which no shell sees.
        cwd: where it runs.
        seconds: how long it may take.
        head: bytes kept of the beginning of its output.
        tail: bytes kept of the end.
        environ: its environment.
        errors: whether standard error is part of the output; otherwise it is thrown away.

    Raises:
        OSError: the program or `cwd` is not there; a shell tells a missing program by its exit status.
        ValueError: NUL in the command.
    """
    kept = _Kept(head, tail)
    mark = secrets.token_hex(8)
    marked = {**environ, _MARK: f"{environ.get(_MARK, '')}:{mark}"}
    status = None
    async with _pipe(kept) as output:
        with _closing(output):
            process = await _start(command, cwd, marked, output, errors=errors)
        try:
            async with asyncio.timeout(seconds):
                status = await process.wait()
        except TimeoutError:
            pass
        finally:
            _kill(process.pid, mark)
            await process.wait()
        await asyncio.wait([kept.ended], timeout=_GRACE)
    return Finished(status, bytes(kept.head), bytes(kept.tail), kept.dropped)


class _Kept(asyncio.Protocol):
    """Keeps both ends of what comes in."""

    def __init__(self, head: int, tail: int) -> None:
        self.head = bytearray()
        self.tail = bytearray()
        self.dropped = 0
        self.ended = asyncio.get_running_loop().create_future()
        self._limits = head, tail

    def data_received(self, data: bytes) -> None:
        most_head, most_tail = self._limits
        room = most_head - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        surplus = len(self.tail) - most_tail
        if surplus > 0:
            del self.tail[:surplus]
            self.dropped += surplus

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio passes it
        if not self.ended.done():
            self.ended.set_result(None)


@asynccontextmanager
async def _pipe(kept: _Kept) -> AsyncIterator[int]:
    """The end of a pipe to write to, the other end of which goes to `kept`.

    Not asyncio's own pipe: with that a process counts as running while any grandchild holds the pipe open.
    """
    reader, writer = os.pipe()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: kept, os.fdopen(reader, "rb", buffering=0)
    )
    try:
        yield writer
    finally:
        transport.close()


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


async def _start(
    command: str | Sequence[str], cwd: Path, environ: Mapping[str, str], output: int, *, errors: bool
) -> asyncio.subprocess.Process:
    nothing = asyncio.subprocess.DEVNULL
    error_output = output if errors else nothing
    if isinstance(command, str):
        return await asyncio.create_subprocess_shell(
            command,
            cwd=cwd,
            env=environ,
            stdin=nothing,
            stdout=output,
            stderr=error_output,
            start_new_session=True,
        )
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=environ,
        stdin=nothing,
        stdout=output,
        stderr=error_output,
        start_new_session=True,
    )


def _kill(group: int, mark: str) -> None:
    """Kill the process group, then what left the group, which its environment still gives away."""
    with suppress(ProcessLookupError, PermissionError):  # it and all it started have ended
        os.killpg(group, signal.SIGKILL)
    for _ in range(_SWEEPS):  # what it started while being looked for shows up in the next round
        escaped = _marked(mark.encode())
        if not escaped:
            return
        for pid in escaped:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(mark: bytes) -> list[int]:
    """Processes with `mark` in their environment; none where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # another user's, or ended meanwhile
            if mark in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found
