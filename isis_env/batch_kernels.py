"""The kernels of a batch: they deal, look, check, step and describe decisions, row by row."""

import numpy as np

from isis_env import deal, game
from isis_env.kernels.jit import inlined, kernel
from isis_env.kernels.threads import shared_kernel
from isis_env.observation import observe
from isis_env.reward import pay
from isis_env.secrecy import conceal


@kernel
def _deal_row(s, deck, seed, episode):
    """Shuffle the deck of one game and set up the position before its first turn."""
    start = deal.deal(seed, episode, s.side, s.players, deck)
    game.reset(s, s.side, s.players, s.common_reserve, start)


@shared_kernel
def deal_rows(first, last, rows, states, decks, seeds, episodes):
    """Deal the episode that each of `rows` is at."""
    for index in range(first, last):
        row = rows[index]
        _deal_row(states[row], decks[row], seeds[row], episodes[row])


@inlined
def look_at(s, recall, observation, mask):
    """Write what the seat on turn may know and do."""
    observe(s, s.seat, recall, observation)
    game.legal_mask(s, mask)


@shared_kernel
def look_rows(first, last, rows, states, recall, out):
    """Write what the seats on turn may know and do; `out`: observations, masks, seats."""
    observations, masks, seats = out
    for index in range(first, last):
        s = states[rows[index]]
        look_at(s, recall, observations[index], masks[index])
        seats[index] = s.seat


@shared_kernel
def check_rows(first, last, rows, states, actions, illegal):
    """Set `illegal[0]` if one of `actions` is outside the mask of its row."""
    for index in range(first, last):
        if not game.legal(states[rows[index]], actions[index]):
            illegal[0] = True


@inlined
def play_row(row, action, lose, arrays):
    """Take one decision in a row, which may be illegal only if `lose`; return whether its game has ended.

    `arrays` are those of `Batch.arrays`. If the game has ended, `final_states` and `forfeited` hold how, and the row's
    next game is dealt.
    """
    states, decks, seeds, episodes, final_states, forfeited = arrays
    s = states[row]
    illegal = lose and not game.legal(s, action)
    if not illegal:
        deal.play(s, decks[row], action)
        if not game.is_over(s):
            return False
    forfeited[row] = illegal
    final_states[row] = s
    episodes[row] += np.uint64(1)
    _deal_row(s, decks[row], seeds[row], episodes[row])
    return True


@shared_kernel
def step_rows(first, last, rows, arrays, actions, options, out):
    """Take an action in each of `rows` and write what follows.

    `arrays` are those of `Batch.arrays`, `options` is (lose, recall, reward), and `out` has
    the arrays of a `TimeStep`. Tuples are plain: passing a NamedTuple to a kernel is 5 to 20 % slower.
    """
    lose, recall, reward = options
    observations, masks, seats, rewards, done = out
    states, _, _, _, final_states, forfeited = arrays
    for index in range(first, last):
        row = rows[index]
        done[index] = play_row(row, actions[index], lose, arrays)
        rewards[index] = 0.0
        if done[index]:
            pay(final_states[row], forfeited[row], reward, rewards[index])
        look_at(states[row], recall, observations[index], masks[index])
        seats[index] = states[row].seat


@shared_kernel
def decide_rows(first, last, rows, states, game_seeds, episodes, recall, out):
    """Fill in the decisions of `rows`; `states` are copies of those rows and are concealed here.

    `out`: observations, masks, seats, first flags, seeds, as in `Decisions`.
    """
    observations, masks, seats, first_flags, seeds = out
    for index in range(first, last):
        s = states[index]
        row = rows[index]
        look_at(s, recall, observations[index], masks[index])
        seats[index] = s.seat
        first_flags[index] = game.is_first_decision(s)
        seeds[index] = deal.decision_seed(game_seeds[row], episodes[row], s.seat, game.decisions_taken(s))
        conceal(s, s.seat, recall)
