"""Playing a position to its end: at random, as far as speed goes, or greedily."""

from agents.position import (
    best_stone,
    draw_value,
    free_cells,
    highest_and_lowest_weight,
    place,
    tiles_to_reveal,
    weight,
)
from isis_env import game
from isis_env._jit import kernel
from isis_env.config import MAX_FACE
from isis_env.deal import random_below, random_bits
from isis_env.game import FACE_SLOTS, NOTHING

RANDOM, GREEDY = 0, 1


@kernel
def play_out(p, policy, key):
    """Play the position `p` to its end in place, as `policy` has it; all chance comes from the stream of `key`."""
    counter = 0
    while not game.is_over(p):
        cell = _greedy_cell(p) if policy == GREEDY else _random_cell(p, key, counter)
        if cell >= 0:
            place(p, cell)
        else:
            game.draw(p, random_face(p, key, counter + 1))
        counter += 2


@kernel
def random_face(p, key, counter):
    """A face that the seat on turn may draw, by the odds."""
    nth = random_below(key, counter, tiles_to_reveal(p))
    for slot in range(FACE_SLOTS):
        nth -= p.unrevealed[slot]
        if nth < 0:
            return slot - MAX_FACE
    return NOTHING


@kernel
def _random_cell(p, key, counter):
    """A uniform free cell, or -1 for drawing: a fair coin where both are legal, as the agent `random` plays."""
    if game.can_draw(p) and (p.stones[p.seat] == 0 or random_bits(key, counter + 1) & 1):
        return -1
    return int(p.free[random_below(key, counter, free_cells(p))])


@kernel
def _greedy_cell(p):
    """The cell that one-ply greedy fills, or -1 for drawing; of equals the first in `free`."""
    if p.held != NOTHING:
        best, chosen = -(2**31), 0
        for index in range(free_cells(p)):
            gain = p.held * weight(p, p.free[index])
            if gain > best:
                best, chosen = gain, index
        return int(p.free[chosen])
    stone = best_stone(p) if p.stones[p.seat] > 0 else -(2**31)
    if game.can_draw(p):
        highest, lowest = highest_and_lowest_weight(p)
        if (p.players - 1) * stone * tiles_to_reveal(p) < draw_value(p, highest, lowest):
            return -1
    for index in range(free_cells(p)):
        if p.tiles_near[p.free[index]] == stone:
            return int(p.free[index])
    return -1
