"""Matrix products: as NumPy's, and the setting of the process is as it was afterwards."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, ClassVar

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from agenthood.blas import alone, products

RNG = np.random.default_rng(7)
FIRST, SECOND = (RNG.random((rows, 64), dtype=np.float32) for rows in (90, 70))


def threads() -> list[int]:
    """How many each BLAS library of this process may use."""
    return [one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()]


BEFORE = threads()


def test_products_are_those_of_numpy() -> None:
    """Also of no rows at all."""
    np.testing.assert_allclose(products(FIRST, SECOND), FIRST @ SECOND.T, rtol=1e-6)
    assert products(FIRST[:0], SECOND).shape == (0, 70)
    assert products(FIRST, SECOND[:0]).shape == (90, 0)


class Asked(np.ndarray):
    """An array that asks how many threads a product may use."""

    seen: ClassVar[list[int]] = []

    def __matmul__(self, other: Any) -> Any:
        self.seen.extend(threads())
        return super().__matmul__(other)


def test_a_product_has_one_thread() -> None:
    """In every library."""
    products(FIRST.view(Asked), SECOND)
    assert set(Asked.seen) == {1}


@pytest.mark.skipif(os.cpu_count() == 1, reason="BLAS has one thread anyway")
def test_the_setting_is_left_as_it_was() -> None:
    """Also where a product fails."""
    assert BEFORE
    products(FIRST, SECOND)
    assert threads() == BEFORE
    with pytest.raises(ValueError, match="mismatch"):
        products(FIRST, SECOND[:, :3])
    assert threads() == BEFORE


@pytest.mark.skipif(os.cpu_count() == 1, reason="BLAS has one thread anyway")
def test_the_setting_of_another_is_left_alone() -> None:
    """Who changes it while another has would restore what the other had set, for good."""
    begun = threading.Event()
    many = RNG.random((3_000, 256), dtype=np.float32)  # so that it goes on when the other is done

    def multiply() -> None:
        begun.set()
        products(many, many)

    with alone(), ThreadpoolController().select(user_api="blas").limit(limits=1):
        running = threading.Thread(target=multiply)
        running.start()
        begun.wait()
        time.sleep(0.01)
    assert running.is_alive()
    running.join()
    assert threads() == BEFORE


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
