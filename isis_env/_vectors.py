"""Loops over the cells of a board in vector instructions, and sets of cells as bits.

A compiler makes less of such loops: with 36 cells it cannot fill its vectors evenly and does the rest one by one. Here
the last vector overlaps the one before it. Boards of fewer cells than a vector has lanes are done one by one.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from isis_env._jit import kernel, numba_config

LANES = 8  # 16 floats would mostly lie across two cache lines, which takes longer
BYTES = 16  # lanes where bytes are read and nothing is written

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


@kernel
def as_bits(mask):
    """uint64 whose bit i is set where `mask[i]` (int8, at most 64 entries) is not 0."""
    n = len(mask)
    bits = np.uint64(0)
    if _COMPILED and n >= BYTES:
        for first in range(0, n - BYTES + 1, BYTES):
            bits |= _bits(mask, first) << np.uint64(first)
        bits |= _bits(mask, n - BYTES) << np.uint64(n - BYTES)
    else:
        for index in range(n):
            bits |= np.uint64(mask[index] != 0) << np.uint64(index)
    return bits


@kernel
def count_bits(bits):
    """How many bits of a uint64 are set: sums of pairs, of fours, of eights, and then all of them at once."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def nth_bit(bits, n):
    """The place of the n-th set bit of a uint64, counted from 0: halves are skipped that end before it."""
    place = 0
    for halving in range(6):
        width = 32 >> halving
        low = count_bits(bits & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)))
        skip = n >= low
        n -= low * skip
        bits >>= np.uint64(width * skip)
        place += width * skip
    return place


@intrinsic
def _mark(typingctx, cells, value, out, first):
    """`mark` for the cells `first` to `first + LANES - 1`."""

    def codegen(context, builder, signature, args):
        found = builder.load(_pointer(context, builder, signature, args, 0, LANES), align=1)
        hit = builder.icmp_signed("==", found, splat(builder, args[1], LANES))
        ones = ir.Constant(ir.VectorType(ir.FloatType(), LANES), [1.0] * LANES)
        _store(context, builder, signature, args, builder.select(hit, ones, cgutils.get_null_value(ones.type)))
        return context.get_dummy_value()

    return types.void(cells, types.int8, out, types.intp), codegen


@intrinsic
def _scale(typingctx, cells, factor, nothing, out, first):
    """`scale` for the cells `first` to `first + LANES - 1`."""

    def codegen(context, builder, signature, args):
        found = builder.load(_pointer(context, builder, signature, args, 0, LANES), align=1)
        factors = splat(builder, args[1], LANES)
        scaled = builder.fmul(builder.sitofp(found, factors.type), factors)
        hidden = builder.icmp_signed("==", found, splat(builder, args[2], LANES))
        _store(context, builder, signature, args, builder.select(hidden, cgutils.get_null_value(factors.type), scaled))
        return context.get_dummy_value()

    return types.void(cells, types.float32, types.int8, out, types.intp), codegen


@intrinsic
def _bits(typingctx, mask, first):
    """`as_bits` of the `BYTES` entries from `first` on, as the lowest bits."""

    def codegen(context, builder, signature, args):
        entries = builder.load(_pointer(context, builder, signature, args, 0, BYTES), align=1)
        hit = builder.icmp_signed("!=", entries, cgutils.get_null_value(entries.type))
        return builder.zext(builder.bitcast(hit, ir.IntType(BYTES)), ir.IntType(64))

    return types.uint64(mask, types.intp), codegen


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector of so many times the same."""
    vector = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(vector, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _pointer(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, index: int, lanes: int) -> ir.Value:
    """To the element of the array `args[index]` that the last argument names, and the next ones, as a vector."""
    array = context.make_array(signature.args[index])(context, builder, args[index])
    element = builder.gep(array.data, [args[-1]])
    return builder.bitcast(element, ir.VectorType(element.type.pointee, lanes).as_pointer())


def _store(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, vector: ir.Value) -> None:
    builder.store(vector, _pointer(context, builder, signature, args, -2, LANES), align=1)
