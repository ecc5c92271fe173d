"""Checks that a real store keeps the promises of `stores.base`, in a few seconds and in collections of its own.

Each check writes through one handle and reads through another, as two processes would. What it expects comes from
the definitions (`filters.matches`, the cosine), never from a store.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from agenthood.errors import AgenthoodError
from agenthood.redaction import redact
from agenthood.stores.check_ground import Ground, UnmetError
from agenthood.stores.check_rules import CHECKS
from agenthood.stores.naming import is_leftover, scratch_name

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from agenthood.stores.base import VectorStore

_SECONDS: Final = 60.0
"""No check takes as long unless something hangs."""


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """One thing checked.

    Attributes:
        name: what the store promises.
        ok: whether it kept it.
        found: empty if it did; else what was expected and what was found.
        seconds: how long it took.
    """

    name: str
    ok: bool
    found: str
    seconds: float


async def check_store(open_store: Callable[[], VectorStore]) -> AsyncGenerator[StoreCheck]:
    """Check a store; what the checks make is removed at the end, whatever happens.

    Args:
        open_store: makes a handle of the store; two are used at once.

    Yields:
        The checks in their order. If the store cannot be reached there is only one.
    """
    ground = Ground(open_store(), open_store(), scratch_name())
    reached = False
    try:
        first = await _one("can be reached and written to", ground.reach)
        reached = first.ok
        yield first
        if reached:
            for name, check in CHECKS.items():
                yield await _one(name, partial(check, ground))
            yield await _one("leaves nothing behind", partial(_clean, ground))
    finally:
        try:
            await ground.remove()
        except AgenthoodError:
            if reached:  # else it made nothing
                raise
        finally:
            await ground.close()


async def _clean(ground: Ground) -> None:
    """Remove what these checks made, and what one that was killed left."""
    await ground.remove()
    for name in [one.name for one in await ground.other.collections()]:
        if is_leftover(name):
            await ground.store.drop_collection(name)
    ground.expect("collections left", set(), await ground.left())


async def _one(name: str, check: Callable[[], Awaitable[None]]) -> StoreCheck:
    started = time.perf_counter()
    found = ""
    try:
        async with asyncio.timeout(_SECONDS):
            await check()
    except TimeoutError:
        found = f"expected an answer within {_SECONDS:g} s, found none"
    except (AgenthoodError, UnmetError) as error:
        found = str(error)
    except Exception as error:  # noqa: BLE001  a store with a fault may raise anything
        found = redact(f"expected an answer, found {error!r:.300}")
    return StoreCheck(name, not found, found, time.perf_counter() - started)
