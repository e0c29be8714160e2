"""The tree of Monte-Carlo tree search: PUCT over decisions of several seats and explicit draws, in arrays.

PUCT after Silver et al., "Mastering the game of Go without human knowledge" (Nature 2017): an action's mean value for
the seat on turn plus `c * prior * sqrt(visits of all) / (1 + its visits)`, values scaled to the range met in the tree
(Schrittwieser et al., MuZero, 2020). Every seat keeps its own total (max^n). The faces of a draw are tried in
proportion to their odds, the one furthest behind first, rather than at random: less noise.
"""

from typing import NamedTuple

import numpy as np

from agents.search.position import draw_gain, free_cells, gain, place
from isis_env import game
from isis_env.config import MAX_CELLS, MAX_FACE, MAX_PLAYERS
from isis_env.game import FACE_SLOTS, NOTHING, TILE, UNKNOWN
from isis_env.kernels.jit import kernel

MAX_EDGES = MAX_CELLS + 1  # of a node
MAX_PATH = 3 * MAX_CELLS + 1  # a draw, its face and its cell at most for every placement
NO_NODE = -1
NOBODY = -1  # a draw is nobody's choice

# An action not tried yet counts as what its node is worth so far, less this share of the range of values.
UNTRIED_LOSS = 0.1


class Tree(NamedTuple):
    """The arrays of one tree; node 0 is the root, and edge 0 the one that leads to it.

    Attributes:
        first, edges: int32[nodes], a node's first edge and how many it has.
        seat: int8[nodes], whose decision it is, or -1 at a draw.
        action: int8[edges], the action, or the face at a draw.
        prior: float32[edges], which add up to 1 at every node; at a draw the odds.
        child: int32[edges], the node it leads to, or -1.
        visits: int32[edges].
        total: float64[edges, 4], the sum of the values of every seat.
        used: int64[2], nodes and edges in use.
        span: float64[2], the lowest and highest mean value met.
    """

    first: np.ndarray
    edges: np.ndarray
    seat: np.ndarray
    action: np.ndarray
    prior: np.ndarray
    child: np.ndarray
    visits: np.ndarray
    total: np.ndarray
    used: np.ndarray
    span: np.ndarray


_BYTES_PER_NODE, _BYTES_PER_EDGE = 4 + 4 + 1, 1 + 4 + 4 + 4 + 8 * MAX_PLAYERS
BYTES_PER_SIMULATION = 2 * _BYTES_PER_NODE + (MAX_EDGES + FACE_SLOTS) * _BYTES_PER_EDGE  # see `new_tree`


@kernel
def new_tree(simulations):
    """An empty tree with room for so many simulations: each adds two nodes at most, a draw and what follows it."""
    nodes = 2 * simulations
    edges = 1 + simulations * (MAX_EDGES + FACE_SLOTS)
    return Tree(
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int8),
        np.empty(edges, np.int8),
        np.empty(edges, np.float32),
        np.empty(edges, np.int32),
        np.empty(edges, np.int32),
        np.empty((edges, MAX_PLAYERS)),
        np.zeros(2, np.int64),
        np.empty(2),
    )


@kernel
def clear(tree):
    """Empty the tree: no node, and the one edge that leads to the root."""
    tree.used[0], tree.used[1] = 0, 0
    tree.span[0], tree.span[1] = np.inf, -np.inf
    _add_edge(tree, 0, 1.0)


@kernel
def descend(tree, p, c, temperature, path):
    """Go down the tree, taking `p` along, to a position that is new to it and is added, or to the end of the game.

    Writes the edges taken and whose choice they were (-1 for nobody's) to `path` and returns how many they are.
    """
    path[0, 0], path[0, 1] = 0, NOBODY
    length = 1
    while True:
        arrived = path[length - 1, 0]
        node = tree.child[arrived]
        if node == NO_NODE:
            tree.child[arrived] = _add_decision(tree, p, temperature)
            return length
        drawing = False
        if tree.seat[node] == NOBODY:
            edge = _furthest_behind(tree, node, arrived)
            game.draw(p, tree.action[edge])
        else:
            edge = _most_urgent(tree, node, arrived, c)
            drawing = tree.action[edge] == game.cells_of(p)
            if not drawing:
                place(p, tree.action[edge])
        path[length, 0], path[length, 1] = edge, tree.seat[node]
        length += 1
        if game.is_over(p):
            return length
        if drawing and tree.child[edge] == NO_NODE:
            tree.child[edge] = _add_draw(tree, p)


@kernel
def back_up(tree, path, length, value):
    """Add the value of every seat (float64[4]) to the edges of the path."""
    for step in range(length):
        edge, chooser = path[step, 0], path[step, 1]
        tree.visits[edge] += 1
        for seat in range(MAX_PLAYERS):
            tree.total[edge, seat] += value[seat]
        if chooser != NOBODY:
            mean = tree.total[edge, chooser] / tree.visits[edge]
            tree.span[0] = min(tree.span[0], mean)
            tree.span[1] = max(tree.span[1], mean)


@kernel
def report(tree, values, action_values, probabilities):
    """Write what the tree found at its root to the first row of the arrays of an `Analysis`."""
    seat = tree.seat[0]
    values[0] = tree.total[0, seat] / tree.visits[0]
    visits = 0
    for edge in range(tree.first[0], tree.first[0] + tree.edges[0]):
        visits += tree.visits[edge]
    for edge in range(tree.first[0], tree.first[0] + tree.edges[0]):
        # After a single simulation nothing has been tried yet, and the priors stand.
        probabilities[0, tree.action[edge]] = tree.visits[edge] / visits if visits else tree.prior[edge]
        if tree.visits[edge]:
            action_values[0, tree.action[edge]] = tree.total[edge, seat] / tree.visits[edge]


def kept_part(tree: Tree, position: np.ndarray, later: np.ndarray, simulations: int) -> Tree | None:
    """What the tree of `position` holds of `later`, with room for more simulations; None where it holds nothing."""
    edge = arriving_edge(tree, position, later)
    if edge < 0:
        return None
    new = new_tree(simulations + int(tree.visits[edge]))
    clear(new)
    copy_below(tree, edge, new)
    return new


@kernel
def arriving_edge(tree, position, later):
    """The edge that leads to the position `later` (`POSITION[1]`) of the same game, or -1 where the tree lacks it."""
    p = later[0]
    edge = 0
    holding = position[0].held != NOTHING
    for turn in range(position[0].placed, p.placed):
        cell = p.order[turn]
        if cell == UNKNOWN:  # an agent that remembers faces only
            return -1
        if p.board[cell] == TILE and not holding:
            edge = _edge_of(tree, _edge_of(tree, edge, game.cells_of(p)), p.face[cell])
        holding = False
        edge = _edge_of(tree, edge, cell)
    if p.held != NOTHING and not holding:
        edge = _edge_of(tree, _edge_of(tree, edge, game.cells_of(p)), p.held)
    return edge if edge >= 0 and tree.child[edge] != NO_NODE else -1


@kernel
def copy_below(tree, arrived, new):
    """Copy what the edge `arrived` leads to into the empty tree `new`."""
    new.span[:] = tree.span
    new.visits[0] = tree.visits[arrived]
    new.total[0] = tree.total[arrived]
    new.child[0] = 0
    sources = np.empty(tree.used[0], np.int32)
    sources[0] = tree.child[arrived]
    new.used[0] = 1
    node = 0
    while node < new.used[0]:
        source = sources[node]
        new.seat[node] = tree.seat[source]
        new.first[node] = new.used[1]
        new.edges[node] = tree.edges[source]
        for old in range(tree.first[source], tree.first[source] + tree.edges[source]):
            _add_edge(new, tree.action[old], tree.prior[old])
            edge = new.used[1] - 1
            new.visits[edge] = tree.visits[old]
            new.total[edge] = tree.total[old]
            if tree.child[old] != NO_NODE:
                new.child[edge] = new.used[0]
                sources[new.used[0]] = tree.child[old]
                new.used[0] += 1
        node += 1


@kernel
def _add_edge(tree, action, prior):
    edge = tree.used[1]
    tree.used[1] += 1
    tree.action[edge] = action
    tree.prior[edge] = prior
    tree.child[edge] = NO_NODE
    tree.visits[edge] = 0
    tree.total[edge] = 0.0


@kernel
def _add_node(tree, seat):
    node = tree.used[0]
    tree.used[0] += 1
    tree.seat[node] = seat
    tree.first[node] = tree.used[1]
    return node


@kernel
def _add_draw(tree, p):
    """A node for the draw of the seat on turn."""
    node = _add_node(tree, NOBODY)
    total = game.tiles_to_reveal(p)
    for slot in range(FACE_SLOTS):
        if p.unrevealed[slot] > 0:
            _add_edge(tree, slot - MAX_FACE, p.unrevealed[slot] / total)
    tree.edges[node] = tree.used[1] - tree.first[node]
    return node


@kernel
def _add_decision(tree, p, temperature):
    """A node for the decision in `p`, its priors by what every action gains at once."""
    node = _add_node(tree, p.seat)
    if game.can_place(p):
        for index in range(free_cells(p)):
            _add_edge(tree, p.free[index], gain(p, p.free[index]) / (p.players - 1))
    if game.can_draw(p):
        _add_edge(tree, game.cells_of(p), draw_gain(p) / (game.tiles_to_reveal(p) * (p.players - 1)))
    first, last = tree.first[node], tree.used[1]
    tree.edges[node] = last - first
    priors = tree.prior[first:last]
    if temperature > 0:
        priors[:] = np.exp((priors - np.max(priors)) / temperature)
        priors /= np.sum(priors)
    else:
        priors[:] = 1.0 / len(priors)
    return node


@kernel
def _furthest_behind(tree, node, arrived):
    """The face whose visits lag most behind its odds."""
    best, chosen = -np.inf, 0
    for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
        lag = tree.prior[edge] * (tree.visits[arrived] + 1) - tree.visits[edge]
        if lag > best:
            best, chosen = lag, edge
    return chosen


@kernel
def _most_urgent(tree, node, arrived, c):
    """The action to try next by PUCT; `arrived` is the edge that led to the node."""
    seat = tree.seat[node]
    low, high = tree.span[0], tree.span[1]
    scale = 1.0 / (high - low) if high > low else 1.0
    here = tree.total[arrived, seat] / tree.visits[arrived]
    untried = (here - low) * scale - UNTRIED_LOSS if high > low else 0.0
    explore = c * np.sqrt(tree.visits[arrived])
    best, chosen = -np.inf, tree.first[node]
    for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
        visits = tree.visits[edge]
        mean = (tree.total[edge, seat] / visits - low) * scale if visits > 0 else untried
        urgency = mean + explore * tree.prior[edge] / (1 + visits)
        if urgency > best:
            best, chosen = urgency, edge
    return chosen


@kernel
def _edge_of(tree, arrived, action):
    """The edge for `action` of the node that `arrived` leads to, or -1."""
    if arrived >= 0 and tree.child[arrived] != NO_NODE:
        node = tree.child[arrived]
        for edge in range(tree.first[node], tree.first[node] + tree.edges[node]):
            if tree.action[edge] == action:
                return edge
    return -1
