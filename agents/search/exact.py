"""The end of the game exactly: expected returns when every seat maximises its own, by full search with a table.

The method is max^n (Luckhardt & Irani, AAAI 1986) with chance nodes: at a decision the seat on turn takes what is best
for itself, the values of own-optimal actions that tie are averaged as vectors, and a draw is worth the mean over the
unrevealed faces. Nothing is pruned; what makes it fast is that positions are told apart by what the rest of the game
depends on and by nothing else (see `_key`).
"""

from dataclasses import dataclass

import numpy as np

from agents.search.position import POSITION, free_cells, new_positions, place
from isis_env import game
from isis_env.config import MAX_CELLS, MAX_FACE, MAX_PLAYERS, check_choice, shown
from isis_env.deal import random_bits
from isis_env.game import FACE_SLOTS, NOTHING
from isis_env.kernels.jit import kernel
from isis_env.limits import check_memory
from isis_env.reward import MARGIN, REWARDS, returns

TIE = 1e-9  # values closer than this are equal: they are sums of products of odds, added up in different orders

DEFAULT_MAX_NODES = 20_000_000
_FIRST_CAPACITY = 2**14


class BudgetExceededError(RuntimeError):
    """The position takes more nodes than allowed; the message says how many."""


class _TableFullError(Exception):
    pass


@dataclass(frozen=True)
class Solution:
    """What a position is worth.

    Attributes:
        values: float64[players], the expected return of every seat.
        action_values: float64[A, players], the same after each action; nan where it is illegal.
        nodes: positions between two turns that were searched for it, those that the solver knew before not counted.
    """

    values: np.ndarray
    action_values: np.ndarray
    nodes: int

    def best_actions(self, seat: int) -> np.ndarray:
        """The actions that are optimal for `seat`, the one on turn: int64[k], ascending."""
        return _best_actions(self.action_values[:, seat])


def _best_actions(own: np.ndarray) -> np.ndarray:
    """Where the seat's own values float64[A] are the highest, int64[k]; nan stands for illegal actions."""
    return np.flatnonzero(own >= np.nanmax(own) - TIE)


class Solver:
    """Solves positions, and keeps what it found for the next ones.

    Args:
        reward: `"win"` or `"margin"`.
        max_nodes: how many positions it may hold for one form of the game; with n players each takes 8 + 8 n bytes,
            and its table up to three times that.

    Raises:
        ValueError: an argument is not one of those, or so many positions do not fit into the memory available.
    """

    def __init__(self, reward: str = "win", max_nodes: int = DEFAULT_MAX_NODES) -> None:
        self.kind = REWARDS[check_choice("reward", reward, tuple(REWARDS))]
        if max_nodes < 1:
            raise ValueError(f"max_nodes={shown(max_nodes)}: must be at least 1")
        if max_nodes > DEFAULT_MAX_NODES:  # the default is for any machine: positions rarely take so many
            check_memory("max_nodes", max_nodes, 3 * (8 + 8 * MAX_PLAYERS))
        self.max_nodes = max_nodes
        self._tables: dict[tuple[int, int], _Table] = {}

    def solve(self, state: np.record) -> Solution:
        """The exact worth of an unfinished state.

        Raises:
            BudgetExceededError: it takes more than `max_nodes` positions. What the solver held is dropped then.
            ValueError: the state is concealed, or its game is over.
        """
        position = new_positions(np.array([state], state.dtype))
        p = position[0]
        form = (int(p.players), int(p.common_reserve))
        before = self._tables[form].nodes if form in self._tables else 0
        try:
            return self._solve_root(position, form, before)
        except _TableFullError:
            del self._tables[form]
            if before:  # what other positions left may have taken the room
                return self.solve(state)
            raise BudgetExceededError(
                f"a position with {free_cells(p)} free cells takes more than the budget of {self.max_nodes:,} nodes"
            ) from None

    def _solve_root(self, position: np.ndarray, form: tuple[int, int], before: int) -> Solution:
        p = position[0]
        draw = game.cells_of(p)
        action_values = np.full((draw + 1, p.players), np.nan)
        for action in game.legal_actions(p):
            child = position.copy()
            if action != draw:
                place(child[0], action)
                action_values[action] = self._value(child, form)
                continue
            action_values[draw] = 0.0
            for slot in np.flatnonzero(p.unrevealed):
                child = position.copy()
                game.draw(child[0], slot - MAX_FACE)
                action_values[draw] += self._value(child, form) * (p.unrevealed[slot] / game.tiles_to_reveal(p))
        values = action_values[_best_actions(action_values[:, p.seat])].mean(axis=0)
        return Solution(values, action_values, self._tables[form].nodes - before)

    def _value(self, position: np.ndarray, form: tuple[int, int]) -> np.ndarray:
        stack = np.empty(2 * MAX_CELLS + 2, POSITION)
        stack[0] = position[0]
        work = np.empty((len(stack), 3, form[0]))
        table = self._tables.setdefault(form, _Table(form[0], self.max_nodes))
        while not _solve(stack, 0, self.kind, table.keys, table.values, table.filling, work):
            if table.nodes >= self.max_nodes:
                raise _TableFullError
            table = self._tables[form] = table.grown()
        return work[0, _RESULT].copy()


def solve(state: np.record, reward: str = "win", max_nodes: int = DEFAULT_MAX_NODES) -> Solution:
    """The exact worth of one unfinished state, as `Solver.solve` gives it."""
    return Solver(reward, max_nodes).solve(state)


class _Table:
    """Open addressing: `keys` uint64[capacity], 0 where empty, and `values` float64[capacity, players].

    Two positions of one table would be taken for each other if their 64-bit keys met: among ten million of them with a
    chance of 3e-6.
    """

    def __init__(self, players: int, max_nodes: int, capacity: int = _FIRST_CAPACITY) -> None:
        self.keys = np.zeros(capacity, np.uint64)
        self.values = np.zeros((capacity, players))
        self.max_nodes = max_nodes
        self.filling = np.array([0, min(max_nodes, capacity * 2 // 3)])  # entries, and how many there may be

    @property
    def nodes(self) -> int:
        return int(self.filling[0])

    def grown(self) -> "_Table":
        """The same entries, and room for as many again."""
        larger = _Table(self.values.shape[1], self.max_nodes, 2 * len(self.keys))
        larger.filling[0] = self.nodes
        _copy_entries(self.keys, self.values, larger.keys, larger.values)
        return larger


@kernel
def _copy_entries(keys, values, new_keys, new_values):
    for entry in range(len(keys)):
        if keys[entry] != 0:
            slot = _slot(new_keys, keys[entry])
            new_keys[slot] = keys[entry]
            new_values[slot] = values[entry]


@kernel
def _slot(keys, key):
    """Where `key` stands, or the empty place where it belongs."""
    last = np.uint64(len(keys) - 1)
    slot = key & last
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & last
    return slot


# Rows of `work` at every depth
_RESULT, _MEAN, _BASE = 0, 1, 2


@kernel
def _solve(stack, depth, kind, keys, values, filling, work):
    """Write the value of `stack[depth]` to `work[depth, _RESULT]`; False where the table has no room left.

    Under `MARGIN` the table holds what is still to come, since the rest of the game does not depend on the score.
    """
    p = stack[depth]
    result = work[depth, _RESULT]
    base = work[depth, _BASE]
    if game.is_over(p):
        returns(p, kind, result)
        return True
    key = np.uint64(0)
    if p.held == NOTHING:
        key = _key(p, kind)
        base[:] = 0.0
        if kind == MARGIN:
            returns(p, MARGIN, base)
        slot = _slot(keys, key)
        if keys[slot] == key:
            result[:] = values[slot] + base
            return True
        if filling[0] >= filling[1]:
            return False

    top, ties = -np.inf, 0
    result[:] = 0.0
    if game.can_place(p):
        for index in range(free_cells(p)):
            stack[depth + 1] = p
            place(stack[depth + 1], p.free[index])
            if not _solve(stack, depth + 1, kind, keys, values, filling, work):
                return False
            top, ties = _consider(work[depth + 1, _RESULT], p.seat, top, ties, result)
    if game.can_draw(p):
        mean = work[depth, _MEAN]
        mean[:] = 0.0
        total = game.tiles_to_reveal(p)
        for face_slot in range(FACE_SLOTS):
            if p.unrevealed[face_slot] > 0:
                stack[depth + 1] = p
                game.draw(stack[depth + 1], face_slot - MAX_FACE)
                if not _solve(stack, depth + 1, kind, keys, values, filling, work):
                    return False
                mean += work[depth + 1, _RESULT] * (p.unrevealed[face_slot] / total)
        top, ties = _consider(mean, p.seat, top, ties, result)
    result /= ties
    if p.held == NOTHING:
        if filling[0] >= filling[1]:
            return False
        filling[0] += 1
        slot = _slot(keys, key)
        keys[slot] = key
        values[slot] = result - base
    return True


@kernel
def _consider(value, seat, top, ties, best):
    """Add `value` to the sum `best` of the `ties` values that `seat` likes most, of which the first gave it `top`."""
    if value[seat] > top + TIE:
        best[:] = value
        return value[seat], 1
    if value[seat] >= top - TIE:
        best += value
        ties += 1
    return top, ties


_ONE = np.uint64(1)


@kernel
def _key(p, kind):
    """A 64-bit hash of what the rest of the game depends on, between two turns.

    That is: whose turn it is, the pieces left, the unrevealed faces, under `WIN` the differences of the scores, and for
    every free cell the tiles and stones around it and which free cells it touches. Free cells fall into groups that
    touch each other; where a group lies and how it is turned or mirrored is all the same, so every group is hashed in
    the smallest of its eight orientations, and the hashes are added up.
    """
    stones_left, tiles_left = 0, 0
    pieces = np.uint64(p.seat)
    for seat in range(p.players):
        stones_left += p.stones[seat]
        tiles_left += p.pile[seat]
        pieces = (pieces << np.uint64(9)) | np.uint64(p.stones[seat] * 32 + p.pile[seat])
    faces = np.uint64(0)
    if tiles_left > 0:
        for slot in range(FACE_SLOTS):
            faces = (faces << np.uint64(3)) | np.uint64(p.unrevealed[slot])
    key = random_bits(random_bits(pieces, faces), 0)
    if kind != MARGIN:
        for seat in range(1, p.players):
            key = random_bits(key, np.uint64(512 + p.score[seat] - p.score[0]))

    side = int(p.side)
    free = np.uint64(0)
    for index in range(free_cells(p)):
        free |= _ONE << np.uint64(p.free[index])
    while free != 0:
        group = free & (~free + _ONE)  # its lowest bit
        grown = _grow(group, free, side)
        while grown != group:
            group = grown
            grown = _grow(group, free, side)
        free ^= group
        key += random_bits(_group_hash(p, group, stones_left > 0, tiles_left > 0), 0)
    return key | _ONE  # 0 marks an empty place


@kernel
def _grow(group, free, side):
    """The cells of `group` and the free ones beside them, as bits."""
    columns = np.uint64(0)  # the first column
    for row in range(side):
        columns |= _ONE << np.uint64(row * side)
    right = (group << _ONE) & ~columns
    left = (group & ~columns) >> _ONE
    return (group | right | left | (group << np.uint64(side)) | (group >> np.uint64(side))) & free


@kernel
def _group_hash(p, group, stones_matter, tiles_matter):
    """The smallest hash of a group of free cells over its eight orientations."""
    side = int(p.side)
    first_row, last_row, first_column, last_column = side, 0, side, 0
    for index in range(free_cells(p)):
        cell = int(p.free[index])
        if (group >> np.uint64(cell)) & _ONE:
            row, column = cell // side, cell % side
            first_row, last_row = min(first_row, row), max(last_row, row)
            first_column, last_column = min(first_column, column), max(last_column, column)
    smallest = np.uint64(0xFFFFFFFFFFFFFFFF)
    for orientation in range(8):
        total = np.uint64(0)
        for index in range(free_cells(p)):
            cell = int(p.free[index])
            if (group >> np.uint64(cell)) & _ONE:
                row, column = cell // side, cell % side
                down = row - first_row if orientation & 1 else last_row - row
                along = column - first_column if orientation & 2 else last_column - column
                if orientation & 4:
                    down, along = along, down
                content = _content(p, cell, stones_matter, tiles_matter)
                total += random_bits(np.uint64(content), np.uint64(8 * down + along))
        smallest = min(smallest, total)
    return smallest


@kernel
def _content(p, cell, stones_matter, tiles_matter):
    """A number for what is around a free cell: the sum of tiles if anybody may yet place a stone, and how many stones
    every seat has beyond seat 0 if anybody may yet place a tile (the same number to all changes no difference)."""
    number = p.tiles_near[cell] + 16 if stones_matter else 0
    if tiles_matter:
        for seat in range(1, p.players):
            number = number * 16 + 8 + p.stones_near[seat * MAX_CELLS + cell] - p.stones_near[cell]
    return number
