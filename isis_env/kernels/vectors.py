"""The cells of a board in vector instructions, and sets of cells as bits.

A compiler makes less of loops over cells: with 36 of them it cannot fill its vectors evenly and does the rest one by
one. Here the last vector overlaps the one before it, and every board has code of its own, without loops.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from isis_env.config import BOARDS
from isis_env.kernels.jit import inlined, numba_config

LANES = 8  # 16 floats would mostly lie across two cache lines, which takes longer
BYTES = 16  # lanes where bytes are read and nothing is written

_COMPILED = not numba_config.DISABLE_JIT  # vectors exist in compiled code only


@inlined
def mark(cells, values, n, out):
    """Write n entries to `out` (float32 or int8) for each of the tuple `values`: 1 where a cell is it, else 0.

    `cells` int8[MAX_CELLS], of which the first n are those of a board.
    """
    if _COMPILED:
        _mark(cells, values, n, out)
    else:
        for place, value in enumerate(values):
            out[place * n : (place + 1) * n] = cells[:n] == value


@inlined
def scale(cells, factor, nothing, n, out):
    """Write n entries to `out` (float32): the cells, as of `mark`, times `factor`, but 0 where one is `nothing`."""
    if _COMPILED:
        _scale(cells, factor, nothing, n, out)
    else:
        out[:n] = np.where(cells[:n] == nothing, 0, cells[:n] * factor)


@inlined
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


@inlined
def count_bits(bits):
    """How many bits of a uint64 are set: sums of pairs, of fours, of eights, and then all of them at once."""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
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
def _mark(typingctx, cells, values, n, out):
    """`mark` in machine code."""

    def codegen(context, builder, signature, args):
        wanted = [splat(builder, value, LANES) for value in cgutils.unpack_tuple(builder, args[1])]
        ones = ir.Constant(ir.VectorType(context.get_value_type(out.dtype), LANES), [1] * LANES)
        zeros = cgutils.get_null_value(ones.type)
        for size, first in _vectors_of_board(builder, args[2]):
            found = builder.load(_vector(context, builder, cells, args[0], first, LANES), align=1)
            for place, value in enumerate(wanted):
                marks = builder.select(builder.icmp_signed("==", found, value), ones, zeros)
                builder.store(marks, _vector(context, builder, out, args[3], place * size + first, LANES), align=1)
        return context.get_dummy_value()

    _require_contiguous(cells, out)
    return types.void(cells, types.UniTuple(types.int8, len(values)), types.int64, out), codegen


@intrinsic
def _scale(typingctx, cells, factor, nothing, n, out):
    """`scale` in machine code."""

    def codegen(context, builder, signature, args):
        factors, hidden = (splat(builder, arg, LANES) for arg in args[1:3])
        zeros = cgutils.get_null_value(factors.type)
        for _size, first in _vectors_of_board(builder, args[3]):
            found = builder.load(_vector(context, builder, cells, args[0], first, LANES), align=1)
            scaled = builder.fmul(builder.sitofp(found, factors.type), factors)
            shown = builder.select(builder.icmp_signed("==", found, hidden), zeros, scaled)
            builder.store(shown, _vector(context, builder, out, args[4], first, LANES), align=1)
        return context.get_dummy_value()

    _require_contiguous(cells, out)
    return types.void(cells, types.float32, types.int8, types.int64, out), codegen


def _require_contiguous(*arrays: Any) -> None:
    """Vectors are read and written from one entry to the next in memory."""
    for array in arrays:
        if array.layout != "C":
            raise TypingError(f"{array}: must be C-contiguous")


def _vectors_of_board(builder: ir.IRBuilder, n: ir.Value) -> Iterator[tuple[int, int]]:
    """For each board, in code that runs if it has `n` cells: their number, and where each vector of them begins."""
    for board in BOARDS.values():
        size = board.side * board.side
        with builder.if_then(builder.icmp_signed("==", n, ir.Constant(n.type, size))):
            for first in (*range(0, size - LANES + 1, LANES), size - LANES):
                yield size, first


@intrinsic
def _bits(typingctx, mask, first):
    """`as_bits` of the `BYTES` entries from `first` on, as the lowest bits."""

    def codegen(context, builder, signature, args):
        entries = builder.load(_vector(context, builder, mask, args[0], args[1], BYTES), align=1)
        hit = builder.icmp_signed("!=", entries, cgutils.get_null_value(entries.type))
        return builder.zext(builder.bitcast(hit, ir.IntType(BYTES)), ir.IntType(64))

    _require_contiguous(mask)
    return types.uint64(mask, types.intp), codegen


def splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    """A vector of so many times the same."""
    vector = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(vector, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _vector(context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value, first: Any, lanes: int) -> ir.Value:
    """Where so many entries of an array of type `kind` begin."""
    place = first if isinstance(first, ir.Value) else context.get_constant(types.intp, first)
    element = builder.gep(context.make_array(kind)(context, builder, array).data, [place])
    return builder.bitcast(element, ir.VectorType(element.type.pointee, lanes).as_pointer())
