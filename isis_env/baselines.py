"""The built-in agents `random`, `uniform` and `greedy`, as kernels."""

import numpy as np

from isis_env import game
from isis_env.agent import Agent, Analysis
from isis_env.batch import Decisions
from isis_env.config import MAX_FACE, MAX_PLAYERS, NEIGHBOURS
from isis_env.deal import random_below, random_bits
from isis_env.game import EMPTY, FACE_SLOTS, NOTHING, TILE
from isis_env.kernels.jit import kernel
from isis_env.kernels.vectors import as_bits, count_bits, nth_bit
from isis_env.secrecy import Recall

# Kinds of built-in agents, as kernels take them; of an agent that must be asked.
ASKED, UNIFORM, RANDOM, GREEDY = range(4)


class _BuiltIn:
    """An agent that is a kernel and remembers all."""

    recall: Recall = "full"
    kind: int

    def act(self, decisions: Decisions) -> np.ndarray:
        actions = np.empty(len(decisions), np.int64)
        _choose_all(self.kind, decisions.states, decisions.action_masks, decisions.seeds, actions)
        return actions

    def analyse(self, decisions: Decisions) -> Analysis:
        """The distribution that actions are drawn from; values are not known."""
        analysis = Analysis.blank(*decisions.action_masks.shape)
        for row, state in enumerate(decisions.states):
            weights = self._weights(state, decisions.action_masks[row])
            analysis.probabilities[row] = weights / weights.sum()
        return analysis

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        return mask


def builtin_kind(agent: Agent) -> int:
    """Which built-in agent this is, for `choose`, or `ASKED`."""
    return agent.kind if isinstance(agent, _BuiltIn) and type(agent).act is _BuiltIn.act else ASKED


@kernel
def choose(kind, s, mask, seed):
    """The action of a built-in agent in state `s`. `mask` (int8[A]) holds the legal actions and may be overwritten."""
    if kind == GREEDY:
        greedy_mask(s, mask)
    legal = as_bits(mask)
    if kind == RANDOM:
        draw = len(mask) - 1
        placements = legal & ~(np.uint64(1) << np.uint64(draw))
        cells = count_bits(placements)
        if placements != legal and (cells == 0 or random_bits(seed, 0) & np.uint64(1)):
            return draw
        return nth_bit(placements, random_below(seed, 1, cells))
    return nth_bit(legal, random_below(seed, 0, count_bits(legal)))


@kernel
def _choose_all(kind, states, masks, seeds, actions):
    mask = np.empty(masks.shape[1], np.int8)
    for row in range(len(states)):
        mask[:] = masks[row]
        actions[row] = choose(kind, states[row], mask, seeds[row])


class Uniform(_BuiltIn):
    """Uniform over all legal actions; it hardly ever draws, since drawing is one action among many."""

    kind = UNIFORM


class Random(_BuiltIn):
    """A fair coin between stone and tile where both are legal, then a uniform free cell."""

    kind = RANDOM

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        weights = mask.astype(np.float64)
        weights[-1] *= max(1.0, weights[:-1].sum())  # drawing weighs as much as all cells together
        return weights


class Greedy(_BuiltIn):
    """One-ply greedy with perfect memory, the standard opponent (rules, decision 16).

    Maximises own score minus the mean of the others' after the action; drawing is worth the mean over unrevealed tiles
    of the best cell for each; a stone wins ties against drawing; equal cells are drawn from uniformly.
    """

    kind = GREEDY

    def _weights(self, state: np.record, mask: np.ndarray) -> np.ndarray:
        best = np.empty_like(mask)
        greedy_mask(state, best)
        return best


@kernel
def greedy_mask(s, best):
    """Write 1 for every action that greedy allows in the unfinished state `s` to `best` (int8[cells + 1]).

    This is the rule of decision 16 on a plain `STATE`. Searches have the same rule for positions that know what lies
    around every cell, `agents.search.playout`; a test compares the two. All is counted in integers, (players - 1) times
    the margin, so that equal values compare equal.
    """
    cells = game.cells_of(s)
    value = np.empty(cells, np.int64)
    best[:] = 0
    if s.held != NOTHING:
        _tile_weights(s, value)
        value *= s.held
        _mark_best(s, value, best)
        return
    draws = 0  # unrevealed tiles, so that the value of drawing is draw_total / draws
    draw_total = 0
    if game.can_draw(s):
        _tile_weights(s, value)
        highest, lowest = _range_over_free(s, value)
        for slot in range(FACE_SLOTS):
            face = slot - MAX_FACE
            draws += s.unrevealed[slot]
            draw_total += int(s.unrevealed[slot]) * face * (highest if face > 0 else lowest)
    if s.stones[s.seat] > 0:
        _stone_values(s, value)
        highest, lowest = _range_over_free(s, value)
        if draws == 0 or highest * draws >= draw_total:
            _mark_best(s, value, best)
            return
    best[cells] = 1


@kernel
def _stone_values(s, value):
    """For every free cell, what a stone of the seat on turn is worth there."""
    for cell in range(game.cells_of(s)):
        total = 0
        for k in range(4):
            neighbour = NEIGHBOURS[s.side, cell, k]
            if neighbour >= 0 and s.board[neighbour] == TILE:
                total += s.face[neighbour]
        value[cell] = (s.players - 1) * total


@kernel
def _tile_weights(s, value):
    """For every free cell, what one point on a tile there is worth to the seat on turn."""
    for cell in range(game.cells_of(s)):
        weight = 0
        for k in range(4):
            neighbour = NEIGHBOURS[s.side, cell, k]
            if neighbour >= 0:
                owner = s.board[neighbour]
                if owner == s.seat:
                    weight += s.players - 1
                elif 0 <= owner < MAX_PLAYERS:
                    weight -= 1
        value[cell] = weight


@kernel
def _range_over_free(s, value):
    highest, lowest = -(2**31), 2**31
    for cell in range(game.cells_of(s)):
        if s.board[cell] == EMPTY:
            highest = max(highest, value[cell])
            lowest = min(lowest, value[cell])
    return highest, lowest


@kernel
def _mark_best(s, value, best):
    highest, _ = _range_over_free(s, value)
    for cell in range(game.cells_of(s)):
        best[cell] = s.board[cell] == EMPTY and value[cell] == highest
