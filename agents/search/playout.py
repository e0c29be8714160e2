"""Playing a position to its end, at random or greedily, for searches.

Both policies are those of the agents of these names, except that greedy takes the first of equal cells rather than one
at random. Its rule (rules, decision 16) is that of `isis_env.baselines.greedy_mask`, here for a `POSITION`, which knows
the tiles and stones around every cell and is several times as fast; `tests/test_search.py` compares the two.
"""

from agents.search.position import best_cell, best_stone, draw_gain, free_cells, place
from isis_env import game
from isis_env.config import MAX_FACE
from isis_env.deal import random_below, random_bits
from isis_env.game import FACE_SLOTS, NOTHING
from isis_env.kernels.jit import kernel

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
    nth = random_below(key, counter, game.tiles_to_reveal(p))
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
    if game.can_draw(p):
        stone = best_stone(p) if p.stones[p.seat] > 0 else -(2**31)
        if (p.players - 1) * stone * game.tiles_to_reveal(p) < draw_gain(p):
            return -1
    return best_cell(p)
