"""Matrix products in one BLAS thread.

BLAS takes every core, and its threads wait for each other spinning. Beside others that want a core, such as the threads
in which LanceDB writes, one slow thread holds up all: on two busy cores learning took up to twice as long with two
threads as with one. How many there are is a setting of the process, so whoever changes it has to be the only one: of
two at once the later one restores what the other had set, also with threadpoolctl 3.8, which lets only one of them set
it.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt
    from threadpoolctl import ThreadpoolController

_setting = threading.Lock()


def _forget() -> None:
    global _setting  # noqa: PLW0603  a forked child has no copy of the thread that may hold it
    _setting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextmanager
def alone() -> Iterator[None]:
    """Wait until nobody else of this package changes the setting, and keep others from it: for what does so itself."""
    with _setting:
        yield


def products(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The product of each row of one matrix with each of another, in one thread, without waiting for anybody.

    Args:
        first: (n, d).
        second: (m, d).

    Returns:
        float32 (n, m).
    """
    if not _setting.acquire(blocking=False):  # whoever has it sets it to one thread
        return first @ second.T
    try:
        with _libraries().limit(limits=1):
            return first @ second.T
    finally:
        _setting.release()


@cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  looks through the libraries that are loaded

    return ThreadpoolController().select(user_api="blas")
