"""Cells and bits in vectors against plain ones."""

import numpy as np
import pytest

from isis_env.config import BOARDS, MAX_CELLS
from isis_env.kernels.vectors import as_bits, count_bits, mark, nth_bit, scale

CELLS = [board.side**2 for board in BOARDS.values()]
LENGTHS = [1, 7, 8, 9, 10, 15, 16, 17, 31, 32, 36, 37, 63, 64]


@pytest.mark.parametrize("n", CELLS)
def test_planes_are_those_of_a_plain_loop_and_nothing_beside_them_is_written(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        cells = rng.integers(-2, 5, MAX_CELLS).astype(np.int8)
        cells[rng.random(MAX_CELLS) < 0.2] = 127
        for values in ((-1,), (-2, -1, 0, 4), (127, 4, 4)):
            expected = [9, *np.concatenate([cells[:n] == value for value in values]), 9]
            for kind in (np.float32, np.int8):
                out = np.full(len(values) * n + 2, 9, kind)
                mark(cells, values, n, out[1:])
                assert out.tolist() == expected
        out = np.full(n + 2, 9.0, np.float32)
        scale(cells, np.float32(0.25), 127, n, out[1:])
        assert out.tolist() == [9, *np.where(cells == 127, 0, cells / 4)[:n], 9]


@pytest.mark.parametrize("n", LENGTHS)
def test_bits_are_those_that_are_set(n):
    rng = np.random.default_rng(n)
    for share in (0, 0.1, 0.5, 1):
        mask = (rng.random(n) < share).astype(np.int8)
        bits = as_bits(mask)
        places = np.flatnonzero(mask).tolist()
        assert int(bits) == sum(1 << place for place in places)
        assert count_bits(np.uint64(bits)) == len(places)
        assert [nth_bit(np.uint64(bits), k) for k in range(len(places))] == places
