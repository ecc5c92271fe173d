"""Matrix products: as NumPy's, and the setting of the process is as it was afterwards."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from agenthood.blas import alone, products

if TYPE_CHECKING:
    from collections.abc import Iterator

RNG = np.random.default_rng(7)
FIRST, SECOND = (RNG.random((rows, 64), dtype=np.float32) for rows in (90, 70))


def threads() -> list[int]:
    """How many each BLAS library of this process may use."""
    return [one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture(autouse=True)
def several() -> Iterator[None]:
    """A number that is neither one nor what a machine has, so that it is seen whether there are as many again."""
    with ThreadpoolController().select(user_api="blas").limit(limits=3):
        yield


def test_products_are_those_of_numpy() -> None:
    """Also of no rows at all."""
    np.testing.assert_allclose(products(FIRST, SECOND), FIRST @ SECOND.T, rtol=1e-6)
    assert products(FIRST[:0], SECOND).shape == (0, 70)
    assert products(FIRST, SECOND[:0]).shape == (90, 0)


def test_the_setting_is_left_as_it_was() -> None:
    """Also where a product fails."""
    before = threads()
    assert before
    assert set(before) == {3}
    products(FIRST, SECOND)
    assert threads() == before
    with pytest.raises(ValueError, match="mismatch"):
        products(FIRST, SECOND[:, :3])
    assert threads() == before


def test_the_setting_of_another_is_left_alone() -> None:
    """What changes it at the same time would restore what the other had set, for good."""
    many = RNG.random((1_000, 64), dtype=np.float32)  # so that it takes a while
    stop, seen = threading.Event(), set[int]()

    def multiply() -> None:
        while not stop.is_set():
            products(many, many)

    running = threading.Thread(target=multiply)
    with alone(), ThreadpoolController().select(user_api="blas").limit(limits=2):
        running.start()
        for _ in range(100):
            time.sleep(0.001)
            seen.update(threads())
        stop.set()
        running.join()
    assert seen == {2}


def test_a_product_waits_for_nobody() -> None:
    """While the model embeds, which takes long, products go on, under its setting."""
    with alone():
        assert products(FIRST, SECOND).shape == (90, 70)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_not_held_up() -> None:
    """Nobody gives the lock back there if a thread of the parent had it."""
    with alone():
        child = os.fork()
        if not child:
            with alone():
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
