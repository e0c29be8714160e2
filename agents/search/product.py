"""A matrix product for kernels, whose sums are added up in one order, whatever the machine and the number of threads.

`np.dot` would be as fast, but BLAS libraries order their sums by the size and the number of their own threads.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from isis_env.kernels.jit import kernel, numba_config
from isis_env.kernels.vectors import splat

# The product is worked out in tiles of so many rows by so many columns, whose sums stay in registers. A row of a tile
# is one vector to the compiler: written as a plain loop it would go through memory, which takes twice the time.
ROWS, COLUMNS = 4, 16

_COMPILED = not numba_config.DISABLE_JIT  # tiles exist in compiled code only


@kernel
def product(inputs, weights, bias, out):
    """out = inputs @ weights + bias, added up from the bias on: float32 [n, k], [k, m], [m] and [n, m], C-contiguous.

    `inputs` may have more columns than `weights` has rows; the first are used.
    """
    n, m = out.shape
    tiled = m - m % COLUMNS if _COMPILED else 0
    for column in range(0, tiled, COLUMNS):
        for row in range(0, n - ROWS + 1, ROWS):
            _tile(inputs, weights, bias, out, row, column)
        for row in range(n - n % ROWS, n):
            _tile_of_one_row(inputs, weights, bias, out, row, column)
    for row in range(n):
        for column in range(tiled, m):
            total = bias[column]
            for k in range(len(weights)):
                total += inputs[row, k] * weights[k, column]
            out[row, column] = total


def _make_tile(rows: int) -> Any:
    """An intrinsic that works out `rows` rows by `COLUMNS` columns of `product`, beginning at `row` and `column`."""
    vector = ir.VectorType(ir.FloatType(), COLUMNS)

    def generate(context, builder, signature, arguments):
        kinds, values = signature.args[:4], arguments[:4]
        arrays = [context.make_array(t)(context, builder, a) for t, a in zip(kinds, values, strict=True)]
        inputs, weights, bias, out = (array.data for array in arrays)
        _, stride = cgutils.unpack_tuple(builder, arrays[0].shape)
        depth, width = cgutils.unpack_tuple(builder, arrays[1].shape)
        row, column = arguments[4:]

        def element(base, length, i, j):
            return builder.gep(base, [builder.add(builder.mul(length, i), j)])

        def as_vector(pointer):
            return builder.bitcast(pointer, vector.as_pointer())

        tile = [builder.add(row, ir.Constant(row.type, i)) for i in range(rows)]
        begin = builder.load(as_vector(builder.gep(bias, [column])), align=4)
        totals = [cgutils.alloca_once_value(builder, begin) for _ in tile]
        with cgutils.for_range(builder, depth) as loop:
            weight = builder.load(as_vector(element(weights, width, loop.index, column)), align=4)
            for i, total in zip(tile, totals, strict=True):
                x = builder.load(element(inputs, stride, i, loop.index))
                x = splat(builder, x, COLUMNS)
                builder.store(builder.fadd(builder.load(total), builder.fmul(x, weight)), total)
        for i, total in zip(tile, totals, strict=True):
            builder.store(builder.load(total), as_vector(element(out, width, i, column)), align=4)
        return context.get_dummy_value()

    @intrinsic
    def tile(typing_context, inputs, weights, bias, out, row, column):
        for array, dimensions in ((inputs, 2), (weights, 2), (bias, 1), (out, 2)):
            if array != types.Array(types.float32, dimensions, "C"):
                raise TypingError(f"product: {array} must be float32, C-contiguous, of {dimensions} dimensions")
        return types.void(inputs, weights, bias, out, types.intp, types.intp), generate

    return tile


_tile, _tile_of_one_row = _make_tile(ROWS), _make_tile(1)
