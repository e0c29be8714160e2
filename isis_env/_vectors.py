"""Loops over the cells of a board in vector instructions.

A compiler makes less of them: with 36 cells it cannot fill its vectors evenly and does the rest one by one. Here the
last vector overlaps the one before it. Boards of fewer cells than a vector has lanes are done one by one.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from isis_env._jit import kernel, numba_config

LANES = 8  # 16 would mostly lie across two cache lines, which takes longer

_COMPILED = not numba_config.DISABLE_JIT  # vectors exist in compiled code only


@kernel
def mark(cells, value, out):
    """out (float32) = 1 where `cells` (int8, at least as many) is `value`, else 0."""
    n = len(out)
    if _COMPILED and n >= LANES:
        for first in range(0, n - LANES + 1, LANES):
            _mark(cells, value, out, first)
        _mark(cells, value, out, n - LANES)
    else:
        for cell in range(n):
            out[cell] = 1 if cells[cell] == value else 0


@kernel
def scale(cells, factor, nothing, out):
    """out (float32) = `cells` (int8, at least as many) times `factor`, but 0 where a cell is `nothing`."""
    n = len(out)
    if _COMPILED and n >= LANES:
        for first in range(0, n - LANES + 1, LANES):
            _scale(cells, factor, nothing, out, first)
        _scale(cells, factor, nothing, out, n - LANES)
    else:
        for cell in range(n):
            out[cell] = cells[cell] * factor if cells[cell] != nothing else 0


@intrinsic
def _mark(typingctx, cells, value, out, first):
    """`mark` for the cells `first` to `first + LANES - 1`."""

    def codegen(context, builder, signature, args):
        found = _load(context, builder, signature, args, 0)
        hit = builder.icmp_signed("==", found, _all(builder, args[1]))
        ones = ir.Constant(ir.VectorType(ir.FloatType(), LANES), [1.0] * LANES)
        _store(context, builder, signature, args, builder.select(hit, ones, cgutils.get_null_value(ones.type)))
        return context.get_dummy_value()

    return types.void(cells, types.int8, out, types.intp), codegen


@intrinsic
def _scale(typingctx, cells, factor, nothing, out, first):
    """`scale` for the cells `first` to `first + LANES - 1`."""

    def codegen(context, builder, signature, args):
        found = _load(context, builder, signature, args, 0)
        factors = _all(builder, args[1])
        scaled = builder.fmul(builder.sitofp(found, factors.type), factors)
        hidden = builder.icmp_signed("==", found, _all(builder, args[2]))
        _store(context, builder, signature, args, builder.select(hidden, cgutils.get_null_value(factors.type), scaled))
        return context.get_dummy_value()

    return types.void(cells, types.float32, types.int8, out, types.intp), codegen


def _all(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    """A vector of `LANES` times the same."""
    vector = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    first = builder.insert_element(vector, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _pointer(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, index: int) -> ir.Value:
    """To the element of the array `args[index]` that the last argument names, and the next ones, as a vector."""
    array = context.make_array(signature.args[index])(context, builder, args[index])
    element = builder.gep(array.data, [args[-1]])
    return builder.bitcast(element, ir.VectorType(element.type.pointee, LANES).as_pointer())


def _load(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, index: int) -> ir.Value:
    return builder.load(_pointer(context, builder, signature, args, index), align=1)


def _store(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, vector: ir.Value) -> None:
    builder.store(vector, _pointer(context, builder, signature, args, -2), align=1)
